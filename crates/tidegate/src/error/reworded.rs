//! Errors of DataFusion and Arrow that say nothing to whoever wrote the statement, or name settings that are other
//! ones here: each in other words, without its cause.

use datafusion::arrow::error::ArrowError;
use datafusion::common::SchemaError;
use datafusion::error::DataFusionError;

use super::plainly::plainly;
use super::{ErrorKind, panic_of_task};

/// What Arrow says where the values of one array have more bytes than its offsets count to.
const TOO_LARGE: &str = "offset overflow";
/// What a nested-loop join says that has no memory for one batch of its left side.
const NOTHING_TO_SPILL: &str = "Left side produced no data to spill";
/// How names of DataFusion's settings of memory begin.
const MEMORY_SETTINGS: &str = "datafusion.runtime.";

/// Returns the kind of an error and what is said instead of it; `None` of any other error.
pub(super) fn reworded(error: &DataFusionError) -> Option<(ErrorKind, String)> {
    misleading(error).or_else(|| plainly(error))
}

fn misleading(error: &DataFusionError) -> Option<(ErrorKind, String)> {
    if let Some(said) = panic_of_task(error) {
        return Some((ErrorKind::ResourcesExhausted, too_large(&said)?));
    }
    match error.find_root() {
        DataFusionError::ArrowError(cause, _) => {
            let said = match cause.as_ref() {
                ArrowError::OffsetOverflowError(_) => TOO_LARGE,
                ArrowError::InvalidArgumentError(said) => said,
                _ => return None,
            };
            Some((ErrorKind::ResourcesExhausted, too_large(said)?))
        }
        DataFusionError::SchemaError(cause, _) => Some((ErrorKind::Sql, same_names(cause)?)),
        DataFusionError::NotImplemented(said) if is_unchangeable(said) => {
            let message = "rows of tables in memory are changed alone, and this is a view or a table of files: \
                           CREATE TABLE t AS SELECT … makes one of its rows"
                .to_string();
            Some((ErrorKind::NotSupported, message))
        }
        DataFusionError::Internal(said) if said.contains(NOTHING_TO_SPILL) => {
            let message = "a join on a condition has no memory for the first rows of its left side"
                .to_string();
            Some((ErrorKind::ResourcesExhausted, with_way_out(message)))
        }
        // What is put around it advises to change DataFusion's settings.
        DataFusionError::ResourcesExhausted(said) => {
            let is_advised = error.strip_backtrace().contains(MEMORY_SETTINGS);
            is_advised.then(|| {
                let message = with_way_out(said.trim().into());
                (ErrorKind::ResourcesExhausted, message)
            })
        }
        _ => None,
    }
}

/// Tells whether a table says that its rows cannot be deleted or changed.
pub(super) fn is_unchangeable(said: &str) -> bool {
    ["DELETE", "UPDATE", "TRUNCATE"].iter().any(|word| {
        let rest = said.strip_prefix(word);
        rest.is_some_and(|rest| rest.starts_with(" not supported for "))
    })
}

/// Says what a panic or an error of Arrow's is that met an array with too many bytes; `None` of any other.
pub(super) fn too_large(said: &str) -> Option<String> {
    said.contains(TOO_LARGE).then(|| {
        format!(
            "the values of a column have more than {} bytes in one batch, which is what an array holds: ask for \
             shorter values, or lower datafusion.execution.batch_size",
            i32::MAX
        )
    })
}

/// Adds which setting helps to what says that memory is short, unless it names one.
pub(super) fn with_way_out(mut message: String) -> String {
    if !message.contains("tidegate.") {
        message.push_str(
            "; raise tidegate.memory_limit, or lower datafusion.execution.target_partitions",
        );
    }
    message
}

/// Says that tables or columns of one FROM have one name.
fn same_names(cause: &SchemaError) -> Option<String> {
    match cause {
        SchemaError::DuplicateQualifiedField { qualifier, .. } => Some(format!(
            "two tables of FROM are called '{0}': give one of them another name, as in {0} AS {0}_2",
            qualifier.table()
        )),
        SchemaError::DuplicateUnqualifiedField { name } => Some(format!(
            "two tables of FROM have no name, and both have a column '{name}': name them, as in (SELECT …) AS a"
        )),
        _ => None,
    }
}
