//! Writing cells into Arrow arrays of one exact type.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{
    BooleanBufferBuilder, LargeStringBuilder, StringBuilder, StringViewBuilder,
};
use arrow_array::types::{
    ArrowDictionaryKeyType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalYearMonthType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, DictionaryArray, PrimitiveArray};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer, NullBufferBuilder};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::EvalError;
use super::value::Value;

const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;

/// Collects the cells of a column.
pub(crate) struct ColumnBuilder {
    data_type: DataType,
    nulls: NullBufferBuilder,
    cells: Cells,
}

/// The cells by their native representation. Strings keep their own nulls.
enum Cells {
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    UInt8(Vec<u8>),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>),
    Float32(Vec<f32>),
    Float64(Vec<f64>),
    Int128(Vec<i128>),
    DayTime(Vec<IntervalDayTime>),
    MonthDayNano(Vec<IntervalMonthDayNano>),
    Utf8(StringBuilder),
    LargeUtf8(LargeStringBuilder),
    Utf8View(StringViewBuilder),
    Dictionary {
        codes: Vec<u64>,
        seen: HashMap<Box<str>, u64>,
        values: Box<ColumnBuilder>,
    },
}

impl ColumnBuilder {
    /// Starts a column of a supported type.
    pub(crate) fn new(data_type: &DataType) -> Result<Self, EvalError> {
        Ok(Self {
            data_type: data_type.clone(),
            nulls: NullBufferBuilder::new(0),
            cells: empty_cells(data_type)?,
        })
    }

    /// Appends a cell. Fails on a value of another family or out of the type's range, neither of
    /// which a checked pipeline gives.
    pub(crate) fn push(&mut self, value: Value<'_>) -> Result<(), EvalError> {
        let mismatch =
            || EvalError::internal(format!("{value:?} in a column of {}", self.data_type));
        let valid = !value.is_null();
        match (&mut self.cells, value) {
            (Cells::Boolean(cells), Value::Null) => cells.append(false),
            (Cells::Boolean(cells), Value::Boolean(value)) => cells.append(value),
            (Cells::Int8(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::Int16(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::Int32(cells), Value::Interval { months, .. }) => cells.push(months),
            (Cells::Int32(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::Int64(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::UInt8(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::UInt16(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::UInt32(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::UInt64(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::Int128(cells), _) => cells.push(int(value).ok_or_else(mismatch)?),
            (Cells::Float32(cells), Value::Null) => cells.push(0.0),
            (Cells::Float32(cells), Value::Float32(value)) => cells.push(value),
            (Cells::Float64(cells), Value::Null) => cells.push(0.0),
            (Cells::Float64(cells), Value::Float64(value)) => cells.push(value),
            (Cells::DayTime(cells), _) => cells.push(day_time(value).ok_or_else(mismatch)?),
            (Cells::MonthDayNano(cells), _) => {
                cells.push(month_day_nano(value).ok_or_else(mismatch)?);
            }
            (Cells::Utf8(cells), _) => cells.append_option(text(value).ok_or_else(mismatch)?),
            (Cells::LargeUtf8(cells), _) => cells.append_option(text(value).ok_or_else(mismatch)?),
            (Cells::Utf8View(cells), _) => cells.append_option(text(value).ok_or_else(mismatch)?),
            (
                Cells::Dictionary {
                    codes,
                    seen,
                    values,
                },
                _,
            ) => {
                let code = match text(value).ok_or_else(mismatch)? {
                    None => 0,
                    Some(text) => match seen.get(text) {
                        Some(code) => *code,
                        None => {
                            let code = seen.len() as u64;
                            values.push(value)?;
                            seen.insert(text.into(), code);
                            code
                        }
                    },
                };
                codes.push(code);
            }
            _ => return Err(mismatch()),
        }
        self.nulls.append(valid);
        Ok(())
    }

    /// Returns the column written so far and starts over.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, EvalError> {
        let nulls = self.nulls.finish();
        let cells = std::mem::replace(&mut self.cells, empty_cells(&self.data_type)?);
        let data_type = &self.data_type;
        let array: ArrayRef = match cells {
            Cells::Boolean(mut cells) => Arc::new(BooleanArray::new(cells.finish(), nulls)),
            Cells::Int8(cells) => primitive::<Int8Type>(data_type, cells, nulls),
            Cells::Int16(cells) => primitive::<Int16Type>(data_type, cells, nulls),
            Cells::Int32(cells) => int32(data_type, cells, nulls),
            Cells::Int64(cells) => int64(data_type, cells, nulls),
            Cells::UInt8(cells) => primitive::<UInt8Type>(data_type, cells, nulls),
            Cells::UInt16(cells) => primitive::<UInt16Type>(data_type, cells, nulls),
            Cells::UInt32(cells) => primitive::<UInt32Type>(data_type, cells, nulls),
            Cells::UInt64(cells) => primitive::<UInt64Type>(data_type, cells, nulls),
            Cells::Float32(cells) => primitive::<Float32Type>(data_type, cells, nulls),
            Cells::Float64(cells) => primitive::<Float64Type>(data_type, cells, nulls),
            Cells::Int128(cells) => primitive::<Decimal128Type>(data_type, cells, nulls),
            Cells::DayTime(cells) => primitive::<IntervalDayTimeType>(data_type, cells, nulls),
            Cells::MonthDayNano(cells) => {
                primitive::<IntervalMonthDayNanoType>(data_type, cells, nulls)
            }
            Cells::Utf8(mut cells) => Arc::new(cells.finish()),
            Cells::LargeUtf8(mut cells) => Arc::new(cells.finish()),
            Cells::Utf8View(mut cells) => Arc::new(cells.finish()),
            Cells::Dictionary {
                codes, mut values, ..
            } => dictionary(data_type, &codes, nulls, values.finish()?)?,
        };
        Ok(array)
    }
}

fn empty_cells(data_type: &DataType) -> Result<Cells, EvalError> {
    let cells = match data_type {
        DataType::Boolean => Cells::Boolean(BooleanBufferBuilder::new(0)),
        DataType::Int8 => Cells::Int8(Vec::new()),
        DataType::Int16 => Cells::Int16(Vec::new()),
        DataType::Int32
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Decimal32(_, _)
        | DataType::Interval(IntervalUnit::YearMonth) => Cells::Int32(Vec::new()),
        DataType::Int64
        | DataType::Date64
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Decimal64(_, _) => Cells::Int64(Vec::new()),
        DataType::UInt8 => Cells::UInt8(Vec::new()),
        DataType::UInt16 => Cells::UInt16(Vec::new()),
        DataType::UInt32 => Cells::UInt32(Vec::new()),
        DataType::UInt64 => Cells::UInt64(Vec::new()),
        DataType::Float32 => Cells::Float32(Vec::new()),
        DataType::Float64 => Cells::Float64(Vec::new()),
        DataType::Decimal128(_, _) => Cells::Int128(Vec::new()),
        DataType::Interval(IntervalUnit::DayTime) => Cells::DayTime(Vec::new()),
        DataType::Interval(IntervalUnit::MonthDayNano) => Cells::MonthDayNano(Vec::new()),
        DataType::Utf8 => Cells::Utf8(StringBuilder::new()),
        DataType::LargeUtf8 => Cells::LargeUtf8(LargeStringBuilder::new()),
        DataType::Utf8View => Cells::Utf8View(StringViewBuilder::new()),
        DataType::Dictionary(_, values) if values.is_string() => Cells::Dictionary {
            codes: Vec::new(),
            seen: HashMap::new(),
            values: Box::new(ColumnBuilder::new(values)?),
        },
        other => return Err(EvalError::internal(format!("a column of {other}"))),
    };
    Ok(cells)
}

/// Returns an integer or unscaled decimal in the cell's width, 0 for NULL.
fn int<T: TryFrom<i128> + Default>(value: Value<'_>) -> Option<T> {
    match value {
        Value::Null => Some(T::default()),
        Value::Int(value) => T::try_from(i128::from(value)).ok(),
        Value::UInt(value) => T::try_from(i128::from(value)).ok(),
        Value::Decimal(value) => T::try_from(value).ok(),
        _ => None,
    }
}

fn day_time(value: Value<'_>) -> Option<IntervalDayTime> {
    match value {
        Value::Null => Some(IntervalDayTime::ZERO),
        Value::Interval {
            days, nanoseconds, ..
        } => {
            let milliseconds = i32::try_from(nanoseconds / NANOSECONDS_PER_MILLISECOND).ok()?;
            Some(IntervalDayTime::new(days, milliseconds))
        }
        _ => None,
    }
}

fn month_day_nano(value: Value<'_>) -> Option<IntervalMonthDayNano> {
    match value {
        Value::Null => Some(IntervalMonthDayNano::ZERO),
        Value::Interval {
            months,
            days,
            nanoseconds,
        } => Some(IntervalMonthDayNano::new(months, days, nanoseconds)),
        _ => None,
    }
}

fn text(value: Value<'_>) -> Option<Option<&str>> {
    match value {
        Value::Null => Some(None),
        Value::Utf8(text) => Some(Some(text)),
        _ => None,
    }
}

/// Makes an array; the caller has matched `T` to the type, of which only precision, scale and time
/// zone are left to set.
fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    cells: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(cells.into(), nulls).with_data_type(data_type.clone()))
}

fn int32(data_type: &DataType, cells: Vec<i32>, nulls: Option<NullBuffer>) -> ArrayRef {
    match data_type {
        DataType::Date32 => primitive::<Date32Type>(data_type, cells, nulls),
        DataType::Decimal32(_, _) => primitive::<Decimal32Type>(data_type, cells, nulls),
        DataType::Interval(_) => primitive::<IntervalYearMonthType>(data_type, cells, nulls),
        DataType::Time32(TimeUnit::Second) => {
            primitive::<Time32SecondType>(data_type, cells, nulls)
        }
        DataType::Time32(_) => primitive::<Time32MillisecondType>(data_type, cells, nulls),
        _ => primitive::<Int32Type>(data_type, cells, nulls),
    }
}

fn int64(data_type: &DataType, cells: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    match data_type {
        DataType::Date64 => primitive::<Date64Type>(data_type, cells, nulls),
        DataType::Decimal64(_, _) => primitive::<Decimal64Type>(data_type, cells, nulls),
        DataType::Time64(Microsecond) => {
            primitive::<Time64MicrosecondType>(data_type, cells, nulls)
        }
        DataType::Time64(_) => primitive::<Time64NanosecondType>(data_type, cells, nulls),
        DataType::Timestamp(unit, _) => match unit {
            Second => primitive::<TimestampSecondType>(data_type, cells, nulls),
            Millisecond => primitive::<TimestampMillisecondType>(data_type, cells, nulls),
            Microsecond => primitive::<TimestampMicrosecondType>(data_type, cells, nulls),
            Nanosecond => primitive::<TimestampNanosecondType>(data_type, cells, nulls),
        },
        DataType::Duration(unit) => match unit {
            Second => primitive::<DurationSecondType>(data_type, cells, nulls),
            Millisecond => primitive::<DurationMillisecondType>(data_type, cells, nulls),
            Microsecond => primitive::<DurationMicrosecondType>(data_type, cells, nulls),
            Nanosecond => primitive::<DurationNanosecondType>(data_type, cells, nulls),
        },
        _ => primitive::<Int64Type>(data_type, cells, nulls),
    }
}

fn dictionary(
    data_type: &DataType,
    codes: &[u64],
    nulls: Option<NullBuffer>,
    values: ArrayRef,
) -> Result<ArrayRef, EvalError> {
    let key = match data_type {
        DataType::Dictionary(key, _) => key.as_ref(),
        other => other,
    };
    match key {
        DataType::Int8 => dictionary_of::<Int8Type>(codes, nulls, values),
        DataType::Int16 => dictionary_of::<Int16Type>(codes, nulls, values),
        DataType::Int32 => dictionary_of::<Int32Type>(codes, nulls, values),
        DataType::Int64 => dictionary_of::<Int64Type>(codes, nulls, values),
        DataType::UInt8 => dictionary_of::<UInt8Type>(codes, nulls, values),
        DataType::UInt16 => dictionary_of::<UInt16Type>(codes, nulls, values),
        DataType::UInt32 => dictionary_of::<UInt32Type>(codes, nulls, values),
        DataType::UInt64 => dictionary_of::<UInt64Type>(codes, nulls, values),
        other => Err(EvalError::internal(format!(
            "a dictionary keyed by {other}"
        ))),
    }
}

fn dictionary_of<K: ArrowDictionaryKeyType>(
    codes: &[u64],
    nulls: Option<NullBuffer>,
    values: ArrayRef,
) -> Result<ArrayRef, EvalError>
where
    K::Native: TryFrom<u64>,
{
    let keys: Option<Vec<K::Native>> = codes
        .iter()
        .map(|code| K::Native::try_from(*code).ok())
        .collect();
    let keys = keys.ok_or_else(|| EvalError::Overflow {
        operation: format!("more distinct strings than {} keys", K::DATA_TYPE),
    })?;
    let keys = PrimitiveArray::<K>::new(keys.into(), nulls);
    Ok(Arc::new(DictionaryArray::try_new(keys, values)?))
}
