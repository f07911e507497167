//! An executor: it joins its schedulers, and runs the stages that they send.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedConfig, DistributedExt, ExecuteTaskRequest, ProducerHead, TaskKey, Worker,
    WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tidegate::stages::place_stage;
use tidegate::{ErrorKind, Runtime, Session};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio_util::sync::CancellationToken;
use tonic::Request;
use tonic::service::InterceptorLayer;
use tonic::transport::server::TcpIncoming;
use url::Url;

use crate::calls::{CallsLayer, Ended, Stage, Tokens};
use crate::channels::{Channels, Resolver};
use crate::codec::Codec;
use crate::error::ClusterError;
use crate::guard::{Guarded, GuardedTask, guarded};
use crate::join::{Beat, FromExecutor, Hello, Placed, join};
use crate::links::Links;
use crate::members::BEAT;
use crate::service::ServiceThreads;
use crate::settings::{LastSettings, statement_of};
use crate::share::unwrapped;
use crate::told::Told;
use crate::travel::Builtin;
use crate::version::version_of;

/// Bytes of a stage's plan, small tables of memory included.
pub(crate) const PLAN_BYTES_MAX: usize = 24 << 20;
/// Nodes of a stage's plan.
const PLAN_NODES_MAX: usize = 10_000;
/// Words of an executor that wait to be sent.
const WORDS_MAX: usize = 4;
/// Tasks that a word tells the end of, and bytes of each.
const PLACED_MAX: usize = 12;
const PLACED_BYTES_MAX: usize = 64 << 10;
/// How long an executor waits before it joins again.
const REJOIN: Duration = Duration::from_millis(500);

/// What an executor is asked for.
#[derive(Debug)]
pub struct ExecutorOptions {
    /// Its name, which no other executor of the cluster has.
    pub name: String,
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The host by which its peers reach it; by default the address that it listens on.
    pub advertise: Option<String>,
    /// The cluster ports of its schedulers: each of them uses it while it reaches it.
    pub join: Vec<Url>,
    /// How it reaches and trusts its peers.
    pub links: Links,
    /// Whether it ends with the first of its schedulers that does, instead of joining again.
    pub ends_with_scheduler: bool,
    /// How long it waits for its tasks when it is told to end.
    pub drain: Duration,
}

/// An executor that listens.
#[derive(Debug)]
pub struct Executor {
    hello: Hello,
    listener: TcpListener,
    session: Session,
    options: ExecutorOptions,
    service: ServiceThreads,
}

/// What an executor's parts share.
#[derive(Clone)]
struct Shared {
    name: Arc<str>,
    session: Session,
    tokens: Arc<Tokens>,
    builtin: Arc<Builtin>,
    channels: Channels,
    pool: Arc<dyn MemoryPool>,
    settings: Arc<LastSettings>,
    /// Cancelled when it takes no more tasks.
    draining: CancellationToken,
}

impl Executor {
    /// Listens. Stages run with the memory, the devices, the stores and the allowed paths of `session`.
    ///
    /// # Errors
    /// [`ClusterError`], also for an address at which other machines would talk in the clear.
    pub async fn bind(session: Session, options: ExecutorOptions) -> Result<Self, ClusterError> {
        options.links.check(options.listen)?;
        let failed = |source| ClusterError::Listen {
            address: options.listen,
            source,
        };
        let service = ServiceThreads::start()?;
        let Some(threads) = service.handle() else {
            return Err(failed(std::io::Error::other("ended")));
        };
        let listener = threads.spawn(TcpListener::bind(options.listen)).await;
        let listener = listener.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let listener = listener.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let host = match &options.advertise {
            Some(host) => host.clone(),
            None if address.is_ipv6() => format!("[{}]", address.ip()),
            None => address.ip().to_string(),
        };
        let url = format!("{}://{host}:{}", options.links.scheme(), address.port());
        let url = Url::parse(&url).map_err(|error| ClusterError::Url {
            url: url.clone(),
            why: error.to_string(),
        })?;
        let devices = session.runtime().devices().iter();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let hello = Hello {
            name: options.name.clone(),
            url: url.to_string(),
            version: version_of(&session),
            cores: session
                .context()
                .copied_config()
                .target_partitions()
                .min(cores) as u64,
            memory_limit: session.runtime().admission().limits().expected_bytes_max,
            devices: devices.map(|device| device.info().id.to_string()).collect(),
        };
        Ok(Self {
            hello,
            listener,
            session,
            options,
            service,
        })
    }

    /// Returns where peers reach it.
    pub fn url(&self) -> &str {
        &self.hello.url
    }

    /// Answers until `stop` is ready or a scheduler tells it to end; then takes no more tasks, waits for those that run, and returns.
    /// Stages run on the calling runtime.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] if all schedulers have another version; others if the transport fails.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ClusterError> {
        let Some(service) = self.service.handle().cloned() else {
            return Ok(());
        };
        let links = Arc::new(self.options.links.clone());
        let shared = Shared {
            name: self.hello.name.as_str().into(),
            session: self.session.clone(),
            tokens: Arc::default(),
            builtin: Arc::new(Builtin::of(&self.session.context().state())),
            channels: Channels::new(Arc::clone(&links), service.clone()),
            pool: Arc::clone(&self.session.context().runtime_env().memory_pool),
            settings: Arc::default(),
            draining: CancellationToken::new(),
        };
        let worker = worker(&shared);
        let secret = links.secret.clone();
        let calls = CallsLayer {
            compute: Handle::current(),
            tokens: Arc::clone(&shared.tokens),
        };
        let router = links
            .server()?
            .layer(InterceptorLayer::new(move |request: Request<()>| {
                secret.check(request)
            }))
            .layer(calls)
            .add_service(
                worker
                    .clone()
                    .into_worker_server()
                    .max_decoding_message_size(PLAN_BYTES_MAX),
            );
        let incoming = TcpIncoming::from(self.listener).with_nodelay(Some(true));
        let end = CancellationToken::new();
        let ended = end.clone().cancelled_owned();
        let mut serving = service.spawn(router.serve_with_incoming_shutdown(incoming, ended));
        let memberships = self.options.join.into_iter().map(|scheduler| {
            let membership = Membership {
                hello: self.hello.clone(),
                scheduler,
                links: Arc::clone(&links),
                ends_with_scheduler: self.options.ends_with_scheduler,
                shared: shared.clone(),
                worker: worker.clone(),
            };
            membership.keep()
        });
        let mut joined = service.spawn(keep_all(memberships.collect()));
        let told = shared.draining.clone();
        let result = tokio::select! {
            ended = &mut serving => match ended {
                Ok(ended) => ended.map_err(ClusterError::from),
                Err(_) => Ok(()),
            },
            left = &mut joined => left.unwrap_or(Ok(())),
            () = async { tokio::select! { () = stop => {} () = told.cancelled() => {} } } => {
                shared.draining.cancel();
                let drained = async {
                    // The scheduler learns of it with the next beat.
                    tokio::time::sleep(BEAT).await;
                    while shared.tokens.len() > 0 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                };
                // What still runs then is lost.
                let _ = tokio::time::timeout(self.options.drain, drained).await;
                Ok(())
            }
        };
        end.cancel();
        joined.abort();
        serving.abort();
        result
    }
}

/// Makes what runs stages.
fn worker(shared: &Shared) -> Worker {
    let environment = shared.session.context().runtime_env();
    let shared = shared.clone();
    let build = move |ctx: WorkerQueryContext| {
        let shared = shared.clone();
        async move {
            let state = stage_session(&shared, ctx);
            state.map_err(|error| Told::of(&shared.name, &error).to_error())
        }
    };
    Worker::from_session_builder(build).with_runtime_env(environment)
}

/// Makes the session that a stage is decoded and run in.
fn stage_session(shared: &Shared, ctx: WorkerQueryContext) -> Result<SessionState> {
    let WorkerQueryContext {
        mut builder,
        headers,
    } = ctx;
    let Some((id, token)) = shared.tokens.of(&headers) else {
        let message = "a stage came from nobody";
        return Err(DataFusionError::Execution(message.into()));
    };
    if shared.draining.is_cancelled() {
        let lost = Told::new(ErrorKind::Lost, &shared.name, "it is about to end");
        return Err(lost.to_error());
    }
    let config = builder.config().get_or_insert_with(SessionConfig::new);
    let mut options = {
        let own = shared.session.context().state_ref();
        let own = own.read();
        shared.settings.read(&headers, own.config_options())?
    };
    if let Ok(stages) = DistributedConfig::from_config_options(config.options()) {
        options.extensions.insert(stages.clone());
    }
    *config.options_mut() = options;
    let task = GuardedTask {
        executor: Arc::clone(&shared.name),
        token,
    };
    let statement = statement_of(&headers).unwrap_or_default();
    let tokens = Arc::clone(&shared.tokens);
    let runtime = Arc::clone(shared.session.runtime());
    let rewrite = move |event: WorkerPlanRewriteEvent<'_>| {
        let options = event.session_config.options();
        let placed = placed(event.plan, &task, &runtime, options);
        let placed = placed.map_err(|error| Told::of(&task.executor, &error).to_error())?;
        let (plan, clock) = placed;
        let stage = Stage {
            statement: statement.clone(),
            plan: Arc::clone(&plan),
            clock,
        };
        tokens.run(id, stage);
        Ok(WorkerPlanRewriteEventResponse::new(plan))
    };
    let resolver = Resolver {
        channels: shared.channels.clone(),
        watch: None,
    };
    Ok(builder
        .with_scalar_functions(shared.builtin.scalar())
        .with_aggregate_functions(shared.builtin.aggregate())
        .with_window_functions(shared.builtin.window())
        .with_distributed_user_codec(Codec)
        .with_distributed_channel_resolver(resolver)
        .with_distributed_worker_plan_rewrite_handler(rewrite)
        .build())
}

/// Makes regions of a stage, and guards it.
fn placed(
    plan: Arc<dyn ExecutionPlan>,
    task: &GuardedTask,
    runtime: &Arc<Runtime>,
    options: &ConfigOptions,
) -> Result<Guarded> {
    let mut nodes = 0;
    plan.apply(|_| {
        nodes += 1;
        match nodes > PLAN_NODES_MAX {
            true => Ok(TreeNodeRecursion::Stop),
            false => Ok(TreeNodeRecursion::Continue),
        }
    })?;
    if nodes > PLAN_NODES_MAX {
        let message = format!("a stage has more than {PLAN_NODES_MAX} operators");
        return Err(DataFusionError::ResourcesExhausted(message));
    }
    let (plan, share) = unwrapped(plan)?;
    guarded(place_stage(plan, runtime, options)?, task, share)
}

/// Keeps an executor known to several schedulers, until one has it end or none takes it.
async fn keep_all<F>(mut memberships: FuturesUnordered<F>) -> Result<(), ClusterError>
where
    F: Future<Output = Result<(), ClusterError>>,
{
    let mut last = Ok(());
    while let Some(left) = memberships.next().await {
        if left.is_ok() {
            return Ok(());
        }
        last = left;
    }
    last
}

/// Keeps an executor known to one scheduler.
struct Membership {
    hello: Hello,
    scheduler: Url,
    links: Arc<Links>,
    ends_with_scheduler: bool,
    shared: Shared,
    worker: Worker,
}

impl Membership {
    /// Joins, and joins again when the scheduler is gone; ends if it is refused, or is to end with the
    /// scheduler.
    async fn keep(self) -> Result<(), ClusterError> {
        let mut was_joined = false;
        loop {
            // Nobody asks for it, but the memory may be wanted.
            self.drop_finished().await;
            match self.once().await {
                Ok(()) => was_joined = true,
                Err(Left::Refused(why)) => {
                    tracing::error!(scheduler = %self.scheduler, why, "the scheduler refuses this executor");
                    return Err(ClusterError::Refused(why));
                }
                Err(Left::Unreachable(why)) => {
                    tracing::warn!(scheduler = %self.scheduler, why, "cannot join the scheduler");
                }
            }
            if was_joined && self.ends_with_scheduler {
                return Ok(());
            }
            tokio::time::sleep(REJOIN).await;
        }
    }

    /// Is a member until the scheduler is gone.
    async fn once(&self) -> Result<(), Left> {
        let unreachable = |error: &dyn std::error::Error| Left::Unreachable(error.to_string());
        let endpoint = self.links.endpoint(&self.scheduler);
        let endpoint = endpoint.map_err(|error| unreachable(&error))?;
        let channel = endpoint
            .connect()
            .await
            .map_err(|error| unreachable(&error))?;
        let (said, to_say) = mpsc::channel(WORDS_MAX);
        let hello = FromExecutor {
            hello: Some(self.hello.clone()),
            ..FromExecutor::default()
        };
        let words = futures::stream::unfold((Some(hello), to_say), |(first, mut to_say)| async {
            let word = match first {
                Some(hello) => hello,
                None => to_say.recv().await?,
            };
            Some((word, (None, to_say)))
        });
        let mut request = Request::new(words);
        let (name, value) = self
            .links
            .secret
            .header()
            .map_err(|error| unreachable(&error))?;
        let value = value
            .parse()
            .map_err(|_| Left::Unreachable("no token".into()))?;
        request.metadata_mut().insert(name, value);
        let refused = |status: tonic::Status| match status.code() {
            tonic::Code::Unauthenticated | tonic::Code::InvalidArgument => {
                Left::Refused(status.message().into())
            }
            _ => Left::Unreachable(status.to_string()),
        };
        let mut answers = join(channel, request).await.map_err(refused)?;
        let welcome = answers
            .message()
            .await
            .map_err(refused)?
            .unwrap_or_default();
        if !welcome.refused.is_empty() {
            return Err(Left::Refused(welcome.refused));
        }
        tracing::info!(scheduler = %self.scheduler, executor = %self.hello.name, "joined");
        let mut ended = self.shared.tokens.ended_of(welcome.prefix);
        let mut beats = tokio::time::interval(BEAT);
        loop {
            tokio::select! {
                said = answers.message() => match said {
                    Ok(Some(said)) if said.drain => {
                        tracing::info!("the scheduler has this executor end");
                        self.shared.draining.cancel();
                    }
                    _ => return Ok(()),
                },
                _ = beats.tick() => self.drop_finished().await,
                () = ended.one_ended() => {}
            }
            // What is not said now, since the scheduler does not listen, is said with the next beat.
            match said.try_reserve() {
                Ok(permit) => permit.send(self.word(ended.take(PLACED_MAX))),
                Err(TrySendError::Full(())) => {}
                Err(TrySendError::Closed(())) => return Ok(()),
            }
        }
    }

    /// Says how the executor fares, and what became of tasks that ended.
    fn word(&self, ended: Vec<Ended>) -> FromExecutor {
        FromExecutor {
            hello: None,
            beat: Some(self.beat()),
            placed: ended.into_iter().filter_map(placed_of).collect(),
        }
    }

    fn beat(&self) -> Beat {
        Beat {
            tasks: self.shared.tokens.len() as u64,
            memory_used: self.shared.pool.reserved() as u64,
            is_draining: self.shared.draining.is_cancelled(),
            received_bytes: self.shared.channels.received_bytes(),
        }
    }

    /// Has the worker drop the plans of tasks that ended, which it would keep, with what their operators
    /// hold, until another statement comes.
    async fn drop_finished(&self) {
        if self.shared.tokens.len() > 0 || self.shared.pool.reserved() == 0 {
            return;
        }
        let nobody = ExecuteTaskRequest {
            task_key: TaskKey {
                query_id: Default::default(),
                stage_id: 0,
                task_number: 0,
            },
            target_partition_start: 0,
            target_partition_end: 0,
            producer_head: ProducerHead::None,
        };
        let look = self.worker.execute_task(nobody);
        let _ = tokio::time::timeout(Duration::from_millis(1), look).await;
    }
}

/// Writes what became of a task, its regions without their programs if these are long; `None` if that is
/// too long nevertheless.
fn placed_of(ended: Ended) -> Option<Placed> {
    let Ended {
        statement,
        mut regions,
        share,
        sides,
    } = ended;
    // Regions above the one that scans have fewer rows.
    let rows = regions.iter().map(|region| {
        let places = region.places.iter();
        places.map(|place| place.rows).sum()
    });
    let rows = rows.max().unwrap_or(0);
    let mut json = serde_json::to_vec(&regions).ok()?;
    if json.len() > PLACED_BYTES_MAX {
        regions.iter_mut().for_each(|region| region.program = None);
        json = serde_json::to_vec(&regions).ok()?;
    }
    (json.len() <= PLACED_BYTES_MAX).then_some(Placed {
        statement,
        regions: json,
        share: share.map(|(number, _)| number),
        rows,
        sides,
        seconds: share.map_or(0.0, |(_, seconds)| seconds),
    })
}

/// Why an executor is no member.
enum Left {
    Refused(String),
    Unreachable(String),
}
