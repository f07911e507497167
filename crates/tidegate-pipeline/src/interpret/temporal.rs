//! The calendar: fields of dates and timestamps, and moving them by an interval.
//!
//! Month arithmetic clamps the day (January 31 and a month is February 28 or 29), because Arrow's
//! does; the parts of an interval are applied months first, then days, then nanoseconds, each
//! result being in range.

use arrow_array::temporal_conversions::{as_datetime, date32_to_datetime, date64_to_datetime};
use arrow_array::timezone::Tz;
use arrow_array::types::{
    Date32Type, Date64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_buffer::IntervalMonthDayNano;
use arrow_schema::{DataType, TimeUnit};
use chrono::{Datelike, NaiveDateTime, Timelike};

use super::EvalError;
use super::value::Value;
use crate::expr::DatePart;
use crate::types::per_second;

/// What has a calendar: a date or a timestamp without a time zone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Calendar {
    /// Days since 1970.
    Date32,
    /// Milliseconds since 1970.
    Date64,
    /// Units since 1970.
    Timestamp(TimeUnit),
}

impl Calendar {
    /// Returns the calendar of a type.
    pub(crate) fn of(data_type: &DataType) -> Result<Self, EvalError> {
        match data_type {
            DataType::Date32 => Ok(Self::Date32),
            DataType::Date64 => Ok(Self::Date64),
            DataType::Timestamp(unit, None) => Ok(Self::Timestamp(*unit)),
            other => Err(EvalError::internal(format!("the calendar of {other}"))),
        }
    }

    /// Returns date and time, if they are in chrono's range.
    pub(crate) fn datetime(self, value: i64) -> Option<NaiveDateTime> {
        match self {
            Self::Date32 => date32_to_datetime(i32::try_from(value).ok()?),
            Self::Date64 => date64_to_datetime(value),
            Self::Timestamp(TimeUnit::Second) => as_datetime::<TimestampSecondType>(value),
            Self::Timestamp(TimeUnit::Millisecond) => {
                as_datetime::<TimestampMillisecondType>(value)
            }
            Self::Timestamp(TimeUnit::Microsecond) => {
                as_datetime::<TimestampMicrosecondType>(value)
            }
            Self::Timestamp(TimeUnit::Nanosecond) => as_datetime::<TimestampNanosecondType>(value),
        }
    }

    /// Returns the day since 1970 on which a value falls.
    pub(crate) fn day(self, value: i64) -> Option<i64> {
        let datetime = self.datetime(value)?;
        Some(i64::from(Date32Type::from_naive_date(datetime.date())))
    }

    /// Returns a calendar field: NULL for a value out of chrono's range.
    pub(crate) fn part(self, part: DatePart, value: i64) -> Value<'static> {
        if part == DatePart::Epoch {
            return Value::Float64(self.epoch(value));
        }
        let time_of_day = matches!(part, DatePart::Hour | DatePart::Minute | DatePart::Second);
        if matches!(self, Self::Date32) && time_of_day {
            return Value::Int(0);
        }
        let is_within_second = matches!(part, DatePart::Millisecond | DatePart::Microsecond);
        if matches!(self, Self::Date32 | Self::Date64) && is_within_second {
            return Value::Int(0);
        }
        match self.datetime(value) {
            Some(datetime) => Value::Int(field(part, datetime)),
            None => Value::Null,
        }
    }

    fn epoch(self, value: i64) -> f64 {
        let value = value as f64;
        match self {
            Self::Date32 => value * 86_400.0,
            Self::Date64 => value / 1_000.0,
            Self::Timestamp(TimeUnit::Second) => value,
            Self::Timestamp(unit) => value / per_second(unit) as f64,
        }
    }
}

fn field(part: DatePart, at: NaiveDateTime) -> i64 {
    match part {
        DatePart::Year => i64::from(at.year()),
        DatePart::Quarter => i64::from(at.month0() / 3 + 1),
        DatePart::Month => i64::from(at.month()),
        DatePart::Week => i64::from(at.iso_week().week()),
        DatePart::Day => i64::from(at.day()),
        DatePart::DayOfYear => i64::from(at.ordinal()),
        DatePart::DayOfWeek => i64::from(at.weekday().num_days_from_sunday()),
        DatePart::Hour => i64::from(at.hour()),
        DatePart::Minute => i64::from(at.minute()),
        DatePart::Second => i64::from(at.second()),
        DatePart::Epoch => at.and_utc().timestamp(),
        DatePart::IsoYear => i64::from(at.iso_week().year()),
        DatePart::IsoDayOfWeek => i64::from(at.weekday().number_from_monday()),
        DatePart::Millisecond => within_minute(at, 1_000),
        DatePart::Microsecond => within_minute(at, 1_000_000),
        DatePart::Nanosecond => within_minute(at, 1_000_000_000),
    }
}

/// Returns how many such parts of a second have passed since the minute began.
fn within_minute(at: NaiveDateTime, per_second: i64) -> i64 {
    let parts = i64::from(at.nanosecond()) * per_second / 1_000_000_000;
    i64::from(at.second()) * per_second + parts
}

/// What an interval moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shift {
    calendar: Calendar,
    utc: Tz,
}

impl Shift {
    /// Prepares to move values of this type.
    pub(crate) fn new(data_type: &DataType) -> Result<Self, EvalError> {
        Ok(Self {
            calendar: Calendar::of(data_type)?,
            utc: "+00:00".parse()?,
        })
    }
}

/// Adds an interval to a date or timestamp, or subtracts it. `None` is out of range.
pub(crate) fn shift<'a>(
    kind: Shift,
    from: Value<'a>,
    by: Value<'a>,
    subtract: bool,
) -> Option<Value<'a>> {
    let (
        Value::Int(value),
        Value::Interval {
            months,
            days,
            nanoseconds,
        },
    ) = (from, by)
    else {
        return None;
    };
    if months == i32::MIN {
        // Out of the calendar either way, and without a negative.
        return None;
    }
    let by = IntervalMonthDayNano::new(months, days, nanoseconds);
    let utc = kind.utc;
    let moved = match (kind.calendar, subtract) {
        (Calendar::Date32, false) => {
            Date32Type::add_month_day_nano_opt(i32::try_from(value).ok()?, by)?.into()
        }
        (Calendar::Date32, true) => {
            Date32Type::subtract_month_day_nano_opt(i32::try_from(value).ok()?, by)?.into()
        }
        (Calendar::Date64, false) => Date64Type::add_month_day_nano_opt(value, by)?,
        (Calendar::Date64, true) => Date64Type::subtract_month_day_nano_opt(value, by)?,
        (Calendar::Timestamp(unit), false) => match unit {
            TimeUnit::Second => TimestampSecondType::add_month_day_nano(value, by, utc)?,
            TimeUnit::Millisecond => TimestampMillisecondType::add_month_day_nano(value, by, utc)?,
            TimeUnit::Microsecond => TimestampMicrosecondType::add_month_day_nano(value, by, utc)?,
            TimeUnit::Nanosecond => TimestampNanosecondType::add_month_day_nano(value, by, utc)?,
        },
        (Calendar::Timestamp(unit), true) => match unit {
            TimeUnit::Second => TimestampSecondType::subtract_month_day_nano(value, by, utc)?,
            TimeUnit::Millisecond => {
                TimestampMillisecondType::subtract_month_day_nano(value, by, utc)?
            }
            TimeUnit::Microsecond => {
                TimestampMicrosecondType::subtract_month_day_nano(value, by, utc)?
            }
            TimeUnit::Nanosecond => {
                TimestampNanosecondType::subtract_month_day_nano(value, by, utc)?
            }
        },
    };
    Some(Value::Int(moved))
}

#[cfg(test)]
mod tests;
