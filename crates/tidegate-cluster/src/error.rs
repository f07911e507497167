//! Why a node of a cluster does not start.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

/// Why a scheduler or an executor cannot serve its cluster.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// Peers would talk in the clear over a network.
    #[error(
        "{address} is reached from other machines: give --cluster-tls-cert, --cluster-tls-key and \
         --cluster-tls-ca, or --cluster-insecure if the network between the machines is trusted"
    )]
    InTheClear {
        /// The address.
        address: SocketAddr,
    },
    /// The secret is too short to be one.
    #[error("the cluster secret has {len} bytes: it needs at least {min}, chosen at random")]
    ShortSecret {
        /// Its bytes.
        len: usize,
        /// The fewest that are allowed.
        min: usize,
    },
    /// A certificate or key cannot be used.
    #[error("the cluster's certificate, key or CA cannot be used: {0}")]
    Tls(String),
    /// The scheduler's URL cannot be used.
    #[error("'{url}' is no URL of a scheduler: {why}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The scheduler does not take the executor.
    #[error("the scheduler refused this executor: {0}")]
    Refused(String),
    /// The transport failed.
    #[error("the cluster's transport failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// Threads cannot be started.
    #[error("cannot start threads: {0}")]
    Threads(io::Error),
}
