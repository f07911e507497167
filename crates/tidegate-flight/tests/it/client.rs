//! A session of a server, from the other end: `RemoteSession`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use futures::{StreamExt, TryStreamExt};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tidegate::ErrorKind;
use tidegate_flight::{
    ConnectOptions, RemoteSession, Server, ServerOptions, Tls, Users, hash_password,
};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::support::{
    BOTTOMLESS, ENDLESS, Running, eventually, lines, num_running, options, session, start,
    start_with,
};

fn at(server: &Running) -> ConnectOptions {
    ConnectOptions {
        url: format!("grpc://{}", server.address),
        ..ConnectOptions::default()
    }
}

async fn rows(remote: &RemoteSession, sql: &str) -> Vec<String> {
    let rows = remote.execute(sql).await.unwrap();
    let schema = rows.schema();
    let batches: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    for batch in &batches {
        assert_eq!(batch.schema(), schema, "{sql}");
    }
    lines(&batches)
}

async fn refused(remote: &RemoteSession, sql: &str) -> (ErrorKind, String) {
    let ran = match remote.execute(sql).await {
        Ok(rows) => rows.try_collect::<Vec<_>>().await,
        Err(error) => Err(error),
    };
    let error = ran.unwrap_err();
    (error.kind(), error.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_run_in_one_session() {
    let server = start().await;
    let remote = RemoteSession::connect(&at(&server)).await.unwrap();
    assert_eq!(rows(&remote, "SELECT 1 AS a, NULL AS b").await, ["1|"]);
    assert!(rows(&remote, "SET tidegate.cache = 'off'").await.is_empty());
    assert_eq!(
        rows(&remote, "SHOW tidegate.cache").await,
        ["tidegate.cache|off"]
    );
    assert!(
        rows(&remote, "CREATE TABLE temp.t AS VALUES (1), (2)")
            .await
            .is_empty()
    );
    assert_eq!(rows(&remote, "INSERT INTO temp.t VALUES (3)").await, ["1"]);
    assert_eq!(
        rows(&remote, "SELECT * FROM temp.t WHERE column1 > 9")
            .await
            .len(),
        0
    );
    let found = remote
        .execute("SELECT column1 AS c FROM temp.t WHERE false")
        .await;
    assert_eq!(found.unwrap().schema().field(0).name(), "c");
    let sum = "SELECT count(*), sum(value) FROM generate_series(1, 300000)";
    assert_eq!(rows(&remote, sum).await, ["300000|45000150000"]);
    let many = remote
        .execute("SELECT value FROM generate_series(1, 300000)")
        .await;
    let many: Vec<RecordBatch> = many.unwrap().try_collect().await.unwrap();
    assert_eq!(
        many.iter().map(RecordBatch::num_rows).sum::<usize>(),
        300_000
    );
    let (kind, message) = refused(&remote, "SELECT * FROM nowhere").await;
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("table 'nowhere' not found"), "{message}");
    let (_, message) = refused(&remote, "SELECT 1/0").await;
    assert!(message.to_lowercase().contains("zero"), "{message}");
    let (kind, message) = refused(&remote, "SELECT * FROM '/etc/passwd'").await;
    assert!(kind != ErrorKind::Io, "{message}");
    let other = RemoteSession::connect(&at(&server)).await.unwrap();
    assert!(
        refused(&other, "SELECT * FROM temp.t")
            .await
            .1
            .contains("not found")
    );
    remote.close().await;
    let (kind, _) = refused(&remote, "SELECT 1").await;
    assert_eq!(kind, ErrorKind::Denied);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_stops() {
    let server = start().await;
    let remote = RemoteSession::connect(&at(&server)).await.unwrap();
    let mut few = remote.execute(BOTTOMLESS).await.unwrap();
    few.next().await.unwrap().unwrap();
    assert_eq!(num_running(&server.session), 1);
    drop(few);
    eventually("the rows stop", async || num_running(&server.session) == 0).await;
    for endless in [ENDLESS.to_string(), format!("CREATE TABLE t AS {ENDLESS}")] {
        let waited = Duration::from_millis(300);
        let clone = remote.clone();
        let _ = tokio::time::timeout(waited, refused(&clone, &endless)).await;
        eventually("it stops", async || num_running(&server.session) == 0).await;
    }
    assert_eq!(rows(&remote, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_over_tls() {
    let hash = hash_password("one").unwrap();
    let users = format!("[[users]]\nname = \"ada\"\npassword = \"{hash}\"\n");
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let server = ServerOptions {
        users: Some(Users::parse(&users, std::path::Path::new("")).unwrap()),
        tls: Some(Tls {
            certificate: cert.pem().into(),
            key: signing_key.serialize_pem().into(),
        }),
        ..options()
    };
    let server = start_with(session(&[]), server).await;
    let good = ConnectOptions {
        url: format!("grpc+tls://localhost:{}", server.address.port()),
        user: Some("ada".into()),
        password: Some("one".into()),
        ca: Some(cert.pem().into()),
        token: None,
    };
    let remote = RemoteSession::connect(&good).await.unwrap();
    assert_eq!(rows(&remote, "SELECT 1").await, ["1"]);
    let refused = async |change: fn(&mut ConnectOptions)| {
        let mut options = good.clone();
        change(&mut options);
        let error = RemoteSession::connect(&options).await.unwrap_err();
        assert!(!format!("{error} {error:?} {options:?}").contains("hush"));
        (error.kind(), error.to_string())
    };
    let (kind, message) = refused(|options| options.password = Some("hush".into())).await;
    assert_eq!(kind, ErrorKind::Denied, "{message}");
    assert!(message.contains("the user ada"), "{message}");
    let (kind, message) = refused(|options| (options.user, options.password) = (None, None)).await;
    assert_eq!(kind, ErrorKind::Denied);
    assert!(message.contains("--user"), "{message}");
    let (kind, message) = refused(|options| options.ca = None).await;
    assert_eq!(kind, ErrorKind::Io, "{message}");
    let (kind, message) = refused(|options| options.ca = Some(b"hush".to_vec())).await;
    assert_eq!(kind, ErrorKind::Io, "{message}");
    // The certificate is for another name.
    let (kind, message) = refused(|options| {
        options.url = options.url.replace("localhost", "127.0.0.1");
    })
    .await;
    assert_eq!(kind, ErrorKind::Io, "{message}");
    let (kind, message) = refused(|options| {
        options.url = options.url.replace("grpc+tls", "grpc");
    })
    .await;
    assert_eq!(kind, ErrorKind::Io, "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_not_there_or_go_are_told() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let options_of = |url: String| ConnectOptions {
        url,
        ..ConnectOptions::default()
    };
    let began = Instant::now();
    let error = RemoteSession::connect(&options_of(format!("grpc://{address}"))).await;
    let message = error.unwrap_err().to_string();
    assert!(
        message.contains(&format!("cannot connect to {address}")),
        "{message}"
    );
    assert!(began.elapsed() < Duration::from_secs(15));
    let started = Server::bind(session(&[]), options()).await.unwrap();
    let url = format!("grpc://{}", started.address());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(started.run(async {
        let _ = stopped.await;
    }));
    let remote = RemoteSession::connect(&options_of(url)).await.unwrap();
    assert_eq!(rows(&remote, "SELECT 1").await, ["1"]);
    stop.send(()).unwrap();
    running.await.unwrap().unwrap();
    let (kind, message) = refused(&remote, "SELECT 1").await;
    assert_eq!(kind, ErrorKind::Io, "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_a_query_has_come_is_told_to_its_session() {
    let server = start().await;
    let remote = RemoteSession::connect(&at(&server)).await.unwrap();
    let other = RemoteSession::connect(&at(&server)).await.unwrap();
    assert_eq!(remote.progress().await, None);
    let running = remote.clone();
    let task = tokio::spawn(async move {
        let rows = running.execute(ENDLESS).await?;
        rows.try_collect::<Vec<_>>().await
    });
    let mut read = 0;
    for _ in 0..2 {
        eventually("more rows are read", async || {
            let progress = remote.progress().await.unwrap_or_default();
            let is_more = progress.rows_read > read;
            read = progress.rows_read.max(read);
            is_more
        })
        .await;
    }
    assert_eq!(other.progress().await, None);
    task.abort();
    eventually("the query has ended", async || {
        remote.progress().await.is_none()
    })
    .await;
}

/// Lets clients reach a server until it is dropped, as the server's death would end their connections.
struct Gate {
    address: SocketAddr,
    connections: JoinHandle<()>,
}

impl Gate {
    async fn before(server: &Running) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server.address;
        let connections = tokio::spawn(async move {
            // They end with this task.
            let mut open = JoinSet::new();
            while let Ok((mut client, _)) = listener.accept().await {
                open.spawn(async move {
                    let mut server = TcpStream::connect(server).await.unwrap();
                    let _ = copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        Self {
            address,
            connections,
        }
    }

    fn url(&self) -> String {
        format!("grpc://{}", self.address)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.connections.abort();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_server_takes_over() {
    let servers = [start().await, start().await];
    let gate = Gate::before(&servers[0]).await;
    let second = format!("grpc://{}", servers[1].address);
    let options = ConnectOptions {
        url: format!("{}, {second}", gate.url()),
        ..ConnectOptions::default()
    };
    let remote = RemoteSession::connect(&options).await.unwrap();
    assert_eq!(remote.url(), gate.url());
    assert!(rows(&remote, "SET tidegate.cache = 'off'").await.is_empty());
    assert!(
        rows(&remote, "CREATE TABLE temp.t AS VALUES (1)")
            .await
            .is_empty()
    );
    // A query of which rows have come fails; one of which none has runs on.
    let mut few = remote.execute(BOTTOMLESS).await.unwrap();
    few.next().await.unwrap().unwrap();
    let clone = remote.clone();
    let waiting = tokio::spawn(async move { refused(&clone, ENDLESS).await });
    eventually("both run", async || num_running(&servers[0].session) == 2).await;
    drop(gate);
    let lost = few.try_for_each(|_| async { Ok(()) }).await.unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Io, "{lost}");
    eventually("it is sent again", async || {
        num_running(&servers[1].session) == 1
    })
    .await;
    waiting.abort();
    assert_eq!(remote.url(), second);
    assert_eq!(
        rows(&remote, "SHOW tidegate.cache").await,
        ["tidegate.cache|off"]
    );
    let (kind, message) = refused(&remote, "SELECT * FROM temp.t").await;
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("lost its temporary tables"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_have_taken_effect_is_not_sent_again() {
    let servers = [start().await, start().await];
    let gate = Gate::before(&servers[0]).await;
    let second = format!("grpc://{}", servers[1].address);
    let options = ConnectOptions {
        url: format!("{},{second}", gate.url()),
        ..ConnectOptions::default()
    };
    let remote = RemoteSession::connect(&options).await.unwrap();
    drop(gate);
    let (kind, message) = refused(&remote, "CREATE TABLE temp.t AS VALUES (1)").await;
    assert_eq!(kind, ErrorKind::Lost, "{message}");
    assert!(message.contains(&second), "{message}");
    assert_eq!(
        refused(&remote, "SELECT * FROM temp.t").await.0,
        ErrorKind::NotFound
    );
    // With nobody left, the error is that of the connection.
    drop(servers);
    let alone = ConnectOptions {
        url: second,
        ..ConnectOptions::default()
    };
    let error = RemoteSession::connect(&alone).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}
