//! Files are untrusted: what they claim is checked before memory is allocated for it, and a decoder
//! that panics fails its statement with an error that names the file.
//!
//! Mechanisms, by the stages of reading:
//!
//! - `format` wraps the file formats of a session: reading the columns and statistics of files.
//! - `guard` wraps the source of every scan of a plan: opening and decoding files.
//! - `text` looks at delimited text and JSON before it is read.
//! - `listed` and `table` are files that a statement names, as one table, and `merged` their columns together.
//! - `footers` are those of Parquet files that planning has read.
//! - `present` compares a query's tables with the files that are there: deleted and emptied files.
//!
//! What is written is written whole or not at all (`whole`, `written`), and not among other files (`copied`, `names`);
//! objects of JSON have all of their fields (`json_sink`), and maps names of text (`text_keys`).
//!
//! Arrow IPC is read by a source of our own ([`ipc`]), since DataFusion's allocates what a file claims.
//! Parquet is read by DataFusion's, behind readers that check footers and pages (`parquet`).

pub(crate) mod copied;
pub(crate) mod footers;
pub(crate) mod format;
pub(crate) mod guard;
pub mod ipc;
pub(crate) mod json_sink;
pub(crate) mod layer;
pub(crate) mod listed;
pub(crate) mod merged;
mod names;
pub(crate) mod parquet;
pub(crate) mod present;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod text_keys;
pub(crate) mod whole;
pub(crate) mod written;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::error::ArrowError;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::ExecutionPlan;
use object_store::ObjectStore;
use object_store::path::Path;

use crate::error::{Error, ErrorKind};
use crate::stores::without_query;

/// Returns the scan of files that a leaf is.
pub(crate) fn file_scan(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let leaf = plan.downcast_ref::<DataSourceExec>()?;
    leaf.data_source().downcast_ref::<FileScanConfig>()
}

/// Says that a file cannot be read.
pub(crate) fn damaged(file: &str, why: impl fmt::Display) -> Error {
    let message = format!("cannot read {file}: damaged or unsupported: {why}");
    Error::new(ErrorKind::Io, message)
}

/// Says that columns cannot be read where there are no bytes.
pub(crate) fn nothing_to_read() -> Error {
    let message =
        "cannot read the columns of the table: its file, or each of its files, is empty: 0 bytes";
    Error::new(ErrorKind::Io, message)
}

/// Names a file of a store as a user would.
pub(crate) fn name_in(url: &ObjectStoreUrl, location: &Path) -> String {
    match url.as_str() {
        "file:///" => format!("/{location}"),
        url => format!("{url}{}", without_query(location.as_ref())),
    }
}

/// Names a file of a store of which the URL is not known.
pub(crate) fn name_of(store: &dyn ObjectStore, location: &Path) -> String {
    match store.to_string() {
        local if local.contains("LocalFileSystem") => format!("/{location}"),
        store if store.contains("://") => {
            let path = without_query(location.as_ref());
            format!("{}/{path}", store.trim_end_matches('/'))
        }
        _ => location.to_string(),
    }
}

/// Returns what a panic said, on one line.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let words: Vec<&str> = tidegate_device::panic_text(panic)
        .split_whitespace()
        .collect();
    match words.join(" ") {
        // What `unwrap` says is about the decoder's code, not about the file.
        unwrapped if unwrapped.starts_with("called `") => {
            "its decoder stopped at what it did not expect".into()
        }
        said => format!("its decoder stopped: {said}"),
    }
}

/// Turns an error of a decoder into one of its file, unless it is not the file's fault.
pub(crate) fn blame(file: &str, error: DataFusionError) -> DataFusionError {
    if let Some(own) = Error::own(&error) {
        return own.clone().into();
    }
    let why = match error.find_root() {
        DataFusionError::ParquetError(cause) => without_label(&cause.to_string()),
        DataFusionError::Internal(cause) => cause.clone(),
        DataFusionError::ArrowError(cause, _) => match cause.as_ref() {
            ArrowError::ParquetError(text) | ArrowError::IpcError(text) => without_label(text),
            _ => return error,
        },
        _ => return error,
    };
    // A file that is no longer there, or that the store refuses, is not damaged.
    if why.contains("Object at location") || why.contains("not found") {
        return error;
    }
    damaged(file, why).into()
}

/// Drops the kinds of errors with which Parquet's and DataFusion's messages begin.
fn without_label(text: &str) -> String {
    const LABELS: [&str; 5] = [
        "Parquet error: ",
        "Arrow: ",
        "External: ",
        "Parquet argument error: ",
        "Arrow error: ",
    ];
    let mut rest = text.trim();
    while let Some(inner) = LABELS.iter().find_map(|label| rest.strip_prefix(label)) {
        rest = inner.trim_start();
    }
    rest.to_string()
}

#[cfg(test)]
mod tests;
