//! A constant as the literal that it was.

use std::fmt;

use arrow_array::temporal_conversions::as_datetime;
use arrow_array::types::{
    Date32Type, Date64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_schema::{DataType, TimeUnit};
use chrono::NaiveTime;

use crate::scalar::{Scalar, ScalarValue};
use crate::types::{Decimal, per_second};

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            ScalarValue::Null => f.write_str("NULL"),
            ScalarValue::Boolean(value) => write!(f, "{value}"),
            ScalarValue::Int(value) => write_int(f, &self.data_type, *value),
            ScalarValue::UInt(value) => write!(f, "{value}"),
            ScalarValue::Float(value) => write!(f, "{value}"),
            ScalarValue::Decimal(value) => {
                let scale = Decimal::of(&self.data_type).map_or(0, |decimal| decimal.scale);
                f.write_str(&decimal_text(*value, scale))
            }
            ScalarValue::Utf8(text) => write!(f, "'{}'", text.replace('\'', "''")),
            ScalarValue::Interval {
                months,
                days,
                nanoseconds,
            } => write_interval(f, *months, *days, *nanoseconds),
        }
    }
}

/// Writes a number, or the date or time for which it stands; the bare number if there is none.
fn write_int(f: &mut fmt::Formatter<'_>, data_type: &DataType, value: i64) -> fmt::Result {
    let shown = match data_type {
        DataType::Date32 => i32::try_from(value)
            .ok()
            .and_then(Date32Type::to_naive_date_opt)
            .map(|date| date.to_string()),
        DataType::Date64 => Date64Type::to_naive_date_opt(value).map(|date| date.to_string()),
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => as_datetime::<TimestampSecondType>(value),
            TimeUnit::Millisecond => as_datetime::<TimestampMillisecondType>(value),
            TimeUnit::Microsecond => as_datetime::<TimestampMicrosecondType>(value),
            TimeUnit::Nanosecond => as_datetime::<TimestampNanosecondType>(value),
        }
        .map(|at| at.format("%Y-%m-%dT%H:%M:%S%.f").to_string()),
        DataType::Time32(unit) | DataType::Time64(unit) => time_of_day(*unit, value),
        DataType::Duration(unit) => {
            let suffix = match unit {
                TimeUnit::Second => "s",
                TimeUnit::Millisecond => "ms",
                TimeUnit::Microsecond => "us",
                TimeUnit::Nanosecond => "ns",
            };
            Some(format!("{value}{suffix}"))
        }
        _ => None,
    };
    match shown {
        Some(shown) => f.write_str(&shown),
        None => write!(f, "{value}"),
    }
}

fn time_of_day(unit: TimeUnit, value: i64) -> Option<String> {
    let units = per_second(unit);
    let seconds = u32::try_from(value.div_euclid(units)).ok()?;
    let nanoseconds = u32::try_from(value.rem_euclid(units) * (1_000_000_000 / units)).ok()?;
    NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanoseconds).map(|time| time.to_string())
}

/// Returns an unscaled value with its point.
fn decimal_text(value: i128, scale: i8) -> String {
    let Some(scale) = usize::try_from(scale).ok().filter(|scale| *scale > 0) else {
        return value.to_string();
    };
    let sign = if value < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

fn write_interval(
    f: &mut fmt::Formatter<'_>,
    months: i32,
    days: i32,
    nanoseconds: i64,
) -> fmt::Result {
    f.write_str("interval '")?;
    let parts = [
        (i64::from(months), "months"),
        (i64::from(days), "days"),
        (nanoseconds, "ns"),
    ];
    let mut separator = "";
    for (count, name) in parts {
        if count != 0 {
            write!(f, "{separator}{count} {name}")?;
            separator = " ";
        }
    }
    if separator.is_empty() {
        f.write_str("0 days")?;
    }
    f.write_str("'")
}
