//! Benchmarks that check their answers.
//!
//! `cargo run --release -p tidegate-benches --bin tpch_ratio` prints our time over stock
//! DataFusion's, query by query, over interleaved pairs; `--bin host_tier` prints first and second
//! runs with and without the host tier. Nothing here is part of the product.

pub mod statements;
pub mod tpch;
