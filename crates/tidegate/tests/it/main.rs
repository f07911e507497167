//! The library as an embedding program sees it.

mod expressions;
mod faults;
mod partitions;
mod placement;
mod support;
