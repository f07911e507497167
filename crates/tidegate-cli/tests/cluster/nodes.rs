//! Processes of a cluster, and what their clients see.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// No wait of these tests takes as long on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the command that was built with this test, or the one that `TIDEGATE_BINARY` names.
pub(crate) fn tidegate(words: &[&str]) -> Command {
    let named = std::env::var_os("TIDEGATE_BINARY");
    let binary = named.unwrap_or_else(|| env!("CARGO_BIN_EXE_tidegate").into());
    let mut command = Command::new(binary);
    command.args(words).stdin(Stdio::null());
    // The command refuses variables of its name that it does not know.
    for of_tests in ["TIDEGATE_BINARY", "TIDEGATE_KILLS", "TIDEGATE_SEED"] {
        command.env_remove(of_tests);
    }
    command
}

/// A process that ends with this.
pub(crate) struct Node(pub(crate) Child);

impl Node {
    pub(crate) fn signal(&self, signal: &str) {
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

impl Node {
    /// Waits for its end.
    pub(crate) fn wait(&mut self) {
        let _ = self.0.wait().unwrap();
    }

    /// Waits until it is stopped, where the system tells of that.
    pub(crate) fn wait_stopped(&self) {
        let stat = format!("/proc/{}/stat", self.0.id());
        let began = Instant::now();
        while let Ok(told) = std::fs::read_to_string(&stat) {
            let (_, state) = told.rsplit_once(") ").unwrap();
            if state.starts_with('T') {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{told}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A scheduler process and its executors.
pub(crate) struct Nodes {
    pub(crate) folder: TempDir,
    pub(crate) scheduler: Node,
    pub(crate) client: String,
    pub(crate) join: String,
    /// Where the scheduler answers HTTP.
    pub(crate) page: String,
    pub(crate) executors: Vec<(String, Node)>,
}

impl Nodes {
    pub(crate) fn start(executors: usize) -> Self {
        Self::start_with(executors, &[])
    }

    /// Starts a scheduler with more options.
    pub(crate) fn start_with(executors: usize, words: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "a secret of this test, which has 32 bytes").unwrap();
        let (scheduler, client, join, page) = scheduler(&secret, "127.0.0.1:0", words);
        let mut nodes = Self {
            folder,
            scheduler,
            client,
            join,
            page,
            executors: Vec::new(),
        };
        for number in 1..=executors {
            nodes.add(&format!("e{number}"), &[]);
        }
        nodes
    }

    pub(crate) fn add(&mut self, name: &str, words: &[&str]) {
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
    pub(crate) fn another_scheduler(&mut self) {
        self.scheduler.signal("-KILL");
        let _ = self.scheduler.0.wait();
        let address = self.join.trim_start_matches("grpc://").to_string();
        let secret = self.folder.path().join("secret");
        (self.scheduler, self.client, self.join, self.page) = scheduler(&secret, &address, &[]);
    }

    pub(crate) fn spawn(&self, sql: &str) -> Child {
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
    pub(crate) fn rows(&self, sql: &str) -> Vec<String> {
        rows(&ended(self.spawn(sql)))
    }

    /// Waits until a statement counts 1.
    pub(crate) fn wait(&self, sql: &str) {
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
    pub(crate) fn wait_idle(&self) {
        self.wait(
            "SELECT CASE WHEN sum(tasks) = 0 AND sum(memory_used) = 0 THEN 1 ELSE 0 END \
             FROM system.executors",
        );
    }
}

/// Starts a scheduler whom executors join at an address; where clients, executors and browsers reach it.
fn scheduler(secret: &Path, join: &str, words: &[&str]) -> (Node, String, String, String) {
    let mut scheduler = tidegate(&["cluster", "scheduler", "--listen", "127.0.0.1:0"])
        .args([
            "--cluster-listen",
            join,
            "--threads",
            "2",
            "--http-port",
            "0",
        ])
        .args(["--set", "tidegate.spread=always", "--cluster-secret-file"])
        .arg(secret)
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let join = line_after(&mut scheduler.stderr, "executors join at ");
    let mut said = Lines::of(&mut scheduler.stdout);
    let client = said.after("listening on ");
    let page = said.after("live page at ");
    let page = page.trim_start_matches("http://").trim_end_matches('/');
    (Node(scheduler), client, join, page.to_string())
}

/// Reads lines until one begins like this; what follows.
pub(crate) fn line_after<R: Read>(out: &mut Option<R>, start: &str) -> String {
    Lines::of(out).after(start)
}

/// The lines that a process writes.
struct Lines<'a, R: Read>(BufReader<&'a mut R>);

impl<'a, R: Read> Lines<'a, R> {
    fn of(out: &'a mut Option<R>) -> Self {
        Self(BufReader::new(out.as_mut().unwrap()))
    }

    /// Reads lines until one begins like this; what follows.
    fn after(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(
                self.0.read_line(&mut line).unwrap() > 0,
                "no line begins with {start}"
            );
            if let Some((_, rest)) = line.split_once(start) {
                return rest.trim().to_string();
            }
        }
    }
}

pub(crate) fn ended(child: Child) -> Output {
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

pub(crate) fn rows(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let out = String::from_utf8(output.stdout.clone()).unwrap();
    let mut rows: Vec<String> = out.lines().skip(1).map(str::to_string).collect();
    rows.sort();
    rows
}

pub(crate) const STATEMENTS: [&str; 4] = [
    "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM tpch('lineitem', 0.1) GROUP BY 1, 2",
    // So many groups stay on the executors, between which they are exchanged.
    "SELECT count(*), max(items), sum(quantity) FROM (SELECT o_orderkey, count(*) AS items, \
     sum(l_quantity) AS quantity FROM tpch('orders', 0.1) JOIN tpch('lineitem', 0.1) \
     ON o_orderkey = l_orderkey GROUP BY 1)",
    "SELECT l_suppkey, l_partkey FROM tpch('lineitem', 0.1) WHERE l_quantity < 3 AND l_discount > 0.05",
    "SELECT count(*), sum(x), min(i), max(j) FROM random_integers([3000, 3000], 0, 9) WHERE i % 3 = 0",
];
