//! Tables that are made in process instead of read: TPC-H, db-benchmark's group-by table, and arrays.
//!
//! Each is a [`MorselSource`](crate::sources::MorselSource): it is described by a few numbers,
//! holds no rows, and makes any morsel alone, the same each time. In SQL they are the table
//! functions `tpch('lineitem', 1)`, `h2o_g1(1e7, 100)` and `random_normal([1000, 1000], 10, 1)`.
//!
//! This module must not know: sessions, plans, devices, or who reads its morsels.
//!
//! In reading order: `tpch`, `h2o` and `arrays` are the sources; `counter` holds the random numbers that
//! `h2o` draws by position; `functions` is their SQL.

mod arrays;
mod counter;
mod described;
mod functions;
mod h2o;
mod tpch;

#[cfg(test)]
mod tests;

pub use arrays::ArraySource;
pub(crate) use arrays::{INDEX_NAMES, NamedArguments};
pub(crate) use described::source_of;
pub use functions::table_functions;
pub use h2o::H2oG1Source;
pub use tidegate_kernels::random::{Array, ArrayError, Part, Span, Values};
pub use tpch::TpchSource;

/// The rows that a generated morsel has, about: at most some 30 MiB of Arrow arrays, and some tens
/// of milliseconds of one core to make them.
const MORSEL_ROWS: u64 = 131_072;
