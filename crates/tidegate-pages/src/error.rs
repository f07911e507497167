//! Why pages give no block.

use std::io;

use parquet::errors::ParquetError;
use thiserror::Error;

/// Why a column cannot be read, or not any further.
#[derive(Debug, Error)]
pub enum PageError {
    /// There is no cursor for it here: another reader may read it.
    #[error("{0}")]
    Unsupported(String),
    /// Its bytes are not what they claim to be.
    #[error("{0}")]
    Damaged(String),
    /// It would take more memory than a page may.
    #[error("a page takes {bytes} bytes uncompressed, and {limit} are allowed")]
    TooLarge {
        /// Bytes that it takes.
        bytes: u64,
        /// Bytes that it may take.
        limit: u64,
    },
    /// Its bytes were not read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// Its bytes were not decompressed.
    #[error(transparent)]
    Codec(#[from] ParquetError),
}

impl PageError {
    pub(crate) fn damaged(why: impl Into<String>) -> Self {
        Self::Damaged(why.into())
    }

    pub(crate) fn unsupported(why: impl Into<String>) -> Self {
        Self::Unsupported(why.into())
    }

    pub(crate) fn in_column(self, column: &str) -> ColumnError {
        ColumnError {
            column: column.to_owned(),
            error: self,
        }
    }
}

/// Why one column of a row group gives no block.
#[derive(Debug, Error)]
#[error("column '{column}': {error}")]
pub struct ColumnError {
    /// The column's path in the file.
    pub column: String,
    /// Why.
    #[source]
    pub error: PageError,
}

pub(crate) type Result<T> = std::result::Result<T, PageError>;
