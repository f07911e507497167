//! The integers beneath Arrow's fixed-width types.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Int8Type, Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, TimeUnit};
use tidegate_pipeline::EvalError;

use super::unsupported;

/// The values of a column, NULLs included as whatever lies there.
pub(super) enum Integers {
    /// In 64 bits.
    Narrow {
        values: Vec<i64>,
        /// The words are unsigned.
        unsigned: bool,
    },
    /// Some are beyond 64 bits.
    Wide(Vec<i128>),
}

/// Returns the integers of arrays of one type, one after another.
pub(super) fn of_arrays(arrays: &[ArrayRef], num_rows: usize) -> Result<Integers, EvalError> {
    let Some(first) = arrays.first() else {
        return Ok(narrow(Vec::new()));
    };
    if matches!(first.data_type(), DataType::Decimal128(_, _)) {
        return Ok(decimals(arrays, num_rows));
    }
    let mut values = Vec::with_capacity(num_rows);
    for array in arrays {
        append(array.as_ref(), &mut values)?;
    }
    Ok(Integers::Narrow {
        values,
        unsigned: *first.data_type() == DataType::UInt64,
    })
}

fn narrow(values: Vec<i64>) -> Integers {
    Integers::Narrow {
        values,
        unsigned: false,
    }
}

fn decimals(arrays: &[ArrayRef], num_rows: usize) -> Integers {
    let all = || {
        arrays
            .iter()
            .flat_map(|array| array.as_primitive::<Decimal128Type>().iter())
    };
    // What lies under a NULL does not count.
    if all().all(|value| value.is_none_or(|value| i64::try_from(value).is_ok())) {
        let mut values = Vec::with_capacity(num_rows);
        values.extend(all().map(|value| value.unwrap_or(0) as i64));
        return narrow(values);
    }
    Integers::Wide(all().map(|value| value.unwrap_or(0)).collect())
}

fn append(array: &dyn Array, values: &mut Vec<i64>) -> Result<(), EvalError> {
    use DataType as T;

    match array.data_type() {
        T::Boolean => values.extend(array.as_boolean().values().iter().map(i64::from)),
        T::Int8 => primitive::<Int8Type>(array, values),
        T::Int16 => primitive::<Int16Type>(array, values),
        T::Int32 => primitive::<Int32Type>(array, values),
        T::Int64 => primitive::<Int64Type>(array, values),
        T::UInt8 => primitive::<UInt8Type>(array, values),
        T::UInt16 => primitive::<UInt16Type>(array, values),
        T::UInt32 => primitive::<UInt32Type>(array, values),
        T::UInt64 => primitive::<UInt64Type>(array, values),
        T::Date32 => primitive::<Date32Type>(array, values),
        T::Date64 => primitive::<Date64Type>(array, values),
        T::Decimal32(_, _) => primitive::<Decimal32Type>(array, values),
        T::Decimal64(_, _) => primitive::<Decimal64Type>(array, values),
        T::Time32(TimeUnit::Second) => primitive::<Time32SecondType>(array, values),
        T::Time32(_) => primitive::<Time32MillisecondType>(array, values),
        T::Time64(TimeUnit::Nanosecond) => primitive::<Time64NanosecondType>(array, values),
        T::Time64(_) => primitive::<Time64MicrosecondType>(array, values),
        T::Timestamp(TimeUnit::Second, _) => primitive::<TimestampSecondType>(array, values),
        T::Timestamp(TimeUnit::Millisecond, _) => {
            primitive::<TimestampMillisecondType>(array, values);
        }
        T::Timestamp(TimeUnit::Microsecond, _) => {
            primitive::<TimestampMicrosecondType>(array, values);
        }
        T::Timestamp(TimeUnit::Nanosecond, _) => {
            primitive::<TimestampNanosecondType>(array, values);
        }
        T::Duration(TimeUnit::Second) => primitive::<DurationSecondType>(array, values),
        T::Duration(TimeUnit::Millisecond) => primitive::<DurationMillisecondType>(array, values),
        T::Duration(TimeUnit::Microsecond) => primitive::<DurationMicrosecondType>(array, values),
        T::Duration(TimeUnit::Nanosecond) => primitive::<DurationNanosecondType>(array, values),
        other => return Err(unsupported(other)),
    }
    Ok(())
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array, values: &mut Vec<i64>) {
    let array = array.as_primitive::<T>();
    // An integer of up to 64 bits keeps its bits here.
    let bits = |value: &T::Native| {
        let beyond = || value.as_usize() as u64 as i64;
        value.to_i64().unwrap_or_else(beyond)
    };
    values.extend(array.values().iter().map(bits));
}
