//! The SQL test suite: what is visible in SQL is tested in SQL.
//!
//! The cases are the `.slt` files under `slt/`, one topic each; `README.md` says how to write one.
//! Every file runs once per [`Lane`], which is one way to answer SQL: the host alone, host and
//! simulated device taking turns morsel by morsel, or the device for all it can express. A file
//! that passes in every lane is the proof that placement changes no answer.
//!
//! Nothing here knows about plans, pipelines or devices: a lane is a session plus a few `SET`s.
//!
//! - [`mod@format`]: the one textual form of a value, shared by all lanes
//! - [`lane`]: the lanes and the connection that the runner drives
//!
//! `tests/sqllogictest.rs` runs the files, `tests/differential.rs` compares random queries with a
//! plain DataFusion session.

pub mod format;
pub mod lane;

pub use format::ColumnKind;
pub use lane::{Connection, Lane, LaneError};
