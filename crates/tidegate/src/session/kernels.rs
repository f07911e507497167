//! The kernels of a query: what `EXPLAIN (FORMAT CUDA)` and `tidegate kernel` tell, without running
//! the query and without a device; `programs` has what `EXPLAIN (FORMAT PROGRAM)` tells.
//!
//! The query is planned as the session plans it, and each region's program is written as CUDA C++ in
//! the form that fits any values. A run may use a narrower form of it once it has seen some.

mod compiler;
mod programs;

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::dataframe::DataFrame;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::PhysicalPlanner;
use datafusion::prelude::SQLOptions;
use tidegate_kernels::cuda::declared_program;
use tidegate_kernels::program::{Generated, ProgramOptions, Sink, generate};

use super::hinted::with_hint;
use super::summary::is_query;
use super::{Session, statement};
use crate::error::{Error, ErrorKind};
use crate::lower::bind;
use crate::mapping::planner;
use crate::region::{PipelineExec, Program};
use crate::statements::{RegionFormat, StatementContext, Unparsed};
use programs::ProgramReport;

pub use compiler::{CompiledKernel, EntryPoint, KernelCompiler};

/// A region of a query, and the kernel that a device would run for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelReport {
    /// The region's number, from 1, from the root of the plan down.
    pub region: u64,
    /// Its program in one line, as EXPLAIN prints it, if it has one.
    pub program: Option<String>,
    /// Its kernel, or why it has none.
    pub kernel: Result<KernelSource, String>,
}

/// A kernel in CUDA C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSource {
    /// Where the groups' state is kept; `rows` if rows leave instead of groups.
    pub store: &'static str,
    /// The source; it includes no header.
    pub text: String,
}

/// Answers `EXPLAIN (FORMAT CUDA)` and `EXPLAIN (FORMAT PROGRAM)` of a query; `sql` is all of the statement.
pub(super) async fn explain(
    session: &Session,
    format: RegionFormat,
    query: Unparsed,
    sql: &str,
    context: Arc<StatementContext>,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    let state = statement::state_of(session, context)?;
    let answer = match format {
        RegionFormat::Cuda => table(&reports(session, &state, query, sql, allowed).await?)?,
        RegionFormat::Program => {
            let report = ProgramReport::of;
            programs::table(&regions(session, &state, query, sql, allowed, report).await?)?
        }
    };
    let (_, plan) = session.ctx.read_batch(answer)?.into_parts();
    Ok(DataFrame::new(state, plan))
}

/// Plans a query and reports the kernel of each of its regions; `sql` is the text that it stands in.
pub(super) async fn reports(
    session: &Session,
    state: &SessionState,
    query: Unparsed,
    sql: &str,
    allowed: SQLOptions,
) -> Result<Vec<KernelReport>, Error> {
    regions(session, state, query, sql, allowed, KernelReport::of).await
}

/// Plans a query and reports of each of its regions, by its number.
async fn regions<T>(
    session: &Session,
    state: &SessionState,
    query: Unparsed,
    sql: &str,
    allowed: SQLOptions,
    report: fn(u64, &PipelineExec) -> T,
) -> Result<Vec<T>, Error> {
    let plan = match statement::logical_plan(session, state, query).await {
        Ok(plan) => plan,
        Err(error) => return Err(with_hint(error, sql, session)),
    };
    allowed.verify_plan(&plan)?;
    if !is_query(&plan) {
        return Err(only_queries());
    }
    let plan = state.optimize(&plan)?;
    // The session's own planner would note in the history a query that never runs.
    let planner = planner();
    let plan = planner.create_physical_plan(&plan, state).await?;
    let mut regions = Vec::new();
    gather(&plan, &mut regions);
    Ok((1..)
        .zip(regions)
        .map(|(number, region)| report(number, region))
        .collect())
}

/// Says that a statement is none that has kernels.
pub(super) fn only_queries() -> Error {
    let message = "only a query has kernels: expected SELECT, WITH, VALUES or TABLE";
    Error::new(ErrorKind::Sql, message)
}

/// Gathers a plan's regions, from the root down.
fn gather<'a>(plan: &'a Arc<dyn ExecutionPlan>, regions: &mut Vec<&'a PipelineExec>) {
    regions.extend(plan.downcast_ref::<PipelineExec>());
    for input in plan.children() {
        gather(input, regions);
    }
}

impl KernelReport {
    fn of(number: u64, region: &PipelineExec) -> Self {
        let kernel = match region.program() {
            Some(program) => KernelSource::of(program, region.array()),
            None => Err(region.report().reasons.join("; ")),
        };
        Self {
            region: number,
            program: region.program().map(|program| program.pipeline.to_string()),
            kernel,
        }
    }

    fn store(&self) -> Option<&'static str> {
        Some(self.kernel.as_ref().ok()?.store)
    }

    fn text(&self) -> Option<&str> {
        Some(&self.kernel.as_ref().ok()?.text)
    }

    fn reason(&self) -> Option<&str> {
        self.kernel.as_ref().err().map(String::as_str)
    }
}

impl KernelSource {
    /// Writes the kernel of a program over columns, or over the array that it makes itself.
    fn of(program: &Program, array: Option<Arc<Generated>>) -> Result<Self, String> {
        // A value that is not there yet would be taken for NULL, and code be left out for it.
        let pipeline = bind(&program.pipeline, &program.bindings).map_err(|_| {
            "it needs the value of a subquery, which is known only when the query runs".to_string()
        })?;
        let over_array = ProgramOptions {
            generated: array,
            ..ProgramOptions::default()
        };
        let written = match &over_array.generated {
            // What it cannot make is loaded.
            Some(array) => generate(&pipeline, &|slot| array.facts(slot), &over_array).ok(),
            None => None,
        };
        let written = match written {
            Some(written) => written,
            None => {
                declared_program(&pipeline, &ProgramOptions::default()).map_err(|why| why.what)?
            }
        };
        let store = match &written.sink {
            Sink::Groups(groups) => groups.store.name(),
            Sink::Rows(_) => "rows",
        };
        Ok(Self {
            store,
            text: written.text.to_string(),
        })
    }
}

/// Lays reports out as a table, a row for each region.
fn table(reports: &[KernelReport]) -> Result<RecordBatch, DataFusionError> {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let schema = Schema::new(vec![
        Field::new("region", DataType::UInt64, false),
        text("program"),
        text("store"),
        text("cuda"),
        text("reason"),
    ]);
    let regions: UInt64Array = reports.iter().map(|report| Some(report.region)).collect();
    let programs: StringArray = reports
        .iter()
        .map(|report| report.program.as_deref())
        .collect();
    let stores: StringArray = reports.iter().map(KernelReport::store).collect();
    let sources: StringArray = reports.iter().map(KernelReport::text).collect();
    let reasons: StringArray = reports.iter().map(KernelReport::reason).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(regions),
        Arc::new(programs),
        Arc::new(stores),
        Arc::new(sources),
        Arc::new(reasons),
    ];
    Ok(RecordBatch::try_new(Arc::new(schema), columns)?)
}
