//! What the page asks for: the server's state, a login, and a query's end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate::spread::{ExecutorReport, TaskReport};
use tidegate::{Error, ErrorKind, QueryReport, QueryState, RegionReport, Session, SessionReport};

use super::Desk;
use super::guard::{Intent, Refusal, Viewer};
use super::query::{self, milliseconds};
use crate::client::COMPLETION;
use crate::limiter::ConnectionSlot;
use crate::status;
use crate::timeline::Told;

/// Queries that have ended and are told.
const ENDED_MAX: usize = 50;
/// Time since the end of tasks that are told: what the page draws.
const TASKS_SHOWN: Duration = Duration::from_secs(120);
/// Characters of a statement that are told.
const SQL_MAX: usize = 2_000;

/// All that the page shows.
#[derive(Serialize)]
pub(super) struct ServerStatus {
    version: &'static str,
    uptime_seconds: f64,
    is_ready: bool,
    user: Arc<str>,
    is_admin: bool,
    /// Whether one can log in, and out.
    has_users: bool,
    running: usize,
    waiting: i64,
    /// Those that run first, then those that ended last.
    queries: Vec<QueryLine>,
    sessions: Vec<SessionLine>,
    memory: Vec<MemoryLine>,
    devices: Vec<DeviceLine>,
    /// `None` where statements run in this process alone.
    executors: Option<Vec<ExecutorLine>>,
    /// What executors ran of statements in the last minutes, oldest first.
    tasks: Vec<TaskLine>,
    cache: Value,
    timeline: Told,
}

#[derive(Serialize)]
struct QueryLine {
    id: u64,
    user: Option<Arc<str>>,
    sql: Option<String>,
    state: QueryState,
    started_ms: u64,
    seconds: f64,
    plan_seconds: f64,
    rows: u64,
    error: Option<String>,
    rows_left_out: u64,
    note: Option<String>,
    can_kill: bool,
    /// How far it has come, while it runs.
    progress: Option<Value>,
    /// What its regions have done so far.
    places: Vec<PlaceLine>,
}

#[derive(Serialize)]
struct PlaceLine {
    place: String,
    morsels: u64,
    rows: u64,
    bytes: u64,
    reasons: Vec<(String, u64)>,
}

#[derive(Serialize)]
struct SessionLine {
    id: u64,
    user: Arc<str>,
    is_admin: bool,
    opened_ms: u64,
    last_query_ms: Option<u64>,
    queries: u64,
    running: u64,
}

#[derive(Serialize)]
struct MemoryLine {
    tier: &'static str,
    device: Option<String>,
    consumer: String,
    used: u64,
    limit: Option<u64>,
    peak: Option<u64>,
}

#[derive(Serialize)]
struct DeviceLine {
    device: String,
    description: String,
}

#[derive(Serialize)]
struct ExecutorLine {
    name: String,
    state: String,
    reason: Option<String>,
    cores: u64,
    devices: Vec<String>,
    memory_used: u64,
    memory_limit: u64,
    tasks: u64,
    silent_seconds: f64,
    received_bytes: u64,
    speed: Option<f64>,
    can_drain: bool,
}

#[derive(Serialize)]
struct TaskLine {
    /// The query, if it is among those that are told.
    query: Option<u64>,
    statement: u64,
    stage: u64,
    task: u64,
    executor: String,
    state: String,
    started_ms: u64,
    /// `None` while it runs.
    ended_ms: Option<u64>,
}

impl QueryLine {
    fn of(report: QueryReport, session: &Session) -> Self {
        let is_live = query::is_live(&report);
        let progress = is_live.then(|| session.query_progress(report.id)).flatten();
        let places = report.regions.iter().flat_map(PlaceLine::of).collect();
        Self {
            id: report.id,
            user: report.user,
            sql: report.sql.map(|sql| sql.chars().take(SQL_MAX).collect()),
            state: report.state,
            started_ms: milliseconds(report.started),
            seconds: report.seconds,
            plan_seconds: report.plan_seconds,
            rows: report.rows,
            error: report.error,
            rows_left_out: report.rows_left_out,
            note: report.note,
            can_kill: is_live,
            progress: progress.as_ref().map(query::progress_of),
            places,
        }
    }
}

impl PlaceLine {
    fn of(region: &RegionReport) -> Vec<Self> {
        let line = |place: &tidegate::PlaceReport| Self {
            place: place.place.clone(),
            morsels: place.morsels,
            rows: place.rows,
            bytes: place.bytes,
            reasons: place.reasons.clone(),
        };
        region.places.iter().map(line).collect()
    }
}

impl SessionLine {
    fn of(report: SessionReport) -> Self {
        Self {
            id: report.id,
            user: report.user,
            is_admin: report.is_admin,
            opened_ms: milliseconds(report.opened),
            last_query_ms: report.last_query.map(milliseconds),
            queries: report.queries,
            running: report.running,
        }
    }
}

impl ExecutorLine {
    fn of(report: ExecutorReport, may_drain: bool) -> Self {
        Self {
            can_drain: may_drain && report.state == "ready",
            name: report.name,
            state: report.state,
            reason: report.reason,
            cores: report.cores,
            devices: report.devices,
            memory_used: report.memory_used,
            memory_limit: report.memory_limit,
            tasks: report.tasks,
            silent_seconds: report.silent_seconds,
            received_bytes: report.received_bytes,
            speed: report.speed,
        }
    }
}

impl TaskLine {
    /// Describes a task that ran in the last minutes.
    fn of(task: TaskReport, queries: &HashMap<u64, u64>) -> Option<Self> {
        let is_old = task
            .ended
            .and_then(|ended| ended.elapsed().ok())
            .is_some_and(|ago| ago > TASKS_SHOWN);
        (!is_old).then(|| Self {
            query: queries.get(&task.statement).copied(),
            statement: task.statement,
            stage: task.stage,
            task: task.task,
            executor: task.executor,
            state: task.state,
            started_ms: milliseconds(task.started),
            ended_ms: task.ended.map(milliseconds),
        })
    }
}

/// What of the last minutes is asked for.
#[derive(Deserialize)]
pub(super) struct Since {
    /// Samples later than this, in milliseconds since 1970.
    #[serde(default)]
    since: u64,
}

/// Tells all that the page shows, as far as the viewer may see it.
pub(super) async fn status(
    State(desk): State<Arc<Desk>>,
    Query(Since { since }): Query<Since>,
    viewer: Viewer,
) -> Json<ServerStatus> {
    let session = &viewer.session;
    let reports = session.visible_reports(ENDED_MAX);
    let numbers = reports.iter();
    let numbers = numbers.filter_map(|report| Some((report.statement?, report.id)));
    let numbers: HashMap<u64, u64> = numbers.collect();
    let (running, ended): (Vec<_>, Vec<_>) = reports
        .into_iter()
        .rev()
        .filter(|report| !is_of_prompt(report))
        .map(|report| QueryLine::of(report, session))
        .partition(|line| line.can_kill);
    let cache = session.cache_activity();
    let memory = session.memory().into_iter().map(|report| MemoryLine {
        tier: report.tier(),
        device: report.device,
        consumer: report.consumer,
        used: report.used,
        limit: report.limit,
        peak: report.peak,
    });
    let devices = session.device_names().into_iter();
    let devices = devices.map(|(device, description)| DeviceLine {
        device,
        description,
    });
    let may_drain = viewer.may_drain(&desk);
    let executors = session.cluster().map(|(executors, _)| {
        let executors = executors.into_iter();
        let lines = executors.map(|report| ExecutorLine::of(report, may_drain));
        lines.collect()
    });
    let tasks = session.cluster_tasks().into_iter();
    let tasks = tasks.filter_map(|task| TaskLine::of(task, &numbers));
    let sessions = session.client_sessions().into_iter();
    Json(ServerStatus {
        version: env!("CARGO_PKG_VERSION"),
        uptime_seconds: desk.started.elapsed().as_secs_f64(),
        is_ready: desk.is_ready.load(Ordering::Relaxed),
        user: viewer.user,
        is_admin: viewer.is_admin,
        has_users: desk.auth.has_users(),
        running: desk.sessions.num_running(),
        waiting: desk.meters.num_waiting(),
        queries: running.into_iter().chain(ended).collect(),
        sessions: sessions.map(SessionLine::of).collect(),
        memory: memory.collect(),
        devices: devices.collect(),
        executors,
        tasks: tasks.collect(),
        cache: json!({
            "host_hits": cache.host_hits,
            "host_misses": cache.host_misses,
            "host_evictions": cache.host_evictions,
            "device_hits": cache.device_hits,
            "pinned_hits": cache.pinned_hits,
        }),
        timeline: desk.timeline.told(since),
    })
}

/// Returns whether a prompt asked for it to propose words, and it has ended.
fn is_of_prompt(report: &QueryReport) -> bool {
    let sql = report.sql.as_deref().unwrap_or_default();
    sql.starts_with(COMPLETION) && report.state == QueryState::Finished
}

/// Tells of one query what is known of it.
pub(super) async fn query(
    State(desk): State<Arc<Desk>>,
    viewer: Viewer,
    Path(id): Path<u64>,
) -> Result<Json<Value>, Refusal> {
    let Some((report, profile)) = viewer.session.profile(id) else {
        let why = format!("there is no query {id} that you may see");
        return Err(Refusal::new(StatusCode::NOT_FOUND, why));
    };
    let began_ms = milliseconds(profile.began.unwrap_or(report.started));
    let ended_ms = began_ms + (report.seconds * 1e3).ceil() as u64;
    let memory: Vec<_> = desk
        .timeline
        .memory(began_ms, ended_ms)
        .into_iter()
        .map(|(at, memory)| ((at - began_ms) as f64 / 1e3, memory))
        .collect();
    let progress = viewer.session.query_progress(id);
    let told = query::told(&report, &profile, progress.as_ref(), &memory);
    Ok(Json(told))
}

/// A name and a password.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Login {
    name: String,
    password: String,
}

/// Turns a name and a password into a token, which Flight calls take too.
pub(super) async fn log_in(
    State(desk): State<Arc<Desk>>,
    Extension(slot): Extension<Arc<ConnectionSlot>>,
    _intent: Intent,
    Json(login): Json<Login>,
) -> Result<Json<Value>, Refusal> {
    let person = desk.auth.person(login.name, login.password, &slot);
    let person = person.await?;
    let token = desk.sessions.log_in(person)?;
    Ok(Json(json!({ "token": token })))
}

/// Ends the session of a token.
pub(super) async fn log_out(
    State(desk): State<Arc<Desk>>,
    _intent: Intent,
    viewer: Viewer,
) -> StatusCode {
    if let Some(login) = &viewer.login {
        desk.sessions.close(login);
    }
    StatusCode::NO_CONTENT
}

/// Tells a query to stop.
pub(super) async fn kill(
    _intent: Intent,
    viewer: Viewer,
    Path(id): Path<u64>,
) -> Result<Json<Value>, Refusal> {
    let killed = viewer.session.kill(id);
    killed.map_err(|error: Error| match error.kind() {
        ErrorKind::Sql => Refusal::new(StatusCode::NOT_FOUND, error.to_string()),
        _ => Refusal::from(status::status(error)),
    })?;
    tracing::info!(query_id = id, user = %viewer.user, "query killed from the page");
    Ok(Json(json!({ "query_id": id, "state": "stopping" })))
}

impl Viewer {
    /// Tells whether they may end executors: administrators, and everybody where there are no users.
    fn may_drain(&self, desk: &Desk) -> bool {
        self.is_admin || !desk.auth.has_users()
    }
}

/// Tells an executor to finish its tasks and end.
pub(super) async fn drain(
    State(desk): State<Arc<Desk>>,
    _intent: Intent,
    viewer: Viewer,
    Path(name): Path<String>,
) -> Result<Json<Value>, Refusal> {
    if !viewer.may_drain(&desk) {
        let why = "only an administrator may drain an executor";
        return Err(Refusal::new(StatusCode::FORBIDDEN, why));
    }
    let drained = desk.session.drain(&name);
    drained.map_err(|error| Refusal::from(status::status(error)))?;
    tracing::info!(executor = name, user = %viewer.user, "executor drained from the page");
    Ok(Json(json!({ "executor": name, "state": "draining" })))
}
