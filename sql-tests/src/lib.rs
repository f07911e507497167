//! The SQL test suite: what is visible in SQL is tested in SQL.
//!
//! The cases are the `.slt` files under `slt/`, one topic each; `README.md` says how to write one.
//! A file runs once per [`Lane`], which is one way to answer SQL: the host alone, the host behind a
//! server, host and device taking turns morsel by morsel, or the device for all it can express; the
//! device is a simulated one or a GPU. A file that passes in every lane is the proof that placement
//! changes no answer. Behind a server ten files run, for that proof is about the wire, and over executors
//! those that read what can be shared. Where statements are planned again for less memory, those with joins run.
//!
//! Nothing here knows about plans, pipelines or devices: a lane is a session plus a few `SET`s.
//!
//! - `flight`, `cluster`, `replanned`: the session behind a server, over executors, and short of memory
//! - [`mod@format`]: the one textual form of a value, shared by all lanes
//! - [`gpus`]: the machine's GPUs, opened once for the lanes that need one
//! - [`lane`]: the lanes and the connection that the runner drives
//! - [`runner`]: runs the files
//! - [`differential`]: compares random queries with a plain DataFusion session
//! - [`corpus`]: reads files that may be damaged
//! - [`faults`]: has devices fail under queries
//!
//! The last four are tests under `tests/`, and programs for machines that cannot build.

mod cluster;
mod flight;
mod replanned;

pub mod corpus;
pub mod differential;
pub mod faults;
pub mod format;
pub mod gpus;
pub mod lane;
pub mod runner;

pub use flight::FlightLaneError;
pub use format::ColumnKind;
pub use gpus::{Gpus, NoGpu};
pub use lane::{Connection, Lane, LaneError};
