//! HTTP connections: accepted as the limiter lets them in, with TLS where there is a certificate.

use std::sync::Arc;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::ServeError;
use crate::limiter::ConnectionLimiter;
use crate::options::Tls;

/// How long a client that has authenticated may take to send the headers of its next request.
const PATIENCE: Duration = Duration::from_secs(10);

/// Makes what turns connections into TLS connections.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, ServeError> {
    let wrong = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
    let chain = CertificateDer::pem_slice_iter(&tls.certificate);
    let chain = chain.collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| wrong(&error))?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key).map_err(|error| wrong(&error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_no_client_auth()
        .with_single_cert(chain, key);
    let mut config = config.map_err(|error| wrong(&error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Answers connections, for ever; dropping it ends those that are open. Requests carry the place of
/// their connection, which notes who has authenticated.
pub(crate) async fn serve(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    router: Router,
    limiter: Arc<ConnectionLimiter>,
) {
    let mut connections = JoinSet::new();
    loop {
        let stream = limiter.accept(&listener).await;
        while connections.try_join_next().is_some() {}
        let router = router.clone().layer(Extension(Arc::clone(stream.slot())));
        let tls = tls.clone();
        connections.spawn(async move {
            match tls {
                None => converse(stream, router).await,
                // A handshake has the time of a connection on which nobody has authenticated.
                Some(tls) => {
                    if let Ok(stream) = tls.accept(stream).await {
                        converse(stream, router).await;
                    }
                }
            }
        });
    }
}

async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, router: Router) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE);
    let service = TowerToHyperService::new(router);
    // A client that breaks off is nothing to tell.
    let _ = builder
        .serve_connection(TokioIo::new(stream), service)
        .await;
}
