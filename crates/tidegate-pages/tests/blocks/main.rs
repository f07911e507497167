//! Blocks against what the `parquet` crate's own reader makes of the same files.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helpers of a test fail it by panicking"
)]

mod cells;
mod codecs;
mod compare;
mod damaged;
mod encodings;
mod fallback;
mod files;
mod physical;
mod refused;
mod selected;
mod stepped;
mod values;
mod writers;
