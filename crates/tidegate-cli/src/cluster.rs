//! `tidegate cluster`: a scheduler, an executor, or both on this machine.

use std::io::{self, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;
use tidegate::{AllowedPaths, Session};
use tidegate_cluster::{
    Cluster, ClusterError, ClusterTls, Executor, ExecutorOptions, Links, Secret, Url,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::args::{
    ClusterRole, ExecutorArgs, LinkArgs, LocalArgs, OutputArgs, SchedulerArgs, SessionArgs,
};
use crate::config::Setting;
use crate::serve::{self, Trouble, read, start_log};
use crate::session::{builder, session as build};
use crate::{console, signals};

/// How long executors of this machine may take to start.
const START: Duration = Duration::from_secs(60);

/// Is what is asked; returns the exit status.
pub(crate) async fn run(
    role: &ClusterRole,
    output: &OutputArgs,
    settings: &[Setting],
    session: SessionArgs,
    workers: &Handle,
) -> u8 {
    let done = match role {
        ClusterRole::Scheduler(asked) => scheduler(asked, output, settings, session, workers).await,
        ClusterRole::Executor(asked) => executor(asked, settings, session, workers).await,
        ClusterRole::Local(asked) => local(asked, output, settings, session, workers).await,
    };
    serve::status(done)
}

async fn scheduler(
    asked: &SchedulerArgs,
    output: &OutputArgs,
    settings: &[Setting],
    session: SessionArgs,
    workers: &Handle,
) -> Result<(), Trouble> {
    let cluster = Scheduler {
        cluster: Cluster::new(links(&asked.links)?)?,
        listen: asked.cluster_listen,
        executors_min: asked.executors_min,
        executors: None,
    };
    let session = builder(session);
    serve::over(&asked.serve, output, settings, session, workers, cluster).await
}

async fn local(
    asked: &LocalArgs,
    output: &OutputArgs,
    settings: &[Setting],
    session: SessionArgs,
    workers: &Handle,
) -> Result<(), Trouble> {
    let text = Secret::random_text()?;
    let links = Links {
        secret: Secret::try_new(text.as_bytes())?,
        tls: None,
        insecure: false,
    };
    let unwritten = |error| Trouble::Told(format!("cannot write a temporary file: {error}"));
    let mut secret = NamedTempFile::new().map_err(unwritten)?;
    secret.write_all(text.as_bytes()).map_err(unwritten)?;
    secret.flush().map_err(unwritten)?;
    let allow = asked.serve.allow.iter();
    let cluster = Scheduler {
        cluster: Cluster::new(links)?,
        listen: ([127, 0, 0, 1], 0).into(),
        executors_min: 0,
        executors: Some(LocalExecutors {
            count: asked.executors.get(),
            threads: session.threads.map(|threads| threads.get()),
            allow: allow.map(|path| path.clone().into_os_string()).collect(),
            settings: settings.to_vec(),
            secret,
        }),
    };
    let session = builder(session);
    serve::over(&asked.serve, output, settings, session, workers, cluster).await
}

/// The part of a scheduler that is not a server's.
pub(crate) struct Scheduler {
    pub(crate) cluster: Cluster,
    listen: std::net::SocketAddr,
    /// Executors without which it is not ready.
    pub(crate) executors_min: usize,
    executors: Option<LocalExecutors>,
}

/// Executors that the scheduler starts itself.
struct LocalExecutors {
    count: usize,
    threads: Option<usize>,
    allow: Vec<std::ffi::OsString>,
    settings: Vec<Setting>,
    secret: NamedTempFile,
}

impl Scheduler {
    /// Lets executors join, and starts those of this machine. What is returned ends these.
    pub(crate) async fn start(&self, session: &Session) -> Result<Children, Trouble> {
        let url = self.cluster.listen(session, self.listen).await?;
        let url = shown(&url);
        let Some(executors) = &self.executors else {
            console::note(format_args!("executors join at {url}"));
            return Ok(Children(Vec::new()));
        };
        let mut children = Children(Vec::new());
        for number in 1..=executors.count {
            children.0.push(executors.spawn(number, &url, session)?);
        }
        let began = Instant::now();
        while self.cluster.num_ready() < executors.count {
            if let Some(status) = children.ended() {
                let message = format!("an executor ended as it started ({status})");
                return Err(Trouble::Told(message));
            }
            if began.elapsed() > START {
                let message = format!("the executors did not start within {} s", START.as_secs());
                return Err(Trouble::Told(message));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(children)
    }
}

impl LocalExecutors {
    fn spawn(&self, number: usize, join: &str, session: &Session) -> Result<Child, Trouble> {
        let failed = |error: io::Error| Trouble::Told(format!("cannot start an executor: {error}"));
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = self.threads.unwrap_or((cores / self.count).max(1));
        // Scheduler and executors share what one process would have.
        let memory = session.runtime().admission().limits().expected_bytes_max;
        let memory = memory / (self.count as u64 + 1);
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args([
                "cluster",
                "executor",
                "--ends-with-scheduler",
                "--join",
                join,
            ])
            .args(["--name", &format!("e{number}")])
            .args(["--threads", &threads.to_string()])
            .args(["--memory-limit", &memory.to_string()])
            .arg("--cluster-secret-file")
            .arg(self.secret.path());
        for path in &self.allow {
            command.arg("--allow").arg(path);
        }
        for Setting { name, value, .. } in &self.settings {
            command.args(["--set", &format!("{name}={value}")]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.spawn().map_err(failed)
    }
}

/// Processes that end with this.
pub(crate) struct Children(Vec<Child>);

impl Children {
    /// Returns how one ended that did.
    fn ended(&mut self) -> Option<std::process::ExitStatus> {
        let mut ends = self.0.iter_mut().map(Child::try_wait);
        ends.find_map(|end| end.ok().flatten())
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

async fn executor(
    asked: &ExecutorArgs,
    settings: &[Setting],
    session: SessionArgs,
    workers: &Handle,
) -> Result<(), Trouble> {
    let links = links(&asked.links)?;
    let has_tls = links.tls.is_some();
    let join = asked.join.iter().map(|url| join_url(url, has_tls));
    let join = join.collect::<Result<Vec<_>, _>>()?;
    let options = ExecutorOptions {
        name: asked.name.clone(),
        listen: asked.listen,
        advertise: asked.advertise.clone(),
        join,
        links,
        ends_with_scheduler: asked.ends_with_scheduler,
        drain: asked.drain.0,
    };
    let _log = start_log(asked.log_format, asked.log_level)?;
    let allowed = AllowedPaths::new(&asked.allow)?;
    let session = builder(session).allowed_paths(allowed);
    let session = build(session, settings).await?;
    let executor = workers.spawn(Executor::bind(session, options)).await??;
    let mut out = io::stdout();
    let told = writeln!(
        out,
        "executor {} at {}",
        asked.name,
        shown_text(executor.url())
    );
    let told = told.and_then(|()| out.flush());
    told.map_err(|error| Trouble::Failure(crate::failure::Failure::output(error)))?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = workers.spawn(executor.run(async {
        // It also ends if nobody is left to stop it.
        let _ = stopped.await;
    }));
    tokio::select! {
        ended = &mut running => return Ok(ended??),
        _ = signals::interrupt_or_terminate() => {}
    }
    console::note("shutting down: waiting for running tasks; a second signal ends them");
    let _ = stop.send(());
    tokio::select! {
        ended = &mut running => Ok(ended??),
        _ = signals::interrupt_or_terminate() => {
            running.abort();
            Ok(())
        }
    }
}

fn links(asked: &LinkArgs) -> Result<Links, Trouble> {
    let tls = match (
        &asked.cluster_tls_cert,
        &asked.cluster_tls_key,
        &asked.cluster_tls_ca,
    ) {
        (Some(certificate), Some(key), Some(ca)) => Some(ClusterTls {
            certificate: read(certificate)?,
            key: read(key)?,
            ca: read(ca)?,
        }),
        _ => None,
    };
    Ok(Links {
        secret: Secret::try_new(&read(&asked.cluster_secret_file)?)?,
        tls,
        insecure: asked.cluster_insecure,
    })
}

/// Reads the URL of a scheduler as users write it.
fn join_url(text: &str, has_tls: bool) -> Result<Url, Trouble> {
    let wrong = |why: &str| ClusterError::Url {
        url: text.into(),
        why: why.into(),
    };
    let (plain, tls) = (
        text.strip_prefix("grpc://"),
        text.strip_prefix("grpc+tls://"),
    );
    let url = match (plain, tls) {
        (_, Some(_)) if !has_tls => {
            return Err(wrong(
                "it needs --cluster-tls-cert, --cluster-tls-key and --cluster-tls-ca",
            )
            .into());
        }
        (Some(_), _) if has_tls => {
            return Err(wrong("with --cluster-tls-cert it begins with grpc+tls://").into());
        }
        (_, Some(rest)) => format!("https://{rest}"),
        (Some(rest), _) => format!("http://{rest}"),
        (None, None) => {
            return Err(wrong("it begins with grpc:// or grpc+tls://").into());
        }
    };
    let url = Url::parse(&url).map_err(|error| wrong(&error.to_string()))?;
    match url.port() {
        Some(_) => Ok(url),
        None => Err(wrong("it names no port").into()),
    }
}

fn shown(url: &Url) -> String {
    shown_text(url.as_str())
}

/// Writes a URL as users do.
fn shown_text(url: &str) -> String {
    let url = url.trim_end_matches('/');
    match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => format!("grpc+tls://{rest}"),
        (_, Some(rest)) => format!("grpc://{rest}"),
        (None, None) => url.into(),
    }
}
