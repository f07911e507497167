//! One statement over several executors.
//!
//! A [`Cluster`] listens where executors join, keeps a list of them, and plans statements of a session
//! over them: DataFusion's plan is cut into stages by `datafusion-distributed`, of which no other crate
//! knows. An [`Executor`] is a process that joins, and runs the stages that it is sent in regions of its
//! own, on its host and its devices.
//!
//! This crate must not know: SQL text, clients, terminals, environment variables.
//!
//! In reading order, the life of a statement: `planner` (it is cut into stages, or stays), `speeds` and `share`
//! (who reads how much), `travel`, `codec` and `settings` (what travels), `attempts` (it runs, and again if an executor is lost), `watch` (or its tasks
//! move), `channels` (from one process to another), `executor` (a stage arrives), `calls` (its token), `guard` (it runs, and ends).
//! Executors come and go in `members`, by way of `join`; `secret` and `links` say whom they trust, `told`
//! is how errors travel.
//!
//! ```
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::Session;
//! use tidegate_cluster::{Cluster, ClusterSessionExt, Executor, ExecutorOptions, Links, Secret};
//!
//! let links = Links {
//!     secret: Secret::try_new(Secret::random_text()?.as_bytes())?,
//!     tls: None,
//!     insecure: false,
//! };
//! let cluster = Cluster::new(links.clone())?;
//! let session = Session::builder().cluster(&cluster).build()?;
//! let join = cluster.listen(&session, ([127, 0, 0, 1], 0).into()).await?;
//! // Another process would do this, with the same secret.
//! let options = ExecutorOptions {
//!     name: "e1".into(),
//!     listen: ([127, 0, 0, 1], 0).into(),
//!     advertise: None,
//!     join: vec![join],
//!     links,
//!     ends_with_scheduler: true,
//!     drain: std::time::Duration::ZERO,
//! };
//! let executor = Executor::bind(Session::builder().build()?, options).await?;
//! tokio::spawn(executor.run(std::future::pending()));
//! # Ok(())
//! # }
//! ```

mod attempts;
mod calls;
mod channels;
mod codec;
mod counted;
mod error;
mod executor;
mod guard;
mod join;
mod links;
mod local;
mod members;
mod planner;
mod secret;
mod service;
mod settings;
mod share;
mod speeds;
mod tasks;
mod told;
mod travel;
mod version;
mod watch;

pub use error::ClusterError;
pub use executor::{Executor, ExecutorOptions};
pub use links::{ClusterTls, Links};
pub use planner::{Cluster, ClusterSessionExt};
pub use secret::Secret;
pub use url::Url;
