//! The columns of a table's files together.

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::error::Result;
use tidegate_readers::json::{GivenJson, Layout, Shape, SniffedJson};
use tidegate_readers::{Sniffed, together as delimited};

use super::Union;
use super::found::Found;
use crate::error::{Error, ErrorKind};

/// Returns the columns of files of delimited text that were looked at.
///
/// # Errors
/// Fails for files that have other columns, unless they are united by name.
pub(super) fn together(files: &[(String, Arc<Found>)], union: Union) -> Result<Schema> {
    let mut tables: Vec<(&str, &Sniffed)> = Vec::with_capacity(files.len());
    for (name, found) in files {
        if let Found::Delimited(sniffed) = found.as_ref() {
            tables.push((name, sniffed));
        }
    }
    delimited(&tables, union == Union::ByName)
        .map_err(|error| Error::new(ErrorKind::Sql, error.to_string()).into())
}

/// Returns the columns of files of JSON: those that are given, or the fields that were found. A field that
/// an object lacks is NULL, in one file or several.
pub(super) fn of_objects(files: &[(String, Arc<Found>)], given: &GivenJson) -> Schema {
    let mut all = SniffedJson {
        layout: Layout::Objects,
        shape: Shape::Null,
        is_known: true,
        by_line: given.ignore_errors,
    };
    for (_, found) in files {
        if let Found::Json(sniffed) = found.as_ref() {
            all.shape.merge(sniffed.shape.clone());
        }
    }
    all.schema(given)
}
