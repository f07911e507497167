//! `make_time(hour, minute, second)`: a time of day, whose seconds may have a fraction.
//!
//! DataFusion's takes whole seconds, and gives a time of seconds.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Time64NanosecondArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;

use super::plain::{self, Parts};
use crate::error::{Error, ErrorKind};

/// Returns `make_time`, to a microsecond. NULL if a part is NULL; what no clock shows is an error.
pub(super) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &["make_time"],
        section: DOC_SECTION_DATETIME,
        description: "Makes a time of day of an hour, a minute and a second, which may have a fraction.",
        syntax: "make_time(hour, minute, second)",
        takes: |given| {
            let is_whole =
                |given: &DataType| given.is_integer() || given.is_string() || given.is_null();
            match given {
                [hour, minute, second]
                    if is_whole(hour)
                        && is_whole(minute)
                        && (is_whole(second) || second.is_numeric()) =>
                {
                    Ok(vec![DataType::Int64, DataType::Int64, DataType::Float64])
                }
                _ => plan_err!(
                    "make_time takes an hour, a minute and a second, which may have a fraction: make_time(12, 34, 56.5)"
                ),
            }
        },
        returns: |_| DataType::Time64(TimeUnit::Nanosecond),
        computes: times,
    })
}

fn times(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [hours, minutes, seconds] = given else {
        return internal_err!("make_time of {} arguments", given.len());
    };
    let hours = hours.as_primitive::<Int64Type>();
    let minutes = minutes.as_primitive::<Int64Type>();
    let seconds = seconds.as_primitive::<Float64Type>();
    let parts = hours.iter().zip(minutes).zip(seconds);
    let times = parts.map(|parts| match parts {
        ((Some(hour), Some(minute)), Some(second)) => nanoseconds(hour, minute, second).map(Some),
        _ => Ok(None),
    });
    Ok(Arc::new(times.collect::<Result<Time64NanosecondArray>>()?))
}

/// Returns the nanoseconds since midnight.
fn nanoseconds(hour: i64, minute: i64, second: f64) -> Result<i64> {
    let is_shown =
        (0..24).contains(&hour) && (0..60).contains(&minute) && (0.0..60.0).contains(&second);
    let micros = (second * 1e6).round() as i64;
    if !is_shown || micros >= 60_000_000 {
        let message = format!(
            "make_time: there is no time of {hour} hours, {minute} minutes and {second} seconds: hours are 0 to 23, \
             minutes and seconds below 60"
        );
        return Err(Error::new(ErrorKind::Sql, message).into());
    }
    Ok((hour * 3_600 + minute * 60) * 1_000_000_000 + micros * 1_000)
}
