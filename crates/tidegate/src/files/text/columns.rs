//! The columns of a table's files together.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::error::Result;
use tidegate_readers::{Sniffed, json, together as delimited};

use super::Union;
use super::found::Found;
use crate::error::{Error, ErrorKind};

/// Returns the columns of files that were looked at.
///
/// # Errors
/// Fails for files that have other columns, unless they are united by name.
pub(super) fn together(files: &[(String, Arc<Found>)], union: Union) -> Result<Schema> {
    let mut tables: Vec<(&str, &Sniffed)> = Vec::new();
    let mut objects = json::Shape::Null;
    for (name, found) in files {
        match found.as_ref() {
            Found::Delimited(sniffed) => tables.push((name, sniffed)),
            // A field that an object lacks is NULL, in one file or several.
            Found::Json(sniffed) => objects.merge(sniffed.shape.clone()),
        }
    }
    if tables.is_empty() {
        return Ok(objects.schema());
    }
    delimited(&tables, union == Union::ByName)
        .map_err(|error| Error::new(ErrorKind::Sql, error.to_string()).into())
}

/// Returns a column of files whose columns have types of their own: one type that holds both.
pub(crate) fn merged(left: &Field, right: &Field) -> Field {
    let data_type = wider(left.data_type(), right.data_type());
    left.clone().with_data_type(data_type).with_nullable(true)
}

fn wider(left: &DataType, right: &DataType) -> DataType {
    use DataType::{Date32, Float32, Float64, Int64, Timestamp, Utf8};
    if left == right {
        return left.clone();
    }
    match (left, right) {
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (left, right) if left.is_integer() && right.is_integer() => Int64,
        (left, right) if left.is_numeric() && right.is_numeric() => match (left, right) {
            (Float32, other) | (other, Float32) if other.primitive_width() < Some(4) => Float32,
            _ => Float64,
        },
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(left, zone), Timestamp(right, other)) if zone == other => {
            Timestamp((*left).max(*right), zone.clone())
        }
        _ => Utf8,
    }
}
