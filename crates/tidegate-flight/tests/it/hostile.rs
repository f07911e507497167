//! Clients that connect and say nothing, or too little: they end, and keep nobody from logging in.

use std::io;
use std::time::{Duration, Instant};

use tidegate_flight::{Limits, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::login::users;
use crate::support::{Running, answer, options, query, session, start_with};

/// What a connection of HTTP/2 begins with.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame of settings, without any.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
/// The first bytes of a TLS handshake.
const HELLO: &[u8] = &[22, 3, 1, 2, 0, 1];
/// How soon somebody must be able to log in, whatever others do.
const SOON: Duration = Duration::from_secs(5);

async fn closed(change: impl FnOnce(&mut Limits)) -> Running {
    let mut limits = options().limits;
    change(&mut limits);
    let options = ServerOptions {
        users: Some(users()),
        http: Some("127.0.0.1:0".parse().unwrap()),
        limits,
        ..options()
    };
    start_with(session(&[]), options).await
}

fn http_address(server: &Running) -> String {
    let url = server.http.as_ref().unwrap();
    url.rsplit('/').next().unwrap().to_string()
}

/// Opens connections that each send some bytes and then nothing.
async fn silent(address: &str, number: usize, first: &[&[u8]]) -> Vec<TcpStream> {
    let mut open = Vec::new();
    for index in 0..number {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // One that was displaced already may not be written to.
        let _ = stream.write_all(first[index % first.len()]).await;
        open.push(stream);
    }
    open
}

/// Waits until the server has closed a connection.
async fn closed_by_server(mut stream: TcpStream) {
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer).await {
            Ok(1..) => {}
            Ok(0) => return,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{error}");
                return;
            }
        }
    }
}

async fn all_closed_by_server(open: Vec<TcpStream>, patience: Duration) {
    let all = futures::future::join_all(open.into_iter().map(closed_by_server));
    tokio::time::timeout(patience, all).await.unwrap();
}

async fn log_in_soon(server: &Running) {
    let begin = Instant::now();
    let login = async {
        let mut client = server.client().await;
        client.handshake("ada", "one").await.unwrap();
        assert_eq!(answer(&mut client, "SELECT 1").await, ["1"]);
    };
    let login = tokio::time::timeout(SOON, login).await;
    assert!(login.is_ok(), "nobody can log in for {:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_connections_lock_nobody_out() {
    let server = closed(|limits| {
        limits.pending_idle = Duration::from_secs(2);
    })
    .await;
    let mut known = server.client().await;
    known.handshake("bob", "two").await.unwrap();
    let whole = [PREFACE, SETTINGS].concat();
    let first: [&[u8]; 5] = [b"", PREFACE, &whole, HELLO, &PREFACE[..7]];
    let address = server.address.to_string();
    let mut open = silent(&address, 400, &first).await;
    log_in_soon(&server).await;
    // The flood goes on while others log in.
    let flood = tokio::spawn(async move { silent(&address, 1_500, &first_of_flood()).await });
    for _ in 0..5 {
        log_in_soon(&server).await;
    }
    open.extend(flood.await.unwrap());
    log_in_soon(&server).await;
    // Who logged in before is there, and all others go.
    assert_eq!(answer(&mut known, "SELECT 2").await, ["2"]);
    all_closed_by_server(open, Duration::from_secs(10)).await;
    assert_eq!(answer(&mut known, "SELECT 3").await, ["3"]);
}

fn first_of_flood() -> [&'static [u8]; 2] {
    [b"", PREFACE]
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_http_connections_lock_nobody_out() {
    let server = closed(|limits| limits.pending_idle = Duration::from_secs(2)).await;
    let address = http_address(&server);
    let half = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nx-slow: ";
    let body = b"POST /api/login HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                 x-tidegate-request: 1\r\ncontent-length: 1000\r\n\r\n{";
    let open = silent(&address, 500, &[b"", half, body, HELLO]).await;
    let begin = Instant::now();
    let mut health = TcpStream::connect(&address).await.unwrap();
    let request = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    health.write_all(request).await.unwrap();
    let mut told = String::new();
    let read = tokio::time::timeout(SOON, health.read_to_string(&mut told)).await;
    read.expect("health is told").unwrap();
    assert!(told.starts_with("HTTP/1.1 200"), "{told}");
    assert!(begin.elapsed() < SOON);
    all_closed_by_server(open, Duration::from_secs(10)).await;
}

/// Opens a connection and waits until the server closes it, for nobody has authenticated on it: those that
/// were idle before have been so for longer.
async fn one_is_closed(server: &Running) {
    let open = TcpStream::connect(server.address).await.unwrap();
    all_closed_by_server(vec![open], Duration::from_secs(10)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_authenticated_may_be_idle() {
    let pending_idle = Duration::from_millis(300);
    let server = closed(|limits| limits.pending_idle = pending_idle).await;
    let mut client = server.client().await;
    client.handshake("ada", "one").await.unwrap();
    let mut basic = server.client().await;
    basic.set_header("authorization", "Basic YWRhOm9uZQ==");
    answer(&mut basic, "CREATE TABLE temp.own AS VALUES (1)").await;
    one_is_closed(&server).await;
    assert_eq!(answer(&mut client, "SELECT 1").await, ["1"]);
    // The session of a connection is still that of before.
    assert_eq!(answer(&mut basic, "SELECT * FROM temp.own").await, ["1"]);
    // Without users, whoever has asked for anything has authenticated.
    let limits = Limits {
        pending_idle,
        ..options().limits
    };
    let options = ServerOptions {
        limits,
        ..options()
    };
    let server = start_with(session(&[]), options).await;
    let mut client = server.client().await;
    answer(&mut client, "CREATE TABLE temp.own AS VALUES (2)").await;
    one_is_closed(&server).await;
    assert_eq!(answer(&mut client, "SELECT * FROM temp.own").await, ["2"]);
    // One that has asked for nothing yet comes again by itself.
    let mut late = server.client().await;
    one_is_closed(&server).await;
    // A request may still meet the connection that is being closed.
    let again = async { while query(&mut late, "SELECT 1").await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(30), again)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_for_health_is_not_cut_between_two_questions() {
    let pending_idle = Duration::from_millis(400);
    let server = closed(|limits| limits.pending_idle = pending_idle).await;
    let mut stream = TcpStream::connect(http_address(&server)).await.unwrap();
    let mut flight = HealthClient::new(server.channel().await);
    for _ in 0..6 {
        let request = b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut told = Vec::new();
        while !told.ends_with(b"ok\n") {
            told.push(stream.read_u8().await.unwrap());
        }
        assert!(told.starts_with(b"HTTP/1.1 200"));
        flight.check(HealthCheckRequest::default()).await.unwrap();
        tokio::time::sleep(pending_idle / 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_wrong_passwords_keeps_nobody_from_logging_in() {
    let server = closed(|_| ()).await;
    log_in_soon(&server).await;
    let wrong = (0..100).map(|_| async {
        let mut client = server.client().await;
        client.handshake("ada", "guess").await.unwrap_err()
    });
    let (errors, ()) = tokio::join!(futures::future::join_all(wrong), log_in_soon(&server));
    for error in errors {
        let error = error.to_string();
        assert!(
            error.contains("wrong") || error.contains("later"),
            "{error}"
        );
    }
}
