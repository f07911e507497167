//! `tidegate cluster` with real processes: what it prints, and what becomes of statements when executors
//! are killed, stopped or told to end.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

#[path = "../../../tidegate-flight/tests/it/collector.rs"]
mod collector;
mod kills;
mod nodes;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;

use collector::{Collector, attribute};
use nodes::{Node, Nodes, PATIENCE, STATEMENTS, ended, line_after, rows, tidegate};

/// Statements that would run for hours, and hold memory or wait for each other's rows.
const ENDLESS: [&str; 2] = [
    "SELECT i % 1000, count(*), sum(x) FROM random_normal([500000, 500000]) GROUP BY 1",
    "SELECT count(*) FROM random_normal([500000, 500000]) a JOIN range(100000) b ON a.i = b.value",
];

#[test]
fn a_killed_scheduler_frees_its_executors() {
    let mut nodes = Nodes::start(2);
    let expected = nodes.rows(STATEMENTS[0]);
    for sql in ENDLESS {
        let running = nodes.spawn(sql);
        nodes.wait(
            "SELECT CASE WHEN min(tasks) > 0 AND min(memory_used) > 0 THEN 1 ELSE 0 END \
             FROM system.executors",
        );
        nodes.another_scheduler();
        // Its client learns of it; what it is told is the connection's end.
        assert!(!ended(running).status.success());
        nodes.wait("SELECT count(*) - 1 FROM system.executors WHERE state = 'ready'");
        nodes.wait_idle();
        assert_eq!(nodes.rows(STATEMENTS[0]), expected);
        let executors = nodes.rows("SELECT DISTINCT executor FROM system.tasks");
        assert_eq!(executors, ["e1", "e2"]);
    }
}

/// Asks a scheduler over HTTP; what it answers.
fn asked(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_scheduler_is_ready_with_its_executors() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of this test, which has 32 bytes").unwrap();
    let mut child = tidegate(&["cluster", "scheduler", "--listen", "127.0.0.1:0"])
        .args(["--cluster-listen", "127.0.0.1:0", "--http-port", "0"])
        .args(["--executors-min", "1", "--cluster-secret-file"])
        .arg(&secret)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let join = line_after(&mut child.stderr, "executors join at ");
    let page = line_after(&mut child.stdout, "live page at ");
    let _scheduler = Node(child);
    let address = page.trim_start_matches("http://").trim_end_matches('/');
    let waiting = asked(address, "/ready");
    assert!(waiting.starts_with("HTTP/1.1 503"), "{waiting}");
    assert!(waiting.contains("waiting for executors"), "{waiting}");
    assert!(asked(address, "/health").starts_with("HTTP/1.1 200"));
    let mut executor = tidegate(&["cluster", "executor", "--name", "e1", "--join", &join])
        .args(["--threads", "1", "--cluster-secret-file"])
        .arg(&secret)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _ = line_after(&mut executor.stdout, "executor ");
    let executor = Node(executor);
    let began = Instant::now();
    while !asked(address, "/ready").starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < PATIENCE, "{}", asked(address, "/ready"));
    }
    let metrics = asked(address, "/metrics");
    for line in [
        "tidegate_executors{state=\"ready\"} 1",
        "tidegate_tasks_running 0",
        "tidegate_executors_joined_total 1",
        "tidegate_executors_lost_total 0",
        "tidegate_exchange_bytes_total 0",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    drop(executor);
    while !asked(address, "/ready").starts_with("HTTP/1.1 503") {
        assert!(began.elapsed() < PATIENCE, "{}", asked(address, "/ready"));
    }
    let metrics = asked(address, "/metrics");
    assert!(
        metrics.contains("tidegate_executors_lost_total 1"),
        "{metrics}"
    );
}

#[test]
fn an_executor_is_drained_from_the_page() {
    let mut nodes = Nodes::start(2);
    let expected = nodes.rows(STATEMENTS[0]);
    let post = |name: &str| {
        let mut stream = TcpStream::connect(&nodes.page).unwrap();
        write!(
            stream,
            "POST /api/executors/{name}/drain HTTP/1.1\r\nHost: {}\r\nx-tidegate-request: 1\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n",
            nodes.page
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let status = asked(&nodes.page, "/api/status");
    for told in [
        "\"executors\":[{\"name\":\"e1\"",
        "\"can_drain\":true",
        "\"devices\":[",
    ] {
        assert!(status.contains(told), "{told}: {status}");
    }
    let unknown = post("e7");
    assert!(unknown.starts_with("HTTP/1.1 404"), "{unknown}");
    assert!(unknown.contains("system.executors lists them"), "{unknown}");
    let drained = post("e1");
    assert!(drained.starts_with("HTTP/1.1 200"), "{drained}");
    // It is used no more, and ends by itself.
    assert_eq!(nodes.rows(STATEMENTS[0]), expected);
    let (_, mut node) = nodes.executors.remove(0);
    assert!(node.0.wait().unwrap().success());
    nodes.wait("SELECT count(*) FROM system.executors");
    let lost = asked(&nodes.page, "/metrics");
    assert!(lost.contains("tidegate_executors_lost_total 0"), "{lost}");
}

#[test]
fn an_executor_that_is_told_to_end_finishes_its_tasks() {
    let mut nodes = Nodes::start(3);
    let sql = STATEMENTS[0];
    let expected = nodes.rows(sql);
    let running = nodes.spawn(sql);
    std::thread::sleep(Duration::from_millis(50));
    let (_, mut node) = nodes.executors.remove(0);
    node.signal("-TERM");
    assert_eq!(rows(&ended(running)), expected);
    assert!(node.0.wait().unwrap().success());
    nodes.wait("SELECT count(*) - 1 FROM system.executors");
    assert_eq!(nodes.rows(sql), expected);
}

#[test]
fn tasks_are_spans_below_their_query() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let collector = Collector::default();
    let endpoint = runtime.block_on(async { collector.start() });
    let mut nodes = Nodes::start_with(2, &["--otlp-endpoint", &endpoint]);
    nodes.rows(STATEMENTS[0]);
    let tasks = nodes.rows(
        "SELECT stage, task, executor, seconds > 0 AND started > now() - interval '1 hour' FROM system.tasks",
    );
    assert!(tasks.len() >= 2, "{tasks:?}");
    // The last spans are sent when it ends.
    nodes.scheduler.signal("-TERM");
    assert!(nodes.scheduler.0.wait().unwrap().success());
    let spans = collector.spans();
    let of_query = |span: &&Span| attribute(span, "db.query.text") == STATEMENTS[0];
    let query = spans.iter().find(of_query).unwrap();
    let below = spans
        .iter()
        .filter(|span| span.parent_span_id == query.span_id);
    let mut told: Vec<String> = below
        .filter(|span| span.name.starts_with("stage "))
        .inspect(|span| {
            assert_eq!(span.trace_id, query.trace_id);
            assert_eq!(attribute(span, "tidegate.task.state"), "done");
            assert!(span.start_time_unix_nano >= query.start_time_unix_nano);
            assert!(span.end_time_unix_nano <= query.end_time_unix_nano);
        })
        .map(|span| {
            let words: Vec<&str> = span.name.split(' ').collect();
            let executor = attribute(span, "tidegate.executor");
            format!("{},{},{executor},true", words[1], words[3])
        })
        .collect();
    told.sort();
    assert_eq!(told, tasks);
}

#[test]
fn a_local_cluster_serves_and_ends_whole() {
    let folder = tempfile::tempdir().unwrap();
    let allow = folder.path().to_str().unwrap();
    let mut child = tidegate(&[
        "cluster",
        "local",
        "--executors",
        "2",
        "--listen",
        "127.0.0.1:0",
    ])
    .args(["--allow", allow, "--set", "tidegate.spread=always"])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let client = line_after(&mut child.stdout, "listening on ");
    let node = Node(child);
    let run = |sql: &str| {
        let output = tidegate(&["--connect", &client, "--format", "csv", "-q", "-c", sql]).output();
        rows(&output.unwrap())
    };
    let file = format!("{allow}/t.parquet");
    run(&format!(
        "COPY (SELECT * FROM h2o_g1(50000, 10)) TO '{file}'"
    ));
    let grouped = run(&format!("SELECT id1, count(*) FROM '{file}' GROUP BY id1"));
    assert_eq!(grouped.len(), 10);
    let used = "SELECT DISTINCT executor FROM system.tasks";
    assert_eq!(run(used), ["e1", "e2"]);
    let explained = run(&format!(
        "EXPLAIN SELECT id1, count(*) FROM '{file}' GROUP BY id1"
    ))
    .join("\n");
    assert!(explained.contains("Spread over 2 executors"), "{explained}");
    assert!(explained.contains("t0 on e1, t1 on e2"), "{explained}");
    node.signal("-TERM");
    drop(node);
}
