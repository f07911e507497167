//! Parquet pages as blocks of encoded columns.
//!
//! A [`RowGroupReader`] reads the column chunks of a row group page by page and gives blocks as
//! `tidegate_kernels::host` folds them: codes of a dictionary where the file has them, plain values
//! elsewhere, and no Arrow array but for strings. Which rows are read, and when a column is decoded, is the
//! caller's choice. What it has no cursor for it refuses, so that another reader takes the row group.
//!
//! Every byte is untrusted: each length is compared with what is there and with [`ReadOptions`] before it
//! is allocated, each code with the number of entries, and each string is looked at for UTF-8. That is why
//! this is a crate: it is tested with damaged files by itself, and has no `unsafe`.
//!
//! This crate must not know: DataFusion, sessions, stores, why rows are read.
//!
//! In reading order: [`source`] is where bytes come from, [`thrift`] and `header` what is said of a page
//! before it is read, `codec` and `stream` the pages of a column chunk, `unpack` and `runs` small integers
//! in bits, `delta`, `split`, `slices` and `text` the other encodings, `kind` and `typed` what values are
//! and become, `cursor` a page's values, `output` and `column` a column's blocks, [`reader`] a row group's.

mod codec;
mod column;
mod cursor;
mod delta;
pub mod error;
mod header;
mod kind;
mod output;
pub mod reader;
mod runs;
mod selection;
mod slices;
pub mod source;
mod split;
mod stream;
mod text;
pub mod thrift;
mod typed;
mod unpack;

pub use error::{ColumnError, PageError};
pub use reader::{ColumnRequest, RowGroupReader};
pub use source::{Buffers, ChunkBytes, FileParts, LocalFile, place_of};
pub use stream::ReadOptions;
