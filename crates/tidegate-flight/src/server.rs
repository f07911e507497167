//! A server: it listens, answers, drains and ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_flight::flight_service_server::FlightServiceServer;
use tidegate::Session;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::transport::{Identity, Server as Transport, ServerTlsConfig};

use crate::admission::Admission;
use crate::auth::Auth;
use crate::connection::accept;
use crate::options::{Limits, ServerOptions, Tls};
use crate::service::Door;
use crate::sessions::Sessions;
use crate::statement::Statements;

/// How often sessions are looked through for those that were left.
const SWEEP: Duration = Duration::from_secs(10);
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

/// Why a server does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address can be reached from elsewhere, and is not protected.
    #[error(
        "{address} can be reached from other machines: give {missing}, listen on 127.0.0.1, or let \
         everyone in with --insecure"
    )]
    Unsafe {
        /// The address.
        address: SocketAddr,
        /// What is missing.
        missing: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// The certificate or key cannot be used.
    #[error("the TLS certificate or key cannot be used: {0}")]
    Tls(String),
    /// The transport failed.
    #[error("the server stopped: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// A server that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    transport: Transport,
    speaks_tls: bool,
    door: Door,
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
        let listen = |source| ServeError::Listen {
            address: options.listen,
            source,
        };
        let listener = TcpListener::bind(options.listen).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let limits = options.limits;
        let statements = Statements {
            admission: Admission::new(&limits),
            limits: limits.clone(),
        };
        let door = Door {
            auth: Auth::new(options.users),
            sessions: Arc::new(Sessions::new(session, limits, options.locked)),
            statements: Arc::new(statements),
        };
        Ok(Self {
            listener,
            address,
            transport,
            speaks_tls: options.tls.is_some(),
            door,
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
            drain,
            message_bytes,
            ..
        } = statements.limits;
        let incoming = accept(self.listener, Arc::clone(&sessions), connections);
        let service = FlightServiceServer::new(self.door)
            .max_decoding_message_size(message_bytes)
            .max_encoding_message_size(usize::MAX);
        let (end, ended) = oneshot::channel::<()>();
        let mut transport = self.transport;
        let server = transport
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, async {
                // It also ends if nobody is left to end it.
                let _ = ended.await;
            });
        let mut server = std::pin::pin!(server);
        tokio::select! {
            ended = &mut server => return Ok(ended?),
            () = stop => {}
            () = sweep(&sessions) => {}
        }
        tokio::select! {
            ended = &mut server => return Ok(ended?),
            () = statements.admission.drain(drain) => {}
        }
        sessions.close_all();
        // The server may have ended by itself in this moment.
        let _ = end.send(());
        match tokio::time::timeout(FAREWELL, server).await {
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
async fn sweep(sessions: &Sessions) {
    loop {
        tokio::time::sleep(SWEEP).await;
        sessions.sweep();
    }
}

/// Writes an error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
