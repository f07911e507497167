//! From one process of a cluster to another.
//!
//! Connections are made by threads that compute nothing, are asked every two seconds whether they live,
//! and are forgotten when they are lost: a channel would answer the next call with the error of the last.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg, grpc,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use tidegate::ErrorKind;
use tidegate::spread::TaskReport;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request};
use tonic::transport::Channel;
use tower::ServiceExt;
use url::Url;

use crate::links::Links;
use crate::tasks::Tasks;
use crate::told::Told;

type Connection = Arc<OnceCell<Channel>>;

/// The connections of a process to its peers.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    links: Arc<Links>,
    service: Handle,
    open: Arc<Mutex<HashMap<Url, Connection>>>,
    /// Bytes of rows that came by them.
    received: Arc<AtomicU64>,
}

impl Channels {
    /// Makes connections on these threads.
    pub(crate) fn new(links: Arc<Links>, service: Handle) -> Self {
        Self {
            links,
            service,
            open: Arc::default(),
            received: Arc::default(),
        }
    }

    /// Returns how many bytes of rows peers have sent.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns the connection to a peer, which is made if there is none.
    async fn channel(&self, url: &Url) -> std::result::Result<(Connection, Channel), Told> {
        let connection = Arc::clone(self.open.lock().entry(url.clone()).or_default());
        let lost = |why: String| Told::new(ErrorKind::Lost, url.as_str(), &why);
        let connect = || async {
            let endpoint = self.links.endpoint(url);
            let endpoint = endpoint.map_err(|error| lost(chain(&error)))?;
            let connecting = self
                .service
                .spawn(async move { endpoint.connect().await })
                .await;
            let connected = connecting.map_err(|error| lost(error.to_string()))?;
            connected.map_err(|error| lost(chain(&error)))
        };
        match connection.get_or_try_init(connect).await {
            Ok(channel) => {
                let channel = channel.clone();
                Ok((connection, channel))
            }
            Err(told) => Err(told),
        }
    }

    /// Forgets a connection, unless another has taken its place.
    fn forget(&self, url: &Url, connection: &Connection) {
        let mut open = self.open.lock();
        if open
            .get(url)
            .is_some_and(|known| Arc::ptr_eq(known, connection))
        {
            open.remove(url);
        }
    }

    async fn client(&self, url: &Url) -> Result<(Connection, Box<dyn WorkerChannel>), Told> {
        let (connection, channel) = self.channel(url).await?;
        let header = self.links.secret.header();
        let (name, value) = header.map_err(|status| Told::of_status(url, &status))?;
        let value = HeaderValue::try_from(value);
        let value = value.map_err(|e| Told::new(ErrorKind::Internal, url.as_str(), &e.to_string()));
        let (name, value) = (HeaderName::from_static(name), value?);
        let channel = channel.map_request(move |mut request: Request<Body>| {
            request.headers_mut().insert(name.clone(), value.clone());
            request
        });
        let channel = grpc::BoxCloneSyncChannel::new(channel);
        Ok((connection, grpc::create_worker_client(channel)))
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// What a statement learns of its tasks on the way: which there are, and the first executor it lost.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) statement: u64,
    pub(crate) attempt: u64,
    pub(crate) names: HashMap<Url, String>,
    pub(crate) tasks: Arc<Tasks>,
    lost: tokio::sync::watch::Sender<Option<Told>>,
}

impl Watch {
    pub(crate) fn new(
        statement: u64,
        attempt: u64,
        names: HashMap<Url, String>,
        tasks: Arc<Tasks>,
    ) -> Self {
        Self {
            statement,
            attempt,
            names,
            tasks,
            lost: tokio::sync::watch::Sender::new(None),
        }
    }

    /// Notes that a task is sent to an executor.
    fn begin(&self, url: &Url, stage: u64, task: u64) {
        let name = self.names.get(url).cloned();
        self.tasks.begin(TaskReport {
            statement: self.statement,
            attempt: self.attempt,
            stage,
            task,
            executor: name.unwrap_or_else(|| url.to_string()),
            state: String::new(),
        });
    }

    /// Notes how the tasks end of which nothing else is known.
    pub(crate) fn end(&self, state: &str) {
        self.tasks.end(state, |task| {
            task.statement == self.statement && task.attempt == self.attempt
        });
    }

    /// Notes that an executor was lost, by its name or URL.
    pub(crate) fn lose(&self, executor: &str) {
        let name = self
            .names
            .iter()
            .find(|(url, _)| url.as_str() == executor)
            .map_or(executor, |(_, name)| name);
        self.tasks.end("lost", |task| {
            let is_own = task.statement == self.statement && task.attempt == self.attempt;
            is_own && task.executor == *name
        });
    }

    fn note(&self, told: &Told) {
        if told.is_lost() {
            self.lose(&told.executor);
            self.lost.send_if_modified(|lost| {
                let is_first = lost.is_none();
                if is_first {
                    *lost = Some(told.clone());
                }
                is_first
            });
        }
    }

    /// Returns the executor that was lost first.
    pub(crate) fn lost_already(&self) -> Option<Told> {
        self.lost.borrow().clone()
    }

    /// Waits for an executor to be lost.
    pub(crate) async fn lost(&self) -> Told {
        let mut changes = self.lost.subscribe();
        loop {
            if let Some(told) = changes.borrow_and_update().clone() {
                return told;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

/// The connections as the engine of stages asks for them; of a statement on its scheduler, with its
/// watch.
#[derive(Clone, Debug)]
pub(crate) struct Resolver {
    pub(crate) channels: Channels,
    pub(crate) watch: Option<Arc<Watch>>,
}

#[async_trait]
impl ChannelResolver for Resolver {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let peer = |connection| Peer {
            url: url.clone(),
            connection,
            resolver: self.clone(),
        };
        match self.channels.client(url).await {
            Ok((connection, client)) => Ok(Box::new(Tagged {
                peer: Arc::new(peer(connection)),
                client,
            })),
            Err(told) => {
                if let Some(watch) = &self.watch {
                    watch.note(&told);
                }
                Err(told.to_error())
            }
        }
    }
}

/// Whom a call goes to.
#[derive(Debug)]
struct Peer {
    url: Url,
    connection: Connection,
    resolver: Resolver,
}

impl Peer {
    /// Says of an error which executor it is of.
    fn tag(&self, error: DataFusionError) -> DataFusionError {
        let told = match &error {
            DataFusionError::External(inner) => match inner.downcast_ref::<tonic::Status>() {
                Some(status) => Told::of_status(&self.url, status),
                None => return error,
            },
            _ => match Told::find(&error) {
                Some(told) => told,
                None => return error,
            },
        };
        if told.is_lost() && told.executor == self.url.as_str() {
            self.resolver.channels.forget(&self.url, &self.connection);
        }
        if let Some(watch) = &self.resolver.watch {
            watch.note(&told);
        }
        told.to_error()
    }
}

/// A client whose errors name the executor.
struct Tagged {
    peer: Arc<Peer>,
    client: Box<dyn WorkerChannel>,
}

#[async_trait]
impl WorkerChannel for Tagged {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        ctx: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let peer = Arc::clone(&self.peer);
        let key = request.task_key;
        if let Some(watch) = &peer.resolver.watch {
            watch.begin(&peer.url, key.stage_id as u64, key.task_number as u64);
        }
        let opened = self
            .client
            .coordinator_channel(headers, request, messages, metrics, ctx)
            .await;
        let messages = opened.map_err(|error| peer.tag(error))?;
        let messages = messages.map(move |message| message.map_err(|error| peer.tag(error)));
        Ok(messages.boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        ctx: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let opened = self
            .client
            .execute_task(headers, request, metrics, ctx)
            .await;
        let streams = opened.map_err(|error| self.peer.tag(error))?;
        let tagged = streams.into_iter().map(|stream| {
            let peer = Arc::clone(&self.peer);
            let received = Arc::clone(&peer.resolver.channels.received);
            let stream = stream.map(move |batch| {
                if let Ok(batch) = &batch {
                    let bytes = batch.get_array_memory_size() as u64;
                    received.fetch_add(bytes, Ordering::Relaxed);
                }
                batch.map_err(|error| peer.tag(error))
            });
            stream.boxed()
        });
        Ok(tagged.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let asked = self.client.get_worker_info(request).await;
        asked.map_err(|error| self.peer.tag(error))
    }
}
