//! How the processes of a cluster reach and trust each other.

use std::net::SocketAddr;
use std::time::Duration;

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig};
use url::Url;

use crate::error::ClusterError;
use crate::secret::Secret;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How often a silent peer is asked whether it is there, and how long it has to answer: together less than
/// four seconds. Calls are answered by threads that compute nothing.
const PING: Duration = Duration::from_secs(1);
const PONG: Duration = Duration::from_millis(2_500);

/// What a process of a cluster shows, and whom it believes; all in PEM.
#[derive(Clone)]
pub struct ClusterTls {
    /// Its certificate, followed by those that it was signed with.
    pub certificate: Vec<u8>,
    /// The certificate's key.
    pub key: Vec<u8>,
    /// The certificates that those of its peers are signed with.
    pub ca: Vec<u8>,
}

impl std::fmt::Debug for ClusterTls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterTls").finish_non_exhaustive()
    }
}

/// How a process reaches its peers, and is reached.
#[derive(Clone, Debug)]
pub struct Links {
    /// What every call proves the knowledge of.
    pub secret: Secret,
    /// `None` talks in the clear, which is for one machine.
    pub tls: Option<ClusterTls>,
    /// Whether it may talk in the clear over a network too.
    pub insecure: bool,
}

impl Links {
    /// Refuses an address at which other machines would talk in the clear.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<(), ClusterError> {
        match self.tls.is_some() || self.insecure || address.ip().is_loopback() {
            true => Ok(()),
            false => Err(ClusterError::InTheClear { address }),
        }
    }

    /// Returns the scheme of the URLs of peers.
    pub(crate) fn scheme(&self) -> &'static str {
        match self.tls {
            Some(_) => "https",
            None => "http",
        }
    }

    /// Makes what serves calls.
    pub(crate) fn server(&self) -> Result<Server, ClusterError> {
        let server = Server::builder()
            .http2_keepalive_interval(Some(PING))
            .http2_keepalive_timeout(Some(PONG));
        let Some(tls) = &self.tls else {
            return Ok(server);
        };
        let identity = Identity::from_pem(&tls.certificate, &tls.key);
        let server = server.tls_config(ServerTlsConfig::new().identity(identity));
        server.map_err(|error| ClusterError::Tls(error.to_string()))
    }

    /// Makes what connects to a peer.
    pub(crate) fn endpoint(&self, url: &Url) -> Result<Endpoint, tonic::transport::Error> {
        let endpoint = Endpoint::from_shared(url.to_string())?
            .connect_timeout(CONNECT)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .keep_alive_while_idle(true)
            .tcp_nodelay(true);
        match &self.tls {
            None => Ok(endpoint),
            Some(tls) => {
                let ca = Certificate::from_pem(&tls.ca);
                endpoint.tls_config(ClientTlsConfig::new().ca_certificate(ca))
            }
        }
    }
}
