//! What a session is made of.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::FunctionRegistry;
use datafusion::execution::cache::cache_manager::CacheManagerConfig;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tidegate_device::DiscoveryOptions;
use tidegate_scheduler::AdmissionLimits;

use super::asof::AsofJoins;
use super::current;
use super::sampled::Samples;
use super::stdin::Inputs;
use super::tasks::Tasks;
use super::type_of::TypeOf;
use super::types::SqlTypes;
use super::types::literals::{texts_as_read, timestamps_of_columns};
use super::zones::in_session_zone;
use super::{Session, add_to, files, formats, readers, told};
use crate::error::{Error, ErrorKind};
use crate::floats::{exact, spreads};
use crate::functions::beside_texts::ListLiterals;
use crate::functions::bounded::{FunctionMemory, bound, bounded_concat};
use crate::functions::concat_values::ConcatValues;
use crate::functions::listed_nulls::ListOverlaps;
use crate::functions::map_lookups::MapSubscripts;
use crate::functions::operators::Operators;
use crate::functions::subscripts::StringSubscripts;
use crate::functions::zones::{DEFAULT_ZONE, TimeZoneFunction, ZONE_SETTING};
use crate::functions::{
    alike, approximate, arg_extremes, counts, dates, division, intervals, json, len, like_pattern,
    linear, listed_nulls, lists, moments, multiples, ordered_lists, product, single, time_means,
    times,
};
use crate::generate::{NamedArguments, table_functions};
use crate::memory::{
    HostLimit, SpillSpace, StatementPool, default_cache_limit, default_pinned_limit,
};
use crate::node_rule::PlanRule;
use crate::options::TidegateOptions;
use crate::query::{BoundedRelations, with_stops};
use crate::runtime::{Runtime, RuntimeOptions, SimulatedSpec};
use crate::spread::{self, SpreadPlanner};
use crate::stores::access::AllowedPaths;
use crate::stores::{StoreOptions, Stores};
use crate::{system, tensors};

/// Bytes that statements may spill by default.
pub(super) const SPILL_BYTES_MAX: u64 = 100 << 30;

/// DataFusion's settings of which a session has another default.
const DEFAULTS: [(&str, &str); 8] = [
    // Without one TIMESTAMPTZ and now() would have no zone.
    (ZONE_SETTING, DEFAULT_ZONE),
    // As nanoseconds, years before 1678 and after 2261 would wrap in silence.
    ("datafusion.execution.parquet.coerce_int96", "us"),
    // MIN and MAX over several files can lose rows: the bound of one argument prunes rows that
    // another needs (https://github.com/apache/datafusion/issues/24816; #24817 is not in 55.2).
    (
        "datafusion.optimizer.enable_aggregate_dynamic_filter_pushdown",
        "false",
    ),
    // Logical plans know better than physical ones what is never NULL: `x IS TRUE`, or the THEN of a CASE whose
    // condition has a comparison with it. The check refuses aggregates over these
    // (https://github.com/apache/datafusion/issues/13190).
    (
        "datafusion.execution.skip_physical_aggregate_schema_check",
        "true",
    ),
    // Fields of structs that are read further down than they are used make names ambiguous: `SELECT k, s['i'] FROM (SELECT
    // a AS k, k AS a, s FROM t)` is refused (https://github.com/apache/datafusion/issues/25446, #24241, #22895).
    (
        "datafusion.optimizer.enable_leaf_expression_pushdown",
        "false",
    ),
    // Errors then know the place of a mistake.
    ("datafusion.sql_parser.collect_spans", "true"),
    // sqlparser counts several of its own steps for each level of nesting, of which there are at
    // most `MAX_NESTING` of `statements::limits`; what may nest is bounded before it parses.
    ("datafusion.sql_parser.recursion_limit", "2000"),
    // To remove the ORDER BY of subqueries, DataFusion copies the plan of a WITH query wherever it is
    // named, though the copies could share it.
    (
        "datafusion.sql_parser.enable_subquery_sort_elimination",
        "false",
    ),
];

/// Returns the default of a setting of DataFusion's that a session changes.
pub(super) fn own_default(setting: &str) -> Option<&'static str> {
    let known = DEFAULTS.iter().find(|(name, _)| *name == setting);
    known.map(|(_, value)| *value)
}

/// Bytes that a page of a file may have however little memory there is.
const PAGE_BYTES_MIN: u64 = 16 << 20;

/// Builds a [`Session`]; each option has a safe default.
#[derive(Debug, Default)]
pub struct SessionBuilder {
    memory_limit: Option<u64>,
    temp_dir: Option<PathBuf>,
    temp_limit: Option<u64>,
    target_partitions: Option<usize>,
    simulated: Vec<SimulatedSpec>,
    visible_devices: Option<String>,
    site_packages: Vec<PathBuf>,
    device_memory_limit: Option<u64>,
    kernel_folder: Option<PathBuf>,
    rates_folder: Option<PathBuf>,
    runtime: Option<Arc<Runtime>>,
    file_urls: FileUrls,
    inputs: Option<Inputs>,
    allowed_paths: Option<AllowedPaths>,
    stores: StoreOptions,
    task_slots: HashMap<String, u32>,
    spread: Option<Arc<dyn SpreadPlanner>>,
}

/// Whether `SELECT … FROM 'path'` reads files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum FileUrls {
    #[default]
    Refused,
    Allowed,
}

impl SessionBuilder {
    /// Sets the host memory limit of statements, in bytes; by default 70 % of the machine's memory.
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets the folder for spill files, which is created when a statement spills; by default the
    /// system's folder for temporary files. Files of processes that were killed are removed.
    pub fn temp_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.temp_dir = Some(folder.into());
        self
    }

    /// Sets the maximum size of all spill files, in bytes; by default 100 GB.
    pub fn temp_limit(mut self, bytes: u64) -> Self {
        self.temp_limit = Some(bytes);
        self
    }

    /// Sets the number of partitions of plans; by default one per core.
    pub fn target_partitions(mut self, partitions: usize) -> Self {
        self.target_partitions = Some(partitions);
        self
    }

    /// Adds a simulated device: a thread that runs programs with the reference interpreter within a
    /// modelled memory, speed and fault plan. It shows and tests placement; it speeds nothing up.
    pub fn simulate_device(mut self, spec: SimulatedSpec) -> Self {
        self.simulated.push(spec);
        self
    }

    /// Restricts devices, written as in `CUDA_VISIBLE_DEVICES`: indices or UUIDs in order; empty for
    /// none; `None` for all. The driver obeys the environment variable itself: do not pass it on, or
    /// its indices apply twice.
    pub fn visible_devices(mut self, visible: Option<String>) -> Self {
        self.visible_devices = visible;
        self
    }

    /// Looks for NVRTC in these Python `site-packages` folders too.
    pub fn site_packages(mut self, folders: Vec<PathBuf>) -> Self {
        self.site_packages = folders;
        self
    }

    /// Sets the memory limit of each GPU, in bytes; by default 90 % of its free memory.
    pub fn device_memory_limit(mut self, bytes: u64) -> Self {
        self.device_memory_limit = Some(bytes);
        self
    }

    /// Keeps compiled kernels in this folder, for later processes; by default in memory only.
    pub fn kernel_folder(mut self, folder: Option<PathBuf>) -> Self {
        self.kernel_folder = folder;
        self
    }

    /// Keeps learned rates of this machine and its GPUs in this folder, for later processes; by
    /// default in memory only.
    pub fn rates_folder(mut self, folder: Option<PathBuf>) -> Self {
        self.rates_folder = folder;
        self
    }

    /// Shares the devices and the history of another session, instead of discovering devices.
    pub fn runtime(mut self, runtime: Arc<Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Lets `SELECT … FROM 'path'` read any file that the process can read. Do not use it for
    /// untrusted statements.
    pub fn file_urls(mut self) -> Self {
        self.file_urls = FileUrls::Allowed;
        self
    }

    /// Lets `SELECT … FROM '/dev/stdin'` read the standard input of the process, and `'/dev/fd/N'` a pipe
    /// that it inherited, if [`SessionBuilder::file_urls`] is given too. For a program that has one user.
    pub fn standard_input(mut self) -> Self {
        self.inputs = Some(Inputs::default());
        self
    }

    /// Confines every statement to these paths, however it names a file, and to stores that the
    /// program registers; by default statements may access what the process may.
    pub fn allowed_paths(mut self, allowed: AllowedPaths) -> Self {
        self.allowed_paths = Some(allowed);
        self
    }

    /// Opens object stores (`s3://`, `gs://`, `az://`, `http://` …) with these options; by default
    /// with none. No environment variable is read.
    pub fn stores(mut self, options: StoreOptions) -> Self {
        self.stores = options;
        self
    }

    /// Sets the number of task slots of this name: of a resource of the program's own, or other
    /// than the number of cores (`cpu`) or devices (`device`).
    pub fn task_slots(mut self, name: impl Into<String>, count: u32) -> Self {
        self.task_slots.insert(name.into(), count);
        self
    }

    /// Lets a planner of stages run statements over several executors.
    pub fn spread(mut self, planner: Arc<dyn SpreadPlanner>) -> Self {
        self.spread = Some(planner);
        self
    }

    /// Makes the session.
    ///
    /// # Errors
    /// Fails if a simulated device cannot be started.
    pub fn build(self) -> Result<Session, Error> {
        let memory = match self.memory_limit {
            Some(0) => {
                let message = "the memory limit is 0 bytes: statements need at least a few MB";
                return Err(Error::new(ErrorKind::ResourcesExhausted, message));
            }
            Some(bytes) => HostLimit {
                bytes,
                origin: "set by the user".into(),
            },
            None => HostLimit::of_machine(),
        };
        let runtime = match &self.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => Arc::new(self.discover()?),
        };
        // Whoever shares a runtime finds the limit that its first session set.
        if self.runtime.is_none() || runtime.cache().host().limit() == 0 {
            runtime.limit_host_cache(default_cache_limit(memory.bytes));
            runtime.limit_pinned_cache(default_pinned_limit(memory.bytes));
            let gate = runtime.admission();
            gate.set_limits(AdmissionLimits {
                expected_bytes_max: memory.bytes,
                ..gate.limits()
            });
        }
        let stores = Stores::new(self.stores.clone(), self.allowed_paths.clone());
        let stores = Arc::new(stores);
        // A listing that is kept would hide files that came later, and is found by its path alone,
        // whichever store it is of.
        let caches = CacheManagerConfig::default().with_list_files_cache_limit(0);
        let spill = SpillSpace::new(
            self.temp_dir.clone(),
            self.temp_limit.unwrap_or(SPILL_BYTES_MAX),
        );
        let disk = DiskManagerBuilder::default()
            .with_temp_file_factory(Arc::new(spill.clone()))
            .with_max_temp_directory_size(spill.limit());
        let pool: Arc<dyn MemoryPool> = StatementPool::new(memory.bytes, runtime.cache());
        let function_memory = FunctionMemory::new(Arc::clone(&pool));
        let environment = RuntimeEnvBuilder::new()
            .with_memory_pool(pool)
            .with_disk_manager_builder(disk)
            .with_object_store_registry(Arc::clone(&stores) as _)
            .with_cache_manager(caches)
            .build_arc()?;
        let of_columns = PlanRule("timestamps_of_columns", timestamps_of_columns);
        let as_read = PlanRule("texts_as_read", texts_as_read);
        let builder = SessionStateBuilder::new()
            .with_config(self.config()?.with_extension(Arc::clone(stores.failures())))
            .with_runtime_env(environment)
            .with_optimizer_rule(bounded_concat(&function_memory))
            .with_type_planner(Arc::new(SqlTypes))
            .with_analyzer_rule(Arc::new(of_columns))
            .with_analyzer_rule(Arc::new(as_read))
            .with_default_features();
        let mut builder = add_to(builder, &runtime)
            .with_analyzer_rule(Arc::new(PlanRule("session_zone", in_session_zone)));
        let planners = builder.expr_planners().get_or_insert_default();
        planners.insert(0, Arc::new(StringSubscripts));
        planners.insert(0, Arc::new(MapSubscripts));
        planners.insert(0, Arc::new(Operators(listed_nulls::plan)));
        planners.insert(0, Arc::new(ListLiterals));
        let config = builder.config().get_or_insert_default();
        if let Some(options) = config.options_mut().extensions.get_mut::<TidegateOptions>() {
            let share = (memory.bytes / 4).max(PAGE_BYTES_MIN);
            options.max_page_size = options.max_page_size.min(share);
        }
        let mut state = with_stops(builder.build());
        json::register(&mut state)?;
        crate::functions::register(&mut state)?;
        crate::functions::register_tables(&mut state);
        bound(&mut state, &function_memory)?;
        let mut ctx = SessionContext::new_with_state(state);
        for (name, function) in table_functions() {
            ctx.register_udtf(name, function);
        }
        for function in tensors::functions() {
            ctx.register_udf(function.as_ref().clone());
        }
        ctx.register_udf(TimeZoneFunction::new(DEFAULT_ZONE.into()).into());
        ctx.register_udf(TypeOf::new().into());
        for function in current::functions() {
            ctx.register_udf(function);
        }
        ctx.register_udf(len::function());
        ctx.register_udf(ConcatValues::new(&ctx)?.into());
        for planner in [
            Operators(dates::plan),
            Operators(intervals::plan),
            Operators(alike::plan),
            Operators(division::plan),
            Operators(multiples::plan),
        ] {
            let state = ctx.state_ref();
            state.write().register_expr_planner(Arc::new(planner))?;
        }
        let overlaps = ListOverlaps::new(&ctx)?;
        ctx.state_ref()
            .write()
            .register_expr_planner(Arc::new(overlaps))?;
        linear::register(&mut *ctx.state_ref().write())?;
        let statistics = counts::functions().into_iter().chain(moments::functions());
        let others = [approximate::function(), product::function()];
        let others = others.into_iter().chain(time_means::functions());
        let others = others.chain(arg_extremes::functions());
        for function in statistics.chain(others) {
            ctx.register_udaf(function);
        }
        for function in ordered_lists::functions() {
            ctx.register_udaf(function);
        }
        for function in exact::functions().chain(spreads::functions()) {
            ctx.state_ref().write().register_udaf(function)?;
        }
        for function in times::functions(&ctx)? {
            ctx.register_udf(function);
        }
        ctx.register_udf(single::function());
        ctx.register_udf(like_pattern::function());
        for function in lists::functions(&ctx.state()) {
            ctx.register_udf(function);
        }
        ctx.register_relation_planner(Arc::new(NamedArguments))?;
        readers::register(&ctx)?;
        told::register(&ctx);
        ctx.register_relation_planner(Arc::new(Samples))?;
        ctx.register_relation_planner(Arc::new(AsofJoins))?;
        ctx.register_relation_planner(Arc::new(BoundedRelations))?;
        system::register(&ctx, &runtime)?;
        formats::register(&ctx)?;
        if self.allowed_paths.is_some() {
            // The factory of unbounded tables opens files without asking the object store.
            let state = ctx.state_ref();
            for (format, factory) in state.write().table_factories_mut() {
                *factory = formats::tables_of_stores(format);
            }
        }
        let catalogs = Arc::clone(ctx.state_ref().read().catalog_list());
        let is_open = self.file_urls == FileUrls::Allowed && self.allowed_paths.is_none();
        let inputs = self.inputs.clone().filter(|_| is_open);
        if self.file_urls == FileUrls::Allowed {
            ctx = files::with_file_tables(ctx, inputs.clone());
        }
        Ok(Session {
            ctx,
            runtime,
            memory,
            function_memory,
            spill,
            plans: Arc::default(),
            tasks: Arc::new(Tasks::new(self.task_slots)),
            catalogs,
            stores,
            reads_file_urls: self.file_urls == FileUrls::Allowed,
            inputs,
        })
    }

    fn discover(&self) -> Result<Runtime, Error> {
        let options = RuntimeOptions {
            discovery: DiscoveryOptions {
                visible_devices: self.visible_devices.clone(),
                site_packages: self.site_packages.clone(),
            },
            simulated: self.simulated.clone(),
            device_memory_limit: self.device_memory_limit,
            kernel_folder: self.kernel_folder.clone(),
            rates_folder: self.rates_folder.clone(),
        };
        Runtime::new(&options).map_err(|error| {
            Error::with_source(
                ErrorKind::Device,
                "a simulated device could not be started",
                error,
            )
        })
    }

    fn config(&self) -> Result<SessionConfig, Error> {
        let mut config = SessionConfig::new().with_information_schema(true);
        if let Some(allowed) = &self.allowed_paths {
            config.set_extension(Arc::new(allowed.clone()));
        }
        if let Some(partitions) = self.target_partitions {
            config = config.with_target_partitions(partitions.max(1));
        }
        for (name, value) in DEFAULTS {
            config.options_mut().set(name, value)?;
        }
        Ok(match &self.spread {
            Some(planner) => spread::add_to(config, Arc::clone(planner)),
            None => config,
        })
    }
}
