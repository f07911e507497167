//! `hash(x, …)`: a number of 64 bits that is the same for the same values, in each process and version.
//!
//! It is XXH64 over what the values are. Equal integers of any width have the same hash, and
//! so have equal numbers in floating point; of other types than numbers, strings, blobs and booleans it is that of the value's
//! text. NULL has a hash too. The values differ from those of DuckDB's function of that name, and are no use against an attacker.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_HASHING;
use twox_hash::XxHash64;

use super::plain::{self, Parts};

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["hash"],
        section: DOC_SECTION_HASHING,
        description: "Returns a number of 64 bits that is the same for the same values.",
        syntax: "hash(x[, ..., x_n])",
        takes: |given| match given.is_empty() {
            true => plan_err!("hash takes one value or more"),
            false => Ok(given.iter().map(widest).collect()),
        },
        returns: |_| DataType::UInt64,
        computes: hashes,
    })
}

/// Returns the type as which values of a type are hashed.
fn widest(given: &DataType) -> DataType {
    match given {
        DataType::Dictionary(_, values) => widest(values),
        given if given.is_signed_integer() || given.is_null() => DataType::Int64,
        given if given.is_unsigned_integer() => DataType::UInt64,
        given if given.is_floating() => DataType::Float64,
        given if given.is_string() => DataType::Utf8View,
        given if given.is_binary() => DataType::Binary,
        given => given.clone(),
    }
}

fn hashes(given: &[ArrayRef]) -> Result<ArrayRef> {
    let num_rows = given.first().map_or(0, |array| array.len());
    let mut states = vec![0; num_rows];
    for array in given {
        add(&mut states, array)?;
    }
    Ok(Arc::new(UInt64Array::from(states)))
}

/// Adds a value of each row to its state.
fn add(states: &mut [u64], array: &ArrayRef) -> Result<()> {
    let rows = states.iter_mut().enumerate();
    match array.data_type() {
        DataType::Int64 => {
            let numbers = array.as_primitive::<Int64Type>();
            each(rows, array, |row, state| {
                write(state, b'i', &i128::from(numbers.value(row)).to_le_bytes());
            });
        }
        DataType::UInt64 => {
            let numbers = array.as_primitive::<UInt64Type>();
            each(rows, array, |row, state| {
                write(state, b'i', &i128::from(numbers.value(row)).to_le_bytes());
            });
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>();
            each(rows, array, |row, state| {
                let bits = one_of_each(numbers.value(row)).to_bits();
                write(state, b'f', &bits.to_le_bytes());
            });
        }
        DataType::Boolean => {
            let truths = array.as_boolean();
            each(rows, array, |row, state| {
                write(state, b'b', &[u8::from(truths.value(row))]);
            });
        }
        DataType::Utf8View => {
            let texts = array.as_string_view();
            each(rows, array, |row, state| {
                write(state, b's', texts.value(row).as_bytes());
            });
        }
        DataType::Binary => {
            let blobs = array.as_binary::<i32>();
            each(rows, array, |row, state| {
                write(state, b'x', blobs.value(row));
            });
        }
        _ => {
            let options = FormatOptions::default();
            let texts = ArrayFormatter::try_new(array.as_ref(), &options)?;
            for (row, state) in rows {
                match array.is_null(row) {
                    true => write(state, b'n', &[]),
                    false => write(state, b't', texts.value(row).try_to_string()?.as_bytes()),
                }
            }
        }
    }
    Ok(())
}

/// Shows each row's state to a function, if the row has a value.
fn each<'a>(
    rows: impl Iterator<Item = (usize, &'a mut u64)>,
    array: &ArrayRef,
    mut show: impl FnMut(usize, &mut u64),
) {
    for (row, state) in rows {
        match array.is_null(row) {
            true => write(state, b'n', &[]),
            false => show(row, state),
        }
    }
}

/// Returns a number of which there is one zero and one NaN.
fn one_of_each(number: f64) -> f64 {
    match number {
        number if number.is_nan() => f64::NAN,
        number => number + 0.0,
    }
}

/// Adds bytes of a kind: what the values before have become is the seed.
fn write(state: &mut u64, kind: u8, bytes: &[u8]) {
    *state = XxHash64::oneshot(state.wrapping_add(kind.into()), bytes);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{
        ArrayRef, AsArray, Date32Array, Float64Array, Int64Array, StringViewArray, UInt64Array,
    };
    use datafusion::arrow::datatypes::UInt64Type;

    use super::hashes;

    fn first(given: &[ArrayRef]) -> u64 {
        hashes(given).unwrap().as_primitive::<UInt64Type>().value(0)
    }

    #[test]
    fn equal_values_have_one_hash() {
        let signed: ArrayRef = Arc::new(Int64Array::from(vec![7]));
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![7]));
        let float = |number: f64| Arc::new(Float64Array::from(vec![number])) as ArrayRef;
        let text = |text: &str| Arc::new(StringViewArray::from(vec![text])) as ArrayRef;
        let null: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
        let date: ArrayRef = Arc::new(Date32Array::from(vec![7]));
        assert_eq!(first(&[Arc::clone(&signed)]), first(&[unsigned]));
        assert_eq!(first(&[float(0.0)]), first(&[float(-0.0)]));
        assert_eq!(first(&[float(f64::NAN)]), first(&[float(-f64::NAN)]));
        assert_eq!(
            first(&[date]),
            first(&[Arc::new(Date32Array::from(vec![7]))])
        );
        let others = [
            first(&[signed]),
            first(&[null]),
            first(&[float(7.0)]),
            first(&[text("7")]),
            first(&[text("a"), text("bc")]),
            first(&[text("ab"), text("c")]),
        ];
        for (place, hash) in others.iter().enumerate() {
            assert!(!others[place + 1..].contains(hash), "{others:?}");
        }
    }
}
