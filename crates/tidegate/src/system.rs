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
    ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, Session, TableProvider};
use datafusion::common::internal_err;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionContext;
use tidegate_device::DeviceId;
use tidegate_kernels::Phases;
use tidegate_scheduler::{ColumnCache, ColumnReport};

use crate::clients::Client;
use crate::query::History;
use crate::query::{LoggedQuery, QueryReport, Work};
use crate::runtime::Runtime;
use crate::spread::planner_of;
use placements::{decisions, placements};
use reports::{MemoryReport, SessionReport};

/// Registers the schema `system`.
pub(crate) fn register(ctx: &SessionContext, runtime: &Arc<Runtime>) -> Result<()> {
    let schema = MemorySchemaProvider::new();
    for content in [
        Content::Devices,
        Content::Cache,
        Content::Memory,
        Content::Queries,
        Content::Placements,
        Content::Decisions,
        Content::QueryLog,
        Content::Sessions,
        Content::Settings,
        Content::Executors,
        Content::Tasks,
    ] {
        let table = SystemTable {
            content,
            schema: content.schema(),
            runtime: Arc::clone(runtime),
        };
        schema.register_table(content.name().into(), Arc::new(table))?;
    }
    let config = ctx.copied_config();
    let name = &config.options().catalog.default_catalog;
    let Some(catalog) = ctx.catalog(name) else {
        return internal_err!("there is no default catalog {name}");
    };
    catalog.register_schema("system", Arc::new(schema))?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Devices,
    Cache,
    Memory,
    Queries,
    Placements,
    Decisions,
    QueryLog,
    Sessions,
    Settings,
    Executors,
    Tasks,
}

/// A table that is made when it is scanned.
struct SystemTable {
    content: Content,
    schema: SchemaRef,
    runtime: Arc<Runtime>,
}

impl fmt::Debug for SystemTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "system.{}", self.content.name())
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
        let client = Client::of(state.config());
        let planner = || planner_of(state.config());
        let reports = || History::of(&self.runtime).reports_for(client.as_deref());
        let columns = match self.content {
            Content::Devices => devices(&self.runtime),
            Content::Cache => cache(self.runtime.cache()),
            Content::Memory => {
                let pool = &state.runtime_env().memory_pool;
                memory(&reports::memory(&self.runtime, pool))
            }
            Content::Queries => queries(&reports()),
            Content::Placements => placements(&reports(), planner().as_deref()),
            Content::Decisions => decisions(&reports()),
            Content::QueryLog => {
                query_log(&History::of(&self.runtime).logged_for(client.as_deref()))
            }
            Content::Sessions => sessions(&reports::sessions(&self.runtime, client.as_deref())),
            Content::Settings => settings(state),
            Content::Executors => executors::executors(planner().as_deref()),
            Content::Tasks => executors::tasks(planner().as_deref(), &reports()),
        };
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        let schema = Arc::clone(&self.schema);
        Ok(MemorySourceConfig::try_new_exec(
            &[vec![rows]],
            schema,
            projection.cloned(),
        )?)
    }
}

impl Content {
    fn name(self) -> &'static str {
        match self {
            Content::Devices => "devices",
            Content::Cache => "cache",
            Content::Memory => "memory",
            Content::Queries => "queries",
            Content::Placements => "placements",
            Content::Decisions => "decisions",
            Content::QueryLog => "query_log",
            Content::Sessions => "sessions",
            Content::Settings => "settings",
            Content::Executors => "executors",
            Content::Tasks => "tasks",
        }
    }

    fn schema(self) -> SchemaRef {
        let text = |name| Field::new(name, DataType::Utf8, true);
        let count = |name| Field::new(name, DataType::UInt64, true);
        let seconds = |name| Field::new(name, DataType::Float64, true);
        let time = |name| {
            let millisecond = DataType::Timestamp(TimeUnit::Millisecond, None);
            Field::new(name, millisecond, true)
        };
        let moment = |name| {
            let microsecond = DataType::Timestamp(TimeUnit::Microsecond, None);
            Field::new(name, microsecond, true)
        };
        Arc::new(Schema::new(match self {
            Content::Devices => vec![
                text("device"),
                text("kind"),
                text("name"),
                count("memory_bytes"),
                count("memory_limit"),
                count("memory_used"),
                count("memory_peak"),
            ],
            Content::Cache => vec![
                text("table"),
                text("column"),
                text("tier"),
                text("device"),
                text("encoding"),
                count("chunks"),
                count("rows"),
                count("device_bytes"),
                count("host_bytes"),
                count("plain_bytes"),
                count("hits"),
                text("kept"),
            ],
            Content::Memory => vec![
                text("tier"),
                text("device"),
                text("consumer"),
                count("used_bytes"),
                count("limit_bytes"),
                count("peak_bytes"),
            ],
            Content::Queries => vec![
                count("query_id"),
                text("sql"),
                text("state"),
                time("started"),
                seconds("seconds"),
                count("rows"),
                text("error"),
                seconds("plan_seconds"),
                seconds("compile_seconds"),
                seconds("upload_seconds"),
                seconds("queue_seconds"),
                seconds("kernel_seconds"),
                seconds("download_seconds"),
                seconds("admission_seconds"),
                count("peak_bytes"),
                text("note"),
            ],
            Content::Placements => vec![
                count("query_id"),
                count("region"),
                text("form"),
                text("program"),
                text("program_json"),
                text("place"),
                text("reason"),
                count("reason_count"),
                count("morsels"),
                count("rows"),
                count("bytes"),
                seconds("seconds"),
                count("claims"),
                seconds("claimed_seconds"),
                seconds("estimated_seconds"),
                count("estimated_bytes"),
                count("retries"),
                count("splits"),
                count("flushes"),
                count("waits"),
                count("evicted_bytes"),
                text("recorded"),
                text("executor"),
            ],
            Content::Decisions => vec![
                count("query_id"),
                count("region"),
                text("place"),
                count("claim"),
                text("reason"),
                count("morsels"),
                count("rows"),
                count("bytes"),
                count("estimated_bytes"),
                seconds("seconds"),
                seconds("estimated_seconds"),
                moment("started"),
                moment("ended"),
            ],
            Content::QueryLog => vec![
                count("query_id"),
                count("session_id"),
                text("user"),
                text("sql"),
                text("state"),
                text("placement"),
                time("started"),
                seconds("plan_seconds"),
                seconds("seconds"),
                count("rows"),
                count("host_morsels"),
                count("host_bytes"),
                count("device_morsels"),
                count("device_bytes"),
                text("error"),
            ],
            Content::Sessions => vec![
                count("session_id"),
                text("user"),
                Field::new("is_admin", DataType::Boolean, true),
                time("opened"),
                time("last_query"),
                count("queries"),
                count("running"),
            ],
            Content::Settings => vec![text("name"), text("value"), text("description")],
            Content::Executors => vec![
                text("executor"),
                text("url"),
                text("version"),
                text("state"),
                text("reason"),
                count("cores"),
                count("memory_limit"),
                count("memory_used"),
                text("devices"),
                count("tasks"),
                seconds("silent_seconds"),
                seconds("speed"),
            ],
            Content::Tasks => vec![
                count("statement"),
                count("attempt"),
                count("stage"),
                count("task"),
                text("executor"),
                text("state"),
                count("query_id"),
            ],
        }))
    }
}

fn texts<T: AsRef<str>>(values: impl Iterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

fn times(values: impl Iterator<Item = Option<SystemTime>>) -> ArrayRef {
    let milliseconds = values.map(|time| {
        let since = time?.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_millis()).ok()
    });
    Arc::new(milliseconds.collect::<TimestampMillisecondArray>())
}

fn moments(values: impl Iterator<Item = SystemTime>) -> ArrayRef {
    let microseconds = values.map(|time| {
        let since = time.duration_since(UNIX_EPOCH).ok()?;
        i64::try_from(since.as_micros()).ok()
    });
    Arc::new(microseconds.collect::<TimestampMicrosecondArray>())
}

fn seconds(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn devices(runtime: &Runtime) -> Vec<ArrayRef> {
    let devices = runtime.devices();
    let infos = || devices.iter().map(|device| device.info());
    let budgets = || devices.iter().map(|device| device.budget());
    vec![
        texts(infos().map(|info| Some(info.id.to_string()))),
        texts(infos().map(|info| Some(format!("{:?}", info.kind).to_lowercase()))),
        texts(infos().map(|info| Some(info.name.clone()))),
        counts(infos().map(|info| info.memory_bytes)),
        counts(budgets().map(|budget| budget.limit())),
        counts(budgets().map(|budget| budget.used())),
        counts(budgets().map(|budget| budget.peak())),
    ]
}

/// One line of `system.cache`: a column in a tier.
struct CachedLine {
    tier: &'static str,
    device: Option<String>,
    host_bytes: u64,
    column: ColumnReport,
}

fn cache(cache: &ColumnCache) -> Vec<ArrayRef> {
    let on_device = cache.reports().into_iter().map(|column| CachedLine {
        tier: "device",
        device: Some(column.device.to_string()),
        host_bytes: 0,
        column,
    });
    let on_host = cache.host().reports().into_iter().map(|column| CachedLine {
        tier: "host",
        device: None,
        host_bytes: column.host_bytes,
        column: ColumnReport {
            table: column.table,
            column: column.column,
            device: DeviceId(0),
            is_kept: column.is_kept,
            encoding: column.encoding,
            num_chunks: column.num_chunks,
            num_rows: column.num_rows,
            device_bytes: 0,
            plain_bytes: column.plain_bytes,
            hits: column.hits,
        },
    });
    let pinned = cache
        .pinned()
        .reports()
        .into_iter()
        .map(|column| CachedLine {
            tier: "pinned",
            device: None,
            host_bytes: column.host_bytes,
            column: ColumnReport {
                table: column.table,
                column: column.column,
                device: DeviceId(0),
                is_kept: false,
                encoding: column.encoding,
                num_chunks: column.num_chunks,
                num_rows: column.num_rows,
                device_bytes: 0,
                plain_bytes: column.plain_bytes,
                hits: column.hits,
            },
        });
    let lines: Vec<CachedLine> = on_device.chain(pinned).chain(on_host).collect();
    let columns = || lines.iter().map(|line| &line.column);
    let count = |of: fn(&ColumnReport) -> u64| counts(columns().map(of));
    vec![
        texts(columns().map(|column| Some(&column.table))),
        texts(columns().map(|column| Some(&column.column))),
        texts(lines.iter().map(|line| Some(line.tier))),
        texts(lines.iter().map(|line| line.device.as_ref())),
        texts(columns().map(|column| Some(&column.encoding))),
        count(|column| column.num_chunks),
        count(|column| column.num_rows),
        count(|column| column.device_bytes),
        counts(lines.iter().map(|line| line.host_bytes)),
        count(|column| column.plain_bytes),
        count(|column| column.hits),
        texts(columns().map(|column| {
            Some(if column.is_kept {
                "cache table"
            } else {
                "automatic"
            })
        })),
    ]
}

fn memory(reports: &[MemoryReport]) -> Vec<ArrayRef> {
    let lines = || reports.iter();
    vec![
        texts(lines().map(|line| Some(line.tier()))),
        texts(lines().map(|line| line.device.as_ref())),
        texts(lines().map(|line| Some(&line.consumer))),
        counts(lines().map(|line| line.used)),
        Arc::new(lines().map(|line| line.limit).collect::<UInt64Array>()),
        Arc::new(lines().map(|line| line.peak).collect::<UInt64Array>()),
    ]
}

fn queries(reports: &[QueryReport]) -> Vec<ArrayRef> {
    let phases: Vec<Phases> = reports.iter().map(phases_of).collect();
    let spent = |seconds: fn(&Phases) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(phases.iter().map(seconds)))
    };
    vec![
        counts(reports.iter().map(|report| report.id)),
        texts(reports.iter().map(|report| report.sql.clone())),
        texts(reports.iter().map(|report| Some(report.state.to_string()))),
        times(reports.iter().map(|report| Some(report.started))),
        Arc::new(Float64Array::from_iter_values(
            reports.iter().map(|report| report.seconds),
        )),
        counts(reports.iter().map(|report| report.rows)),
        texts(reports.iter().map(|report| report.error.clone())),
        Arc::new(Float64Array::from_iter_values(
            reports.iter().map(|report| report.plan_seconds),
        )),
        spent(|phases| phases.compile),
        spent(|phases| phases.upload),
        spent(|phases| phases.queue),
        spent(|phases| phases.kernel),
        spent(|phases| phases.download),
        Arc::new(Float64Array::from_iter_values(
            reports.iter().map(|report| report.admission_seconds),
        )),
        counts(reports.iter().map(|report| report.peak_bytes)),
        texts(reports.iter().map(|report| report.note.clone())),
    ]
}

/// Sums up where the devices' seconds of a query went.
fn phases_of(report: &QueryReport) -> Phases {
    let mut sum = Phases::default();
    for region in &report.regions {
        sum += region.phases();
    }
    sum
}

fn query_log(entries: &[Arc<LoggedQuery>]) -> Vec<ArrayRef> {
    let all = || entries.iter();
    let (host, device): (Vec<Work>, Vec<Work>) = all()
        .map(|entry| (entry.work(true), entry.work(false)))
        .unzip();
    vec![
        counts(all().map(|entry| entry.id)),
        Arc::new(all().map(|entry| entry.session).collect::<UInt64Array>()),
        texts(all().map(|entry| entry.user.as_ref())),
        texts(all().map(|entry| entry.sql.as_ref())),
        texts(all().map(|entry| Some(entry.state.to_string()))),
        texts(all().map(|entry| Some(entry.placement().to_string()))),
        times(all().map(|entry| Some(entry.started))),
        seconds(all().map(|entry| entry.plan_seconds)),
        seconds(all().map(|entry| entry.seconds)),
        counts(all().map(|entry| entry.rows)),
        counts(host.iter().map(|work| work.morsels)),
        counts(host.iter().map(|work| work.bytes)),
        counts(device.iter().map(|work| work.morsels)),
        counts(device.iter().map(|work| work.bytes)),
        texts(all().map(|entry| entry.error.as_ref())),
    ]
}

fn sessions(reports: &[SessionReport]) -> Vec<ArrayRef> {
    let all = || reports.iter();
    let is_admin = all().map(|report| Some(report.is_admin));
    vec![
        counts(all().map(|report| report.id)),
        texts(all().map(|report| Some(&report.user))),
        Arc::new(is_admin.collect::<BooleanArray>()),
        times(all().map(|report| Some(report.opened))),
        times(all().map(|report| report.last_query)),
        counts(all().map(|report| report.queries)),
        counts(all().map(|report| report.running)),
    ]
}

fn settings(state: &dyn Session) -> Vec<ArrayRef> {
    let mut entries = state.config_options().entries();
    entries.sort_by(|left, right| left.key.cmp(&right.key));
    vec![
        texts(entries.iter().map(|entry| Some(&entry.key))),
        texts(entries.iter().map(|entry| entry.value.as_ref())),
        texts(entries.iter().map(|entry| Some(entry.description))),
    ]
}
