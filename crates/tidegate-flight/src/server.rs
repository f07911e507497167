//! A server: it listens, answers, drains and ends.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arrow_flight::flight_service_server::FlightServiceServer;
use tidegate::{QueryWatcher, Session, causes};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Identity, Server as Transport, ServerTlsConfig};
use tonic::{Request, Status};
use tonic_health::ServingStatus;
use tonic_health::server::health_reporter;

use crate::admission::Admission;
use crate::auth::Auth;
use crate::connection::{Connection, accept};
use crate::door::Door;
use crate::error::ServeError;
use crate::executors::Executors;
use crate::http::listen::{acceptor, serve};
use crate::http::{Desk, router};
use crate::idle::release_memory;
use crate::limiter::{ConnectionLimiter, ConnectionLimits};
use crate::meters::Meters;
use crate::options::{Limits, ServerOptions, Tls};
use crate::sessions::Sessions;
use crate::statement::Statements;
use crate::traces::Traces;

/// How often a silent client is asked whether it is there, and how long it has to answer.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// How long calls that were answered have to leave once the server ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// Calls of one connection at a time.
const STREAMS_MAX: u32 = 256;
/// Bytes of a call's headers.
const HEADERS_MAX: u32 = 64 << 10;
/// Bytes of an upload that may be on their way.
const WINDOW_BYTES: u32 = 4 << 20;

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    transport: Transport,
    speaks_tls: bool,
    door: Door,
    http: Option<Http>,
    desk: Arc<Desk>,
    traces: Option<Arc<Traces>>,
}

/// The HTTP port.
struct Http {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
}

impl fmt::Debug for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Http")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Listens, and answers nobody before [`Server::run`]. Clients get sessions made from `session`,
    /// which should be confined to [`tidegate::AllowedPaths`].
    ///
    /// # Errors
    /// [`ServeError`], also for an address that is not safe and for a certificate that cannot be used.
    pub async fn bind(session: Session, options: ServerOptions) -> Result<Self, ServeError> {
        options.check()?;
        let transport = transport(options.tls.as_ref())?;
        let (listener, address) = listen(options.listen).await?;
        let http = match options.http {
            Some(asked) => {
                let (listener, address) = listen(asked).await?;
                let tls = options.tls.as_ref().map(acceptor).transpose()?;
                Some(Http {
                    listener,
                    address,
                    tls,
                })
            }
            None => None,
        };
        let mut limits = options.limits;
        if options.users.is_none() {
            // Everyone has the same name.
            limits.sessions_per_user = usize::MAX;
            limits.statements_per_user = usize::MAX;
            limits.queued_per_user = usize::MAX;
        }
        let sessions = Sessions::new(session.clone(), limits.clone(), options.locked);
        let sessions = Arc::new(sessions);
        let meters = Arc::new(Meters::new(session.clone(), Arc::clone(&sessions)));
        let watcher: Weak<dyn QueryWatcher> = Arc::downgrade(&(Arc::clone(&meters) as _));
        session.runtime().watch_queries(watcher);
        let traces = options.otlp_endpoint.map(|endpoint| {
            let traces = Traces::to(&endpoint, session.clone());
            traces.map_err(|why| ServeError::Traces { endpoint, why })
        });
        let traces = traces.transpose()?.map(Arc::new);
        if let Some(traces) = &traces {
            let watcher: Weak<dyn QueryWatcher> = Arc::downgrade(&(Arc::clone(traces) as _));
            session.runtime().watch_queries(watcher);
        }
        let statements = Statements {
            admission: Arc::new(Admission::new(session.runtime().admission(), &limits)),
            limits,
            meters: Arc::clone(&meters),
            // As many threads as serve clients.
            executors: Arc::new(Executors::new(Handle::current().metrics().num_workers())),
        };
        let auth = Auth::new(options.users);
        let auth = Arc::new(auth.map_err(|status| ServeError::Random(status.message().into()))?);
        let door = Door {
            auth: Arc::clone(&auth),
            sessions: Arc::clone(&sessions),
            statements: Arc::new(statements),
        };
        let desk = Arc::new(Desk {
            session,
            sessions,
            auth,
            meters,
            timeline: Arc::default(),
            is_ready: Arc::new(AtomicBool::new(true)),
            executors_min: options.executors_min,
            started: Instant::now(),
        });
        Ok(Self {
            listener,
            address,
            transport,
            speaks_tls: options.tls.is_some(),
            door,
            http,
            desk,
            traces,
        })
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address as clients write it.
    pub fn url(&self) -> String {
        match self.speaks_tls {
            true => format!("grpc+tls://{}", self.address),
            false => format!("grpc://{}", self.address),
        }
    }

    /// Returns the address of the HTTP port as browsers write it, if there is one.
    pub fn http_url(&self) -> Option<String> {
        let http = self.http.as_ref()?;
        Some(match http.tls {
            Some(_) => format!("https://{}", http.address),
            None => format!("http://{}", http.address),
        })
    }

    /// Returns a view of the server that lives beside it.
    pub fn watch(&self) -> ServerWatch {
        ServerWatch {
            sessions: Arc::clone(&self.door.sessions),
        }
    }

    /// Answers until `stop` is ready; then lets no statement start, waits for those that run as long
    /// as the limits say, cancels the rest and returns.
    ///
    /// # Errors
    /// [`ServeError`] if the transport fails.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) -> Result<(), ServeError> {
        let sessions = Arc::clone(&self.door.sessions);
        let statements = Arc::clone(&self.door.statements);
        let Limits {
            connections,
            http_connections,
            drain,
            message_bytes,
            sweep: often,
            ..
        } = statements.limits;
        let limiter = port_limiter(&statements.limits, connections);
        let incoming = accept(self.listener, Arc::clone(&sessions), limiter);
        let service = FlightServiceServer::new(self.door)
            .max_decoding_message_size(message_bytes)
            .max_encoding_message_size(usize::MAX);
        let (health, health_service) = health_reporter();
        let health_service = InterceptedService::new(health_service, answered);
        health.set_serving::<FlightServiceServer<Door>>().await;
        tracing::info!(address = %self.address, "listening");
        let desk = self.desk;
        let http_limiter = port_limiter(&statements.limits, http_connections);
        let mut beside = pin!(beside(self.http, Arc::clone(&desk), http_limiter));
        let (end, ended) = oneshot::channel::<()>();
        let mut transport = self.transport;
        let server = transport
            .add_service(service)
            .add_service(health_service)
            .serve_with_incoming_shutdown(incoming, async {
                // It also ends if nobody is left to end it.
                let _ = ended.await;
            });
        let mut server = pin!(server);
        tokio::select! {
            ended = &mut server => return Ok(ended?),
            () = &mut beside => {}
            () = stop => {}
            () = sweep(&sessions, often) => {}
        }
        tracing::info!("shutting down: no statement starts from now on");
        desk.is_ready.store(false, Ordering::Relaxed);
        health.set_not_serving::<FlightServiceServer<Door>>().await;
        health
            .set_service_status("", ServingStatus::NotServing)
            .await;
        tokio::select! {
            ended = &mut server => return Ok(ended?),
            () = &mut beside => {}
            () = statements.admission.drain(drain) => {}
        }
        sessions.close_all();
        // The server may have ended by itself in this moment.
        let _ = end.send(());
        let ended = tokio::time::timeout(FAREWELL, server).await;
        if let Some(traces) = self.traces {
            traces.shut_down().await;
        }
        match ended {
            Ok(ended) => Ok(ended?),
            Err(_) => Ok(()),
        }
    }
}

/// A look at a server from outside.
#[derive(Clone, Debug)]
pub struct ServerWatch {
    sessions: Arc<Sessions>,
}

impl ServerWatch {
    /// Returns how many sessions are open.
    pub fn num_sessions(&self) -> usize {
        self.sessions.len()
    }
}

/// Makes what bounds the connections of a port.
fn port_limiter(limits: &Limits, total: usize) -> Arc<ConnectionLimiter> {
    ConnectionLimiter::new(ConnectionLimits {
        total,
        pending_per_address: limits.pending_per_address,
        pending_idle: limits.pending_idle,
    })
}

/// Notes that a client asks for the server's health, which nobody needs to authenticate for.
fn answered(request: Request<()>) -> Result<Request<()>, Status> {
    Connection::of(request.extensions())?.slot.answered();
    Ok(request)
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

/// Watches over the server and tells of it, for ever.
async fn beside(http: Option<Http>, desk: Arc<Desk>, limiter: Arc<ConnectionLimiter>) {
    let Desk {
        session,
        sessions,
        meters,
        timeline,
        ..
    } = &*desk;
    let release = release_memory(session, sessions);
    let Some(http) = http else {
        return release.await;
    };
    let router = router(Arc::clone(&desk));
    let answer = serve(http.listener, http.tls, router, limiter);
    tokio::join!(answer, timeline.run(session, sessions, meters), release);
}

fn transport(tls: Option<&Tls>) -> Result<Transport, ServeError> {
    let transport = Transport::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_header_list_size(HEADERS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(4 * WINDOW_BYTES)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE));
    let Some(tls) = tls else {
        return Ok(transport);
    };
    let identity = Identity::from_pem(&tls.certificate, &tls.key);
    let config = ServerTlsConfig::new().identity(identity);
    transport
        .tls_config(config)
        .map_err(|error| ServeError::Tls(chain(&error)))
}

/// Ends sessions that were left, for ever.
async fn sweep(sessions: &Sessions, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        sessions.sweep();
    }
}

/// Writes an error with its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes: Vec<String> = causes(error).map(ToString::to_string).collect();
    causes.join(": ")
}
