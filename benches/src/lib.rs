//! Benchmarks that check their answers.
//!
//! `cargo run --release -p tidegate-benches --bin tpch_ratio` prints our time over stock
//! DataFusion's, query by query, over interleaved pairs. Nothing here is part of the product.

pub mod tpch;
