//! Results as plain values, and their comparison.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal32Type, Decimal64Type, Decimal128Type, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

/// One value. Every NaN is the same one: what an operation makes of it is up to the processor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cell {
    Null,
    Integer(i128),
    /// The bits of a float.
    Float64(u64),
    Float32(u32),
    Text(String),
}

impl Cell {
    pub(crate) fn float(&self) -> Option<f64> {
        match self {
            Self::Float64(bits) => Some(f64::from_bits(*bits)),
            _ => None,
        }
    }
}

/// Returns the rows of batches.
pub(crate) fn rows_of(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<Vec<Cell>> = batch.columns().iter().map(cells_of).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns
                .iter()
                .map(|column| column[row].clone())
                .collect::<Vec<_>>()
        }));
    }
    rows
}

/// Puts rows into an order that is theirs, whichever came first.
pub(crate) fn sorted(mut rows: Vec<Vec<Cell>>) -> Vec<Vec<Cell>> {
    rows.sort_by_cached_key(|row| format!("{row:?}"));
    rows
}

/// Returns the rows of batches in that order.
pub(crate) fn sorted_rows(batches: &[RecordBatch]) -> Vec<Vec<Cell>> {
    sorted(rows_of(batches))
}

fn cells_of(array: &ArrayRef) -> Vec<Cell> {
    let nulls = array.logical_nulls();
    let there = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let cell = |row: usize| {
        if !there(row) {
            return Cell::Null;
        }
        match array.data_type() {
            DataType::Float64 => {
                let value = array.as_primitive::<Float64Type>().value(row);
                Cell::Float64(if value.is_nan() { f64::NAN } else { value }.to_bits())
            }
            DataType::Float32 => {
                let value = array.as_primitive::<Float32Type>().value(row);
                Cell::Float32(if value.is_nan() { f32::NAN } else { value }.to_bits())
            }
            DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).into()),
            DataType::LargeUtf8 => Cell::Text(array.as_string::<i64>().value(row).into()),
            DataType::Utf8View => Cell::Text(array.as_string_view().value(row).into()),
            DataType::Dictionary(_, _) => {
                let array = array.as_any_dictionary();
                let key = array.normalized_keys()[row];
                cells_of(array.values())[key].clone()
            }
            DataType::Boolean => Cell::Integer(array.as_boolean().value(row).into()),
            DataType::Decimal32(_, _) => {
                Cell::Integer(array.as_primitive::<Decimal32Type>().value(row).into())
            }
            DataType::Decimal64(_, _) => {
                Cell::Integer(array.as_primitive::<Decimal64Type>().value(row).into())
            }
            DataType::Decimal128(_, _) => {
                Cell::Integer(array.as_primitive::<Decimal128Type>().value(row))
            }
            other => {
                let text = format!("{:?}", array.slice(row, 1));
                panic!("a cell of {other}: {text}")
            }
        }
    };
    if let Some(integers) = integers_of(array) {
        return (0..array.len())
            .map(|row| {
                if there(row) {
                    Cell::Integer(integers[row])
                } else {
                    Cell::Null
                }
            })
            .collect();
    }
    (0..array.len()).map(cell).collect()
}

/// Returns the integers beneath a type of fixed width, by Arrow's own layout.
fn integers_of(array: &ArrayRef) -> Option<Vec<i128>> {
    let data_type = array.data_type();
    if data_type.is_floating() || *data_type == DataType::Boolean {
        return None;
    }
    let width = data_type.primitive_width()?;
    let data = array.to_data();
    let bytes = &data.buffers()[0].as_slice()[data.offset() * width..];
    let unsigned = data_type.is_unsigned_integer();
    let value = |bytes: &[u8]| {
        let sign = if !unsigned && bytes[width - 1] & 0x80 != 0 {
            0xff
        } else {
            0
        };
        let mut wide = [sign; 16];
        wide[..width].copy_from_slice(bytes);
        i128::from_le_bytes(wide)
    };
    Some(
        bytes
            .chunks_exact(width)
            .take(array.len())
            .map(value)
            .collect(),
    )
}

/// Compares groups by their keys, the first columns. `within` tells how far apart the floats of a
/// column may be in a row of the reference; no distance means bit for bit.
pub(crate) fn compare_groups(
    expected: &[Vec<Cell>],
    found: &[Vec<Cell>],
    num_keys: usize,
    within: &dyn Fn(usize, usize) -> Option<f64>,
) -> Result<(), String> {
    if expected.len() != found.len() {
        let missing = expected.iter().find(|row| {
            !found
                .iter()
                .any(|other| other[..num_keys] == row[..num_keys])
        });
        let extra = found.iter().find(|row| {
            !expected
                .iter()
                .any(|other| other[..num_keys] == row[..num_keys])
        });
        return Err(format!(
            "{} groups, not {}; missing {missing:?}, extra {extra:?}",
            found.len(),
            expected.len()
        ));
    }
    let by_key: HashMap<&[Cell], usize> = expected
        .iter()
        .enumerate()
        .map(|(index, row)| (&row[..num_keys], index))
        .collect();
    let mut seen = vec![false; expected.len()];
    for row in found {
        let Some(index) = by_key.get(&row[..num_keys]).copied() else {
            return Err(format!("a group {:?} that is not there", &row[..num_keys]));
        };
        if std::mem::replace(&mut seen[index], true) {
            return Err(format!("two groups {:?}", &row[..num_keys]));
        }
        for (column, (want, got)) in expected[index].iter().zip(row).enumerate().skip(num_keys) {
            let same = match (within(index, column), want.float(), got.float()) {
                (Some(distance), Some(want), Some(got)) => {
                    want.to_bits() == got.to_bits() || (want - got).abs() <= distance
                }
                _ => want == got,
            };
            if !same {
                return Err(format!(
                    "group {:?}, column {column}: {got:?} ({:?}) instead of {want:?} ({:?})",
                    &row[..num_keys],
                    got.float(),
                    want.float(),
                ));
            }
        }
    }
    Ok(())
}

/// Compares rows in order.
pub(crate) fn compare_rows(expected: &[Vec<Cell>], found: &[Vec<Cell>]) -> Result<(), String> {
    if expected.len() != found.len() {
        return Err(format!("{} rows, not {}", found.len(), expected.len()));
    }
    for (index, (want, got)) in expected.iter().zip(found).enumerate() {
        for (column, (want, got)) in want.iter().zip(got).enumerate() {
            if want != got {
                return Err(format!(
                    "row {index}, column {column}: {got:?} instead of {want:?}"
                ));
            }
        }
    }
    Ok(())
}
