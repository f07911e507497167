//! How an executor joins a scheduler: one stream each way, as long as both live.
//!
//! The executor says who it is, then reports each second. The scheduler answers welcome, or why it does not
//! use the executor; it speaks again only to have the executor end. That the stream ends is how each learns
//! that the other is gone. An executor joins each scheduler that it knows of in this way.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use futures::stream::{BoxStream, once, pending};
use futures::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codegen::http;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;
use tower::Service;
use url::Url;

use crate::counted::{SideRows, Sides};
use crate::members::Members;
use crate::speeds::Speeds;
use crate::tasks::Tasks;

const PATH: &str = "/tidegate.Cluster/Join";
/// Bytes of a message.
const MESSAGE_MAX: usize = 1 << 20;

/// Who an executor is.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Hello {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) url: String,
    #[prost(string, tag = "3")]
    pub(crate) version: String,
    #[prost(uint64, tag = "4")]
    pub(crate) cores: u64,
    #[prost(uint64, tag = "5")]
    pub(crate) memory_limit: u64,
    #[prost(string, repeated, tag = "6")]
    pub(crate) devices: Vec<String>,
}

/// How an executor fares.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(crate) struct Beat {
    #[prost(uint64, tag = "1")]
    pub(crate) tasks: u64,
    #[prost(uint64, tag = "2")]
    pub(crate) memory_used: u64,
    /// It ends when its tasks have, and takes no other.
    #[prost(bool, tag = "3")]
    pub(crate) is_draining: bool,
    /// Bytes of rows that it received from other executors since it began.
    #[prost(uint64, tag = "4")]
    pub(crate) received_bytes: u64,
}

/// What became of a task that has ended.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Placed {
    /// The statement, in its scheduler's words.
    #[prost(string, tag = "1")]
    pub(crate) statement: String,
    /// The reports of its regions, as JSON.
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) regions: Vec<u8>,
    /// The number of the share that it read, if it read one alone, and to its end.
    #[prost(uint64, optional, tag = "3")]
    pub(crate) share: Option<u64>,
    /// How long that took, and how many rows it read.
    #[prost(double, tag = "4")]
    pub(crate) seconds: f64,
    #[prost(uint64, tag = "5")]
    pub(crate) rows: u64,
    /// How many rows it had of sides of joins.
    #[prost(message, repeated, tag = "6")]
    pub(crate) sides: Vec<SideRows>,
}

/// What an executor says: who it is first, then how it fares.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FromExecutor {
    #[prost(message, optional, tag = "1")]
    pub(crate) hello: Option<Hello>,
    #[prost(message, optional, tag = "2")]
    pub(crate) beat: Option<Beat>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) placed: Vec<Placed>,
}

/// What a scheduler answers.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct FromScheduler {
    /// Why the executor is not used; empty for welcome.
    #[prost(string, tag = "1")]
    pub(crate) refused: String,
    /// It is to finish its tasks, take no others, and end.
    #[prost(bool, tag = "2")]
    pub(crate) drain: bool,
    /// What its words for statements begin with.
    #[prost(string, tag = "3")]
    pub(crate) prefix: String,
}

/// Opens the stream to a scheduler.
pub(crate) async fn join<C>(
    channel: C,
    request: Request<impl Stream<Item = FromExecutor> + Send + 'static>,
) -> Result<Streaming<FromScheduler>, Status>
where
    C: tonic::client::GrpcService<Body>,
    C::ResponseBody: tonic::codegen::Body<Data = tonic::codegen::Bytes> + Send + 'static,
    <C::ResponseBody as tonic::codegen::Body>::Error: Into<tonic::codegen::StdError> + Send,
    C::Error: Into<tonic::codegen::StdError>,
{
    let mut client = tonic::client::Grpc::new(channel);
    let ready = client.ready().await;
    ready.map_err(|error| Status::unavailable(error.into().to_string()))?;
    let codec = ProstCodec::<FromExecutor, FromScheduler>::default();
    let path = PathAndQuery::from_static(PATH);
    let response = client.streaming(request, path, codec).await?;
    Ok(response.into_inner())
}

/// Where executors join.
#[derive(Clone, Debug)]
pub(crate) struct JoinService {
    pub(crate) members: Arc<Members>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) speeds: Arc<Speeds>,
    pub(crate) sides: Arc<Sides>,
    /// The version of the scheduler's process.
    pub(crate) version: Arc<str>,
}

impl NamedService for JoinService {
    const NAME: &'static str = "tidegate.Cluster";
}

impl Service<http::Request<Body>> for JoinService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != PATH {
                return Ok(Status::unimplemented("there is Join alone").into_http());
            }
            let codec = ProstCodec::<FromScheduler, FromExecutor>::default();
            let mut grpc = Grpc::new(codec).max_decoding_message_size(MESSAGE_MAX);
            Ok(grpc.streaming(service, request).await)
        })
    }
}

impl StreamingService<FromExecutor> for JoinService {
    type Response = FromScheduler;
    type ResponseStream = BoxStream<'static, Result<FromScheduler, Status>>;
    type Future = BoxFuture<'static, Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<FromExecutor>>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { service.welcome(request.into_inner()).await })
    }
}

impl JoinService {
    async fn welcome(
        self,
        mut said: Streaming<FromExecutor>,
    ) -> Result<Response<BoxStream<'static, Result<FromScheduler, Status>>>, Status> {
        let first = said.message().await?.and_then(|first| first.hello);
        let hello = first.ok_or_else(|| Status::invalid_argument("an executor says who it is"))?;
        if hello.name.is_empty() || hello.name.contains(|c: char| c == ',' || c.is_control()) {
            let message = "an executor's name is not empty, and has no comma in it";
            return Err(Status::invalid_argument(message));
        }
        let url = Url::parse(&hello.url);
        let url = url.map_err(|error| Status::invalid_argument(error.to_string()))?;
        let refused = (*hello.version != *self.version).then(|| {
            format!(
                "its version is {}, the scheduler's {}: run the same on both",
                hello.version, self.version
            )
        });
        let answer = FromScheduler {
            refused: refused.clone().unwrap_or_default(),
            drain: false,
            prefix: self.tasks.prefix().into(),
        };
        let name = hello.name.clone();
        let membership = self.members.join(hello, url, refused);
        let drain = membership.drain();
        let (tasks, speeds, sides) = (self.tasks, self.speeds, self.sides);
        // Whatever ends this task ends the membership; the answer's stream ends with it.
        let (alive, ended) = tokio::sync::oneshot::channel::<Infallible>();
        tokio::spawn(async move {
            let _alive = alive;
            loop {
                tokio::select! {
                    () = membership.gone() => return,
                    said = said.message() => match said {
                        Ok(Some(said)) => {
                            membership.beat(said.beat.unwrap_or_default());
                            for placed in &said.placed {
                                let Some(statement) = tasks.place(&name, placed) else {
                                    continue;
                                };
                                if let Some(share) = placed.share {
                                    speeds.learn(share, &name, placed.rows, placed.seconds);
                                }
                                for side in &placed.sides {
                                    sides.learn(statement, *side);
                                }
                            }
                        }
                        _ => return,
                    },
                }
            }
        });
        let drained = once(async move {
            drain.cancelled().await;
            Ok(FromScheduler {
                drain: true,
                ..FromScheduler::default()
            })
        });
        let answers = once(async { Ok(answer) }).chain(drained).chain(pending());
        let answers = answers.take_until(async {
            let _ = ended.await;
        });
        Ok(Response::new(answers.boxed()))
    }
}
