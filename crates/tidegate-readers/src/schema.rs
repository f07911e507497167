//! The columns of several files together.

use std::collections::{HashMap, HashSet};

use arrow::datatypes::{DataType, Field, Schema};

use crate::dialect::{Column, Sniffed};
use crate::error::SniffError;

/// Returns the columns that files have together, in the order in which they are met: those of the first file
/// first. A column has a type that holds the values of all files.
///
/// # Errors
/// [`SniffError::Option`] for a file whose columns have other names, unless they are united `by_name`.
pub fn together(files: &[(&str, &Sniffed)], by_name: bool) -> Result<Schema, SniffError> {
    let mut all: Vec<Column> = Vec::new();
    // Where each column stands, by its name without case.
    let mut places: HashMap<String, usize> = HashMap::new();
    for (number, (file, sniffed)) in files.iter().enumerate() {
        let mut has = HashSet::with_capacity(sniffed.columns.len());
        for column in &sniffed.columns {
            let name = column.name.to_ascii_lowercase();
            match places.get(&name) {
                Some(place) => widen(&mut all[*place], column),
                None if number == 0 || by_name => {
                    places.insert(name.clone(), all.len());
                    all.push(column.clone());
                }
                None => return Err(differs(files[0].0, file, &column.name)),
            }
            has.insert(name);
        }
        if by_name {
            continue;
        }
        let lacks = |known: &&Column| !has.contains(&known.name.to_ascii_lowercase());
        if let Some(missing) = all.iter().find(lacks) {
            return Err(differs(file, files[0].0, &missing.name));
        }
    }
    let field = |column: Column| Field::new(column.name, column.data_type, true);
    Ok(Schema::new(all.into_iter().map(field).collect::<Vec<_>>()))
}

fn differs(lacks: &str, has: &str, column: &str) -> SniffError {
    SniffError::Option(format!(
        "the files have different columns: {has} has \"{column}\" and {lacks} has not; put them together \
         with union_by_name => true"
    ))
}

/// Makes a column's type hold the values of another one too.
fn widen(known: &mut Column, other: &Column) {
    let data_type = match (known.is_empty, other.is_empty) {
        (true, false) => other.data_type.clone(),
        (_, true) => known.data_type.clone(),
        (false, false) => wider(&known.data_type, &other.data_type),
    };
    known.data_type = data_type;
    known.is_empty &= other.is_empty;
}

/// Returns a type that holds the values of two types; text if no other does.
pub(crate) fn wider(left: &DataType, right: &DataType) -> DataType {
    use DataType::{Date32, Decimal128, Float64, Int64, Timestamp, Utf8};
    match (left, right) {
        (left, right) if left == right => left.clone(),
        (Int64, Float64) | (Float64, Int64) => Float64,
        (Int64, Decimal128(38, 0)) | (Decimal128(38, 0), Int64) => Decimal128(38, 0),
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => {
            Timestamp(*unit, zone.clone())
        }
        (Timestamp(left, zone), Timestamp(right, other)) if zone == other => {
            Timestamp(*left.max(right), zone.clone())
        }
        _ => Utf8,
    }
}
