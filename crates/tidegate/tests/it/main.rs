//! The library as an embedding program sees it.

mod faults;
mod partitions;
mod placement;
mod support;
