//! Runs programs a row at a time: the meaning of every operation, and nothing else.

mod evaluate;
mod groups;

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::{Order, Output, RowProgram, Sink};
use crate::interpret::EvalError;
use crate::interpret::block::BlockBuilder;
use crate::interpret::column::Column;
use crate::interpret::value::Value;
use evaluate::Row;
use groups::Table;

/// Runs the programs of a pipeline's stages over batches of its input, and returns what leaves under the
/// pipeline's output schema, in batches of at most 8192 rows. Groups are in order of first appearance.
///
/// # Errors
/// What a selected row raises, the first in order; [`EvalError::ShapeMismatch`] for a value outside of the
/// facts of its input, or for columns of other types.
pub fn run(
    stages: &[RowProgram],
    batches: &[RecordBatch],
    output: &SchemaRef,
) -> Result<Vec<RecordBatch>, EvalError> {
    let Some((last, before)) = stages.split_last() else {
        return Err(EvalError::internal("a pipeline without a program"));
    };
    let mut batches = batches.to_vec();
    for program in before {
        let columns = program.columns();
        let fields = columns.iter();
        let fields = fields.map(|column| Field::new(&column.name, column.data_type.clone(), true));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        batches = stage(program, &batches, &Arc::new(schema))?;
    }
    stage(last, &batches, output)
}

/// Runs one stage.
fn stage(
    program: &RowProgram,
    batches: &[RecordBatch],
    output: &SchemaRef,
) -> Result<Vec<RecordBatch>, EvalError> {
    let columns = program.columns();
    let types: Vec<DataType> = columns.into_iter().map(|column| column.data_type).collect();
    let mut rows = BlockBuilder::new(&types)?;
    match &program.sink {
        Sink::Rows(outputs) => {
            for batch in batches {
                for_each_row(program, batch, |row| {
                    rows.push(outputs.iter().map(|output| shown(row, output)))
                })?;
            }
        }
        Sink::Groups(groups) => {
            let mut table = Table::new(groups);
            for batch in batches {
                for_each_row(program, batch, |row| table.take(row))?;
            }
            table.finish(&mut rows)?;
        }
        Sink::Sorted(sorted) => {
            let scanned: Vec<Vec<Column<'_>>> = batches
                .iter()
                .map(|batch| columns_of(program, batch))
                .collect::<Result<_, _>>()?;
            let mut gathered: Vec<Row<'_>> = Vec::new();
            for (columns, batch) in scanned.iter().zip(batches) {
                for index in 0..batch.num_rows() {
                    let row = Row::scan(program, columns, index)?;
                    if row.is_true(program.selected) {
                        gathered.push(row);
                    }
                }
            }
            gathered.sort_by(|left, right| {
                let orders = sorted.keys.iter().map(|key| order(key, left, right));
                orders.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
            });
            gathered.truncate(sorted.fetch.unwrap_or(usize::MAX));
            for row in &gathered {
                let outputs = sorted.outputs.iter();
                rows.push(outputs.map(|output| shown(row, output)))?;
            }
        }
    }
    let blocks = rows.finish()?.into_iter();
    blocks
        .map(|block| block.into_batch(Arc::clone(output)))
        .collect()
}

/// Evaluates a program over the rows of a batch, and hands over those that are selected.
fn for_each_row(
    program: &RowProgram,
    batch: &RecordBatch,
    mut take: impl FnMut(&Row<'_>) -> Result<(), EvalError>,
) -> Result<(), EvalError> {
    let columns = columns_of(program, batch)?;
    for index in 0..batch.num_rows() {
        let row = Row::scan(program, &columns, index)?;
        if row.is_true(program.selected) {
            take(&row)?;
        }
    }
    Ok(())
}

/// Prepares the columns that a program reads.
fn columns_of<'a>(
    program: &RowProgram,
    batch: &'a RecordBatch,
) -> Result<Vec<Column<'a>>, EvalError> {
    let inputs = program.inputs.iter();
    let columns = inputs.map(|input| {
        let array = batch.columns().get(input.column);
        let array = array.filter(|array| *array.data_type() == input.data_type);
        let array = array.ok_or_else(|| EvalError::ShapeMismatch {
            what: format!("column {} is not a {}", input.name, input.data_type),
        })?;
        Column::new(array.as_ref())
    });
    columns.collect()
}

/// Returns a column's value as an array holds it.
fn shown<'a>(row: &Row<'a>, output: &Output) -> Value<'a> {
    let cell = row.get(output.value);
    cell.map_or(Value::Null, |cell| cell.as_value(&output.data_type))
}

fn order(key: &Order, left: &Row<'_>, right: &Row<'_>) -> std::cmp::Ordering {
    use std::cmp::Ordering::{Equal, Greater, Less};

    let nulls = if key.nulls_first { Less } else { Greater };
    match (left.get(key.value), right.get(key.value)) {
        (None, None) => Equal,
        (None, Some(_)) => nulls,
        (Some(_), None) => nulls.reverse(),
        (Some(left), Some(right)) if key.descending => right.order(left),
        (Some(left), Some(right)) => left.order(right),
    }
}
