//! Where a server is: its URL read, its certificate's signers found, its channel opened.

use std::error::Error as StdError;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use tidegate::{Error, ErrorKind, causes};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use super::ConnectOptions;

/// The port of a server unless the URL names one.
const PORT: u16 = 31337;

/// How long a connection is waited for.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// How often a connection is tried and how long an answer is waited for, so that one that is dead is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Where systems keep the certificates that they trust.
const TRUSTED: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A server's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Address {
    host: String,
    port: u16,
    is_tls: bool,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "grpc+tls" } else { "grpc" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

impl Address {
    /// Reads the URLs of one or several servers, with commas between them.
    pub(super) fn parse_all(options: &ConnectOptions) -> Result<Vec<Self>, Error> {
        let urls = options.url.split(',').map(str::trim);
        let one = |url: &str| {
            Self::parse(&ConnectOptions {
                url: url.to_string(),
                ..options.clone()
            })
        };
        urls.map(one).collect()
    }

    /// Reads a URL, and refuses to send a secret where others can read it.
    pub(super) fn parse(options: &ConnectOptions) -> Result<Self, Error> {
        let wrong = |why: &str| {
            let message = format!(
                "'{}' is not a server's URL: {why}; expected grpc+tls://host:port, or grpc://host:port without \
                 TLS",
                shown(&options.url)
            );
            Error::new(ErrorKind::Sql, message)
        };
        let Some((scheme, rest)) = options.url.split_once("://") else {
            return Err(wrong("it has no scheme"));
        };
        let is_tls = match scheme {
            "grpc+tls" | "grpcs" => true,
            "grpc" | "grpc+tcp" => false,
            _ => return Err(wrong("the scheme is not known")),
        };
        let rest = rest.trim_end_matches('/');
        if rest.contains(['/', '?', '#']) {
            return Err(wrong("nothing may follow the port"));
        }
        if rest.contains('@') {
            return Err(wrong("leave the name and password out, and use --user"));
        }
        let (host, port) = match rest.rsplit_once(':') {
            // An IPv6 address without a port ends with its bracket.
            Some((host, port)) if !port.ends_with(']') => (
                host,
                port.parse()
                    .map_err(|_| wrong("the port is not a number"))?,
            ),
            _ => (rest, PORT),
        };
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let address = Self {
            host: host.to_string(),
            port,
            is_tls,
        };
        let is_secret = options.password.is_some() || options.token.is_some();
        if is_secret && !is_tls && !address.is_loopback() {
            return Err(wrong(
                "a password or token would travel where others can read it, so use TLS",
            ));
        }
        Ok(address)
    }

    fn is_loopback(&self) -> bool {
        let bare = self.host.trim_matches(['[', ']']);
        self.host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Opens a connection.
    pub(super) async fn connect(&self, ca: Option<&[u8]>) -> Result<Channel, Error> {
        let scheme = if self.is_tls { "https" } else { "http" };
        let place = format!("{}:{}", self.host, self.port);
        let failed = |what: &str, error: &(dyn StdError + 'static)| {
            // The innermost cause is the one that says something.
            let why = causes(error).last().unwrap_or(error);
            let message = format!("{what} {place}: {why}");
            Error::new(ErrorKind::Io, message)
        };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{place}"))
            .map_err(|error| failed("there can be no server at", &error))?
            .connect_timeout(CONNECT_MAX)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        if self.is_tls {
            let trusted = match ca {
                Some(pem) => pem.to_vec(),
                None => trusted()?,
            };
            let tls = ClientTlsConfig::new()
                .ca_certificate(Certificate::from_pem(trusted))
                .domain_name(self.host.trim_matches(['[', ']']));
            endpoint = endpoint
                .tls_config(tls)
                .map_err(|error| failed("no TLS with", &error))?;
        }
        let connected = tokio::time::timeout(CONNECT_MAX, endpoint.connect()).await;
        match connected {
            Ok(Ok(channel)) => Ok(channel),
            Ok(Err(error)) => Err(failed("cannot connect to", &error)),
            Err(_) => {
                let message = format!(
                    "cannot connect to {place}: nobody answered within {} s",
                    CONNECT_MAX.as_secs()
                );
                Err(Error::new(ErrorKind::Io, message))
            }
        }
    }
}

/// Returns a URL without what may be a password in it.
fn shown(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://…@{host}"),
        _ => url.to_string(),
    }
}

/// Reads the certificates that this machine trusts.
fn trusted() -> Result<Vec<u8>, Error> {
    let found = TRUSTED.iter().find_map(|path| std::fs::read(path).ok());
    found.ok_or_else(|| {
        let message = format!(
            "this machine's trusted certificates were not found (looked for {}): name the server's \
             with --ca",
            TRUSTED.join(", ")
        );
        Error::new(ErrorKind::Io, message)
    })
}

#[cfg(test)]
mod tests;
