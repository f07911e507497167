//! The library as an embedding program sees it.

mod explain;
mod expressions;
mod faults;
mod partitions;
mod placement;
mod support;
mod support_matrix;
