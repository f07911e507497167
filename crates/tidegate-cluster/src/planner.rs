//! A cluster as its scheduler sees it: where executors join, and how statements are cut into stages.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::Session as DataFusionSession;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::config::SessionConfig;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    CompressionType, DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedExec,
    DistributedExt, DistributedLeafExec, NetworkBoundaryExt, RouteTasksEvent,
    RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    SessionStateBuilderExt, WorkerResolver, display_plan_ascii,
};
use parking_lot::Mutex;
use tidegate::options::{ExchangeCompression, SpreadMode};
use tidegate::spread::{
    ClusterActivity, ExecutorReport, Extent, Reader, SpreadPlanner, Spreading, TaskReport,
    leaf_bytes,
};
use tidegate::{RegionReport, Runtime, Session, SessionBuilder, TidegateOptions, UnaryExec};
use tokio::net::TcpListener;
use tonic::Request;
use tonic::service::InterceptorLayer;
use tonic::transport::server::TcpIncoming;
use url::{Host, Url};

use crate::attempts::SpreadExec;
use crate::channels::{Channels, Resolver};
use crate::codec::Codec;
use crate::counted::{Sides, counted};
use crate::error::ClusterError;
use crate::join::JoinService;
use crate::links::Links;
use crate::local::{self, LocalLeaf};
use crate::members::{LOOK, Members, Usable};
use crate::secret::Secret;
use crate::service::ServiceThreads;
use crate::settings::{to_headers, with_statement};
use crate::share::Share;
use crate::speeds::{Kinds, Speeds};
use crate::tasks::Tasks;
use crate::travel::{Builtin, why_not};
use crate::version::version_of;
use crate::watch::Watch;

/// The executors of a scheduler. They are left when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    links: Arc<Links>,
    planner: Arc<Planner>,
    service: ServiceThreads,
}

impl Cluster {
    /// Makes a cluster without executors.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn new(links: Links) -> Result<Self, ClusterError> {
        let service = ServiceThreads::start()?;
        let links = Arc::new(links);
        let Some(threads) = service.handle() else {
            return Err(ClusterError::Threads(std::io::Error::other("ended")));
        };
        let planner = Planner {
            channels: Channels::new(Arc::clone(&links), threads.clone()),
            members: Arc::default(),
            tasks: Arc::new(Tasks::new(&Secret::random_text()?)),
            speeds: Arc::default(),
            sides: Arc::default(),
            own: OnceLock::new(),
            statements: AtomicU64::new(0),
        };
        Ok(Self {
            links,
            planner: Arc::new(planner),
            service,
        })
    }

    /// Returns the planner of the scheduler's session, for [`tidegate::SessionBuilder::spread`].
    pub fn planner(&self) -> Arc<dyn SpreadPlanner> {
        Arc::clone(&self.planner) as _
    }

    /// Listens for executors, from now on. `session` is the scheduler's, before anything was added to
    /// it: functions that executors have too are those that it has now.
    ///
    /// # Errors
    /// [`ClusterError`], also for an address at which other machines would talk in the clear.
    pub async fn listen(
        &self,
        session: &Session,
        address: SocketAddr,
    ) -> Result<Url, ClusterError> {
        self.links.check(address)?;
        let own = Own {
            runtime: Arc::clone(session.runtime()),
            builtin: Builtin::of(&session.context().state()),
        };
        // A second call listens at a second address.
        let _ = self.planner.own.set(own);
        let failed = |source| ClusterError::Listen { address, source };
        let Some(threads) = self.service.handle() else {
            return Err(failed(std::io::Error::other("ended")));
        };
        let listener = threads.spawn(TcpListener::bind(address)).await;
        let listener = listener.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let secret = self.links.secret.clone();
        let service = JoinService {
            members: Arc::clone(&self.planner.members),
            tasks: Arc::clone(&self.planner.tasks),
            speeds: Arc::clone(&self.planner.speeds),
            sides: Arc::clone(&self.planner.sides),
            version: version_of(session).into(),
        };
        let router = self
            .links
            .server()?
            .layer(InterceptorLayer::new(move |request: Request<()>| {
                secret.check(request)
            }))
            .add_service(service);
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        threads.spawn(async move {
            if let Err(error) = router.serve_with_incoming(incoming).await {
                tracing::error!(%error, "the cluster port failed");
            }
        });
        let members = Arc::downgrade(&self.planner.members);
        threads.spawn(async move {
            while let Some(members) = members.upgrade() {
                members.forget_silent();
                drop(members);
                tokio::time::sleep(LOOK).await;
            }
        });
        let url = format!("{}://{address}", self.links.scheme());
        Url::parse(&url).map_err(|error| ClusterError::Url {
            url,
            why: error.to_string(),
        })
    }

    /// Returns how many executors statements may use.
    pub fn num_ready(&self) -> usize {
        self.planner.members.usable(&[]).len()
    }
}

/// Sessions over a cluster.
pub trait ClusterSessionExt {
    /// Runs statements over a cluster's executors, where `tidegate.spread` and `tidegate.spread_above` say so.
    fn cluster(self, cluster: &Cluster) -> Self;
}

impl ClusterSessionExt for SessionBuilder {
    fn cluster(self, cluster: &Cluster) -> Self {
        self.spread(cluster.planner())
    }
}

/// What a scheduler's process has itself.
#[derive(Debug)]
struct Own {
    runtime: Arc<Runtime>,
    builtin: Builtin,
}

/// Plans statements over the executors that there are.
#[derive(Debug)]
pub(crate) struct Planner {
    channels: Channels,
    members: Arc<Members>,
    tasks: Arc<Tasks>,
    speeds: Arc<Speeds>,
    sides: Arc<Sides>,
    own: OnceLock<Own>,
    statements: AtomicU64,
}

#[async_trait]
impl SpreadPlanner for Planner {
    fn extent(&self, executors: &[String]) -> Option<Extent> {
        let executors = self.members.usable(executors);
        Some(Extent {
            partitions: partitions_of(&executors)?,
            executors: executors.len(),
            memory: executors
                .iter()
                .map(|executor| executor.memory_limit)
                .min()?,
        })
    }

    fn counted(&self, side: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        counted(side)
    }

    fn rows_counted(&self, side: &Arc<dyn ExecutionPlan>) -> Option<u64> {
        self.sides.rows_of(side)
    }

    async fn spread(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        state: &SessionState,
    ) -> Result<Spreading> {
        let options = TidegateOptions::of(state.config_options()).spread;
        let here = |why: &str| Ok(Spreading::Here(why.into()));
        let Some(own) = self.own.get() else {
            return here("the scheduler does not listen for executors yet");
        };
        let executors = self.members.usable(&options.executors);
        if executors.is_empty() {
            return here(match options.executors.is_empty() {
                true => "there is no executor",
                false => "tidegate.executors names no executor that is ready",
            });
        }
        let bytes = shared_bytes(plan);
        if bytes == 0 {
            return here("it reads nothing that could be shared");
        }
        if options.mode == SpreadMode::Auto && bytes <= options.above {
            let message = format!(
                "it reads {bytes} bytes, of more than tidegate.spread_above = {} to be worth it",
                options.above
            );
            return here(&message);
        }
        if let Some(why) = why_not(plan, &own.builtin, state) {
            return here(&why);
        }
        let statement = self.statements.fetch_add(1, Ordering::Relaxed) + 1;
        let spreader = Spreader {
            base: Arc::clone(plan),
            state: state.clone(),
            statement,
            retries: options.retries,
            names: options.executors,
            left_out: Mutex::default(),
            members: Arc::clone(&self.members),
            tasks: Arc::clone(&self.tasks),
            speeds: Arc::clone(&self.speeds),
            channels: self.channels.clone(),
            runtime: Arc::clone(&own.runtime),
        };
        match spreader.attempt(executors, 1).await? {
            Some(attempt) => {
                let plan = Arc::new(SpreadExec::new(spreader, attempt));
                Ok(Spreading::Out { plan })
            }
            None => here("no part of it gains from more than one process"),
        }
    }

    fn executors(&self) -> Vec<ExecutorReport> {
        let mut reports = self.members.reports();
        let cores = reports
            .iter()
            .map(|report| (report.name.as_str(), report.cores));
        let speeds = self.speeds.relative(&cores.collect::<Vec<_>>());
        for (report, speed) in reports.iter_mut().zip(speeds) {
            report.speed = speed;
        }
        reports
    }

    fn drain(&self, executor: &str) -> bool {
        self.members.drain(executor)
    }

    fn tasks(&self) -> Vec<TaskReport> {
        self.tasks.reports()
    }

    fn explained(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<String> {
        plan.downcast_ref::<SpreadExec>()?.text()
    }

    fn statement_of(&self, plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
        let spread = plan.downcast_ref::<SpreadExec>()?;
        Some(spread.statement())
    }

    fn regions(&self, statement: u64) -> Vec<(String, RegionReport)> {
        self.tasks.regions(statement)
    }

    fn activity(&self) -> ClusterActivity {
        let counts = self.members.counts();
        ClusterActivity {
            joined: counts.joined,
            lost: counts.lost,
            tasks: self.tasks.ended(),
            received_bytes: counts.received_bytes + self.channels.received_bytes(),
        }
    }
}

/// Returns how many partitions a task has: one for each core of the largest executor, but two at least, for what has
/// one partition is not divided.
fn partitions_of(executors: &[Usable]) -> Option<usize> {
    let cores = executors.iter().map(|executor| executor.cores).max()?;
    usize::try_from(cores.max(2)).ok()
}

/// Counts the tasks of a plan in stages.
fn num_tasks(plan: &Arc<dyn ExecutionPlan>) -> Result<usize> {
    let mut of_stages = BTreeMap::new();
    plan.apply(|node| {
        if let Some(boundary) = node.as_network_boundary() {
            let stage = boundary.input_stage();
            of_stages.insert(stage.num(), stage.task_count());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(of_stages.values().sum())
}

/// Adds up what the leaves of a plan read that can be shared.
fn shared_bytes(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    match plan.children().as_slice() {
        [] => leaf_bytes(plan).unwrap_or(0),
        inputs => inputs.iter().map(|input| shared_bytes(input)).sum(),
    }
}

/// What it takes to plan a statement over whichever executors there are.
#[derive(Debug)]
pub(crate) struct Spreader {
    /// The statement's plan for one process, which never runs itself.
    pub(crate) base: Arc<dyn ExecutionPlan>,
    pub(crate) state: SessionState,
    pub(crate) statement: u64,
    pub(crate) retries: usize,
    names: Vec<String>,
    /// Executors that could not spill what the statement needs.
    left_out: Mutex<BTreeSet<String>>,
    pub(crate) members: Arc<Members>,
    tasks: Arc<Tasks>,
    speeds: Arc<Speeds>,
    channels: Channels,
    pub(crate) runtime: Arc<Runtime>,
}

/// A statement planned over some executors, once.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) number: usize,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    /// With what its stages are sent.
    pub(crate) config: SessionConfig,
    pub(crate) watch: Arc<Watch>,
    pub(crate) executors: Arc<[Usable]>,
    /// How many tasks it has.
    pub(crate) tasks: usize,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.watch.end("cancelled");
    }
}

impl Attempt {
    /// Writes the stages, tasks and executors.
    pub(crate) fn text(&self) -> String {
        let names = self.executors.iter().enumerate();
        let names: Vec<String> = names
            .map(|(task, executor)| format!("t{task} on {}", executor.name))
            .collect();
        format!(
            "Spread over {} executors: tasks {}\n{}",
            names.len(),
            names.join(", "),
            display_plan_ascii(self.plan.as_ref(), false)
        )
    }
}

impl Spreader {
    /// Lists the executors that may be used now.
    pub(crate) fn usable(&self) -> Vec<Usable> {
        let mut usable = self.members.usable(&self.names);
        let left_out = self.left_out.lock();
        usable.retain(|executor| !left_out.contains(&executor.name));
        usable
    }

    /// Has further runs of the statement do without an executor.
    pub(crate) fn leave_out(&self, executor: &str) {
        self.left_out.lock().insert(executor.into());
    }

    /// Plans the statement over executors; `None` if that leaves it in one stage.
    ///
    /// # Errors
    /// Those of planning.
    pub(crate) async fn attempt(
        &self,
        executors: Vec<Usable>,
        number: usize,
    ) -> Result<Option<Attempt>> {
        let executors: Arc<[Usable]> = executors.into();
        let watch = Watch::new(
            (self.statement, number as u64),
            Arc::clone(&executors),
            Arc::clone(&self.tasks),
            Arc::clone(&self.members),
            self.channels.clone(),
            self.retries,
        );
        let watch = Arc::new(watch);
        let resolver = Resolver {
            channels: self.channels.clone(),
            watch: Some(Arc::clone(&watch)),
        };
        let base = LocalLeaf::hide(reset_plan_states(Arc::clone(&self.base))?)?;
        let (planner, config) = self.stages(base, &executors, resolver)?;
        let mut state = self.state.clone();
        *state.config_mut() = config;
        let nothing = LogicalPlan::EmptyRelation(EmptyRelation {
            produce_one_row: false,
            schema: Arc::new(datafusion::common::DFSchema::empty()),
        });
        let plan = planner.create_physical_plan(&nothing, &state).await?;
        if !plan.is::<DistributedExec>() {
            return Ok(None);
        }
        Ok(Some(Attempt {
            number,
            tasks: num_tasks(&plan)?,
            plan,
            config: state.config().clone(),
            watch,
            executors,
        }))
    }

    /// Returns how rows between these executors are compressed.
    fn compression(&self, executors: &[Usable]) -> Option<CompressionType> {
        let options = TidegateOptions::of(self.state.config_options()).spread;
        let is_here = |executor: &Usable| match executor.url.host() {
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        };
        match options.compression {
            ExchangeCompression::Auto if executors.iter().all(is_here) => None,
            ExchangeCompression::None => None,
            ExchangeCompression::Auto | ExchangeCompression::Lz4 => {
                Some(CompressionType::LZ4_FRAME)
            }
            ExchangeCompression::Zstd => Some(CompressionType::ZSTD),
        }
    }

    /// Makes what cuts `base` into stages for these executors. One list says how many tasks a stage has, how its
    /// leaves are shared, and where each task runs.
    fn stages(
        &self,
        base: Arc<dyn ExecutionPlan>,
        executors: &Arc<[Usable]>,
        resolver: Resolver,
    ) -> Result<(Arc<dyn QueryPlanner + Send + Sync>, SessionConfig)> {
        let count = executors.len();
        let kinds = Arc::new(Kinds::of(&base)?);
        let sharing = Sharing {
            kinds: Arc::clone(&kinds),
            speeds: Arc::clone(&self.speeds),
            executors: Arc::clone(executors),
            environment: Arc::clone(self.state.runtime_env()),
        };
        let routes = Arc::clone(executors);
        // Stages of one task are not all on the same executor.
        let first = self.statement as usize;
        let headers = to_headers(self.state.config_options())?;
        let headers = with_statement(headers, &self.tasks.word_of(self.statement))?;
        let mut config = self.state.config().clone();
        if let Some(partitions) = partitions_of(executors) {
            config.options_mut().execution.target_partitions = partitions;
        }
        // No state is built of it: that registers every function again.
        let mut builder = SessionStateBuilder::new()
            .with_config(config)
            .with_query_planner(Arc::new(Planned(base)))
            .with_distributed_planner()
            .with_distributed_worker_resolver(Urls(Arc::clone(executors)))
            .with_distributed_channel_resolver(resolver)
            .with_distributed_user_codec(Codec)
            .with_distributed_passthrough_headers(headers)?
            .with_distributed_metrics_collection(false)?
            .with_distributed_compression(self.compression(executors))?
            .with_distributed_desired_task_count_handler(move |event: DesiredTaskCountEvent<'_>| {
                if !event.plan.children().is_empty() {
                    return None;
                }
                Some(Ok(match local::shared_bytes(event.plan) {
                    Some(_) if !kinds.is_whole(event.plan) => {
                        DesiredTaskCountEventResponse::desired(count)
                    }
                    _ => DesiredTaskCountEventResponse::maximum(1),
                }))
            })
            .with_distributed_scale_up_leaf_node_handler(move |event: ScaleUpLeafNodeEvent<'_>| {
                sharing.shared(event.plan, event.task_count).transpose()
            })
            .with_distributed_route_tasks_handler(move |event: RouteTasksEvent<'_>| {
                let urls = (0..event.task_count).map(|task| match event.task_count {
                    1 => routes[first % count].url.clone(),
                    _ => routes[task % count].url.clone(),
                });
                Some(Ok(RouteTasksEventResponse::new(urls.collect())))
            });
        match (builder.query_planner().take(), builder.config().take()) {
            (Some(planner), Some(config)) => Ok((planner, config)),
            _ => internal_err!("stages have no planner"),
        }
    }
}

/// What it takes to share the leaves of a statement between its executors.
struct Sharing {
    kinds: Arc<Kinds>,
    speeds: Arc<Speeds>,
    executors: Arc<[Usable]>,
    environment: Arc<RuntimeEnv>,
}

impl Sharing {
    /// Shares a leaf between the first so many executors.
    fn shared(
        &self,
        leaf: &Arc<dyn ExecutionPlan>,
        count: usize,
    ) -> Result<Option<ScaleUpLeafNodeEventResponse>> {
        let Some(executors) = self.executors.get(..count) else {
            return Ok(None);
        };
        let kind = self.kinds.get(leaf);
        let weights = self.speeds.weights(kind, executors);
        let reader = |(executor, weight): (&Usable, u64)| Reader {
            name: executor.name.clone(),
            weight,
        };
        let readers: Vec<Reader> = executors.iter().zip(weights).map(reader).collect();
        // Each reads its share on all of its cores, but where one partition was planned: what is above it may take no
        // other, as an aggregate that is computed in one step.
        let cores = executors.iter().map(|executor| executor.cores).max();
        let partitions = match leaf.output_partitioning().partition_count() {
            1 => 1,
            _ => cores.unwrap_or(1) as usize,
        };
        let shares = local::shares(leaf, &readers, partitions, &self.environment)?;
        let Some(shares) = shares else {
            return Ok(None);
        };
        let whole: u64 = shares.iter().map(|share| share.size).sum();
        let shares = shares.into_iter().zip(executors);
        let shares = shares.map(|(share, executor)| -> Arc<dyn ExecutionPlan> {
            let percent = share.size as f64 * 100.0 / whole.max(1) as f64;
            Arc::new(UnaryExec(Share {
                number: self.speeds.give(kind, &executor.name),
                what: format!("{percent:.0} % on {}", executor.name),
                inner: share.plan,
            }))
        });
        let shared = DistributedLeafExec::try_new(Arc::clone(leaf), shares)?;
        Ok(Some(ScaleUpLeafNodeEventResponse::new(Arc::new(shared))))
    }
}

/// A planner that gives a plan that there is already.
#[derive(Debug)]
struct Planned(Arc<dyn ExecutionPlan>);

#[async_trait]
impl QueryPlanner for Planned {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        _: &dyn DataFusionSession,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::clone(&self.0))
    }
}

/// The executors of one attempt, for the engine of stages.
struct Urls(Arc<[Usable]>);

impl WorkerResolver for Urls {
    fn get_urls(&self) -> std::result::Result<Vec<Url>, DataFusionError> {
        Ok(self.0.iter().map(|executor| executor.url.clone()).collect())
    }
}
