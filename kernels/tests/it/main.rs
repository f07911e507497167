//! Generated programs held against the reference interpreter, on a machine without a GPU.
//!
//! Each case is a pipeline with its input. Its program is generated, compiled for the host against
//! the shim of `kernels/shim`, and run by the launch logic that also drives a GPU. In reading order:
//! `shim` compiles and runs kernels, `plan` and `data` build pipelines and columns, `cells` compares
//! results, `check` brings it together; then the cases by topic, the random ones, `programs`, which
//! interprets the row programs of all cases, and `corpus`,
//! which compiles the text of all cases with NVRTC if there is one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test stops at what it did not expect, and says what it skipped"
)]

mod aggregates;
mod beside;
mod calls;
mod cells;
mod check;
mod conversions;
mod corpus;
mod customs;
mod data;
mod encodings;
mod errors;
mod exact;
mod expressions;
mod extremes;
mod finish;
mod generated;
mod host;
mod keys;
mod later;
mod ordered;
mod parts;
mod plan;
mod programs;
mod radix;
mod random;
mod reference;
mod rows;
mod shifts;
mod shim;
mod short;
mod steps;
mod variances;
mod wide;
