//! From one process of a cluster to another.
//!
//! Connections are made by threads that compute nothing, are asked every second whether they live,
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
use tidegate::{ErrorKind, causes};
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, HeaderName, HeaderValue, Request};
use tonic::transport::Channel;
use tower::ServiceExt;
use url::Url;

use crate::links::Links;
use crate::told::Told;
use crate::watch::Watch;

/// The rows of a partition of a task.
pub(crate) type Rows = BoxStream<'static, Result<RecordBatch>>;

pub(crate) type Connection = Arc<OnceCell<Channel>>;

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
    pub(crate) fn forget(&self, url: &Url, connection: &Connection) {
        let mut open = self.open.lock();
        if open
            .get(url)
            .is_some_and(|known| Arc::ptr_eq(known, connection))
        {
            open.remove(url);
        }
    }

    /// Returns a client of a peer.
    pub(crate) async fn client(
        &self,
        url: &Url,
    ) -> Result<(Connection, Box<dyn WorkerChannel>), Told> {
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

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    causes.join(": ")
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
    /// Says of an error which executor it is of, and has the statement know of a loss.
    fn tag(&self, error: DataFusionError) -> DataFusionError {
        let Some(told) = told_of(&self.url, &error) else {
            return error;
        };
        if told.is_lost() && told.executor == self.url.as_str() {
            self.resolver.channels.forget(&self.url, &self.connection);
        }
        if let Some(watch) = &self.resolver.watch {
            watch.note(&told);
        }
        told.to_error()
    }

    /// Tells whether an error is a loss that costs the statement nothing.
    fn is_mended(&self, error: &DataFusionError) -> bool {
        let watch = self.resolver.watch.as_ref();
        watch.is_some_and(|watch| {
            Told::find(error).is_some_and(|told| told.is_lost() && watch.is_mended(&told.executor))
        })
    }

    /// Counts the bytes of rows, and tags the errors, of a stream of them.
    fn counted(self: &Arc<Self>, rows: Rows) -> Rows {
        let peer = Arc::clone(self);
        let received = Arc::clone(&peer.resolver.channels.received);
        let counted = rows.map(move |batch| {
            if let Ok(batch) = &batch {
                let bytes = batch.get_array_memory_size() as u64;
                received.fetch_add(bytes, Ordering::Relaxed);
            }
            batch.map_err(|error| peer.tag(error))
        });
        counted.boxed()
    }
}

/// Describes an error of a call to a peer, or of another peer that it tells of.
fn told_of(url: &Url, error: &DataFusionError) -> Option<Told> {
    match error {
        DataFusionError::External(inner) => {
            let status = inner.downcast_ref::<tonic::Status>()?;
            Some(Told::of_status(url, status))
        }
        _ => Told::find(error),
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
        if let Some(watch) = &peer.resolver.watch {
            watch.begin(&peer.url, &headers, &request, ctx);
        }
        let opened = self
            .client
            .coordinator_channel(headers, request, messages, metrics, ctx)
            .await;
        let messages = match opened.map_err(|error| peer.tag(error)) {
            Ok(messages) => messages,
            Err(error) if peer.is_mended(&error) => futures::stream::empty().boxed(),
            Err(error) => return Err(error),
        };
        if let Some(watch) = &peer.resolver.watch {
            watch.accept();
        }
        let messages = messages.map({
            let peer = Arc::clone(&peer);
            move |message| message.map_err(|error| peer.tag(error))
        });
        // A task that runs elsewhere now has nothing more to say here.
        let messages = messages.take_while(move |message| {
            let goes_on = message
                .as_ref()
                .err()
                .is_none_or(|error| !peer.is_mended(error));
            futures::future::ready(goes_on)
        });
        Ok(messages.boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        ctx: &Arc<TaskContext>,
    ) -> Result<Vec<Rows>> {
        let partitions = request.target_partition_start..request.target_partition_end;
        let movable = self.peer.resolver.watch.as_ref().and_then(|watch| {
            let head = request.producer_head.clone();
            watch.read(request.task_key, &self.peer.url, head, partitions.len())
        });
        let opened = self
            .client
            .execute_task(headers, request, metrics, ctx)
            .await;
        let opened = opened.map_err(|error| self.peer.tag(error));
        let streams = match (opened, &movable) {
            (Ok(streams), _) => {
                let counted = streams
                    .into_iter()
                    .map(|rows| Some(self.peer.counted(rows)));
                counted.collect()
            }
            (Err(error), Some(_)) if self.peer.is_mended(&error) => {
                partitions.clone().map(|_| None).collect::<Vec<_>>()
            }
            (Err(error), _) => return Err(error),
        };
        let followed = streams.into_iter().zip(partitions);
        let followed = followed.filter_map(|(rows, partition)| match &movable {
            Some(task) => Some(task.follow(partition, rows)),
            None => rows,
        });
        Ok(followed.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let asked = self.client.get_worker_info(request).await;
        asked.map_err(|error| self.peer.tag(error))
    }
}
