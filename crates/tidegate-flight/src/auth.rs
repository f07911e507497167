//! Who calls: a name and a password become a token, and a token a session.
//!
//! Where the server has users, each call but the handshake carries a token, or the name and password
//! themselves, or a token of an identity provider: then the caller has a session for its connection, as
//! everybody has where there are no users. There a client may log in under any name to have a session beyond its connection.

mod verified;

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tokio::sync::Semaphore;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Status};

use crate::connection::Connection;
use crate::limiter::ConnectionSlot;
use crate::sessions::{ClientSession, Sessions};
use crate::users::{Jwt, Person, Users};

use verified::VerifiedCredentials;

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
    verified: VerifiedCredentials,
    checks: Semaphore,
}

impl Auth {
    /// # Errors
    /// If the system gives no random bytes.
    pub(crate) fn new(users: Option<Users>) -> Result<Self, Status> {
        Ok(Self {
            users: users.map(Arc::new),
            verified: VerifiedCredentials::new()?,
            checks: Semaphore::new(CHECKS_MAX),
        })
    }

    /// Turns a name and password, or a token of an identity provider, into a token.
    pub(crate) async fn log_in(
        &self,
        headers: &MetadataMap,
        extensions: &Extensions,
        sessions: &Sessions,
    ) -> Result<String, Status> {
        let slot = &Connection::of(extensions)?.slot;
        let person = match authorization(headers)? {
            Some(Authorization::Bearer(token)) => self.jwt_person(token, slot),
            Some(Authorization::Other(value)) => {
                let (name, password) = credentials(value)?;
                Some(self.person(name, password, slot).await)
            }
            None => None,
        };
        let person = person.ok_or_else(|| {
            Status::unauthenticated(
                "the handshake needs 'authorization: Basic …' with name:password",
            )
        })?;
        sessions.log_in(person?)
    }

    /// Finds out whose a token of an identity provider is, who is authenticated on the connection from then
    /// on; `None` if it is none, or none is taken here.
    pub(crate) fn jwt_person(
        &self,
        token: &str,
        slot: &Arc<ConnectionSlot>,
    ) -> Option<Result<Person, Status>> {
        let jwt = self.users.as_ref()?.jwt()?;
        let person = Jwt::is_jwt(token).then(|| jwt.check(token))?;
        if person.is_ok() {
            slot.authenticated();
        }
        Some(person)
    }

    /// Tells whether somebody must say who they are.
    pub(crate) fn has_users(&self) -> bool {
        self.users.is_some()
    }

    /// Finds out who somebody is, who is authenticated on the connection from then on; without users
    /// everybody is the same.
    pub(crate) async fn person(
        &self,
        name: String,
        password: String,
        slot: &Arc<ConnectionSlot>,
    ) -> Result<Person, Status> {
        let person = match &self.users {
            Some(users) => self.check(users, name, password, slot).await?,
            None => Person::anonymous(),
        };
        slot.authenticated();
        Ok(person)
    }

    async fn check(
        &self,
        users: &Arc<Users>,
        name: String,
        password: String,
        slot: &Arc<ConnectionSlot>,
    ) -> Result<Person, Status> {
        let credential = self.verified.credential(&name, &password)?;
        let known = match self.verified.find(&credential) {
            Some(known) => known,
            None => {
                let _checking = slot.checking();
                let person = self.hash(users, name.clone(), password).await?;
                self.verified.keep(credential, person.clone());
                person
            }
        };
        known.ok_or_else(|| {
            tracing::warn!(user = name, "a login was refused");
            Status::unauthenticated("the name or the password is wrong")
        })
    }

    /// Checks a password on a thread of its own; `None` if it or the name is wrong.
    async fn hash(
        &self,
        users: &Arc<Users>,
        name: String,
        password: String,
    ) -> Result<Option<Person>, Status> {
        let permit = tokio::time::timeout(CHECK_WAIT, self.checks.acquire()).await;
        let Ok(Ok(_permit)) = permit else {
            return Err(Status::unavailable(
                "too many clients log in at this moment: try again later",
            ));
        };
        let users = Arc::clone(users);
        let checked = tokio::task::spawn_blocking(move || users.check(&name, &password)).await;
        checked.map_err(|_| Status::internal("the password could not be checked"))
    }

    /// Finds or opens the session of a call.
    pub(crate) async fn caller(
        &self,
        headers: &MetadataMap,
        extensions: &Extensions,
        sessions: &Sessions,
    ) -> Result<Arc<ClientSession>, Status> {
        let connection = Connection::of(extensions)?;
        let session = match authorization(headers)? {
            Some(Authorization::Bearer(token)) => match self.jwt_person(token, &connection.slot) {
                Some(person) => connection.session(person?, sessions)?,
                None => sessions.of_token(token)?,
            },
            Some(Authorization::Other(..)) | None if self.users.is_none() => {
                connection.session(Person::anonymous(), sessions)?
            }
            Some(Authorization::Other(value)) => {
                let (name, password) = credentials(value)?;
                let person = self.person(name, password, &connection.slot).await?;
                connection.session(person, sessions)?
            }
            None => {
                return Err(Status::unauthenticated(
                    "this server needs a name and password: log in",
                ));
            }
        };
        connection.slot.authenticated();
        session.touch();
        Ok(session)
    }
}

enum Authorization<'a> {
    /// A token.
    Bearer(&'a str),
    /// A header of another scheme, whole.
    Other(&'a str),
}

fn authorization(headers: &MetadataMap) -> Result<Option<Authorization<'_>>, Status> {
    let Some(value) = headers.get("authorization") else {
        return Ok(None);
    };
    let value = value
        .to_str()
        .map_err(|_| Status::unauthenticated("the authorization header is not text"))?;
    let (scheme, rest) = value.split_once(' ').unwrap_or((value, ""));
    Ok(Some(match scheme.eq_ignore_ascii_case("bearer") {
        true => Authorization::Bearer(rest.trim()),
        false => Authorization::Other(value),
    }))
}

/// Reads the name and password of `Basic …`.
pub(crate) fn credentials(value: &str) -> Result<(String, String), Status> {
    let wrong = || {
        Status::unauthenticated(
            "calls carry 'authorization: Bearer …' with the token of a login, or \
                                    'authorization: Basic …' with name:password",
        )
    };
    let (scheme, encoded) = value.split_once(' ').ok_or_else(wrong)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(wrong());
    }
    let decoded = BASE64.decode(encoded.trim()).map_err(|_| wrong())?;
    let text = String::from_utf8(decoded).map_err(|_| wrong())?;
    let (name, password) = text.split_once(':').ok_or_else(wrong)?;
    Ok((name.to_string(), password.to_string()))
}
