//! The HTTP port beside the Flight port: is the server there, is it ready, what does it count, and one
//! live page.
//!
//! In reading order: `listen` (connections), `guard` (who asks), `api` (what the page asks for), `query` (one query,
//! for the page and as a file), and the page: `page.html`, `style.css`, `draw.js` (pictures) and `page.js`. `/health` and `/ready` tell nothing but a word and are open to everybody.

mod api;
mod guard;
pub(crate) mod listen;
mod query;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use tidegate::Session;

use crate::auth::Auth;
use crate::limiter::ConnectionSlot;
use crate::meters::{METRICS_TYPE, Meters};
use crate::random::{hex, secret};
use crate::sessions::Sessions;
use crate::timeline::Timeline;

use guard::{Refusal, Viewer};

pub use query::report_page;

/// Bytes of a request's body.
const BODY_MAX: usize = 16 << 10;
/// How long a request may take, its body included.
const REQUEST_MAX: Duration = Duration::from_secs(30);

/// The page; `{{nonce}}` is what its script and style are known by.
const PAGE: &str = include_str!("http/page.html");
const STYLE: &str = include_str!("http/style.css");
/// Draws queries and time; a report has it too.
const DRAWING: &str = include_str!("http/draw.js");
/// Asks for what is drawn.
const SCRIPT: &str = include_str!("http/page.js");

/// What answers HTTP requests.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) session: Session,
    pub(crate) sessions: Arc<Sessions>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) timeline: Arc<Timeline>,
    /// Whether new statements are let in.
    pub(crate) is_ready: Arc<AtomicBool>,
    /// Executors that must be ready too.
    pub(crate) executors_min: usize,
    pub(crate) started: Instant,
}

/// Makes the routes.
pub(crate) fn router(desk: Arc<Desk>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(async || "ok\n"))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/status", get(api::status))
        .route("/api/login", post(api::log_in))
        .route("/api/logout", post(api::log_out))
        .route("/api/queries/{id}", get(api::query))
        .route("/api/queries/{id}/kill", post(api::kill))
        .route("/api/executors/{name}/drain", post(api::drain))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn(careful))
        .with_state(desk)
}

/// Bounds a request's time, and says what browsers need to know of every answer.
async fn careful(
    Extension(slot): Extension<Arc<ConnectionSlot>>,
    request: Request,
    next: Next,
) -> Response {
    let answer = tokio::time::timeout(REQUEST_MAX, next.run(request)).await;
    slot.answered();
    let mut response = answer.unwrap_or_else(|_| StatusCode::REQUEST_TIMEOUT.into_response());
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The page holds nothing that is worth hiding: it asks for that itself.
async fn page() -> Result<Response, Refusal> {
    let nonce = hex(&secret()?);
    let policy = format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let page = PAGE
        .replace("{{style}}", STYLE)
        .replace("{{draw}}", DRAWING)
        .replace("{{script}}", SCRIPT)
        .replace("{{nonce}}", &nonce);
    let page = Html(page);
    Ok(([(header::CONTENT_SECURITY_POLICY, policy)], page).into_response())
}

async fn ready(State(desk): State<Arc<Desk>>) -> (StatusCode, &'static str) {
    if !desk.is_ready.load(Ordering::Relaxed) {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n");
    }
    match desk.has_executors() {
        true => (StatusCode::OK, "ready\n"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "waiting for executors\n"),
    }
}

impl Desk {
    /// Tells whether there are as many executors as must be.
    fn has_executors(&self) -> bool {
        if self.executors_min == 0 {
            return true;
        }
        let executors = self.session.cluster().map(|(executors, _)| executors);
        let executors = executors.unwrap_or_default().into_iter();
        let ready = executors.filter(|executor| executor.state == "ready");
        ready.count() >= self.executors_min
    }
}

async fn metrics(State(desk): State<Arc<Desk>>, _viewer: Viewer) -> Response {
    ([(header::CONTENT_TYPE, METRICS_TYPE)], desk.meters.text()).into_response()
}
