//! Schedulers and executors for tests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use tidegate::{AllowedPaths, Session, SessionBuilder};
use tidegate_cluster::{
    Cluster, ClusterError, ClusterSessionExt, Executor, ExecutorOptions, Links, Secret, Url,
};
use tokio::task::JoinHandle;

pub(crate) fn builder() -> SessionBuilder {
    Session::builder()
        .visible_devices(Some(String::new()))
        .target_partitions(2)
        .memory_limit(1 << 30)
}

pub(crate) fn links(secret: &str) -> Links {
    Links {
        secret: Secret::try_new(secret.as_bytes()).unwrap(),
        tls: None,
        insecure: false,
    }
}

pub(crate) const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A scheduler's session over executors of this process.
pub(crate) struct Nodes {
    cluster: Option<Cluster>,
    pub(crate) session: Session,
    pub(crate) url: Url,
    /// Further schedulers that its executors join.
    pub(crate) others: Vec<Url>,
    links: Links,
    /// The executors' sessions.
    pub(crate) sessions: Vec<Session>,
    executors: Vec<JoinHandle<Result<(), ClusterError>>>,
}

impl Nodes {
    pub(crate) async fn start(count: usize) -> Self {
        Self::linked(links(SECRET), count).await
    }

    pub(crate) async fn linked(links: Links, count: usize) -> Self {
        let mut nodes = Self::new(links).await;
        for number in 1..=count {
            nodes.add(&format!("e{number}"), builder()).await;
        }
        nodes.ready(count).await;
        nodes
    }

    pub(crate) async fn alone() -> Self {
        Self::new(links(SECRET)).await
    }

    async fn new(links: Links) -> Self {
        let cluster = Cluster::new(links.clone()).unwrap();
        let session = builder().file_urls().cluster(&cluster).build().unwrap();
        let url = cluster.listen(&session, ([127, 0, 0, 1], 0).into()).await;
        session.set("tidegate.spread", "always").await.unwrap();
        Self {
            cluster: Some(cluster),
            session,
            url: url.unwrap(),
            others: Vec::new(),
            links,
            sessions: Vec::new(),
            executors: Vec::new(),
        }
    }

    pub(crate) async fn add(&mut self, name: &str, session: SessionBuilder) {
        let session = session.build().unwrap();
        self.sessions.push(session.clone());
        let mut join = vec![self.url.clone()];
        join.extend(self.others.iter().cloned());
        let executor = bound(name, session, join, self.links.clone()).await;
        let running = tokio::spawn(executor.unwrap().run(std::future::pending()));
        self.executors.push(running);
    }

    /// Ends the scheduler's connections, as its death would.
    pub(crate) fn kill_scheduler(&mut self) {
        self.cluster = None;
    }

    /// Returns how many bytes the statements of each executor hold.
    pub(crate) fn held(&self) -> Vec<usize> {
        let sessions = self.sessions.iter();
        sessions
            .map(|session| session.context().runtime_env().memory_pool.reserved())
            .collect()
    }

    pub(crate) fn num_ready(&self) -> usize {
        self.cluster.as_ref().map_or(0, Cluster::num_ready)
    }

    /// Waits until this many executors may be used.
    pub(crate) async fn ready(&self, count: usize) {
        let began = Instant::now();
        while self.num_ready() != count {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "no {count} executors"
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        rows(&self.session, sql).await
    }

    /// Returns how EXPLAIN shows the plan of a query.
    pub(crate) async fn explained(&self, sql: &str) -> String {
        let batches = self
            .session
            .collect(&format!("EXPLAIN {sql}"))
            .await
            .unwrap();
        let rows = written(&batches);
        rows.into_iter()
            .find(|row| row.starts_with("physical_plan"))
            .unwrap()
    }

    /// Waits until a query is planned otherwise, for what it reads was counted.
    pub(crate) async fn until(&self, sql: &str, is_known: impl Fn(&str) -> bool) {
        let began = Instant::now();
        loop {
            let explained = self.explained(sql).await;
            if is_known(&explained) {
                return;
            }
            let elapsed = began.elapsed();
            assert!(elapsed < Duration::from_secs(60), "{sql}: {explained}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Asserts that a query runs on every executor, and has the rows of one process.
    pub(crate) async fn same(&self, alone: &Session, sql: &str) {
        let explained = self.explained(sql).await;
        assert!(explained.contains("Spread over"), "{sql}: {explained}");
        let (mut spread, mut one) = (self.rows(sql).await, rows(alone, sql).await);
        if !sql.contains("ORDER BY") || sql.contains("OVER") {
            spread.sort();
            one.sort();
        }
        assert_eq!(spread, one, "{sql}");
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for executor in &self.executors {
            executor.abort();
        }
    }
}

pub(crate) async fn bound(
    name: &str,
    session: Session,
    join: Vec<Url>,
    links: Links,
) -> Result<Executor, ClusterError> {
    let options = ExecutorOptions {
        name: name.into(),
        listen: ([127, 0, 0, 1], 0).into(),
        advertise: None,
        join,
        links,
        ends_with_scheduler: false,
        drain: Duration::from_secs(10),
    };
    Executor::bind(session, options).await
}

pub(crate) async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let batches = session.collect(sql).await;
    written(&batches.unwrap_or_else(|error| panic!("{sql}: {error:#}")))
}

pub(crate) fn written(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let values = columns.iter().map(|column| column.value(row).to_string());
            values.collect::<Vec<_>>().join("|")
        }));
    }
    rows
}

/// Confines an executor to a folder.
pub(crate) fn confined(folder: &std::path::Path) -> SessionBuilder {
    builder().allowed_paths(AllowedPaths::new(&[folder.to_path_buf()]).unwrap())
}

/// Writes some Parquet files of uneven sizes; returns the folder.
pub(crate) async fn files(session: &Session) -> Arc<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    for (file, rows) in [70_000, 1, 3_000, 20_000].into_iter().enumerate() {
        let path = folder.path().join(format!("{file}.parquet"));
        let sql = format!(
            "COPY (SELECT value AS id, value % 100 AS k, value * 0.5 AS v, 'n' || (value % 7) AS name \
             FROM range({file}00000, {file}00000 + {rows})) TO '{}' \
             OPTIONS ('format.max_row_group_size' '5000')",
            path.display()
        );
        session.collect(&sql).await.unwrap();
    }
    Arc::new(folder)
}
