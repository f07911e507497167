//! Requests of a confined session to HTTP servers: a server that redirects sends them only where
//! statements may go themselves.
//!
//! `object_store` follows every redirect, and has no option for it; so the client is made here, of the
//! same options.

use std::str::FromStr;
use std::time::Duration;

use object_store::client::{HttpClient, HttpConnector};
use object_store::{ClientConfigKey, ClientOptions, Result};
use reqwest::redirect::{Attempt, Policy};
use reqwest::{Certificate, Client, ClientBuilder, NoProxy, Proxy};

use super::access::AllowedPaths;

/// Redirects that one request follows, as browsers do about.
const REDIRECTS_MAX: usize = 10;

/// The name by which servers know the client, unless an option gives another.
const USER_AGENT: &str = concat!("tidegate/", env!("CARGO_PKG_VERSION"));

/// Makes clients that stay within an allow-list.
#[derive(Debug)]
pub(super) struct ConfinedConnector {
    pub(super) allowed: AllowedPaths,
}

impl HttpConnector for ConfinedConnector {
    fn connect(&self, options: &ClientOptions) -> Result<HttpClient> {
        let allowed = self.allowed.clone();
        let policy = Policy::custom(move |attempt| {
            if attempt.previous().len() > REDIRECTS_MAX {
                return attempt.error(format!("it redirects more than {REDIRECTS_MAX} times"));
            }
            follow_allowed(&allowed, attempt)
        });
        let client = Options(options).client()?.redirect(policy).build();
        client.map(HttpClient::new).map_err(unusable)
    }
}

fn follow_allowed(allowed: &AllowedPaths, attempt: Attempt) -> reqwest::redirect::Action {
    match allowed.check_url(attempt.url()) {
        Ok(()) => attempt.follow(),
        Err(error) => attempt.error(error),
    }
}

/// The options that a store was given for its client.
struct Options<'a>(&'a ClientOptions);

impl Options<'_> {
    fn client(&self) -> Result<ClientBuilder> {
        let agent = self.text(ClientConfigKey::UserAgent);
        let mut client = Client::builder()
            .user_agent(agent.as_deref().unwrap_or(USER_AGENT))
            .https_only(!self.is_on(ClientConfigKey::AllowHttp))
            .danger_accept_invalid_certs(self.is_on(ClientConfigKey::AllowInvalidCertificates))
            .http2_keep_alive_while_idle(self.is_on(ClientConfigKey::Http2KeepAliveWhileIdle))
            .http2_max_frame_size(self.parsed(ClientConfigKey::Http2MaxFrameSize)?)
            // The length of an answer is the size of the file.
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate();
        if let Some(proxy) = self.proxy()? {
            client = client.proxy(proxy);
        }
        if let Some(certificate) = self.text(ClientConfigKey::ProxyCaCertificate) {
            let certificate = Certificate::from_pem(certificate.as_bytes());
            client = client.add_root_certificate(certificate.map_err(unusable)?);
        }
        if let Some(time) = self.time(ClientConfigKey::Timeout)? {
            client = client.timeout(time);
        }
        if let Some(time) = self.time(ClientConfigKey::ConnectTimeout)? {
            client = client.connect_timeout(time);
        }
        if let Some(time) = self.time(ClientConfigKey::PoolIdleTimeout)? {
            client = client.pool_idle_timeout(time);
        }
        if let Some(number) = self.parsed(ClientConfigKey::PoolMaxIdlePerHost)? {
            client = client.pool_max_idle_per_host(number);
        }
        if let Some(time) = self.time(ClientConfigKey::Http2KeepAliveInterval)? {
            client = client.http2_keep_alive_interval(time);
        }
        if let Some(time) = self.time(ClientConfigKey::Http2KeepAliveTimeout)? {
            client = client.http2_keep_alive_timeout(time);
        }
        if self.is_on(ClientConfigKey::Http1Only) {
            client = client.http1_only();
        }
        if self.is_on(ClientConfigKey::Http2Only) {
            client = client.http2_prior_knowledge();
        }
        Ok(client)
    }

    fn proxy(&self) -> Result<Option<Proxy>> {
        let Some(url) = self.text(ClientConfigKey::ProxyUrl) else {
            return Ok(None);
        };
        let proxy = Proxy::all(url).map_err(unusable)?;
        let excluded = self.text(ClientConfigKey::ProxyExcludes);
        Ok(Some(match excluded {
            Some(excluded) => proxy.no_proxy(NoProxy::from_string(&excluded)),
            None => proxy,
        }))
    }

    fn text(&self, key: ClientConfigKey) -> Option<String> {
        self.0.get_config_value(&key)
    }

    fn is_on(&self, key: ClientConfigKey) -> bool {
        let value = self.text(key);
        value.is_some_and(|value| ["1", "true", "on", "yes", "y"].contains(&&*value.to_lowercase()))
    }

    fn parsed<T: FromStr>(&self, key: ClientConfigKey) -> Result<Option<T>> {
        let Some(value) = self.text(key) else {
            return Ok(None);
        };
        match value.parse() {
            Ok(parsed) => Ok(Some(parsed)),
            Err(_) => Err(misspelt(key, "a number")),
        }
    }

    fn time(&self, key: ClientConfigKey) -> Result<Option<Duration>> {
        let Some(value) = self.text(key) else {
            return Ok(None);
        };
        match humantime::parse_duration(&value) {
            Ok(time) => Ok(Some(time)),
            Err(_) => Err(misspelt(key, "a time such as 30s")),
        }
    }
}

fn misspelt(key: ClientConfigKey, wanted: &str) -> object_store::Error {
    let name: &str = key.as_ref();
    object_store::Error::Generic {
        store: "HTTP",
        source: format!("http.{name} is {wanted}").into(),
    }
}

fn unusable(error: reqwest::Error) -> object_store::Error {
    object_store::Error::Generic {
        store: "HTTP",
        // It may hold a proxy's password.
        source: Box::new(error.without_url()),
    }
}
