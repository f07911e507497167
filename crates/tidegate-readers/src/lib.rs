//! Delimited text and JSON as people really have it: what a file is like is found by looking at pieces of
//! all of it, and then it is read as Arrow batches.
//!
//! [`sniff`] takes a [`Sample`] of a file and what the user said ([`Given`]), and finds the rest: encoding,
//! delimiter, quote, header, comments, null words, decimal separator, formats of dates, and the type of each
//! column ([`Sniffed`]). A [`Decoder`] then turns the file's bytes, which come in buffers of any size, into
//! batches. A value that contradicts what was found is an error that names line, column and value, and the
//! options that mend it.
//!
//! Every byte is untrusted: a row, a value and a buffer have limits, and nothing here panics.
//!
//! This crate must not know: DataFusion, sessions, stores, SQL.
//!
//! In reading order: `given` is what a user may say, `dialect` what there is to know of a file, `sample`
//! which pieces are looked at, `encoding` what characters bytes are, `records` cuts text into rows, `numbers`
//! and `temporal` are how values are written, `sniff` finds it all, `decode` and `columns` read with it,
//! `split` finds where a file can be cut into parts, `schema` puts several files together, [`json`] is the
//! same for JSON.

mod columns;
mod decode;
mod dialect;
mod encoding;
mod error;
mod given;
pub mod json;
mod numbers;
mod records;
mod sample;
mod schema;
mod sniff;
mod split;
mod temporal;

pub use decode::{Decoder, LeftOut, Mapping};
pub use dialect::{Column, Dialect, Sniffed};
pub use encoding::{Encoding, Transcoder};
pub use error::{ReadError, SniffError};
pub use given::Given;
pub use records::{BATCH_BYTES, ROW_BYTES_MAX, RowMeasure};
pub use sample::{HEAD_BYTES, HEAD_BYTES_MAX, Piece, Sample, pieces_of};
pub use schema::together;
pub use sniff::{is_cut, sniff};
pub use split::{Part, Place, SearchFrom, Splitter, places, wrong_part};
pub use temporal::{DateFormat, TimestampFormat};
