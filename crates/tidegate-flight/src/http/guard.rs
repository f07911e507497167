//! Who asks over HTTP, and what browsers are kept from doing in somebody's name.
//!
//! Where the server has users, a request carries a token, as a Flight call does, or a name and a
//! password, as Prometheus sends them. No cookie is set, so that a foreign page cannot send what a
//! browser keeps. Where it has no users, whoever reaches the port is let in, but for a foreign page:
//! a name that leads to this machine is not taken for an address of it, and what changes something
//! needs a header that such a page cannot send unasked.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidegate::{ClientOptions, Session};
use tonic::{Code, Status};

use super::Desk;
use crate::auth::{ANONYMOUS, credentials};
use crate::limiter::ConnectionSlot;
use crate::sessions::ClientSession;
use crate::users::Person;

/// The header of requests that change something.
pub(super) const INTENT: &str = "x-tidegate-request";

/// Whoever asks, with a session that sees what they may see.
pub(super) struct Viewer {
    pub(super) session: Session,
    pub(super) user: Arc<str>,
    pub(super) is_admin: bool,
    /// What their token stands for.
    pub(super) login: Option<Arc<ClientSession>>,
}

/// Why a request is not answered.
pub(super) struct Refusal(StatusCode, String);

impl Refusal {
    pub(super) fn new(status: StatusCode, why: impl Into<String>) -> Self {
        Self(status, why.into())
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        let code = match status.code() {
            Code::Unauthenticated => StatusCode::UNAUTHORIZED,
            Code::PermissionDenied => StatusCode::FORBIDDEN,
            Code::InvalidArgument => StatusCode::BAD_REQUEST,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self(code, status.message().to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(code, why) = self;
        let body = Json(json!({ "error": why }));
        match code {
            // Not Basic: a browser would ask by itself, and keep what it is told.
            StatusCode::UNAUTHORIZED => {
                (code, [(header::WWW_AUTHENTICATE, "Bearer")], body).into_response()
            }
            _ => (code, body).into_response(),
        }
    }
}

impl FromRequestParts<Arc<Desk>> for Viewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Refusal> {
        let headers = &parts.headers;
        check_origin(headers, !desk.auth.has_users())?;
        let authorization = headers.get(header::AUTHORIZATION);
        let authorization = authorization.map(|value| value.to_str().unwrap_or_default());
        let slot = slot_of(parts)?;
        if let Some(token) = authorization.and_then(|value| value.strip_prefix("Bearer ")) {
            if let Some(person) = desk.auth.jwt_person(token.trim(), slot) {
                return Ok(Self::of_person(desk, person?));
            }
            let login = desk.sessions.of_token(token.trim())?;
            slot.authenticated();
            return Ok(Self::of_login(login));
        }
        if !desk.auth.has_users() {
            slot.authenticated();
            return Ok(Self::of_person(desk, Person::anonymous()));
        }
        let Some(authorization) = authorization else {
            let why = "this server needs a name and password: log in";
            return Err(Refusal::new(StatusCode::UNAUTHORIZED, why));
        };
        let (name, password) = credentials(authorization)?;
        let person = desk.auth.person(name, password, slot).await?;
        Ok(Self::of_person(desk, person))
    }
}

/// Returns the place of the connection that a request came by.
fn slot_of(parts: &Parts) -> Result<&Arc<ConnectionSlot>, Refusal> {
    parts.extensions.get().ok_or_else(|| {
        let why = "the request came by no connection";
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, why)
    })
}

impl Viewer {
    fn of_login(login: Arc<ClientSession>) -> Self {
        login.touch();
        Self {
            session: login.session.clone(),
            user: Arc::clone(&login.user),
            is_admin: login.is_admin,
            login: Some(login),
        }
    }

    fn of_person(desk: &Desk, person: Person) -> Self {
        let user: Arc<str> = person.name.as_str().into();
        let options = ClientOptions {
            user: person.name,
            is_admin: person.is_admin,
            locked: Vec::new(),
        };
        Self {
            session: desk.session.observer_session(options),
            user,
            is_admin: person.is_admin,
            login: None,
        }
    }
}

/// A request that changes something: it says so in a header that no foreign page can send.
pub(super) struct Intent;

impl FromRequestParts<Arc<Desk>> for Intent {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, desk: &Arc<Desk>) -> Result<Self, Refusal> {
        check_origin(&parts.headers, !desk.auth.has_users())?;
        match parts.headers.contains_key(INTENT) {
            true => Ok(Self),
            false => Err(Refusal::new(
                StatusCode::FORBIDDEN,
                format!("a request that changes something carries the header {INTENT}: 1"),
            )),
        }
    }
}

/// Refuses requests that a browser makes for a foreign page.
fn check_origin(headers: &HeaderMap, everyone_is_let_in: bool) -> Result<(), Refusal> {
    let foreign = |why: &str| Err(Refusal::new(StatusCode::FORBIDDEN, why));
    if let Some(site) = headers.get("sec-fetch-site")
        && site != "same-origin"
        && site != "none"
    {
        return foreign("requests of other sites are refused");
    }
    if !everyone_is_let_in {
        return Ok(());
    }
    let host = headers.get(header::HOST).map(|host| host.to_str());
    match host {
        Some(Ok(host)) if is_address(host) => Ok(()),
        _ => foreign(
            "a server without users is reached by its address only, as in http://127.0.0.1:8080: \
             a host name could lead anywhere",
        ),
    }
}

/// Tells whether a Host header is an address or `localhost`, with or without a port.
fn is_address(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or("", |(address, _)| address),
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

impl Person {
    /// Whoever does not log in.
    pub(crate) fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.into(),
            is_admin: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_address;

    #[test]
    fn names_are_no_addresses() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]:80",
            "[::1]",
            "localhost:1",
            "10.0.0.7:1",
        ] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "[::1",
            "::1:",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }
}
