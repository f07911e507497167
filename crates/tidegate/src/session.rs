//! A session: SQL and DataFrames in, Arrow batches out.

mod added;
mod altered;
mod asof;
mod bounds;
mod builder;
mod by_name;
mod cache;
mod changed_rows;
mod client;
mod created;
mod current;
mod defaults;
mod dependencies;
mod described;
mod doctor;
mod embedded;
mod files;
mod folders;
mod formats;
mod functions;
mod hinted;
mod hints;
mod ingest;
mod inserted;
mod kernels;
mod kill;
mod names;
mod numbered;
mod operations;
mod pivoted;
mod plan_cache;
mod planned;
mod prepared;
mod readers;
mod returning;
mod rights;
mod rows_by_position;
mod sampled;
mod schemas;
mod scoped;
mod settings;
mod spilling;
mod statement;
mod stdin;
mod summary;
mod tables;
mod tasks;
mod told;
mod type_of;
mod types;
mod unconstrained;
mod variables;
mod views;
mod zones;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::{CatalogProviderList, TableProvider};
use datafusion::dataframe::DataFrame;
use datafusion::datasource::file_format::options::{CsvReadOptions, ParquetReadOptions};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::{SQLOptions, SessionContext};

use crate::clients::{Client, ClientOptions};
use crate::error::Error;
use crate::files::whole::write_whole;
use crate::floats::CanonicalFloats;
use crate::floats::bounds::estimate_bounds;
use crate::functions::bounded::FunctionMemory;
use crate::functions::custom::ScalarFunction;
use crate::generate::ArraySource;
use crate::memory::{HostLimit, SpillSpace};
use crate::node_rule::NodeRule;
use crate::query::History;
use crate::query::{QueryPlanner, QueryProgress, QueryReport, yield_at_joins};
use crate::region::report::RegionReport;
use crate::rewrite;
use crate::rule::PlacePipelines;
use crate::runtime::Runtime;
use crate::sources::MorselTable;
use crate::spilling::{top_k_that_spills, write_folders_in_turn};
use crate::stores::Stores;

pub use crate::clients::TEMP_SCHEMA;
pub use builder::SessionBuilder;
pub use doctor::DoctorReport;
pub use ingest::{IfExists, IfMissing, Ingest, IngestTarget};
pub use kernels::{CompiledKernel, EntryPoint, KernelCompiler, KernelReport, KernelSource};
pub use names::{Names, TableNames};
pub use operations::{CacheActivity, HeldMemory};
pub use planned::{Planned, StatementKind};
pub use prepared::Prepared;
pub use tables::{TableInfo, TableKind};
pub use tasks::{IntoTask, Query};

/// A session with its own settings and tables, over the devices of its runtime. Cheap to clone; every
/// clone is the same session.
#[derive(Clone)]
pub struct Session {
    ctx: SessionContext,
    runtime: Arc<Runtime>,
    memory: HostLimit,
    function_memory: FunctionMemory,
    spill: SpillSpace,
    plans: Arc<plan_cache::PlanCache>,
    tasks: Arc<tasks::Tasks>,
    /// The catalogs, without what makes tables of paths.
    catalogs: Arc<dyn CatalogProviderList>,
    stores: Arc<Stores>,
    reads_file_urls: bool,
    /// Standard input and other inputs of the process; `None` where statements may not read them.
    inputs: Option<stdin::Inputs>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.ctx.session_id())
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a session with the defaults: the devices that are found, 70 % of the host's memory.
    ///
    /// # Errors
    /// Fails if the spill folder cannot be used.
    pub fn new() -> Result<Self, Error> {
        Self::builder().build()
    }

    /// Begins a session with other than the defaults.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Plans one SQL statement. A query becomes a lazy `DataFrame`; anything else (SET, CREATE,
    /// INSERT …) that DataFusion runs at once has run when this returns.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`].
    pub async fn sql(&self, sql: &str) -> Result<DataFrame, Error> {
        statement::plan(self, sql, SQLOptions::new()).await
    }

    /// Plans one SQL statement and runs nothing, not even SET or CREATE, before [`Planned::start`].
    /// Its parameters are `$1`, `$2`, … or `?`.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`].
    pub async fn plan(&self, sql: &str) -> Result<Planned, Error> {
        planned::plan(self, sql, false).await
    }

    /// Plans a statement that runs repeatedly: as [`Session::plan`], and [`Planned::is_current`] then
    /// says whether it must be planned again.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`].
    pub async fn plan_cacheable(&self, sql: &str) -> Result<Planned, Error> {
        planned::plan(self, sql, true).await
    }

    /// Makes a session for a client of the server that owns this session: tables, devices, memory and
    /// history are shared; settings and the schema `temp` are the client's own.
    pub fn for_client(&self, options: ClientOptions) -> Self {
        client::session_for(self, options)
    }

    /// Makes a session that only observes: as [`Session::for_client`], and not listed among the sessions.
    pub fn observer_session(&self, options: ClientOptions) -> Self {
        client::view_for(self, options)
    }

    /// As [`Session::sql`], refusing what `allowed` forbids.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`].
    pub async fn sql_with_options(
        &self,
        sql: &str,
        allowed: SQLOptions,
    ) -> Result<DataFrame, Error> {
        statement::plan(self, sql, allowed).await
    }

    /// Runs one SQL statement and streams its rows. Dropping the stream cancels the statement.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`]; the stream's errors turn into [`Error`] by `From`.
    pub async fn execute(&self, sql: &str) -> Result<SendableRecordBatchStream, Error> {
        statement::execute(self, sql).await
    }

    /// Runs one SQL statement and collects its rows.
    ///
    /// # Errors
    /// See [`crate::ErrorKind`].
    pub async fn collect(&self, sql: &str) -> Result<Vec<RecordBatch>, Error> {
        let stream = self.execute(sql).await?;
        Ok(datafusion::physical_plan::common::collect(stream).await?)
    }

    /// Prepares a query, or a statement that changes rows, with parameters `$1`, `$2` and so on. What
    /// types these have is inferred from where they stand. A statement that one device answers from
    /// its column cache is then run without being planned again.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotSupported`] for other statements; see [`crate::ErrorKind`].
    pub async fn prepare(&self, sql: &str) -> Result<Prepared, Error> {
        statement::prepare(self, sql).await
    }

    /// Plans a query and reports each of its regions with its kernel, from the root of the plan down.
    /// Nothing runs, and no device is needed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] for what is no query; see there for the others.
    pub async fn kernels(&self, sql: &str) -> Result<Vec<KernelReport>, Error> {
        statement::kernels(self, sql).await
    }

    /// Opens the NVRTC that was found, which compiles kernels.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Device`] if there is none, with where it was looked for and how to
    /// install it.
    pub fn kernel_compiler(&self) -> Result<KernelCompiler, Error> {
        KernelCompiler::of(self.runtime.discovery())
    }

    /// Sets a setting, as `SET name = 'value'` does.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] for a setting or a value that there is not.
    pub async fn set(&self, name: &str, value: &str) -> Result<(), Error> {
        settings::set(self, name, value).await
    }

    /// Reads Parquet: a file, a folder or a glob.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] if nothing is there, [`crate::ErrorKind::Io`] if it is not Parquet.
    pub async fn read_parquet(&self, path: &str) -> Result<DataFrame, Error> {
        let table = files::listing(&self.ctx, path, &ParquetReadOptions::default()).await?;
        Ok(self.ctx.read_table(Arc::new(table))?)
    }

    /// Reads CSV with a header: a file, a folder or a glob.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] if nothing is there, [`crate::ErrorKind::Io`] if it is not CSV.
    pub async fn read_csv(&self, path: &str) -> Result<DataFrame, Error> {
        let table = files::listing(&self.ctx, path, &CsvReadOptions::default()).await?;
        Ok(self.ctx.read_table(Arc::new(table))?)
    }

    /// Reads an array: a row for each value, with its indices.
    ///
    /// # Errors
    /// Never for a source that could be made.
    pub fn read_array(&self, source: ArraySource) -> Result<DataFrame, Error> {
        let table = MorselTable::new(Arc::new(source));
        Ok(self.ctx.read_table(Arc::new(table))?)
    }

    /// Gives a Parquet file, folder or glob a name.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] if nothing is there, [`crate::ErrorKind::Io`] if it is not Parquet.
    pub async fn register_parquet(&self, name: &str, path: &str) -> Result<(), Error> {
        let table = files::listing(&self.ctx, path, &ParquetReadOptions::default()).await?;
        self.ctx.register_table(name, Arc::new(table))?;
        Ok(())
    }

    /// Gives a batch a name.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] if the name is taken.
    pub fn register_batch(&self, name: &str, batch: RecordBatch) -> Result<(), Error> {
        self.ctx.register_batch(name, batch)?;
        Ok(())
    }

    /// Gives any table a name. Constraints of DataFusion's own tables, which nobody checks, are left
    /// out; plans rely on those that another type of table states.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] if the name is taken.
    pub fn register_table(&self, name: &str, table: Arc<dyn TableProvider>) -> Result<(), Error> {
        let table = unconstrained::without_constraints(table)?;
        self.ctx.register_table(name, table)?;
        Ok(())
    }

    /// Adds a scalar function, for queries by its name and for DataFrames as what is returned. If it
    /// has a CUDA body, that is compiled where NVRTC is found, and on each GPU its values are compared
    /// with the Rust body's; without a GPU nothing is compared.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] if the name is taken, the CUDA body does not compile, or the bodies
    /// differ; the message has the compiler's words with the line, or the first row that differs.
    pub async fn register_function(
        &self,
        function: ScalarFunction,
    ) -> Result<Arc<ScalarUDF>, Error> {
        functions::register(self, function).await
    }

    /// Returns the DataFusion context behind the session.
    pub fn context(&self) -> &SessionContext {
        &self.ctx
    }

    /// Returns the devices and the history behind the session.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Reports the query that ended last in the session's process.
    pub fn last_report(&self) -> Option<QueryReport> {
        History::of(&self.runtime).last()
    }

    /// Tells how far the query has come that was planned last of those that run in the session's
    /// process; `None` if none does.
    pub fn progress(&self) -> Option<QueryProgress> {
        let client = Client::of(&self.ctx.copied_config());
        History::of(&self.runtime).progress(client.as_deref())
    }

    /// Reports every query that is remembered, oldest first.
    pub fn reports(&self) -> Vec<QueryReport> {
        History::of(&self.runtime).reports()
    }

    /// Tells what was found on this machine and what the session may use.
    pub fn doctor(&self) -> DoctorReport {
        DoctorReport::of(self)
    }
}

/// Says what is placed in a DataFrame's plan, before it runs.
#[async_trait::async_trait]
pub trait PlacementExt {
    /// Plans the frame and reports each region of it, from the root of the plan down.
    async fn placement(&self) -> Result<Vec<RegionReport>, Error>;
}

#[async_trait::async_trait]
impl PlacementExt for DataFrame {
    async fn placement(&self) -> Result<Vec<RegionReport>, Error> {
        let plan = self.clone().create_physical_plan().await?;
        Ok(crate::query::regions(&plan))
    }
}

/// Adds regions to a session state that somebody else builds: the placement rule, last, rewrites of
/// what DataFusion does not plan as SQL says, the query watch, the rule of one NaN and one zero
/// ([`CanonicalFloats`]), which devices follow, and the `tidegate.*` settings with their defaults.
///
/// Add it after every other analyzer rule and physical optimizer rule.
pub fn add_to(builder: SessionStateBuilder, runtime: &Arc<Runtime>) -> SessionStateBuilder {
    let mut builder = rewrite::add_to(builder);
    let rules = builder.physical_optimizers().get_or_insert_default();
    let estimate = NodeRule("estimate_bounds", estimate_bounds);
    rules.rules.insert(0, Arc::new(estimate));
    let mut builder = builder
        .with_analyzer_rule(Arc::new(CanonicalFloats))
        .with_physical_optimizer_rule(Arc::new(NodeRule("yield_at_joins", yield_at_joins)))
        .with_physical_optimizer_rule(Arc::new(NodeRule("write_whole", write_whole)))
        .with_physical_optimizer_rule(Arc::new(NodeRule(
            "write_folders_in_turn",
            write_folders_in_turn,
        )))
        .with_physical_optimizer_rule(top_k_that_spills(runtime))
        .with_physical_optimizer_rule(Arc::new(PlacePipelines::new(Arc::clone(runtime))))
        .with_query_planner(Arc::new(QueryPlanner {
            runtime: Arc::clone(runtime),
        }));
    let config = builder.config().get_or_insert_default();
    config
        .options_mut()
        .extensions
        .insert(crate::options::TidegateOptions::default());
    builder
}
