//! Seconds and milliseconds since 1970: `interval_epoch(i)`, which `extract(epoch FROM i)` becomes, and `epoch_ms(t)`.
//!
//! A year of an interval has 365.25 days, and a month of the rest 30, as in PostgreSQL and DuckDB. DataFusion gives each
//! month 30 days.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;

use super::plain::{self, Parts};

const MONTHS_OF_YEAR: i32 = 12;
const DAYS_OF_YEAR: f64 = 365.25;
const DAYS_OF_MONTH: f64 = 30.0;
const SECONDS_OF_DAY: f64 = 86_400.0;
const NANOSECONDS_OF_SECOND: f64 = 1e9;

/// Returns both functions.
pub(super) fn functions() -> [ScalarUDF; 2] {
    let epoch_ms = Parts {
        names: &["epoch_ms"],
        section: DOC_SECTION_DATETIME,
        description: "Returns the milliseconds since 1970 of a time, those of an interval, or the timestamp of a whole \
                      number of them.",
        syntax: "epoch_ms(t)",
        takes: |given| match given {
            [given] => Ok(vec![taken(given)?]),
            _ => plan_err!("epoch_ms takes one argument"),
        },
        returns: |given| match given {
            [DataType::Int64] => INSTANT,
            _ => DataType::Int64,
        },
        computes: epoch_ms,
    };
    [interval_epoch(), plain::total(epoch_ms)]
}

/// Returns `interval_epoch`.
pub(crate) fn interval_epoch() -> ScalarUDF {
    plain::total(Parts {
        names: &["interval_epoch"],
        section: DOC_SECTION_DATETIME,
        description: "Returns the seconds of an interval.",
        syntax: "interval_epoch(i)",
        takes: |given| match given {
            [DataType::Interval(_)] => Ok(vec![DataType::Interval(IntervalUnit::MonthDayNano)]),
            [_] => plan_err!("interval_epoch takes an interval"),
            _ => plan_err!("interval_epoch takes one argument"),
        },
        returns: |_| DataType::Float64,
        computes: |given| {
            let intervals = given.first();
            let intervals =
                intervals.and_then(|of| of.as_primitive_opt::<IntervalMonthDayNanoType>());
            let Some(intervals) = intervals else {
                return internal_err!("interval_epoch of no interval");
            };
            let seconds: Float64Array = intervals.unary(seconds);
            Ok(Arc::new(seconds))
        },
    })
}

/// The type of timestamps that whole numbers are read as.
const INSTANT: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

/// Returns the type to which the argument of `epoch_ms` is cast.
fn taken(given: &DataType) -> Result<DataType> {
    Ok(match given {
        DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Timestamp(..) => given.clone(),
        DataType::Date32 | DataType::Date64 => INSTANT,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
        DataType::Duration(_) => DataType::Duration(TimeUnit::Nanosecond),
        number if number.is_integer() => DataType::Int64,
        text if text.is_string() || text.is_null() => {
            DataType::Timestamp(TimeUnit::Nanosecond, None)
        }
        other => {
            return plan_err!(
                "epoch_ms takes a time, an interval or a whole number of milliseconds, not {other}"
            );
        }
    })
}

fn epoch_ms(given: &[ArrayRef]) -> Result<ArrayRef> {
    match given {
        [numbers] if *numbers.data_type() == DataType::Int64 => Ok(cast(numbers, &INSTANT)?),
        [times] => Ok(Arc::new(millis(times)?)),
        _ => internal_err!("epoch_ms of {} arguments", given.len()),
    }
}

fn seconds(interval: IntervalMonthDayNano) -> f64 {
    let years = f64::from(interval.months / MONTHS_OF_YEAR);
    let months = f64::from(interval.months % MONTHS_OF_YEAR);
    let days = years * DAYS_OF_YEAR + months * DAYS_OF_MONTH + f64::from(interval.days);
    days * SECONDS_OF_DAY + interval.nanoseconds as f64 / NANOSECONDS_OF_SECOND
}

/// Returns the milliseconds of times and intervals, those of a fraction rounded down.
///
/// # Errors
/// Those out of range of 64 bits, of timestamps in seconds.
fn millis(array: &ArrayRef) -> Result<Int64Array> {
    if let Some(intervals) = array.as_primitive_opt::<IntervalMonthDayNanoType>() {
        return Ok(intervals.unary(|interval| (seconds(interval) * 1e3).floor() as i64));
    }
    let unit = match array.data_type() {
        DataType::Timestamp(unit, _) | DataType::Time64(unit) | DataType::Duration(unit) => *unit,
        other => return internal_err!("epoch_ms of {other}"),
    };
    let counts = cast(array, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>();
    Ok(match unit {
        TimeUnit::Second => counts.try_unary(|count| {
            let millis = count.checked_mul(1_000);
            millis.ok_or_else(|| {
                ArrowError::ComputeError(format!("epoch_ms: {count} seconds are out of range"))
            })
        })?,
        TimeUnit::Millisecond => counts.clone(),
        TimeUnit::Microsecond => counts.unary(|count| count.div_euclid(1_000)),
        TimeUnit::Nanosecond => counts.unary(|count| count.div_euclid(1_000_000)),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::IntervalMonthDayNano;

    use super::seconds;

    #[test]
    fn years_have_365_days_and_a_quarter() {
        for (months, days, expect) in [
            (12, 0, 31_557_600.0),
            (14, 3, 37_000_800.0),
            (1, 0, 2_592_000.0),
            (-12, 0, -31_557_600.0),
        ] {
            let interval = IntervalMonthDayNano::new(months, days, 0);
            assert!((seconds(interval) - expect).abs() < 1e-6, "{months}");
        }
    }
}
