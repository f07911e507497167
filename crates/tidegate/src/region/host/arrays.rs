//! Columns of a block as Arrow arrays, for expressions of DataFusion's.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayData, ArrayRef, StringViewArray};
use datafusion::arrow::array::{ArrayDataBuilder, make_array};
use datafusion::arrow::buffer::{Buffer, NullBuffer};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use tidegate_kernels::host::{Chunk, Entries, Raw, Values};

/// Returns whether columns of a type become arrays.
pub(super) fn has_arrays(data_type: &DataType) -> bool {
    width(data_type).is_some() || *data_type == DataType::Utf8View
}

/// The width of a type's values; the integers of types that are read as narrower ones are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    I32,
    I64,
    I128,
    F32,
    F64,
}

fn width(data_type: &DataType) -> Option<Width> {
    use DataType as T;
    Some(match data_type {
        T::Int32 | T::Date32 | T::Time32(_) | T::Decimal32(..) => Width::I32,
        T::Int64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(..)
        | T::Duration(_)
        | T::Decimal64(..) => Width::I64,
        T::Decimal128(..) => Width::I128,
        T::Float32 => Width::F32,
        T::Float64 => Width::F64,
        _ => return None,
    })
}

/// Returns the rows of a column in one block as an array; `entries` is its dictionary, if it has one. `None` if
/// the values are not of the type, or the type has no arrays here.
pub(super) fn array_of(
    chunk: &Chunk<'_>,
    entries: Option<&Entries>,
    rows: usize,
    data_type: &DataType,
) -> Option<ArrayRef> {
    let nulls = chunk.validity.map(|validity| {
        let valid = validity.iter().take(rows).map(|valid| *valid != 0);
        valid.collect::<NullBuffer>()
    });
    if let Some(codes) = codes(&chunk.values, rows) {
        return coded(&codes, entries?, chunk.validity, data_type);
    }
    if let Values::Text { array, at } = chunk.values {
        let texts = array.slice(at, rows);
        let texts =
            StringViewArray::try_new(texts.views().clone(), texts.data_buffers().to_vec(), nulls);
        let is_view = *data_type == DataType::Utf8View;
        return is_view.then_some(Arc::new(texts.ok()?) as ArrayRef);
    }
    let width = width(data_type)?;
    let buffer = match (width, chunk.values) {
        (Width::I32, Values::I32(values)) => buffer(values, rows)?,
        (Width::I64, Values::I64(values)) => buffer(values, rows)?,
        (Width::I128, Values::I128(values)) => buffer(values, rows)?,
        (Width::F32, Values::F32(values)) => buffer(values, rows)?,
        (Width::F64, Values::F64(values)) => buffer(values, rows)?,
        (Width::I32 | Width::I64 | Width::I128, _) => {
            let mut values = Vec::with_capacity(rows);
            if !integers(chunk, rows, &mut values) {
                return None;
            }
            match width {
                Width::I32 => values.iter().map(|value| *value as i32).collect(),
                Width::I64 => Buffer::from_vec(values),
                _ => values.iter().map(|value| i128::from(*value)).collect(),
            }
        }
        (Width::F32 | Width::F64, _) => return None,
    };
    primitive(data_type, buffer, rows, nulls)
}

/// Returns entries of a dictionary, one for each code, as an array.
fn coded(
    codes: &[u32],
    entries: &Entries,
    validity: Option<&[u8]>,
    data_type: &DataType,
) -> Option<ArrayRef> {
    fn gather<T: Copy>(codes: &[u32], values: &[T]) -> Option<Vec<T>> {
        let gathered = codes.iter().map(|code| values.get(*code as usize).copied());
        gathered.collect()
    }
    let array = |values| {
        let chunk = Chunk { values, validity };
        array_of(&chunk, None, codes.len(), data_type)
    };
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

/// Returns the entries of a dictionary as values, and how many there are.
pub(super) fn values_of(entries: &Entries) -> (Values<'_>, usize) {
    match entries {
        Entries::I32(values) => (Values::I32(values), values.len()),
        Entries::I64(values) => (Values::I64(values), values.len()),
        Entries::I128(values) => (Values::I128(values), values.len()),
        Entries::F32(values) => (Values::F32(values), values.len()),
        Entries::F64(values) => (Values::F64(values), values.len()),
        Entries::Text(array) => (Values::Text { array, at: 0 }, array.len()),
    }
}

/// Returns integers as an array of a type of 32 or 64 bits.
pub(super) fn integer_array(values: Vec<i64>, data_type: &DataType) -> Option<ArrayRef> {
    let rows = values.len();
    let buffer = match width(data_type)? {
        Width::I32 => values.iter().map(|value| *value as i32).collect(),
        Width::I64 => Buffer::from_vec(values),
        Width::I128 | Width::F32 | Width::F64 => return None,
    };
    primitive(data_type, buffer, rows, None)
}

/// Writes the integers of a block that has no codes; returns whether it has integers of at most 64 bits.
/// NULLs have some value.
pub(super) fn integers(chunk: &Chunk<'_>, rows: usize, to: &mut Vec<i64>) -> bool {
    fn offset<T: Copy + Into<i64>>(raw: &[T], base: i64, factor: i64, to: &mut Vec<i64>) {
        to.extend(
            raw.iter()
                .map(|raw| base.wrapping_add(factor.wrapping_mul((*raw).into()))),
        );
    }
    to.clear();
    match chunk.values {
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

/// Returns a block's codes, if it has some.
pub(super) fn codes(values: &Values<'_>, rows: usize) -> Option<Vec<u32>> {
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
    let data: ArrayData = ArrayDataBuilder::new(data_type.clone())
        .len(rows)
        .nulls(nulls)
        .add_buffer(values)
        .build()
        .ok()?;
    Some(make_array(data))
}
