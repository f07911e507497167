//! `tidegate serve`: an Arrow Flight SQL server, until Ctrl-C or SIGTERM.
//!
//! Statements of clients touch no file outside `--allow`, and neither do those of `--init`.

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use tidegate::{AllowedPaths, Session, SessionBuilder};
use tidegate_cluster::ClusterError;
use tidegate_flight::{Limits, ServeError, Server, ServerOptions, Tls, Users, UsersError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task::JoinError;
use tracing_subscriber::filter::LevelFilter;

use crate::args::{LogFormat, LogLevel, OutputArgs, ServeArgs, ServeTask, Source};
use crate::cluster::Scheduler;
use crate::config::Setting;
use crate::exit::{DONE, FAILED};
use crate::failure::Failure;
use crate::log::{self, Log};
use crate::run::Runner;
use crate::script::Script;
use crate::session::session as build;
use crate::{console, environment, shell, signals};

/// Why there is no server.
#[derive(Debug)]
pub(crate) enum Trouble {
    Failure(Failure),
    /// What is told of it: a file cannot be read, a server cannot start.
    Told(String),
    /// A statement of the init file failed, and was told already.
    Init(u8),
}

macro_rules! told {
    ($($error:ty),+) => {
        $(impl From<$error> for Trouble {
            fn from(error: $error) -> Self {
                Self::Told(error.to_string())
            }
        })+
    };
}

told!(ServeError, UsersError, ClusterError);

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<tidegate::Error> for Trouble {
    fn from(error: tidegate::Error) -> Self {
        Self::Failure(error.into())
    }
}

impl From<JoinError> for Trouble {
    fn from(error: JoinError) -> Self {
        Self::Failure(Failure::join(&error))
    }
}

/// Serves, or does what is asked instead; returns the exit status.
pub(crate) async fn run(
    asked: &ServeArgs,
    output: &OutputArgs,
    settings: &[Setting],
    session: SessionBuilder,
    workers: &Handle,
) -> u8 {
    let done = match asked.task {
        Some(ServeTask::HashPassword) => hash_password(),
        None => serve(asked, output, settings, session, workers, None).await,
    };
    status(done)
}

/// Serves as the scheduler of a cluster.
pub(crate) async fn over(
    asked: &ServeArgs,
    output: &OutputArgs,
    settings: &[Setting],
    session: SessionBuilder,
    workers: &Handle,
    cluster: Scheduler,
) -> Result<(), Trouble> {
    match asked.task {
        Some(ServeTask::HashPassword) => hash_password(),
        None => serve(asked, output, settings, session, workers, Some(cluster)).await,
    }
}

/// Prints what went wrong; returns the exit status.
pub(crate) fn status(done: Result<(), Trouble>) -> u8 {
    match done {
        Ok(()) | Err(Trouble::Failure(Failure::OutputClosed)) => return DONE,
        Err(Trouble::Init(status)) => return status,
        Err(Trouble::Failure(failure)) => console::error(failure, None),
        Err(Trouble::Told(message)) => console::error(message, None),
    }
    FAILED
}

fn hash_password() -> Result<(), Trouble> {
    if io::stdin().is_terminal() {
        console::note("type the password and Enter; it is shown as you type");
    }
    let mut line = String::new();
    let read = io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Trouble::Told(format!("cannot read standard input: {error}")))?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Trouble::Told("the password is empty".into()));
    }
    let hash = tidegate_flight::hash_password(password)?;
    writeln!(io::stdout().lock(), "{hash}")
        .map_err(|error| Trouble::Failure(Failure::output(error)))
}

/// Serves on the workers; signals are heard here.
async fn serve(
    asked: &ServeArgs,
    output: &OutputArgs,
    settings: &[Setting],
    session: SessionBuilder,
    workers: &Handle,
    cluster: Option<Scheduler>,
) -> Result<(), Trouble> {
    let mut options = options(asked)?;
    options.executors_min = cluster.as_ref().map_or(0, |cluster| cluster.executors_min);
    options.check()?;
    // Held to the end, when it writes what is left.
    let _log = start_log(asked.log_format, asked.log_level)?;
    let allowed = AllowedPaths::new(&asked.allow)?;
    let mut session = session.allowed_paths(allowed.clone());
    if !allowed.is_empty() {
        session = session.file_urls();
    }
    if let Some(scheduler) = &cluster {
        session = session.spread(scheduler.cluster.planner());
    }
    let session = build(session, settings).await?;
    let _executors = match &cluster {
        Some(scheduler) => Some(scheduler.start(&session).await?),
        None => None,
    };
    if let Some(file) = &asked.init {
        init(&session, workers, output, file).await?;
    }
    let is_open = options.users.is_none();
    let server = workers.spawn(Server::bind(session, options)).await??;
    // Whoever reads where it listens may stop it at once.
    let mut first_signal = pin!(signals::interrupt_or_terminate());
    if futures::poll!(first_signal.as_mut()).is_ready() {
        return Ok(());
    }
    // Whoever started the server reads from here where it listens.
    let mut out = io::stdout();
    let mut told = writeln!(out, "listening on {}", server.url());
    if let Some(url) = server.http_url() {
        told = told.and_then(|()| writeln!(out, "health, metrics and a live page at {url}"));
    }
    let told = told.and_then(|()| out.flush());
    told.map_err(|error| Trouble::Failure(Failure::output(error)))?;
    if is_open && !server.address().ip().is_loopback() {
        console::note("warning: anyone who reaches this port has all rights of the server");
    }
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = workers.spawn(server.run(async {
        // It also ends if nobody is left to stop it.
        let _ = stopped.await;
    }));
    tokio::select! {
        ended = &mut serving => return Ok(ended??),
        _ = first_signal => {}
    }
    console::note("shutting down: waiting for running statements; a second signal ends them");
    // The server may have ended by itself in this moment.
    let _ = stop.send(());
    tokio::select! {
        ended = &mut serving => Ok(ended??),
        _ = signals::interrupt_or_terminate() => {
            serving.abort();
            Ok(())
        }
    }
}

async fn init(
    session: &Session,
    workers: &Handle,
    output: &OutputArgs,
    file: &Path,
) -> Result<(), Trouble> {
    let runner = Runner::new(Arc::new(session.clone()), workers, output, None);
    let script = Script::read(&Source::File(file.to_path_buf()));
    match shell::scripts(runner, std::iter::once(script), false).await {
        DONE => Ok(()),
        status => Err(Trouble::Init(status)),
    }
}

/// Writes what happens to standard error from now on.
pub(crate) fn start_log(format: LogFormat, level: Option<LogLevel>) -> Result<Log, Trouble> {
    let default = match format {
        LogFormat::Json => LogLevel::Info,
        LogFormat::Text => LogLevel::Warn,
    };
    let level = match level.unwrap_or(default) {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
    };
    log::start(format, level)
        .map_err(|error| Trouble::Told(format!("the log cannot be written: {error}")))
}

fn options(asked: &ServeArgs) -> Result<ServerOptions, Trouble> {
    let tls = match (&asked.tls_cert, &asked.tls_key) {
        (Some(_), None) => {
            let message = "--tls-cert needs --tls-key beside it, the certificate's key";
            return Err(Trouble::Told(message.into()));
        }
        (None, Some(_)) => {
            let message = "--tls-key needs --tls-cert beside it, the key's certificate";
            return Err(Trouble::Told(message.into()));
        }
        (Some(certificate), Some(key)) => Some(Tls {
            certificate: read(certificate)?,
            key: read(key)?,
        }),
        (None, None) => None,
    };
    let users = asked.users.as_deref().map(Users::read).transpose()?;
    let defaults = ServerOptions::default();
    let statements = asked
        .max_statements
        .map_or(defaults.limits.statements, usize::from);
    let limits = Limits {
        statements,
        queued: asked.queue.unwrap_or(statements.saturating_mul(8)),
        queue_wait: asked.queue_wait.0,
        statement_timeout: asked.statement_timeout.map(|time| time.0),
        drain: asked.drain.0,
        session_idle: asked.session_idle.0,
        result_idle: asked.result_idle.0,
        sessions: asked.max_sessions.get(),
        sessions_per_user: asked.max_user_sessions.get(),
        statements_per_user: or_no_limit(asked.max_user_statements.map(usize::from)),
        queued_per_user: or_no_limit(asked.max_user_queue),
        connections: asked.max_connections.get(),
        pending_per_address: asked.max_address_connections.get(),
        pending_idle: asked.authentication_timeout.0,
        stall: asked.unread_timeout.0,
        ..defaults.limits
    };
    Ok(ServerOptions {
        listen: asked.listen,
        http: asked.http_port.map(|port| port.beside(asked.listen)),
        tls,
        users,
        insecure: asked.insecure,
        otlp_endpoint: asked
            .otlp_endpoint
            .clone()
            .or_else(environment::otlp_endpoint),
        limits,
        executors_min: defaults.executors_min,
        locked: defaults.locked,
    })
}

/// Returns a limit of one user, who without it is limited as all are together.
fn or_no_limit(limit: Option<usize>) -> usize {
    limit.unwrap_or(usize::MAX)
}

pub(crate) fn read(file: &Path) -> Result<Vec<u8>, Trouble> {
    fs::read(file)
        .map_err(|error| Trouble::Told(format!("cannot read {}: {error}", file.display())))
}
