//! Reading cells out of Arrow arrays: downcast once per batch, then plain indexing.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType,
    IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrowPrimitiveType, BooleanArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::EvalError;
use super::value::Value;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// A column of a batch, ready to be read cell by cell.
pub(crate) struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    cells: Cells<'a>,
}

/// The cells by their native representation.
enum Cells<'a> {
    Boolean(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal32(&'a [i32]),
    Decimal64(&'a [i64]),
    Decimal128(&'a [i128]),
    YearMonth(&'a [i32]),
    DayTime(&'a [IntervalDayTime]),
    MonthDayNano(&'a [IntervalMonthDayNano]),
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

    /// Reads the cell of a row.
    pub(crate) fn get(&self, row: usize) -> Value<'a> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return Value::Null;
        }
        match &self.cells {
            Cells::Boolean(cells) => Value::Boolean(cells.value(row)),
            Cells::Int8(cells) => Value::Int(i64::from(cells[row])),
            Cells::Int16(cells) => Value::Int(i64::from(cells[row])),
            Cells::Int32(cells) => Value::Int(i64::from(cells[row])),
            Cells::Int64(cells) => Value::Int(cells[row]),
            Cells::UInt8(cells) => Value::UInt(u64::from(cells[row])),
            Cells::UInt16(cells) => Value::UInt(u64::from(cells[row])),
            Cells::UInt32(cells) => Value::UInt(u64::from(cells[row])),
            Cells::UInt64(cells) => Value::UInt(cells[row]),
            Cells::Float32(cells) => Value::Float32(cells[row]),
            Cells::Float64(cells) => Value::Float64(cells[row]),
            Cells::Decimal32(cells) => Value::Decimal(i128::from(cells[row])),
            Cells::Decimal64(cells) => Value::Decimal(i128::from(cells[row])),
            Cells::Decimal128(cells) => Value::Decimal(cells[row]),
            Cells::YearMonth(cells) => Value::Interval {
                months: cells[row],
                days: 0,
                nanoseconds: 0,
            },
            Cells::DayTime(cells) => Value::Interval {
                months: 0,
                days: cells[row].days,
                nanoseconds: i64::from(cells[row].milliseconds) * NANOSECONDS_PER_MILLISECOND,
            },
            Cells::MonthDayNano(cells) => Value::Interval {
                months: cells[row].months,
                days: cells[row].days,
                nanoseconds: cells[row].nanoseconds,
            },
            Cells::Utf8(cells) => Value::Utf8(cells.value(row)),
            Cells::LargeUtf8(cells) => Value::Utf8(cells.value(row)),
            Cells::Utf8View(cells) => Value::Utf8(cells.value(row)),
            Cells::Dictionary { codes, values } => values.get(codes[row]),
        }
    }
}

fn cells(array: &dyn Array) -> Option<Cells<'_>> {
    let cells = match array.data_type() {
        DataType::Boolean => Cells::Boolean(array.as_boolean_opt()?),
        DataType::Int8 => Cells::Int8(native::<Int8Type>(array)?),
        DataType::Int16 => Cells::Int16(native::<Int16Type>(array)?),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => Cells::Int32(int32(array)?),
        DataType::UInt8 => Cells::UInt8(native::<UInt8Type>(array)?),
        DataType::UInt16 => Cells::UInt16(native::<UInt16Type>(array)?),
        DataType::UInt32 => Cells::UInt32(native::<UInt32Type>(array)?),
        DataType::UInt64 => Cells::UInt64(native::<UInt64Type>(array)?),
        DataType::Float32 => Cells::Float32(native::<Float32Type>(array)?),
        DataType::Float64 => Cells::Float64(native::<Float64Type>(array)?),
        DataType::Decimal32(_, _) => Cells::Decimal32(native::<Decimal32Type>(array)?),
        DataType::Decimal64(_, _) => Cells::Decimal64(native::<Decimal64Type>(array)?),
        DataType::Decimal128(_, _) => Cells::Decimal128(native::<Decimal128Type>(array)?),
        DataType::Interval(IntervalUnit::YearMonth) => {
            Cells::YearMonth(native::<IntervalYearMonthType>(array)?)
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            Cells::DayTime(native::<IntervalDayTimeType>(array)?)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Cells::MonthDayNano(native::<IntervalMonthDayNanoType>(array)?)
        }
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
        _ => Cells::Int64(int64(array)?),
    };
    Some(cells)
}

fn native<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<&[T::Native]> {
    let values: &[T::Native] = array.as_primitive_opt::<T>()?.values();
    Some(values)
}

fn int32(array: &dyn Array) -> Option<&[i32]> {
    match array.data_type() {
        DataType::Int32 => native::<Int32Type>(array),
        DataType::Date32 => native::<Date32Type>(array),
        DataType::Time32(TimeUnit::Second) => native::<Time32SecondType>(array),
        DataType::Time32(TimeUnit::Millisecond) => native::<Time32MillisecondType>(array),
        _ => None,
    }
}

fn int64(array: &dyn Array) -> Option<&[i64]> {
    match array.data_type() {
        DataType::Int64 => native::<Int64Type>(array),
        DataType::Date64 => native::<Date64Type>(array),
        DataType::Time64(TimeUnit::Microsecond) => native::<Time64MicrosecondType>(array),
        DataType::Time64(TimeUnit::Nanosecond) => native::<Time64NanosecondType>(array),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => native::<TimestampSecondType>(array),
            TimeUnit::Millisecond => native::<TimestampMillisecondType>(array),
            TimeUnit::Microsecond => native::<TimestampMicrosecondType>(array),
            TimeUnit::Nanosecond => native::<TimestampNanosecondType>(array),
        },
        DataType::Duration(unit) => match unit {
            TimeUnit::Second => native::<DurationSecondType>(array),
            TimeUnit::Millisecond => native::<DurationMillisecondType>(array),
            TimeUnit::Microsecond => native::<DurationMicrosecondType>(array),
            TimeUnit::Nanosecond => native::<DurationNanosecondType>(array),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests;
