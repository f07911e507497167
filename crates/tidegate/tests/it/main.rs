//! The library as an embedding program sees it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]

mod admission;
mod again;
mod arrays;
mod automatic;
mod cache;
mod catalogue;
mod changes;
mod compiling;
mod constraints;
mod controls;
mod cuda;
mod examples;
mod explain;
mod expressions;
mod faults;
mod functions;
mod half_files;
mod host_engine;
mod host_groups;
mod host_pages;
mod host_sorts;
mod host_tier;
mod host_windows;
mod int96;
mod limits;
mod mistakes;
mod object_stores;
mod odd_files;
mod operators;
mod ordered;
mod partitions;
mod placement;
mod prepared;
mod pressure;
mod raising;
mod readers;
mod runtime_filters;
mod servers;
mod spilling;
mod spread;
mod stopping;
mod store;
mod streams;
mod support;
mod support_matrix;
mod tasks;
mod tiers;
mod tiny_morsels;
mod watched;
mod whole_files;
