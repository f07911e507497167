//! Calls of peers: run by the threads that compute, each task with a token that ends with its
//! scheduler.
//!
//! A scheduler holds one call open for each task. When it ends, by the statement's end, its cancel or
//! the scheduler's death, the token is cancelled, and what runs of the task with it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tidegate::RegionReport;
use tidegate::stages::stage_regions;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tower::{Layer, Service};

use crate::counted::{SideRows, rows_counted};
use crate::guard::Clock;

/// The number of a task in this process, set here alone.
const TASK: HeaderName = HeaderName::from_static("x-tidegate-task");
/// How the path of a call ends that a scheduler holds open for a task.
const TASK_CALL: &str = "/CoordinatorChannel";

/// Tasks that ended and of which their scheduler was not told yet, at the most.
const ENDED_MAX: usize = 4_096;

/// The tasks whose schedulers are there.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    open: Mutex<HashMap<u64, Task>>,
    next: AtomicU64,
    /// Of each scheduler that is told, by what its statements' words begin with, the tasks that ended.
    told: Mutex<HashMap<String, VecDeque<Ended>>>,
    has_ended: watch::Sender<()>,
}

/// Tells one scheduler of its tasks that end, as long as this lives.
#[derive(Debug)]
pub(crate) struct EndedTasks {
    tokens: Arc<Tokens>,
    prefix: String,
    has_ended: watch::Receiver<()>,
}

impl EndedTasks {
    /// Waits for a task to end; it need not be this scheduler's.
    pub(crate) async fn one_ended(&mut self) {
        // The sender lives as long as `tokens`.
        let _ = self.has_ended.changed().await;
    }

    /// Takes the scheduler's tasks that ended since, so many at the most.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Ended> {
        let mut told = self.tokens.told.lock();
        let Some(ended) = told.get_mut(&self.prefix) else {
            return Vec::new();
        };
        let count = ended.len().min(most);
        let taken = ended.drain(..count).collect();
        if !ended.is_empty() {
            self.has_ended.mark_changed();
        }
        taken
    }
}

impl Drop for EndedTasks {
    fn drop(&mut self) {
        self.tokens.told.lock().remove(&self.prefix);
    }
}

/// A task whose scheduler is there.
#[derive(Debug, Default)]
struct Task {
    token: CancellationToken,
    stage: Option<Stage>,
}

/// What runs as a task.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) statement: String,
    pub(crate) plan: Arc<dyn ExecutionPlan>,
    pub(crate) clock: Option<Arc<Clock>>,
}

/// A task that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) statement: String,
    pub(crate) regions: Vec<RegionReport>,
    /// The number of the share that it read alone, and the seconds that it took.
    pub(crate) share: Option<(u64, f64)>,
    /// The rows of sides of joins.
    pub(crate) sides: Vec<SideRows>,
}

impl Tokens {
    /// Returns how many tasks there are.
    pub(crate) fn len(&self) -> usize {
        self.open.lock().len()
    }

    /// Finds the task that headers belong to, and its token.
    pub(crate) fn of(&self, headers: &HeaderMap) -> Option<(u64, CancellationToken)> {
        let id = headers.get(TASK)?.to_str().ok()?.parse().ok()?;
        let token = self.open.lock().get(&id)?.token.clone();
        Some((id, token))
    }

    /// Notes what runs as a task.
    pub(crate) fn run(&self, id: u64, stage: Stage) {
        if let Some(task) = self.open.lock().get_mut(&id) {
            task.stage = Some(stage);
        }
    }

    /// Begins to note the ends of the tasks whose statements' words begin so.
    pub(crate) fn ended_of(self: &Arc<Self>, prefix: String) -> EndedTasks {
        self.told.lock().insert(prefix.clone(), VecDeque::new());
        EndedTasks {
            tokens: Arc::clone(self),
            prefix,
            has_ended: self.has_ended.subscribe(),
        }
    }

    fn end(&self, id: u64) {
        let Some(task) = self.open.lock().remove(&id) else {
            return;
        };
        task.token.cancel();
        let Some(stage) = task.stage else {
            return;
        };
        let regions = stage_regions(&stage.plan);
        let clock = stage.clock;
        let share = clock.and_then(|clock| Some((clock.share, clock.seconds()?)));
        let sides = rows_counted(&stage.plan).unwrap_or_default();
        if regions.is_empty() && share.is_none() && sides.is_empty() {
            return;
        }
        let mut told = self.told.lock();
        let mut schedulers = told.iter_mut();
        let scheduler = schedulers.find(|(prefix, _)| stage.statement.starts_with(prefix.as_str()));
        // Nobody is told of a task whose scheduler is gone.
        let Some((_, ended)) = scheduler else {
            return;
        };
        if ended.len() == ENDED_MAX {
            ended.pop_front();
        }
        ended.push_back(Ended {
            statement: stage.statement,
            regions,
            share,
            sides,
        });
        self.has_ended.send_replace(());
    }

    fn open(self: &Arc<Self>) -> OpenTask {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.lock().insert(id, Task::default());
        OpenTask {
            tokens: Arc::clone(self),
            id,
        }
    }
}

/// A task whose scheduler is there; it ends with this.
struct OpenTask {
    tokens: Arc<Tokens>,
    id: u64,
}

impl Drop for OpenTask {
    fn drop(&mut self) {
        self.tokens.end(self.id);
    }
}

/// Runs calls on the threads that compute.
#[derive(Clone, Debug)]
pub(crate) struct CallsLayer {
    pub(crate) compute: Handle,
    pub(crate) tokens: Arc<Tokens>,
}

impl<S> Layer<S> for CallsLayer {
    type Service = Calls<S>;

    fn layer(&self, inner: S) -> Calls<S> {
        Calls {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service whose calls run on the threads that compute.
#[derive(Clone, Debug)]
pub(crate) struct Calls<S> {
    inner: S,
    layer: CallsLayer,
}

impl<S> Service<Request<Body>> for Calls<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, S::Error>>;

    fn poll_ready(&mut self, ctx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(ctx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let fresh = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, fresh);
        request.headers_mut().remove(TASK);
        if request.uri().path().ends_with(TASK_CALL) {
            let task = self.layer.tokens.open();
            request
                .headers_mut()
                .insert(TASK, HeaderValue::from(task.id));
            request = request.map(|body| {
                Body::new(body.map_frame(move |frame| {
                    let _held = &task;
                    frame
                }))
            });
        }
        let call = self
            .layer
            .compute
            .spawn(async move { inner.call(request).await });
        let mut call = EndedOnDrop(call);
        Box::pin(async move {
            match (&mut call.0).await {
                Ok(answer) => answer,
                Err(error) => Ok(Status::internal(format!("a call failed: {error}")).into_http()),
            }
        })
    }
}

/// Work that ends with whoever waits for it.
struct EndedOnDrop<T>(JoinHandle<T>);

impl<T> Drop for EndedOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
