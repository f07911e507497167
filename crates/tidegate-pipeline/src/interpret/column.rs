//! Reading cells out of Arrow arrays: looked at once per batch, then plain indexing.

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, LargeStringArray, StringArray, StringViewArray};
use arrow_buffer::{
    ArrowNativeType, IntervalDayTime, IntervalMonthDayNano, NullBuffer, ScalarBuffer,
};
use arrow_schema::{DataType, IntervalUnit};

use super::EvalError;
use crate::catalogue::span::Span;
use crate::program::cell::Cell;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// A column of a batch, ready to be read cell by cell.
pub(crate) struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
}

/// The cells by their native representation.
enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Int8(ScalarBuffer<i8>),
    Int16(ScalarBuffer<i16>),
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Int128(ScalarBuffer<i128>),
    UInt8(ScalarBuffer<u8>),
    UInt16(ScalarBuffer<u16>),
    UInt32(ScalarBuffer<u32>),
    UInt64(ScalarBuffer<u64>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    YearMonth(ScalarBuffer<i32>),
    DayTime(ScalarBuffer<IntervalDayTime>),
    MonthDayNano(ScalarBuffer<IntervalMonthDayNano>),
    Utf8(&'a StringArray),
    LargeUtf8(&'a LargeStringArray),
    Utf8View(&'a StringViewArray),
    Dictionary {
        codes: Vec<usize>,
        values: Box<Column<'a>>,
    },
}

impl<'a> Column<'a> {
    /// Prepares an array of a supported type.
    pub(crate) fn new(array: &'a dyn Array) -> Result<Self, EvalError> {
        let cells = cells(array)
            .ok_or_else(|| EvalError::internal(format!("a column of {}", array.data_type())))?;
        Ok(Self {
            nulls: array.nulls().filter(|nulls| nulls.null_count() > 0),
            cells,
        })
    }

    /// Reads the cell of a row; `None` for NULL.
    pub(crate) fn get(&self, row: usize) -> Option<Cell<'a>> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let span = |months, days, nanoseconds| {
            let span = Span::new(months, days, nanoseconds);
            Cell::Int(span.packed())
        };
        Some(match &self.cells {
            Cells::Boolean(cells) => Cell::bool(cells.value(row)),
            Cells::Int8(cells) => Cell::Int(cells[row].into()),
            Cells::Int16(cells) => Cell::Int(cells[row].into()),
            Cells::Int32(cells) => Cell::Int(cells[row].into()),
            Cells::Int64(cells) => Cell::Int(cells[row].into()),
            Cells::Int128(cells) => Cell::Int(cells[row]),
            Cells::UInt8(cells) => Cell::Int(cells[row].into()),
            Cells::UInt16(cells) => Cell::Int(cells[row].into()),
            Cells::UInt32(cells) => Cell::Int(cells[row].into()),
            Cells::UInt64(cells) => Cell::Int(cells[row].into()),
            Cells::Float32(cells) => Cell::Float(cells[row].into()),
            Cells::Float64(cells) => Cell::Float(cells[row]),
            Cells::YearMonth(cells) => span(cells[row], 0, 0),
            Cells::DayTime(cells) => {
                let nanoseconds = i64::from(cells[row].milliseconds) * NANOSECONDS_PER_MILLISECOND;
                span(0, cells[row].days, nanoseconds)
            }
            Cells::MonthDayNano(cells) => {
                let cell = cells[row];
                span(cell.months, cell.days, cell.nanoseconds)
            }
            Cells::Utf8(cells) => Cell::Text(cells.value(row)),
            Cells::LargeUtf8(cells) => Cell::Text(cells.value(row)),
            Cells::Utf8View(cells) => Cell::Text(cells.value(row)),
            Cells::Dictionary { codes, values } => return values.get(codes[row]),
        })
    }
}

fn cells(array: &dyn Array) -> Option<Cells<'_>> {
    let cells = match array.data_type() {
        DataType::Boolean => Cells::Boolean(array.as_boolean_opt()?),
        DataType::Int8 => Cells::Int8(native(array)),
        DataType::Int16 => Cells::Int16(native(array)),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) | DataType::Decimal32(_, _) => {
            Cells::Int32(native(array))
        }
        DataType::Int64
        | DataType::Decimal64(_, _)
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_) => Cells::Int64(native(array)),
        DataType::UInt8 => Cells::UInt8(native(array)),
        DataType::UInt16 => Cells::UInt16(native(array)),
        DataType::UInt32 => Cells::UInt32(native(array)),
        DataType::UInt64 => Cells::UInt64(native(array)),
        DataType::Float32 => Cells::Float32(native(array)),
        DataType::Float64 => Cells::Float64(native(array)),
        DataType::Decimal128(_, _) => Cells::Int128(native(array)),
        DataType::Interval(IntervalUnit::YearMonth) => Cells::YearMonth(native(array)),
        DataType::Interval(IntervalUnit::DayTime) => Cells::DayTime(native(array)),
        DataType::Interval(IntervalUnit::MonthDayNano) => Cells::MonthDayNano(native(array)),
        DataType::Utf8 => Cells::Utf8(array.as_string_opt()?),
        DataType::LargeUtf8 => Cells::LargeUtf8(array.as_string_opt()?),
        DataType::Utf8View => Cells::Utf8View(array.as_string_view_opt()?),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary_opt()?;
            let values = dictionary.values();
            // Every row of a dictionary without values is NULL; there is no code to read.
            let codes = if values.is_empty() {
                Vec::new()
            } else {
                dictionary.normalized_keys()
            };
            Cells::Dictionary {
                codes,
                values: Box::new(Column::new(values.as_ref()).ok()?),
            }
        }
        _ => return None,
    };
    Some(cells)
}

/// Returns the values of an array of a fixed width, which `T` has.
fn native<T: ArrowNativeType>(array: &dyn Array) -> ScalarBuffer<T> {
    let data = array.to_data();
    ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
}

#[cfg(test)]
mod tests;
