//! `tidegate cluster` with real processes: what it prints, and what becomes of statements when executors
//! are killed, stopped or told to end.

#![cfg(unix)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// No wait of these tests takes as long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn tidegate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(words).stdin(Stdio::null());
    command
}

/// A process that ends with this.
struct Node(Child);

impl Node {
    fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &id])
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scheduler process and its executors.
struct Nodes {
    folder: TempDir,
    scheduler: Node,
    client: String,
    join: String,
    executors: Vec<(String, Node)>,
}

impl Nodes {
    fn start(executors: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "a secret of this test, which has 32 bytes").unwrap();
        let (scheduler, client, join) = scheduler(&secret, "127.0.0.1:0");
        let mut nodes = Self {
            folder,
            scheduler,
            client,
            join,
            executors: Vec::new(),
        };
        for number in 1..=executors {
            nodes.add(&format!("e{number}"), &[]);
        }
        nodes
    }

    fn add(&mut self, name: &str, words: &[&str]) {
        let mut child = tidegate(&["cluster", "executor", "--name", name, "--join", &self.join])
            .args(["--threads", "1", "--cluster-secret-file"])
            .arg(self.folder.path().join("secret"))
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let _ = line_after(&mut child.stdout, "executor ");
        self.executors.push((name.into(), Node(child)));
        self.wait(&format!(
            "SELECT count(*) FROM system.executors WHERE state = 'ready' AND executor = '{name}'"
        ));
    }

    /// Kills the scheduler, and starts another one where executors join.
    fn another_scheduler(&mut self) {
        self.scheduler.signal("-KILL");
        let _ = self.scheduler.0.wait();
        let address = self.join.trim_start_matches("grpc://").to_string();
        let secret = self.folder.path().join("secret");
        (self.scheduler, self.client, self.join) = scheduler(&secret, &address);
    }

    fn spawn(&self, sql: &str) -> Child {
        tidegate(&[
            "--connect",
            &self.client,
            "--format",
            "csv",
            "-q",
            "-c",
            sql,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
    }

    /// Runs a statement; its rows, sorted, without the header.
    fn rows(&self, sql: &str) -> Vec<String> {
        rows(&ended(self.spawn(sql)))
    }

    /// Waits until a statement counts 1.
    fn wait(&self, sql: &str) {
        let began = Instant::now();
        while self.rows(sql) != ["1"] {
            assert!(
                began.elapsed() < PATIENCE,
                "{sql}: {:?}",
                self.rows("SELECT * FROM system.executors")
            );
        }
    }

    /// Waits until no executor runs a task or holds a byte.
    fn wait_idle(&self) {
        self.wait(
            "SELECT CASE WHEN sum(tasks) = 0 AND sum(memory_used) = 0 THEN 1 ELSE 0 END \
             FROM system.executors",
        );
    }
}

/// Starts a scheduler whom executors join at an address; where clients and executors reach it.
fn scheduler(secret: &Path, join: &str) -> (Node, String, String) {
    let mut scheduler = tidegate(&["cluster", "scheduler", "--listen", "127.0.0.1:0"])
        .args(["--cluster-listen", join, "--threads", "2"])
        .args(["--set", "tidegate.spread=always", "--cluster-secret-file"])
        .arg(secret)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let join = line_after(&mut scheduler.stderr, "executors join at ");
    let client = line_after(&mut scheduler.stdout, "listening on ");
    (Node(scheduler), client, join)
}

/// Reads lines until one begins like this; what follows.
fn line_after<R: Read>(out: &mut Option<R>, start: &str) -> String {
    let mut lines = BufReader::new(out.as_mut().unwrap());
    loop {
        let mut line = String::new();
        assert!(
            lines.read_line(&mut line).unwrap() > 0,
            "no line begins with {start}"
        );
        if let Some((_, rest)) = line.split_once(start) {
            return rest.trim().to_string();
        }
    }
}

fn ended(child: Child) -> Output {
    let id = child.id().to_string();
    let (send, received) = std::sync::mpsc::channel();
    // It writes more than a pipe holds.
    std::thread::spawn(move || send.send(child.wait_with_output()));
    match received.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = Command::new("kill").args(["-KILL", &id]).status();
            panic!("a statement hangs");
        }
    }
}

fn rows(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let out = String::from_utf8(output.stdout.clone()).unwrap();
    let mut rows: Vec<String> = out.lines().skip(1).map(str::to_string).collect();
    rows.sort();
    rows
}

const STATEMENTS: [&str; 3] = [
    "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM tpch('lineitem', 0.1) GROUP BY 1, 2",
    "SELECT o_orderpriority, count(*), sum(l_quantity) FROM tpch('orders', 0.1) \
     JOIN tpch('lineitem', 0.1) ON o_orderkey = l_orderkey GROUP BY 1",
    "SELECT l_suppkey, l_partkey FROM tpch('lineitem', 0.1) WHERE l_quantity < 3 AND l_discount > 0.05",
];

#[test]
fn killed_executors_cost_no_row() {
    let mut nodes = Nodes::start(3);
    nodes.rows("SET tidegate.retries = 3");
    let (mut seed, mut lost, mut right) = (20_261_124_u64, 0, 0);
    for round in 0..6 {
        let sql = STATEMENTS[round % 3];
        let began = Instant::now();
        let expected = nodes.rows(sql);
        let whole = began.elapsed();
        assert!(expected.len() > 2, "{sql}");
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let victim = (seed >> 33) as usize % 3;
        let moment = whole.mul_f64(((seed >> 40) % 1000) as f64 / 1000.0);
        let running = nodes.spawn(sql);
        std::thread::sleep(moment);
        let (name, node) = nodes.executors.remove(victim);
        node.signal("-KILL");
        drop(node);
        let output = ended(running);
        match output.status.success() {
            true => {
                assert_eq!(rows(&output), expected, "{sql} {moment:?}");
                right += 1;
            }
            // Rows had left: an error that names the executor, never other rows.
            false => {
                let said = String::from_utf8_lossy(&output.stderr);
                assert!(
                    said.contains(&format!("executor {name} was lost")),
                    "{said}"
                );
                lost += 1;
            }
        }
        assert_eq!(nodes.rows(sql), expected, "on the survivors: {sql}");
        nodes.wait_idle();
        nodes.add(&name, &[]);
    }
    assert!(right > 0, "{lost} were lost");
    // A statement that finds an executor dead that it still knows runs again.
    let attempts = nodes.rows("SELECT max(attempt) FROM system.tasks");
    let tried = nodes.rows("SELECT count(DISTINCT executor) FROM system.tasks WHERE attempt = 1");
    assert_eq!(tried, ["3"]);
    assert!(attempts[0].parse::<u64>().unwrap() >= 1);
}

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
fn a_stopped_executor_is_taken_for_lost() {
    let nodes = Nodes::start(3);
    let sql = STATEMENTS[1];
    let expected = nodes.rows(sql);
    nodes.executors[1].1.signal("-STOP");
    let began = Instant::now();
    assert_eq!(nodes.rows(sql), expected);
    let attempts = nodes.rows("SELECT max(attempt) FROM system.tasks");
    assert_eq!(attempts, ["2"], "after {:?}", began.elapsed());
    nodes.wait("SELECT count(*) - 1 FROM system.executors");
    nodes.executors[1].1.signal("-CONT");
    nodes.wait("SELECT count(*) - 2 FROM system.executors");
    assert_eq!(nodes.rows(sql), expected);
    nodes.wait_idle();
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
