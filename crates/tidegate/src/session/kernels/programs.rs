//! What `EXPLAIN (FORMAT PROGRAM)` tells: the row programs of a query's regions, in the form that fits any
//! values.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::DataFusionError;
use tidegate_pipeline::program::{Facts, lower};

use crate::lower::bind;
use crate::region::{PipelineExec, Program};

/// A region of a query, and what each of its stages does to a row.
pub(super) struct ProgramReport {
    region: u64,
    /// The program of each stage as text, or why there is none.
    stages: Result<Vec<String>, String>,
}

impl ProgramReport {
    pub(super) fn of(number: u64, region: &PipelineExec) -> Self {
        Self {
            region: number,
            stages: match region.program() {
                Some(program) => stages(program),
                None => Err(region.report().reasons.join("; ")),
            },
        }
    }
}

fn stages(program: &Program) -> Result<Vec<String>, String> {
    // A value that is not there yet would be taken for NULL.
    let pipeline = bind(&program.pipeline, &program.bindings).map_err(|_| {
        "it needs the value of a subquery, which is known only when the query runs".to_string()
    })?;
    let facts = |column: usize| {
        let field = pipeline.input.field(column);
        Facts {
            nullable: field.is_nullable(),
            ..Facts::declared(field.data_type())
        }
    };
    let stages = lower(&pipeline, &facts).map_err(|why| why.to_string())?;
    Ok(stages.iter().map(ToString::to_string).collect())
}

/// Lays reports out as a table, a row for each stage.
pub(super) fn table(reports: &[ProgramReport]) -> Result<RecordBatch, DataFusionError> {
    let (mut numbers, mut places, mut programs, mut reasons) = (vec![], vec![], vec![], vec![]);
    for ProgramReport { region, stages } in reports {
        let rows = match stages {
            Ok(stages) => (1..)
                .zip(stages)
                .map(|(stage, text)| (Some(stage), Some(text.as_str()), None))
                .collect(),
            Err(reason) => vec![(None, None, Some(reason.as_str()))],
        };
        for (stage, program, reason) in rows {
            numbers.push(*region);
            places.push(stage);
            programs.push(program);
            reasons.push(reason);
        }
    }
    let schema = Schema::new(vec![
        Field::new("region", DataType::UInt64, false),
        Field::new("stage", DataType::UInt64, true),
        Field::new("program", DataType::Utf8, true),
        Field::new("reason", DataType::Utf8, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from(numbers)),
        Arc::new(UInt64Array::from(places)),
        Arc::new(StringArray::from(programs)),
        Arc::new(StringArray::from(reasons)),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}
