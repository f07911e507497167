//! Arrow Flight SQL in front of Tidegate: the protocol that ADBC and JDBC clients speak already.
//!
//! A [`Server`] owns one session of `tidegate` and gives each client a session made from it. The crate
//! turns messages into calls of that API and rows into messages; it must not know plans or devices,
//! and it is the only one that names gRPC types.
//!
//! In reading order: [`options`] (what may be asked of a server, and which addresses are safe),
//! [`server`] (it listens, drains and ends), `limiter` and `connection` (connections), `auth` (who
//! calls), `sessions` (what a caller has here), `door` and `service` (one call), `job` and `statement` (a
//! statement on its way), `admission` (its permit), `executors` (its threads), `running` (its rows, and what stops
//! them), `wire` (their form),
//! `upload` and `put` (rows from clients), `metadata`, `sql_info` and `type_info` (what there is),
//! `actions` (all else);
//! for whoever operates it, `meters` (what is counted), `timeline` (the last minutes) and `http`.
//! [`client`] is the other end: a session of a server, for whoever runs statements there.
//!
//! ```no_run
//! # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
//! let session = tidegate::Session::new()?;
//! let options = tidegate_flight::ServerOptions::default();
//! let server = tidegate_flight::Server::bind(session, options).await?;
//! println!("listening on {}", server.url());
//! server.run(std::future::pending()).await?;
//! # Ok(())
//! # }
//! ```

pub mod client;
pub mod error;
pub mod options;
pub mod server;
pub mod users;

mod actions;
mod admission;
mod auth;
mod connection;
mod door;
mod executors;
mod http;
mod idle;
mod job;
mod limiter;
mod messages;
mod metadata;
mod meters;
mod put;
mod random;
mod running;
mod service;
mod sessions;
mod sql_info;
mod statement;
mod status;
mod timeline;
mod traces;
mod type_info;
mod upload;
mod wire;

pub use client::{ConnectOptions, RemoteRows, RemoteSession};
pub use error::ServeError;
pub use executors::STATEMENT_STACK_BYTES;
pub use http::report_page;
pub use options::{Limits, ServerOptions, Tls};
pub use server::Server;
pub use timeline::MemoryByTier;
pub use users::{Users, UsersError, hash_password};
