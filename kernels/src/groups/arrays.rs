//! Arrow arrays from integers and codes.

use std::sync::Arc;

use arrow_array::builder::{LargeStringBuilder, StringBuilder, StringViewBuilder};
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType,
    Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, PrimitiveArray, make_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::EvalError;

use crate::strings::Dictionary;

/// Builds an array of a fixed-width type from the integers beneath; floats from their bits.
///
/// # Errors
/// A type without integers beneath.
pub fn integer_array(data_type: &DataType, values: &[Option<i128>]) -> Result<ArrayRef, EvalError> {
    use DataType as T;

    let array: ArrayRef = match data_type {
        T::Boolean => Arc::new(BooleanArray::from_iter(
            values.iter().map(|value| value.map(|value| value != 0)),
        )),
        T::Int8 => primitive::<Int8Type>(data_type, values, |value| value as i8),
        T::Int16 => primitive::<Int16Type>(data_type, values, |value| value as i16),
        T::Int32 => primitive::<Int32Type>(data_type, values, |value| value as i32),
        T::Int64 => primitive::<Int64Type>(data_type, values, |value| value as i64),
        T::UInt8 => primitive::<UInt8Type>(data_type, values, |value| value as u8),
        T::UInt16 => primitive::<UInt16Type>(data_type, values, |value| value as u16),
        T::UInt32 => primitive::<UInt32Type>(data_type, values, |value| value as u32),
        T::UInt64 => primitive::<UInt64Type>(data_type, values, |value| value as u64),
        T::Float32 => {
            primitive::<Float32Type>(data_type, values, |value| f32::from_bits(value as u32))
        }
        T::Float64 => {
            primitive::<Float64Type>(data_type, values, |value| f64::from_bits(value as u64))
        }
        T::Date32 => primitive::<Date32Type>(data_type, values, |value| value as i32),
        T::Date64 => primitive::<Date64Type>(data_type, values, |value| value as i64),
        T::Decimal32(_, _) => primitive::<Decimal32Type>(data_type, values, |value| value as i32),
        T::Decimal64(_, _) => primitive::<Decimal64Type>(data_type, values, |value| value as i64),
        T::Decimal128(_, _) => primitive::<Decimal128Type>(data_type, values, |value| value),
        T::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(data_type, values, |value| value as i32)
        }
        T::Time32(_) => primitive::<Time32MillisecondType>(data_type, values, |value| value as i32),
        T::Time64(TimeUnit::Nanosecond) => {
            primitive::<Time64NanosecondType>(data_type, values, |value| value as i64)
        }
        T::Time64(_) => primitive::<Time64MicrosecondType>(data_type, values, |value| value as i64),
        T::Timestamp(TimeUnit::Second, _) => {
            primitive::<TimestampSecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(data_type, values, |value| value as i64)
        }
        T::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive::<TimestampNanosecondType>(data_type, values, |value| value as i64)
        }
        T::Duration(TimeUnit::Second) => {
            primitive::<DurationSecondType>(data_type, values, |value| value as i64)
        }
        T::Duration(TimeUnit::Millisecond) => {
            primitive::<DurationMillisecondType>(data_type, values, |value| value as i64)
        }
        T::Duration(TimeUnit::Microsecond) => {
            primitive::<DurationMicrosecondType>(data_type, values, |value| value as i64)
        }
        T::Duration(TimeUnit::Nanosecond) => {
            primitive::<DurationNanosecondType>(data_type, values, |value| value as i64)
        }
        other => {
            return Err(EvalError::Internal {
                what: format!("integers cannot become {other}"),
            });
        }
    };
    Ok(array)
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: &[Option<i128>],
    native: impl Fn(i128) -> T::Native,
) -> ArrayRef {
    let nulls = values
        .iter()
        .any(Option::is_none)
        .then(|| NullBuffer::from_iter(values.iter().map(Option::is_some)));
    let values: Vec<T::Native> = values
        .iter()
        .map(|value| native(value.unwrap_or(0)))
        .collect();
    let array = PrimitiveArray::<T>::new(values.into(), nulls);
    Arc::new(array.with_data_type(data_type.clone()))
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

fn nulls_of(validity: &[u8]) -> NullBuffer {
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
        DataType::Utf8 => {
            let mut builder = StringBuilder::new();
            codes.for_each(|code| builder.append_option(text(code)));
            Ok(Arc::new(builder.finish()))
        }
        DataType::LargeUtf8 => {
            let mut builder = LargeStringBuilder::new();
            codes.for_each(|code| builder.append_option(text(code)));
            Ok(Arc::new(builder.finish()))
        }
        DataType::Utf8View => {
            let mut builder = StringViewBuilder::new();
            codes.for_each(|code| builder.append_option(text(code)));
            Ok(Arc::new(builder.finish()))
        }
        DataType::Dictionary(key, value) => {
            let all: Vec<Option<i128>> = (0..dictionary.len() as i128).map(Some).collect();
            let values = dictionary_array(value, &all, dictionary)?;
            match key.as_ref() {
                DataType::Int8 => dictionary_of::<Int8Type>(codes, values),
                DataType::Int16 => dictionary_of::<Int16Type>(codes, values),
                DataType::Int32 => dictionary_of::<Int32Type>(codes, values),
                DataType::Int64 => dictionary_of::<Int64Type>(codes, values),
                DataType::UInt8 => dictionary_of::<UInt8Type>(codes, values),
                DataType::UInt16 => dictionary_of::<UInt16Type>(codes, values),
                DataType::UInt32 => dictionary_of::<UInt32Type>(codes, values),
                _ => dictionary_of::<UInt64Type>(codes, values),
            }
        }
        other => Err(EvalError::Internal {
            what: format!("codes cannot become {other}"),
        }),
    }
}

fn dictionary_of<K: ArrowDictionaryKeyType>(
    codes: impl Iterator<Item = Option<i128>>,
    values: ArrayRef,
) -> Result<ArrayRef, EvalError> {
    let key = |code: Option<i128>| match code {
        None => Ok(None),
        Some(code) => K::Native::from_usize(code as usize)
            .map(Some)
            .ok_or_else(|| EvalError::Internal {
                what: format!(
                    "{} strings in a dictionary of {}",
                    values.len(),
                    K::DATA_TYPE
                ),
            }),
    };
    let keys = codes.map(key).collect::<Result<Vec<_>, _>>()?;
    let keys = PrimitiveArray::<K>::from_iter(keys);
    Ok(Arc::new(DictionaryArray::<K>::try_new(keys, values)?))
}
