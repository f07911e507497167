//! `hash(x, …)`: a number of 64 bits that is the same for the same values, in each process and version.
//!
//! It is FNV-1a over what the values are, with its bits mixed in the end. Equal integers of any width have the same hash, and
//! so have equal numbers in floating point; of other types than numbers, strings, blobs and booleans it is that of the value's
//! text. NULL has a hash too. The values differ from those of DuckDB's function of that name, and are no use against an attacker.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, UInt64Type};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_HASHING;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    let description = "Returns a number of 64 bits that is the same for the same values.";
    let syntax = "hash(x[, ..., x_n])";
    ScalarUDF::from(Hash64 {
        signature: Signature::user_defined(Volatility::Immutable),
        documentation: Documentation::builder(DOC_SECTION_HASHING, description, syntax).build(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Hash64 {
    signature: Signature,
    documentation: Documentation,
}

impl ScalarUDFImpl for Hash64 {
    fn name(&self) -> &str {
        "hash"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given.is_empty() {
            true => plan_err!("hash takes one value or more"),
            false => Ok(given.iter().map(widest).collect()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        make_scalar_function(hashes, Vec::new())(&args.args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
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
    let mut states = vec![FNV_OFFSET; num_rows];
    for array in given {
        add(&mut states, array)?;
    }
    let hashes = states.into_iter().map(mixed);
    Ok(Arc::new(UInt64Array::from_iter_values(hashes)))
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

/// Adds bytes of a kind, which end where they do.
fn write(state: &mut u64, kind: u8, bytes: &[u8]) {
    let length = (bytes.len() as u64).to_le_bytes();
    for byte in std::iter::once(&kind).chain(bytes).chain(&length) {
        *state = (*state ^ u64::from(*byte)).wrapping_mul(FNV_PRIME);
    }
}

/// Lets each bit depend on all others, as MurmurHash3 ends.
fn mixed(state: u64) -> u64 {
    let mut bits = state;
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits = (bits ^ (bits >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ (bits >> 33)
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
