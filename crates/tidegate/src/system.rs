//! The system tables: `system.devices`, `system.cache`, `system.memory`, `system.queries`,
//! `system.placements`, `system.decisions`, `system.query_log`, `system.sessions`, `system.settings`,
//! `system.executors`, `system.tasks`.
//!
//! Each is made anew when it is scanned, from the runtime or from the session that asks.

mod executors;
mod placements;
pub(crate) mod reports;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use tidegate_kernels::Phases;

use crate::clients::Client;
use crate::query::History;
use crate::query::QueryReport;
use crate::runtime::Runtime;
use crate::spread::{SpreadPlanner, planner_of};

/// Makes a table for whoever asks; without rows if nobody does.
type Make = fn(Option<&Asked<'_>>) -> Result<RecordBatch>;

const TABLES: [(&str, Make); 11] = [
    ("devices", devices),
    ("cache", cache),
    ("memory", memory),
    ("queries", queries),
    ("placements", placements::placements),
    ("decisions", placements::decisions),
    ("query_log", query_log),
    ("sessions", sessions),
    ("settings", settings),
    ("executors", executors::executors),
    ("tasks", executors::tasks),
];

/// Registers the schema `system`.
pub(crate) fn register(ctx: &SessionContext, runtime: &Arc<Runtime>) -> Result<()> {
    let schema = MemorySchemaProvider::new();
    for (name, make) in TABLES {
        let table = SystemTable {
            name,
            make,
            schema: make(None)?.schema(),
            runtime: Arc::clone(runtime),
        };
        schema.register_table(name.into(), Arc::new(table))?;
    }
    let config = ctx.copied_config();
    let name = &config.options().catalog.default_catalog;
    let Some(catalog) = ctx.catalog(name) else {
        return internal_err!("there is no default catalog {name}");
    };
    catalog.register_schema("system", Arc::new(schema))?;
    Ok(())
}

/// A table that is made when it is scanned.
struct SystemTable {
    name: &'static str,
    make: Make,
    schema: SchemaRef,
    runtime: Arc<Runtime>,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system.{}", self.name)
    }
}

#[async_trait]
impl TableProvider for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let runtime = &self.runtime;
        let rows = (self.make)(Some(&Asked { runtime, state }))?;
        let schema = Arc::clone(&self.schema);
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![rows]],
            schema,
            projection.cloned(),
        )?)
    }
}

/// A session that asks, and what it asks.
struct Asked<'a> {
    runtime: &'a Arc<Runtime>,
    state: &'a dyn Session,
}

impl Asked<'_> {
    fn client(&self) -> Option<Arc<Client>> {
        Client::of(self.state.config())
    }

    fn planner(&self) -> Option<Arc<dyn SpreadPlanner>> {
        planner_of(self.state.config())
    }

    /// Returns the queries that the client may see.
    fn reports(&self) -> Vec<QueryReport> {
        History::of(self.runtime).reports_for(self.client().as_deref())
    }
}

/// Columns over rows of a table that is being made.
struct Columns<'a, R> {
    rows: &'a [R],
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl<'a, R> Columns<'a, R> {
    fn of(rows: &'a [R]) -> Self {
        Self {
            rows,
            fields: Vec::new(),
            arrays: Vec::new(),
        }
    }

    fn with<T, A>(mut self, name: &str, of: impl Fn(&'a R) -> Option<T>) -> Self
    where
        A: Array + FromIterator<Option<T>> + 'static,
    {
        let array: A = self.rows.iter().map(of).collect();
        let data_type = array.data_type().clone();
        self.fields.push(Field::new(name, data_type, true));
        self.arrays.push(Arc::new(array));
        self
    }

    fn text<T: AsRef<str>>(self, name: &str, of: impl Fn(&'a R) -> Option<T>) -> Self {
        self.with::<_, StringArray>(name, of)
    }

    fn truth(self, name: &str, of: impl Fn(&'a R) -> bool) -> Self {
        self.with::<_, BooleanArray>(name, |row| Some(of(row)))
    }

    fn count<C: Into<Option<u64>>>(self, name: &str, of: impl Fn(&'a R) -> C) -> Self {
        self.with::<u64, UInt64Array>(name, |row| of(row).into())
    }

    fn seconds(self, name: &str, of: impl Fn(&'a R) -> f64) -> Self {
        self.with::<_, Float64Array>(name, |row| Some(of(row)))
    }

    /// Adds times in milliseconds.
    fn time<T: Into<Option<SystemTime>>>(self, name: &str, of: impl Fn(&'a R) -> T) -> Self {
        self.with::<_, TimestampMillisecondArray>(name, |row| {
            let time: Option<SystemTime> = of(row).into();
            let since = time?.duration_since(UNIX_EPOCH).ok()?;
            i64::try_from(since.as_millis()).ok()
        })
    }

    /// Adds times in microseconds.
    fn moment(self, name: &str, of: impl Fn(&'a R) -> SystemTime) -> Self {
        self.with::<_, TimestampMicrosecondArray>(name, |row| {
            let since = of(row).duration_since(UNIX_EPOCH).ok()?;
            i64::try_from(since.as_micros()).ok()
        })
    }

    fn batch(self) -> Result<RecordBatch> {
        let schema = Arc::new(Schema::new(self.fields));
        Ok(RecordBatch::try_new(schema, self.arrays)?)
    }
}

fn devices(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let devices = asked.map_or(&[][..], |asked| asked.runtime.devices());
    Columns::of(devices)
        .text("device", |device| Some(device.info().id.to_string()))
        .text("kind", |device| {
            Some(format!("{:?}", device.info().kind).to_lowercase())
        })
        .text("name", |device| Some(device.info().name.clone()))
        .count("memory_bytes", |device| device.info().memory_bytes)
        .count("memory_limit", |device| device.budget().limit())
        .count("memory_used", |device| device.budget().used())
        .count("memory_peak", |device| device.budget().peak())
        .batch()
}

fn cache(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let mut columns = Vec::new();
    if let Some(asked) = asked {
        let cache = asked.runtime.cache();
        columns.extend(cache.reports());
        columns.extend(cache.pinned().reports());
        columns.extend(cache.host().reports());
    }
    Columns::of(&columns)
        .text("table", |column| Some(&column.table))
        .text("column", |column| Some(&column.column))
        .text("tier", |column| Some(column.tier))
        .text("device", |column| {
            column.device.map(|device| device.to_string())
        })
        .text("encoding", |column| Some(&column.encoding))
        .count("chunks", |column| column.num_chunks)
        .count("rows", |column| column.num_rows)
        .count("device_bytes", |column| column.device_bytes)
        .count("host_bytes", |column| column.host_bytes)
        .count("plain_bytes", |column| column.plain_bytes)
        .count("hits", |column| column.hits)
        .text("kept", |column| {
            Some(if column.is_kept {
                "cache table"
            } else {
                "automatic"
            })
        })
        .batch()
}

fn memory(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let lines = asked.map_or_else(Vec::new, |asked| {
        reports::memory(asked.runtime, &asked.state.runtime_env().memory_pool)
    });
    Columns::of(&lines)
        .text("tier", |line| Some(line.tier()))
        .text("device", |line| line.device.as_ref())
        .text("consumer", |line| Some(&line.consumer))
        .count("used_bytes", |line| line.used)
        .count("limit_bytes", |line| line.limit)
        .count("peak_bytes", |line| line.peak)
        .batch()
}

fn queries(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let reports = asked.map_or_else(Vec::new, Asked::reports);
    Columns::of(&reports)
        .count("query_id", |report| report.id)
        .text("sql", |report| report.sql.clone())
        .text("state", |report| Some(report.state.to_string()))
        .time("started", |report| report.started)
        .seconds("seconds", |report| report.seconds)
        .count("rows", |report| report.rows)
        .text("error", |report| report.error.clone())
        .seconds("plan_seconds", |report| report.plan_seconds)
        .seconds("compile_seconds", |report| phases_of(report).compile)
        .seconds("upload_seconds", |report| phases_of(report).upload)
        .seconds("queue_seconds", |report| phases_of(report).queue)
        .seconds("kernel_seconds", |report| phases_of(report).kernel)
        .seconds("download_seconds", |report| phases_of(report).download)
        .seconds("admission_seconds", |report| report.admission_seconds)
        .count("peak_bytes", |report| report.peak_bytes)
        .text("note", |report| report.note.clone())
        .batch()
}

/// Sums up where the devices' seconds of a query went.
fn phases_of(report: &QueryReport) -> Phases {
    let mut sum = Phases::default();
    for region in &report.regions {
        sum += region.phases();
    }
    sum
}

fn query_log(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let entries = asked.map_or_else(Vec::new, |asked| {
        History::of(asked.runtime).logged_for(asked.client().as_deref())
    });
    Columns::of(&entries)
        .count("query_id", |entry| entry.id)
        .count("session_id", |entry| entry.session)
        .text("user", |entry| entry.user.as_ref())
        .text("sql", |entry| entry.sql.as_ref())
        .text("state", |entry| Some(entry.state.to_string()))
        .text("placement", |entry| Some(entry.placement().to_string()))
        .time("started", |entry| entry.started)
        .seconds("plan_seconds", |entry| entry.plan_seconds)
        .seconds("seconds", |entry| entry.seconds)
        .count("rows", |entry| entry.rows)
        .count("host_morsels", |entry| entry.work(true).morsels)
        .count("host_bytes", |entry| entry.work(true).bytes)
        .count("device_morsels", |entry| entry.work(false).morsels)
        .count("device_bytes", |entry| entry.work(false).bytes)
        .text("error", |entry| entry.error.as_ref())
        .batch()
}

fn sessions(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let sessions = asked.map_or_else(Vec::new, |asked| {
        reports::sessions(asked.runtime, asked.client().as_deref())
    });
    Columns::of(&sessions)
        .count("session_id", |session| session.id)
        .text("user", |session| Some(&session.user))
        .truth("is_admin", |session| session.is_admin)
        .time("opened", |session| session.opened)
        .time("last_query", |session| session.last_query)
        .count("queries", |session| session.queries)
        .count("running", |session| session.running)
        .batch()
}

fn settings(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let mut entries = asked.map_or_else(Vec::new, |asked| asked.state.config_options().entries());
    entries.sort_by(|left, right| left.key.cmp(&right.key));
    Columns::of(&entries)
        .text("name", |entry| Some(&entry.key))
        .text("value", |entry| entry.value.as_ref())
        .text("description", |entry| Some(entry.description))
        .batch()
}
