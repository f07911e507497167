//! Arrow arrays from integers and codes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, LargeStringArray, StringArray, StringViewArray, make_array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::DataType;
use tidegate_pipeline::EvalError;

use crate::strings::Dictionary;

/// Builds an array of a fixed-width type from the integers beneath; floats from their bits.
///
/// # Errors
/// A type without integers beneath.
pub fn integer_array(data_type: &DataType, values: &[Option<i128>]) -> Result<ArrayRef, EvalError> {
    let nulls = values
        .iter()
        .any(Option::is_none)
        .then(|| NullBuffer::from_iter(values.iter().map(Option::is_some)));
    let num_rows = values.len();
    let values = values.iter().map(|value| value.unwrap_or(0));
    let is_span = matches!(data_type, DataType::Interval(_));
    let values: Buffer = match data_type.primitive_width().filter(|_| !is_span) {
        _ if *data_type == DataType::Boolean => {
            let bits = values.map(|value| value != 0).collect();
            return Ok(Arc::new(BooleanArray::new(bits, nulls)));
        }
        Some(1) => values.map(|value| value as i8).collect(),
        Some(2) => values.map(|value| value as i16).collect(),
        Some(4) => values.map(|value| value as i32).collect(),
        Some(8) => values.map(|value| value as i64).collect(),
        Some(16) => values.collect(),
        _ => {
            return Err(EvalError::Internal {
                what: format!("integers cannot become {data_type}"),
            });
        }
    };
    fixed_array(data_type, num_rows, values, nulls)
}

/// Builds an array of a fixed-width type from the bytes of its values, booleans a byte each, and a
/// byte of validity for each value.
///
/// # Errors
/// Bytes that are not those of so many values of the type.
pub fn plain_array(
    data_type: &DataType,
    num_rows: usize,
    values: Buffer,
    validity: Option<&[u8]>,
) -> Result<ArrayRef, EvalError> {
    let nulls = validity
        .map(nulls_of)
        .filter(|nulls| nulls.null_count() > 0);
    if *data_type == DataType::Boolean {
        return Ok(Arc::new(BooleanArray::new(bits_of(&values), nulls)));
    }
    fixed_array(data_type, num_rows, values, nulls)
}

fn fixed_array(
    data_type: &DataType,
    num_rows: usize,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, EvalError> {
    let data = ArrayData::builder(data_type.clone())
        .len(num_rows)
        .nulls(nulls)
        .add_buffer(values)
        .build()?;
    Ok(make_array(data))
}

/// Builds an array of a string type from codes of 32 bits, and a byte of validity for each.
///
/// # Errors
/// More strings than the keys of a dictionary type can count.
pub fn code_array(
    data_type: &DataType,
    codes: &[u8],
    validity: Option<&[u8]>,
    dictionary: &Dictionary,
) -> Result<ArrayRef, EvalError> {
    let (codes, _) = codes.as_chunks::<4>();
    let there = |row: usize| validity.is_none_or(|bytes| bytes[row] != 0);
    let code =
        |(row, code): (usize, &[u8; 4])| there(row).then(|| i128::from(u32::from_le_bytes(*code)));
    string_array(data_type, codes.iter().enumerate().map(code), dictionary)
}

fn bits_of(bytes: &[u8]) -> BooleanBuffer {
    BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0)
}

/// Returns which values are there, of which each has a byte.
pub(crate) fn nulls_of(validity: &[u8]) -> NullBuffer {
    NullBuffer::new(bits_of(validity))
}

/// Builds an array of a string type from codes of a dictionary.
///
/// # Errors
/// More strings than the keys of a dictionary type can count.
pub fn dictionary_array(
    data_type: &DataType,
    codes: &[Option<i128>],
    dictionary: &Dictionary,
) -> Result<ArrayRef, EvalError> {
    string_array(data_type, codes.iter().copied(), dictionary)
}

fn string_array(
    data_type: &DataType,
    codes: impl Iterator<Item = Option<i128>>,
    dictionary: &Dictionary,
) -> Result<ArrayRef, EvalError> {
    let text = |code: Option<i128>| code.map(|code| dictionary.get(code as usize));
    match data_type {
        DataType::Utf8 => Ok(Arc::new(codes.map(text).collect::<StringArray>())),
        DataType::LargeUtf8 => Ok(Arc::new(codes.map(text).collect::<LargeStringArray>())),
        DataType::Utf8View => Ok(Arc::new(codes.map(text).collect::<StringViewArray>())),
        DataType::Dictionary(key, value) => {
            let all: Vec<Option<i128>> = (0..dictionary.len() as i128).map(Some).collect();
            let values = dictionary_array(value, &all, dictionary)?;
            let codes: Vec<Option<i128>> = codes.collect();
            let bits = 8 * key.primitive_width().unwrap_or_default();
            let limit = 1_i128 << (bits - usize::from(key.is_signed_integer()));
            if codes.iter().flatten().any(|code| *code >= limit) {
                let num = values.len();
                return Err(EvalError::Internal {
                    what: format!("{num} strings in a dictionary of {key}"),
                });
            }
            let keys = integer_array(key, &codes)?.to_data().into_builder();
            let coded = keys.data_type(data_type.clone());
            let coded = coded.add_child_data(values.to_data()).build()?;
            Ok(make_array(coded))
        }
        other => Err(EvalError::Internal {
            what: format!("codes cannot become {other}"),
        }),
    }
}
