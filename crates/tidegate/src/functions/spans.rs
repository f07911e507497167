//! `days_and_time(d)`: a difference of two timestamps as an interval of days and a time of day.
//!
//! PostgreSQL's differences are such intervals: the hour of 53 hours is 5, and their day is 2. DataFusion takes parts of
//! the whole, in 32 bits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, DurationMicrosecondType, DurationMillisecondType,
    DurationNanosecondType, DurationSecondType, IntervalMonthDayNano, IntervalUnit, TimeUnit,
};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const SECONDS_OF_DAY: i64 = 86_400;

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    DaysAndTime {
        signature: Signature::user_defined(Volatility::Immutable),
    }
    .into()
}

/// The interval of a duration: days, and the rest in nanoseconds, both of the duration's sign; NULL of NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DaysAndTime {
    signature: Signature,
}

impl ScalarUDFImpl for DaysAndTime {
    fn name(&self) -> &str {
        "days_and_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [DataType::Duration(_)] => Ok(given.to_vec()),
            _ => plan_err!("days_and_time takes a difference of two timestamps"),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else {
            return internal_err!("days_and_time of {} arguments", args.args.len());
        };
        let num_rows = match given {
            ColumnarValue::Scalar(_) => 1,
            ColumnarValue::Array(_) => args.number_rows,
        };
        let durations = given.to_array(num_rows)?;
        let intervals = match durations.data_type() {
            DataType::Duration(TimeUnit::Second) => split::<DurationSecondType>(&durations, 1),
            DataType::Duration(TimeUnit::Millisecond) => {
                split::<DurationMillisecondType>(&durations, 1_000)
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                split::<DurationMicrosecondType>(&durations, 1_000_000)
            }
            DataType::Duration(TimeUnit::Nanosecond) => {
                split::<DurationNanosecondType>(&durations, 1_000_000_000)
            }
            other => return internal_err!("days_and_time of {other}"),
        };
        match given {
            ColumnarValue::Scalar(_) => Ok(ScalarValue::try_from_array(&intervals, 0)?.into()),
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(Arc::new(intervals))),
        }
    }
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
