//! A session whose statements run over two executors on loopback, in this process.

use std::time::{Duration, Instant};

use tidegate::{Session, SessionBuilder};
use tidegate_cluster::{
    Cluster, ClusterError, ClusterSessionExt, Executor, ExecutorOptions, Links, Secret,
};
use tokio::task::JoinHandle;

/// How many executors there are.
const EXECUTORS: usize = 2;

/// How long they may take to join.
const START: Duration = Duration::from_secs(60);

/// A scheduler's session, and its executors.
pub(crate) struct ClusterSession {
    session: Session,
    executors: Vec<JoinHandle<Result<(), ClusterError>>>,
    cluster: Cluster,
}

/// Why there is no cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterLaneError {
    /// A session cannot be made.
    #[error("{0}")]
    Engine(#[from] tidegate::Error),
    /// A node does not start.
    #[error("{0}")]
    Cluster(#[from] ClusterError),
    /// An executor did not join.
    #[error("the executors did not join within {} s", START.as_secs())]
    TimedOut,
}

impl ClusterSession {
    /// Starts executors, and a session that spreads whatever it can.
    pub(crate) async fn open(
        session: impl Fn() -> SessionBuilder,
    ) -> Result<Self, ClusterLaneError> {
        let secret = Secret::random_text()?;
        let links = Links {
            secret: Secret::try_new(secret.as_bytes())?,
            tls: None,
            insecure: false,
        };
        let loopback = ([127, 0, 0, 1], 0).into();
        let cluster = Cluster::new(links.clone())?;
        let scheduler = session().cluster(&cluster).build()?;
        let join = cluster.listen(&scheduler, loopback).await?;
        let mut executors = Vec::new();
        for number in 1..=EXECUTORS {
            let options = ExecutorOptions {
                name: format!("e{number}"),
                listen: loopback,
                advertise: None,
                join: vec![join.clone()],
                links: links.clone(),
                ends_with_scheduler: true,
                drain: Duration::ZERO,
            };
            let executor = Executor::bind(session().build()?, options).await?;
            executors.push(tokio::spawn(executor.run(std::future::pending())));
        }
        let opened = Self {
            session: scheduler,
            executors,
            cluster,
        };
        let began = Instant::now();
        while opened.cluster.num_ready() < EXECUTORS {
            if began.elapsed() > START {
                return Err(ClusterLaneError::TimedOut);
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(opened)
    }

    /// Returns the scheduler's session.
    pub(crate) fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for ClusterSession {
    fn drop(&mut self) {
        for executor in &self.executors {
            executor.abort();
        }
    }
}
