//! `days_and_time(d)`: a difference of two timestamps as an interval of days and a time of day.
//!
//! PostgreSQL's differences are such intervals: the hour of 53 hours is 5, and their day is 2. DataFusion takes parts of
//! the whole, in 32 bits.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;

use super::plain::{self, Parts};

const SECONDS_OF_DAY: i64 = 86_400;

/// Returns the function: days, and the rest in nanoseconds, both of the duration's sign; NULL of NULL.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["days_and_time"],
        section: DOC_SECTION_DATETIME,
        description: "Splits a difference of two timestamps into days and a time of day.",
        syntax: "days_and_time(t - u)",
        takes: |given| match given {
            [DataType::Duration(_)] => Ok(given.to_vec()),
            _ => plan_err!("days_and_time takes a difference of two timestamps"),
        },
        returns: |_| DataType::Interval(IntervalUnit::MonthDayNano),
        computes: intervals,
    })
}

fn intervals(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [durations] = given else {
        return internal_err!("days_and_time of {} arguments", given.len());
    };
    Ok(Arc::new(match durations.data_type() {
        DataType::Duration(TimeUnit::Second) => split::<DurationSecondType>(durations, 1),
        DataType::Duration(TimeUnit::Millisecond) => {
            split::<DurationMillisecondType>(durations, 1_000)
        }
        DataType::Duration(TimeUnit::Microsecond) => {
            split::<DurationMicrosecondType>(durations, 1_000_000)
        }
        DataType::Duration(TimeUnit::Nanosecond) => {
            split::<DurationNanosecondType>(durations, 1_000_000_000)
        }
        other => return internal_err!("days_and_time of {other}"),
    }))
}

/// Splits durations of so many to a second.
fn split<T: ArrowPrimitiveType<Native = i64>>(
    durations: &ArrayRef,
    to_second: i64,
) -> IntervalMonthDayNanoArray {
    let to_day = SECONDS_OF_DAY * to_second;
    let nanoseconds = 1_000_000_000 / to_second;
    durations.as_primitive::<T>().unary(|duration| {
        // 2^63 seconds have more days than 32 bits; timestamps that far apart are none of a calendar.
        let days = i32::try_from(duration / to_day);
        let days = days.unwrap_or(if duration < 0 { i32::MIN } else { i32::MAX });
        IntervalMonthDayNano::new(0, days, duration % to_day * nanoseconds)
    })
}
