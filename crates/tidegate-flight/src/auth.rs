//! Who calls: a name and a password become a token, and a token a session.
//!
//! Where the server has users, each call but the handshake carries a token. Where it has none, a
//! client may log in under any name to have a session beyond its connection; otherwise it has one for
//! its connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tokio::sync::Semaphore;
use tonic::metadata::MetadataMap;
use tonic::transport::server::TlsConnectInfo;
use tonic::{Extensions, Status};

use crate::connection::Connection;
use crate::sessions::{ClientSession, Sessions};
use crate::users::{Person, Users};

/// Passwords that are hashed at a time: each takes 19 MB and a core.
const CHECKS_MAX: usize = 2;

/// How long a login waits for others.
const CHECK_WAIT: Duration = Duration::from_secs(10);

/// The name of whoever does not log in.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// Some clients write `=` at the end, and some do not.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Who may call.
#[derive(Debug)]
pub(crate) struct Auth {
    users: Option<Arc<Users>>,
    checks: Semaphore,
}

impl Auth {
    pub(crate) fn new(users: Option<Users>) -> Self {
        Self {
            users: users.map(Arc::new),
            checks: Semaphore::new(CHECKS_MAX),
        }
    }

    /// Turns a name and password into a token.
    pub(crate) async fn log_in(
        &self,
        headers: &MetadataMap,
        sessions: &Sessions,
    ) -> Result<String, Status> {
        let (name, password) = basic(headers)?;
        let person = self.person(name, password).await?;
        sessions.log_in(person)
    }

    /// Tells whether somebody must say who they are.
    pub(crate) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Finds out who somebody is; without users everybody is the same.
    pub(crate) async fn person(&self, name: String, password: String) -> Result<Person, Status> {
        match &self.users {
            Some(users) => self.check(Arc::clone(users), name, password).await,
            None => Ok(Person::anonymous()),
        }
    }

    async fn check(
        &self,
        users: Arc<Users>,
        name: String,
        password: String,
    ) -> Result<Person, Status> {
        let permit = tokio::time::timeout(CHECK_WAIT, self.checks.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(Status::unavailable(
                "too many clients log in at this moment: try again later",
            ));
        };
        let asked = name.clone();
        let checked = tokio::task::spawn_blocking(move || users.check(&asked, &password)).await;
        match checked {
            Ok(Some(person)) => Ok(person),
            Ok(None) => {
                tracing::warn!(user = name, "a login was refused");
                Err(Status::unauthenticated("the name or the password is wrong"))
            }
            Err(_) => Err(Status::internal("the password could not be checked")),
        }
    }

    /// Finds or opens the session of a call.
    pub(crate) fn caller(
        &self,
        headers: &MetadataMap,
        extensions: &Extensions,
        sessions: &Sessions,
    ) -> Result<Arc<ClientSession>, Status> {
        let session = match authorization(headers)? {
            Some(Authorization::Bearer(token)) => sessions.of_token(token)?,
            Some(Authorization::Other(_)) | None if self.users.is_none() => {
                of_connection(extensions, sessions)?
            }
            Some(Authorization::Other(scheme)) => {
                return Err(Status::unauthenticated(format!(
                    "calls carry 'authorization: Bearer …', not {scheme}: the handshake turns a name \
                     and password into a token"
                )));
            }
            None => {
                return Err(Status::unauthenticated(
                    "this server needs a name and password: log in",
                ));
            }
        };
        session.touch();
        Ok(session)
    }
}

fn of_connection(
    extensions: &Extensions,
    sessions: &Sessions,
) -> Result<Arc<ClientSession>, Status> {
    let plain = extensions.get::<Arc<Connection>>();
    let tls = extensions.get::<TlsConnectInfo<Arc<Connection>>>();
    let Some(connection) = plain.or_else(|| tls.map(TlsConnectInfo::get_ref)) else {
        return Err(Status::internal("the call came by no connection"));
    };
    let mut kept = connection.session.lock();
    if let Some(session) = &*kept
        && !session.closed.is_cancelled()
    {
        return Ok(Arc::clone(session));
    }
    if connection.is_gone.load(Ordering::Relaxed) {
        return Err(Status::cancelled("the connection is gone"));
    }
    let session = sessions.open(Person::anonymous())?;
    *kept = Some(Arc::clone(&session));
    Ok(session)
}

enum Authorization<'a> {
    Bearer(&'a str),
    Other(&'a str),
}

fn authorization(headers: &MetadataMap) -> Result<Option<Authorization<'_>>, Status> {
    let Some(value) = headers.get("authorization") else {
        return Ok(None);
    };
    let value = value
        .to_str()
        .map_err(|_| Status::unauthenticated("the authorization header is no text"))?;
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    Ok(Some(match scheme.eq_ignore_ascii_case("bearer") {
        true => Authorization::Bearer(rest.trim()),
        false => Authorization::Other(scheme),
    }))
}

/// Reads the name and password of `authorization: Basic …`.
fn basic(headers: &MetadataMap) -> Result<(String, String), Status> {
    let wrong = || {
        Status::unauthenticated("the handshake needs 'authorization: Basic …' with name:password")
    };
    let value = headers.get("authorization").ok_or_else(wrong)?;
    credentials(value.to_str().map_err(|_| wrong())?)
}

/// Reads the name and password of `Basic …`.
pub(crate) fn credentials(value: &str) -> Result<(String, String), Status> {
    let wrong =
        || Status::unauthenticated("a login is 'authorization: Basic …' with name:password");
    let (scheme, encoded) = value.split_once(' ').ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(wrong());
    }
    let decoded = BASE64.decode(encoded.trim()).map_err(|_| wrong())?;
    let text = String::from_utf8(decoded).map_err(|_| wrong())?;
    let (name, password) = text.split_once(':').ok_or_else(wrong)?;
    Ok((name.to_string(), password.to_string()))
}
