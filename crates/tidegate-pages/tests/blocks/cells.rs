//! Values of any type, as tests compare them.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::DataType;
use tidegate_kernels::host::{Chunk, Entries, Raw, Values};

/// A value that is not NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Int(i128),
    Float(u64),
    Text(String),
}

/// Integers that arrays have.
trait Integer: Copy {
    fn widened(self) -> i128;
}

macro_rules! integers {
    ($($native:ty),*) => {$(
        impl Integer for $native {
            fn widened(self) -> i128 {
                self as i128
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

fn integers_of<T: ArrowPrimitiveType<Native: Integer>>(
    array: &PrimitiveArray<T>,
) -> Vec<Option<Cell>> {
    array
        .iter()
        .map(|value| value.map(|value| Cell::Int(value.widened())))
        .collect()
}

/// Returns the values of an array.
pub(crate) fn of_array(array: &ArrayRef) -> Vec<Option<Cell>> {
    use arrow_array::types as t;
    macro_rules! ints {
        ($type:ty) => {
            integers_of(array.as_primitive::<$type>())
        };
    }
    match array.data_type() {
        DataType::Boolean => {
            let array = array.as_boolean();
            array
                .iter()
                .map(|value| value.map(|value| Cell::Int(value.into())))
                .collect()
        }
        DataType::Float32 => {
            let array = array.as_primitive::<Float32Type>();
            array
                .iter()
                .map(|value| value.map(|value| Cell::Float(value.to_bits().into())))
                .collect()
        }
        DataType::Float64 => {
            let array = array.as_primitive::<Float64Type>();
            array
                .iter()
                .map(|value| value.map(|value| Cell::Float(value.to_bits())))
                .collect()
        }
        DataType::Utf8 => text_of(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => text_of(array.as_string::<i64>().iter()),
        DataType::Utf8View => text_of(array.as_string_view().iter()),
        DataType::Int8 => ints!(t::Int8Type),
        DataType::Int16 => ints!(t::Int16Type),
        DataType::Int32 => ints!(t::Int32Type),
        DataType::Int64 => ints!(t::Int64Type),
        DataType::UInt8 => ints!(t::UInt8Type),
        DataType::UInt16 => ints!(t::UInt16Type),
        DataType::UInt32 => ints!(t::UInt32Type),
        DataType::UInt64 => ints!(t::UInt64Type),
        DataType::Date32 => ints!(t::Date32Type),
        DataType::Date64 => ints!(t::Date64Type),
        DataType::Decimal32(..) => ints!(t::Decimal32Type),
        DataType::Decimal64(..) => ints!(t::Decimal64Type),
        DataType::Decimal128(..) => ints!(t::Decimal128Type),
        DataType::Dictionary(..) => {
            let array = array.as_any_dictionary();
            let values = of_array(array.values());
            let keys = array.normalized_keys();
            let keys = keys.into_iter().enumerate();
            keys.map(|(row, key)| array.is_valid(row).then(|| values[key].clone()).flatten())
                .collect()
        }
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => temporal_of(array),
        other => panic!("no cells of {other}"),
    }
}

fn temporal_of(array: &ArrayRef) -> Vec<Option<Cell>> {
    let array: &dyn Array = array.as_ref();
    let widths = |row: usize, bytes: &[u8], width: usize| match width {
        4 => i128::from(i32::from_le_bytes(
            bytes[row * 4..][..4].try_into().unwrap(),
        )),
        _ => i128::from(i64::from_le_bytes(
            bytes[row * 8..][..8].try_into().unwrap(),
        )),
    };
    let data = array.to_data();
    let width = data.data_type().primitive_width().unwrap();
    let bytes = &data.buffers()[0].as_slice()[data.offset() * width..];
    (0..array.len())
        .map(|row| {
            array
                .is_valid(row)
                .then(|| Cell::Int(widths(row, bytes, width)))
        })
        .collect()
}

fn text_of<'a>(values: impl Iterator<Item = Option<&'a str>>) -> Vec<Option<Cell>> {
    values
        .map(|value| value.map(|value| Cell::Text(value.into())))
        .collect()
}

/// Returns the values of a block's column; what lies at rows without a value must be legal.
pub(crate) fn of_chunk(
    chunk: &Chunk<'_>,
    rows: usize,
    entries: Option<&Entries>,
) -> Vec<Option<Cell>> {
    if let Some(validity) = chunk.validity {
        assert_eq!(validity.len(), rows);
        assert!(validity.iter().all(|byte| *byte <= 1), "validity is 0 or 1");
    }
    (0..rows)
        .map(|row| {
            let cell = cell_at(chunk, row, entries);
            let is_valid = chunk.validity.is_none_or(|validity| validity[row] == 1);
            is_valid.then_some(cell)
        })
        .collect()
}

fn cell_at(chunk: &Chunk<'_>, row: usize, entries: Option<&Entries>) -> Cell {
    let entry = |code: usize| entry_at(entries.unwrap(), code);
    match chunk.values {
        Values::Codes8(codes) => entry(codes[row].into()),
        Values::Codes16(codes) => entry(codes[row].into()),
        Values::Codes32(codes) => entry(codes[row] as usize),
        Values::Constant(code) => entry(code as usize),
        Values::Offset { base, factor, raw } => {
            let raw = match raw {
                Raw::U8(raw) => i64::from(raw[row]),
                Raw::U16(raw) => i64::from(raw[row]),
                Raw::U32(raw) => i64::from(raw[row]),
            };
            Cell::Int((base + factor * raw).into())
        }
        Values::Bool(values) => {
            assert!(values[row] <= 1, "booleans are 0 or 1");
            Cell::Int(values[row].into())
        }
        Values::I32(values) => Cell::Int(values[row].into()),
        Values::I64(values) => Cell::Int(values[row].into()),
        Values::I128(values) => Cell::Int(values[row]),
        Values::F32(values) => Cell::Float(values[row].to_bits().into()),
        Values::F64(values) => Cell::Float(values[row].to_bits()),
        Values::Text { array, at } => Cell::Text(array.value(at + row).into()),
    }
}

fn entry_at(entries: &Entries, code: usize) -> Cell {
    match entries {
        Entries::I32(values) => Cell::Int(values[code].into()),
        Entries::I64(values) => Cell::Int(values[code].into()),
        Entries::I128(values) => Cell::Int(values[code]),
        Entries::F32(values) => Cell::Float(values[code].to_bits().into()),
        Entries::F64(values) => Cell::Float(values[code].to_bits()),
        Entries::Text(values) => Cell::Text(values.value(code).into()),
    }
}
