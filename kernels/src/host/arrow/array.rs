//! Columns of a block as Arrow arrays.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, LargeStringArray, StringArray, StringViewArray, make_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, NullBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::DataType;

use crate::host::block::{Chunk, Entries, Raw, Values};

/// Returns whether columns of a type become arrays.
pub fn has_arrays(data_type: &DataType) -> bool {
    use DataType as T;
    let is_other = matches!(
        data_type,
        T::Boolean | T::Float32 | T::Float64 | T::Utf8View | T::Utf8 | T::LargeUtf8
    );
    is_other || integer_bytes(data_type).is_some()
}

/// Returns the bytes of a value of a type whose blocks are integers.
fn integer_bytes(data_type: &DataType) -> Option<usize> {
    use DataType as T;
    Some(match data_type {
        T::Int8 | T::UInt8 => 1,
        T::Int16 | T::UInt16 => 2,
        T::Int32 | T::UInt32 | T::Date32 | T::Time32(_) | T::Decimal32(..) => 4,
        T::Int64
        | T::UInt64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(..)
        | T::Duration(_)
        | T::Decimal64(..) => 8,
        T::Decimal128(..) => 16,
        _ => return None,
    })
}

/// Returns the validity of a block as Arrow has it.
pub fn nulls_of(chunk: &Chunk<'_>, rows: usize) -> Option<NullBuffer> {
    let validity = chunk.validity?;
    let valid = validity.iter().take(rows).map(|valid| *valid != 0);
    Some(valid.collect())
}

/// Returns rows of a column as an array of a type; `entries` is what its codes are of, if it has some. `None`
/// if the values are not of the type, or the type has no arrays here.
pub fn array_of(
    values: &Values<'_>,
    entries: Option<&Entries>,
    rows: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Option<ArrayRef> {
    if let Some(codes) = codes(values, rows) {
        return coded(&codes, entries?, nulls, data_type);
    }
    match (data_type, values) {
        (DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8, Values::Text { array, at }) => {
            let texts = StringViewArray::slice(array, *at, rows);
            let views = texts.views().clone();
            let texts = StringViewArray::try_new(views, texts.data_buffers().to_vec(), nulls);
            Some(strings(texts.ok()?, data_type))
        }
        (DataType::Boolean, Values::Bool(bytes)) => {
            let bytes = bytes.get(..rows)?;
            let bits: BooleanBuffer = bytes.iter().map(|byte| *byte != 0).collect();
            Some(Arc::new(BooleanArray::new(bits, nulls)))
        }
        (DataType::Float32, Values::F32(values)) => {
            primitive(data_type, buffer(values, rows)?, rows, nulls)
        }
        (DataType::Float64, Values::F64(values)) => {
            primitive(data_type, buffer(values, rows)?, rows, nulls)
        }
        _ => integer_rows(values, rows, nulls, data_type),
    }
}

fn integer_rows(
    values: &Values<'_>,
    rows: usize,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Option<ArrayRef> {
    let buffer = match (integer_bytes(data_type)?, values) {
        (4, Values::I32(values)) => buffer(values, rows)?,
        (8, Values::I64(values)) => buffer(values, rows)?,
        (16, Values::I128(values)) => buffer(values, rows)?,
        (8, Values::I128(values)) => {
            let values = values.get(..rows)?.iter();
            values.map(|value| *value as i64).collect()
        }
        (bytes, _) => {
            let mut integers = Vec::with_capacity(rows);
            if !self::integers(values, rows, &mut integers) {
                return None;
            }
            match bytes {
                1 => integers.iter().map(|value| *value as i8).collect(),
                2 => integers.iter().map(|value| *value as i16).collect(),
                4 => integers.iter().map(|value| *value as i32).collect(),
                8 => Buffer::from_vec(integers),
                _ => integers.iter().map(|value| i128::from(*value)).collect(),
            }
        }
    };
    primitive(data_type, buffer, rows, nulls)
}

/// Returns entries of a dictionary, one for each code, as an array.
fn coded(
    codes: &[u32],
    entries: &Entries,
    nulls: Option<NullBuffer>,
    data_type: &DataType,
) -> Option<ArrayRef> {
    fn gather<T: Copy>(codes: &[u32], values: &[T]) -> Option<Vec<T>> {
        let gathered = codes.iter().map(|code| values.get(*code as usize).copied());
        gathered.collect()
    }
    let array = |values: Values<'_>| array_of(&values, None, codes.len(), nulls, data_type);
    match entries {
        Entries::I32(values) => array(Values::I32(&gather(codes, values)?)),
        Entries::I64(values) => array(Values::I64(&gather(codes, values)?)),
        Entries::I128(values) => array(Values::I128(&gather(codes, values)?)),
        Entries::F32(values) => array(Values::F32(&gather(codes, values)?)),
        Entries::F64(values) => array(Values::F64(&gather(codes, values)?)),
        Entries::Text(texts) => {
            let views = gather(codes, texts.views())?;
            let buffers = texts.data_buffers().to_vec();
            let texts = StringViewArray::try_new(views.into(), buffers, None).ok()?;
            array(Values::Text {
                array: &texts,
                at: 0,
            })
        }
    }
}

fn strings(texts: StringViewArray, data_type: &DataType) -> ArrayRef {
    match data_type {
        DataType::Utf8 => Arc::new(texts.iter().collect::<StringArray>()),
        DataType::LargeUtf8 => Arc::new(texts.iter().collect::<LargeStringArray>()),
        _ => Arc::new(texts),
    }
}

/// Writes integers that are no codes; returns whether they are integers of at most 64 bits. NULLs have some
/// value.
pub fn integers(values: &Values<'_>, rows: usize, to: &mut Vec<i64>) -> bool {
    fn offset<T: Copy + Into<i64>>(raw: &[T], base: i64, factor: i64, to: &mut Vec<i64>) {
        to.extend(
            raw.iter()
                .map(|raw| base.wrapping_add(factor.wrapping_mul((*raw).into()))),
        );
    }
    to.clear();
    match *values {
        Values::I32(values) => to.extend(values.iter().take(rows).map(|value| i64::from(*value))),
        Values::I64(values) => to.extend(values.iter().take(rows)),
        Values::Offset { base, factor, raw } => match raw {
            Raw::U8(raw) => offset(raw, base, factor, to),
            Raw::U16(raw) => offset(raw, base, factor, to),
            Raw::U32(raw) => offset(raw, base, factor, to),
        },
        _ => return false,
    }
    to.len() == rows
}

/// Returns the codes of rows, if they have some.
pub fn codes(values: &Values<'_>, rows: usize) -> Option<Vec<u32>> {
    Some(match *values {
        Values::Codes8(codes) => codes
            .iter()
            .take(rows)
            .map(|code| u32::from(*code))
            .collect(),
        Values::Codes16(codes) => codes
            .iter()
            .take(rows)
            .map(|code| u32::from(*code))
            .collect(),
        Values::Codes32(codes) => codes.iter().take(rows).copied().collect(),
        Values::Constant(code) => vec![code; rows],
        _ => return None,
    })
}

fn buffer<T: ArrowNativeType>(values: &[T], rows: usize) -> Option<Buffer> {
    Some(Buffer::from_slice_ref(values.get(..rows)?))
}

fn primitive(
    data_type: &DataType,
    values: Buffer,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Option<ArrayRef> {
    let data = ArrayDataBuilder::new(data_type.clone())
        .len(rows)
        .nulls(nulls)
        .add_buffer(values)
        .build();
    Some(make_array(data.ok()?))
}
