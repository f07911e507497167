//! A server for one test, and clients of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use arrow_flight::FlightInfo;
use arrow_flight::error::FlightError;
use arrow_flight::sql::client::FlightSqlServiceClient;
use futures::TryStreamExt;
use tidegate::{AllowedPaths, Runtime, RuntimeOptions, Session};
use tidegate_flight::server::ServerWatch;
use tidegate_flight::{Limits, Server, ServerOptions};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

pub(crate) type Client = FlightSqlServiceClient<Channel>;

/// A server that runs until it is dropped.
pub(crate) struct Running {
    pub(crate) session: Session,
    pub(crate) address: SocketAddr,
    /// Where it speaks HTTP, if it does.
    pub(crate) http: Option<String>,
    pub(crate) watch: ServerWatch,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

/// Makes a session that needs no look for devices.
pub(crate) fn session(allowed: &[std::path::PathBuf]) -> Session {
    let runtime = Runtime::new(&RuntimeOptions::default()).unwrap();
    let allowed = AllowedPaths::new(allowed).unwrap();
    let builder = Session::builder()
        .runtime(Arc::new(runtime))
        .target_partitions(2)
        .memory_limit(256 << 20)
        .allowed_paths(allowed.clone());
    match allowed.is_empty() {
        true => builder.build().unwrap(),
        false => builder.file_urls().build().unwrap(),
    }
}

/// Returns options of a server on a free port.
pub(crate) fn options() -> ServerOptions {
    ServerOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        limits: Limits {
            drain: Duration::from_secs(2),
            ..Limits::default()
        },
        ..ServerOptions::default()
    }
}

/// Starts a server with the defaults.
pub(crate) async fn start() -> Running {
    start_with(session(&[]), options()).await
}

/// Starts a server.
pub(crate) async fn start_with(session: Session, options: ServerOptions) -> Running {
    let server = Server::bind(session.clone(), options).await.unwrap();
    let (address, watch, http) = (server.address(), server.watch(), server.http_url());
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let stopped = async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        server.run(stopped).await.unwrap();
    });
    Running {
        session,
        address,
        http,
        watch,
        stop: Some(stop),
        task,
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Running {
    /// Opens a connection.
    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        endpoint.connect().await.unwrap()
    }

    /// Opens a connection, and speaks Flight SQL on it.
    pub(crate) async fn client(&self) -> Client {
        FlightSqlServiceClient::new(self.channel().await)
    }
}

/// Runs a query and returns its rows.
pub(crate) async fn query(client: &mut Client, sql: &str) -> Result<Vec<RecordBatch>, FlightError> {
    let info = client.execute(sql.into(), None).await?;
    fetch(client, info).await
}

/// Fetches the rows of a result, and checks that they have the columns that were told before.
pub(crate) async fn fetch(
    client: &mut Client,
    info: FlightInfo,
) -> Result<Vec<RecordBatch>, FlightError> {
    let told = match info.schema.is_empty() {
        true => None,
        false => Some(info.clone().try_decode_schema().unwrap()),
    };
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let rows = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = rows.try_collect().await?;
    if let Some(told) = told {
        for batch in &batches {
            assert_eq!(*batch.schema(), told);
        }
    }
    Ok(batches)
}

/// Writes rows as lines, cells apart by a bar.
pub(crate) fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let table = pretty_format_batches(batches).unwrap().to_string();
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split('|').map(str::trim);
        cells.collect::<Vec<_>>().join("|")
    };
    let rows = table.lines().filter(|line| line.starts_with('|')).skip(1);
    rows.map(cells).collect()
}

/// Runs a query and writes its rows as lines.
pub(crate) async fn answer(client: &mut Client, sql: &str) -> Vec<String> {
    match query(client, sql).await {
        Ok(batches) => lines(&batches),
        Err(error) => panic!("{sql}: {error}"),
    }
}

/// Returns the status in an error.
pub(crate) fn status_of(error: FlightError) -> Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    }
}

/// Runs a statement that must fail; returns why.
pub(crate) async fn failure(client: &mut Client, sql: &str) -> (Code, String) {
    match query(client, sql).await {
        Ok(batches) => panic!("{sql} gives {:?}", lines(&batches)),
        Err(error) => {
            let status = status_of(error);
            (status.code(), status.message().to_string())
        }
    }
}

/// Waits until something holds, for a while.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what} does not come true");
}

/// A query that runs for longer than any test.
pub(crate) const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 1000000000000) WHERE value % 7 = 3";

/// A query with more rows than any test reads.
pub(crate) const BOTTOMLESS: &str = "SELECT value FROM generate_series(1, 1000000000000)";

/// Counts the queries that run in a server.
pub(crate) fn num_running(session: &Session) -> usize {
    let reports = session.reports();
    let running = |report: &&tidegate::QueryReport| report.state == tidegate::QueryState::Running;
    reports.iter().filter(running).count()
}
