//! `make_time(hour, minute, second)`: a time of day, whose seconds may have a fraction.
//!
//! DataFusion's takes whole seconds, and gives a time of seconds.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Time64NanosecondArray};
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::error::{Error, ErrorKind};

/// Returns `make_time`.
pub(super) fn function() -> ScalarUDF {
    MakeTime {
        signature: Signature::user_defined(Volatility::Immutable),
    }
    .into()
}

/// Makes a time of day, to a microsecond. NULL if a part is NULL; what no clock shows is an error.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MakeTime {
    signature: Signature,
}

impl ScalarUDFImpl for MakeTime {
    fn name(&self) -> &str {
        "make_time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
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
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Time64(TimeUnit::Nanosecond))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let are_scalars = args.args.iter().all(is_scalar);
        let num_rows = if are_scalars { 1 } else { args.number_rows };
        let arrays = args.args.iter().map(|value| value.to_array(num_rows));
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let [hours, minutes, seconds] = arrays.as_slice() else {
            return internal_err!("make_time of {} arguments", arrays.len());
        };
        let hours = hours.as_primitive::<Int64Type>();
        let minutes = minutes.as_primitive::<Int64Type>();
        let seconds = seconds.as_primitive::<Float64Type>();
        let mut times = Vec::with_capacity(num_rows);
        for ((hour, minute), second) in hours.iter().zip(minutes).zip(seconds) {
            times.push(match (hour, minute, second) {
                (Some(hour), Some(minute), Some(second)) => {
                    Some(nanoseconds(hour, minute, second)?)
                }
                _ => None,
            });
        }
        let times: Time64NanosecondArray = times.into_iter().collect();
        match are_scalars {
            true => Ok(ScalarValue::try_from_array(&times, 0)?.into()),
            false => Ok(ColumnarValue::Array(Arc::new(times))),
        }
    }
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
