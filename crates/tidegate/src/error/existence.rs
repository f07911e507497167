//! DataFusion's errors about things that are missing, or there already.
//!
//! DataFusion says these in words alone, as planning and execution errors like any other. Here, and
//! nowhere else, the words are read; the tests have DataFusion itself say them, so that a version with
//! other words fails there.

use super::ErrorKind;

/// What DataFusion names before its name.
const NAMED: [&str; 7] = [
    "Table ",
    "The table ",
    "External table ",
    "View ",
    "Schema ",
    "Catalog ",
    "Prepared statement ",
];

/// Tells whether a message says that something is missing or there already; `None` if it says neither.
pub(super) fn kind_of(message: &str) -> Option<ErrorKind> {
    let message = message.lines().next()?.trim_end_matches('.');
    if is_missing_table(message) || location_without_files(message).is_some() {
        return Some(ErrorKind::NotFound);
    }
    if !NAMED.iter().any(|named| message.starts_with(named)) {
        return None;
    }
    if message.ends_with(" already exists") {
        return Some(ErrorKind::AlreadyExists);
    }
    let is_missing = message.ends_with(" doesn't exist") || message.ends_with(" does not exist");
    is_missing.then_some(ErrorKind::NotFound)
}

/// Tells whether a message is that of a query that names a table which there is not.
fn is_missing_table(message: &str) -> bool {
    message.starts_with("table '") && message.ends_with("' not found")
}

/// Returns the location from DataFusion's message that an external table has no files, or only empty ones.
pub(super) fn location_without_files(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("No files found at ")?;
    Some(rest.split_once(". Cannot infer schema")?.0)
}

#[cfg(test)]
mod tests;
