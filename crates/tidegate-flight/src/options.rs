//! What may be asked of a server, and which addresses are safe.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::error::ServeError;
use crate::users::Users;

/// The port on which Flight SQL servers listen by custom.
pub const DEFAULT_PORT: u16 = 31_337;

/// What a server is asked for, each with a safe default.
#[derive(Debug)]
pub struct ServerOptions {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where health, metrics and the live page are told over HTTP; `None` for nowhere.
    pub http: Option<SocketAddr>,
    /// The certificate with which it speaks TLS; `None` speaks in the clear.
    pub tls: Option<Tls>,
    /// Who may call; `None` for everyone who can reach the address.
    pub users: Option<Users>,
    /// Whether it may listen on other addresses than loopback without TLS or users.
    pub insecure: bool,
    /// The URL of a collector of OpenTelemetry that gets a span of each query by OTLP over gRPC, such as
    /// `http://127.0.0.1:4317`; `None` for nobody.
    pub otlp_endpoint: Option<String>,
    /// How much it does at a time.
    pub limits: Limits,
    /// Executors that must be ready before the server says that it is; 0 for a server without a cluster.
    pub executors_min: usize,
    /// Settings that clients cannot change, as in [`tidegate::LOCKED_SETTINGS`].
    pub locked: Vec<String>,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Tls {
    /// The certificate, followed by those that it was signed with.
    pub certificate: Vec<u8>,
    /// The certificate's key.
    pub key: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

/// How much a server does at a time, and for how long.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Statements that run at a time.
    pub statements: usize,
    /// Statements that wait for a permit; one more is refused. As many results are kept that nobody
    /// reads while others wait.
    pub queued: usize,
    /// Statements of one user that run at a time, where there are users.
    pub statements_per_user: usize,
    /// Statements of one user that wait for a permit, where there are users.
    pub queued_per_user: usize,
    /// How long a statement waits for a permit.
    pub queue_wait: Duration,
    /// How long a statement runs, from its admission to its last row; `None` for no limit.
    pub statement_timeout: Option<Duration>,
    /// How long a client may leave rows unread, or an upload unfinished, before it is given up.
    pub stall: Duration,
    /// How long a shutdown waits for the statements that run.
    pub drain: Duration,
    /// How long a session that logged in is kept without a call.
    pub session_idle: Duration,
    /// How long a result is kept that nobody fetches.
    pub result_idle: Duration,
    /// How often sessions, tokens and results are looked through for those whose time is over.
    pub sweep: Duration,
    /// How long a token is good.
    pub token_life: Duration,
    /// Sessions at a time.
    pub sessions: usize,
    /// Sessions of one user at a time, where there are users.
    pub sessions_per_user: usize,
    /// Connections of the Flight port at a time.
    pub connections: usize,
    /// Connections of the HTTP port at a time.
    pub http_connections: usize,
    /// Connections of one address at a time on which nobody has authenticated yet, for each port.
    pub pending_per_address: usize,
    /// How long a connection may be idle on which nobody has authenticated.
    pub pending_idle: Duration,
    /// Prepared statements, and results that nobody has fetched yet, each for one session.
    pub handles: usize,
    /// Bytes of one message of a client.
    pub message_bytes: usize,
    /// Bytes of one statement's text.
    pub statement_bytes: usize,
    /// Rows of parameters that one statement is given.
    pub parameter_rows: usize,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        let statements = cores.max(4);
        Self {
            statements,
            queued: 8 * statements,
            statements_per_user: usize::MAX,
            queued_per_user: usize::MAX,
            queue_wait: Duration::from_secs(60),
            statement_timeout: None,
            stall: Duration::from_secs(300),
            drain: Duration::from_secs(30),
            session_idle: Duration::from_secs(30 * 60),
            result_idle: Duration::from_secs(10 * 60),
            sweep: Duration::from_secs(10),
            token_life: Duration::from_secs(12 * 3600),
            sessions: 1_000,
            sessions_per_user: 250,
            connections: 1_000,
            http_connections: 128,
            pending_per_address: 256,
            pending_idle: Duration::from_secs(5),
            handles: 1_000,
            message_bytes: 64 << 20,
            statement_bytes: 1 << 20,
            parameter_rows: 100_000,
        }
    }
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, DEFAULT_PORT)),
            http: None,
            tls: None,
            users: None,
            insecure: false,
            otlp_endpoint: None,
            limits: Limits::default(),
            executors_min: 0,
            locked: tidegate::LOCKED_SETTINGS.map(String::from).to_vec(),
        }
    }
}

impl ServerOptions {
    /// Makes sure that nobody can listen in or walk in by accident.
    ///
    /// # Errors
    /// [`ServeError::Unsafe`] for an address, of either port, beyond loopback without TLS and users, unless
    /// `insecure` is set.
    pub fn check(&self) -> Result<(), ServeError> {
        let missing = match (&self.tls, &self.users) {
            (Some(_), Some(_)) => return Ok(()),
            (None, Some(_)) => "TLS (--tls-cert, --tls-key)",
            (Some(_), None) => "users (--users)",
            (None, None) => "TLS (--tls-cert, --tls-key) and users (--users)",
        };
        let mut addresses = [Some(self.listen), self.http].into_iter().flatten();
        match addresses.find(|address| !address.ip().is_loopback()) {
            Some(address) if !self.insecure => Err(ServeError::Unsafe { address, missing }),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
