//! `CACHE TABLE … ON DEVICE | HOST` and `UNCACHE TABLE`: brings a table's columns to a tier to stay.
//!
//! The table is planned as `SELECT columns FROM name`, and its scan read morsel by morsel through
//! the same loader with which regions read it, so that a region's scan finds its morsels by what they
//! were read from.

mod host;
mod store;

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as PlanStatement};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::PhysicalPlanner;
use datafusion::prelude::SQLOptions;
use sqlparser::ast::Ident;
use tidegate_kernels::PipelineDevice;
use tidegate_scheduler::{AdmissionRequest, CachedTable, Permit};

use super::Session;
use super::hinted::with_hint;
use crate::clients::Client;
use crate::error::{Error, ErrorKind};
use crate::files::file_scan;
use crate::leaf::{Leaf, LeafOptions, leaf_of};
use crate::lower::plan::plain_columns;
use crate::mapping::planner;
use crate::options::{CacheMode, TidegateOptions};
use crate::query::{Deadline, refused};
use crate::statements::{CacheStatement, StatementContext, Tier};
use crate::suggest;

/// Runs a statement about the column cache; its one row tells what was done.
pub(super) async fn run(
    session: &Session,
    statement: CacheStatement,
    context: Arc<StatementContext>,
    allowed: SQLOptions,
) -> Result<DataFrame, Error> {
    check_allowed(allowed)?;
    let mut state = session.ctx.state();
    state.config_mut().set_extension(context);
    read_past_host_tier(&mut state);
    let names = Names::of(&state);
    let row = match statement {
        CacheStatement::Uncache { table } => uncache(session, &names.table(&table)?)?,
        CacheStatement::Cache {
            table,
            columns,
            tier,
        } => {
            let name = names.table(&table)?;
            let _permit = admit(session, &state).await?;
            let timeout = TidegateOptions::of(state.config_options()).statement_timeout;
            let select = names.select(&table, &columns)?;
            match tier {
                Tier::Device => within(timeout, cache(session, &state, &name, &select)).await?,
                Tier::Host => within(timeout, host::cache(session, &state, &name, &select)).await?,
            }
        }
    };
    let (_, plan) = session.ctx.read_batch(row)?.into_parts();
    Ok(DataFrame::new(state, plan))
}

/// Waits at the gate as a query does; whoever serves a client has done that for it.
async fn admit(session: &Session, state: &SessionState) -> Result<Option<Permit>, Error> {
    if Client::of(state.config()).is_some() {
        return Ok(None);
    }
    let request = AdmissionRequest {
        priority: TidegateOptions::of(state.config_options()).priority,
        // What it takes is the tier's, and refused there.
        expected_bytes: 0,
    };
    let admitted = session.runtime.admission().admit(request).await;
    admitted.map(Some).map_err(refused)
}

/// Has what is read for one tier not kept in the host tier as well. What the host tier holds of a
/// table may go to make room for it, so it is not read from there.
fn read_past_host_tier(state: &mut SessionState) {
    let options = state.config_mut().options_mut();
    if let Some(options) = options.extensions.get_mut::<TidegateOptions>() {
        options.cache = CacheMode::Off;
    }
}

/// Refuses where statements that change something are refused.
pub(super) fn check_allowed(allowed: SQLOptions) -> Result<(), Error> {
    let like_set = LogicalPlan::Statement(PlanStatement::SetVariable(SetVariable {
        variable: String::new(),
        value: String::new(),
    }));
    allowed.verify_plan(&like_set).map_err(|error| {
        let message = "statements such as CACHE TABLE and SET are not allowed here";
        Error::with_source(ErrorKind::NotSupported, message, error)
    })
}

pub(super) async fn within<T>(
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(timeout) = timeout else {
        return work.await;
    };
    Deadline::after(timeout).before(pin!(work)).await?
}

/// How a session writes names.
struct Names {
    normalized: bool,
    catalog: String,
    schema: String,
}

impl Names {
    fn of(state: &SessionState) -> Self {
        let options = state.config_options();
        Self {
            normalized: options.sql_parser.enable_ident_normalization,
            catalog: options.catalog.default_catalog.clone(),
            schema: options.catalog.default_schema.clone(),
        }
    }

    fn text(&self, part: &Ident) -> String {
        if self.normalized && part.quote_style.is_none() {
            part.value.to_lowercase()
        } else {
            part.value.clone()
        }
    }

    /// Names a table as `system.cache` does: without the catalog and schema that are the session's.
    fn table(&self, parts: &[Ident]) -> Result<String, Error> {
        let mut parts: Vec<String> = parts.iter().map(|part| self.text(part)).collect();
        if parts.len() > 3 {
            let message = format!(
                "'{}' has more parts than catalog.schema.table",
                parts.join(".")
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        if parts.len() == 3 && parts[0] == self.catalog {
            parts.remove(0);
        }
        if parts.len() == 2 && parts[0] == self.schema {
            parts.remove(0);
        }
        Ok(parts.join("."))
    }

    /// Writes the query that reads what is to be cached.
    fn select(&self, table: &[Ident], columns: &[Ident]) -> Result<String, Error> {
        let quoted = |part: &Ident| format!("\"{}\"", self.text(part).replace('"', "\"\""));
        let table: Vec<String> = table.iter().map(quoted).collect();
        let columns: Vec<String> = columns.iter().map(quoted).collect();
        let repeated = (1..columns.len()).find(|&index| columns[..index].contains(&columns[index]));
        if let Some(index) = repeated {
            let message = format!("column {} is named twice", columns[index]);
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let columns = match columns.as_slice() {
            [] => "*".to_string(),
            columns => columns.join(", "),
        };
        Ok(format!("SELECT {columns} FROM {}", table.join(".")))
    }
}

async fn cache(
    session: &Session,
    state: &SessionState,
    name: &str,
    select: &str,
) -> Result<RecordBatch, Error> {
    let started = Instant::now();
    let options = TidegateOptions::of(state.config_options());
    let devices = session.runtime.devices_of(options.devices.as_ref());
    let is_live = |device: &Arc<dyn PipelineDevice>| !device.is_lost();
    let devices: Vec<_> = devices.into_iter().filter(is_live).collect();
    if devices.is_empty() {
        let why = match &options.devices {
            Some(list) if !session.runtime.devices().is_empty() => {
                format!("tidegate.devices = '{list}' names no available device")
            }
            _ => session.runtime.why_no_device().to_string(),
        };
        return Err(Error::new(
            ErrorKind::Device,
            format!("CACHE TABLE {name} ON DEVICE: {why}"),
        ));
    }
    forget_listings(state);
    let scan = scan(session, state, name, select).await?;
    let leaf = rereadable(&scan, state, name)?;
    let loader = leaf.loader(&state.task_ctx())?;
    if !loader.names_chunks() {
        return Err(not_cacheable(
            name,
            "its rows cannot be told from those of another source",
        ));
    }
    let schema = scan.schema();
    // What was cached under this name makes room first.
    session.runtime.cache().remove(name);
    let filling = store::Filling {
        table: name.to_string(),
        devices,
        loader,
        schema: Arc::clone(&schema),
        num_pieces: leaf.pieces().len(),
        cache: Arc::clone(session.runtime.cache()),
    };
    let (tables, num_rows) = filling.fill().await?;
    let names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    let device_bytes: u64 = tables.iter().map(CachedTable::device_bytes).sum();
    let plain_bytes: u64 = tables.iter().map(CachedTable::plain_bytes).sum();
    for table in tables {
        session.runtime.cache().insert(table);
    }
    row(&[
        ("table", Arc::new(StringArray::from(vec![name]))),
        (
            "columns",
            Arc::new(StringArray::from(vec![names.join(", ")])),
        ),
        ("rows", Arc::new(UInt64Array::from(vec![num_rows]))),
        (
            "device_bytes",
            Arc::new(UInt64Array::from(vec![device_bytes])),
        ),
        (
            "plain_bytes",
            Arc::new(UInt64Array::from(vec![plain_bytes])),
        ),
        (
            "seconds",
            Arc::new(Float64Array::from(vec![started.elapsed().as_secs_f64()])),
        ),
    ])
}

/// Has folders listed again: a listing from before a file was replaced would name the old one.
fn forget_listings(state: &SessionState) {
    if let Some(lists) = state.runtime_env().cache_manager.get_list_files_cache() {
        lists.clear();
    }
}

fn uncache(session: &Session, name: &str) -> Result<RecordBatch, Error> {
    let cache = session.runtime.cache();
    let removed = cache.remove(name);
    let on_devices: u64 = removed.iter().map(|table| table.device_bytes()).sum();
    let on_host = cache.host().remove_table(name);
    if removed.is_empty() && on_host.is_none() {
        let mut cached = cache.names();
        cached.extend(cache.host().tables());
        let hint = match suggest::nearest(&cached, name) {
            Some(nearest) => format!("did you mean '{nearest}'?"),
            None if cached.is_empty() => {
                "nothing is: CACHE TABLE name ON DEVICE or ON HOST caches a table".to_string()
            }
            None => format!("there are {}", cached.join(", ")),
        };
        let message = format!("table '{name}' is not cached: {hint}");
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let bytes = |of: u64| Arc::new(UInt64Array::from(vec![of]));
    row(&[
        ("table", Arc::new(StringArray::from(vec![name]))),
        ("device_bytes", bytes(on_devices)),
        ("host_bytes", bytes(on_host.unwrap_or(0))),
    ])
}

fn row(columns: &[(&str, ArrayRef)]) -> Result<RecordBatch, Error> {
    let columns = columns
        .iter()
        .map(|(name, array)| (*name, Arc::clone(array)));
    Ok(RecordBatch::try_from_iter(columns).map_err(datafusion::error::DataFusionError::from)?)
}

/// Plans the query and finds the scan that it is.
async fn scan(
    session: &Session,
    state: &SessionState,
    name: &str,
    select: &str,
) -> Result<Arc<dyn ExecutionPlan>, Error> {
    let plan = match session.plan_text(state, select).await {
        Ok(plan) => state.optimize(&plan)?,
        // The query is not what was written: no place in it is shown.
        Err(error) => return Err(with_hint(error, "", session)),
    };
    let planner = planner();
    let plan = planner.create_physical_plan(&plan, state).await?;
    match scan_below(&plan) {
        Some(scan) => Ok(in_any_order(scan)),
        None => Err(not_cacheable(
            name,
            "it is computed, not read from one place",
        )),
    }
}

/// Lets go of the order in which a query would get the rows of files: chunks have none.
fn in_any_order(scan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let Some(mut config) = file_scan(scan).cloned() else {
        return Arc::clone(scan);
    };
    config.output_ordering = Vec::new();
    config.preserve_order = false;
    config.output_partitioning = None;
    DataSourceExec::from_data_source(config)
}

/// Descends through what passes a scan's rows on as they are.
fn scan_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let passes_on = plan.is::<CooperativeExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan
            .downcast_ref::<ProjectionExec>()
            .is_some_and(|projection| {
                plain_columns(projection.expr().iter().map(|named| &named.expr)).is_some()
            });
    match plan.children().as_slice() {
        [] => Some(plan),
        [input] if passes_on => scan_below(input),
        _ => None,
    }
}

fn rereadable(
    scan: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
    name: &str,
) -> Result<Arc<dyn Leaf>, Error> {
    let options = LeafOptions::of(state.config_options()).in_any_order(true);
    let leaf = leaf_of(scan, options).map_err(|why| not_cacheable(name, &why))?;
    if leaf.rereads() {
        return Ok(leaf);
    }
    let partitions = scan.output_partitioning().partition_count();
    let what = format!(
        "{} of {partitions} partitions gives its rows once",
        scan.name()
    );
    Err(not_cacheable(name, &what))
}

fn not_cacheable(name: &str, why: &str) -> Error {
    Error::new(
        ErrorKind::NotSupported,
        format!(
            "table '{name}' cannot be cached: {why}; Parquet files, memory tables and generated \
             tables can: CREATE TABLE other AS SELECT * FROM {name} makes one"
        ),
    )
}
