//! Why a server does not start, or ends.

use std::net::SocketAddr;

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
    /// Traces cannot be sent.
    #[error("traces cannot be sent to the OTLP endpoint {endpoint}: {why}")]
    Traces {
        /// The collector's URL.
        endpoint: String,
        /// Why not.
        why: String,
    },
    /// The system gives no random bytes.
    #[error("{0}")]
    Random(String),
    /// The transport failed.
    #[error("the server stopped: {0}")]
    Transport(#[from] tonic::transport::Error),
}
