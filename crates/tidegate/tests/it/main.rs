//! The library as an embedding program sees it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod admission;
mod arrays;
mod automatic;
mod cache;
mod compiling;
mod controls;
mod cuda;
mod disk_tier;
mod examples;
mod explain;
mod expressions;
mod faults;
mod functions;
mod host_tier;
mod object_stores;
mod ordered;
mod partitions;
mod placement;
mod prepared;
mod pressure;
mod servers;
mod spread;
mod store;
mod streams;
mod support;
mod support_matrix;
mod tasks;
mod tiers;
mod watched;
mod whole_files;
