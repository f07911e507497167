//! Seconds and milliseconds since 1970: `interval_epoch(i)`, which `extract(epoch FROM i)` becomes, and `epoch_ms(t)`.
//!
//! A year of an interval has 365.25 days, and a month of the rest 30, as in PostgreSQL and DuckDB. DataFusion gives each
//! month 30 days.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    IntervalUnit, TimeUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

const MONTHS_OF_YEAR: i32 = 12;
const DAYS_OF_YEAR: f64 = 365.25;
const DAYS_OF_MONTH: f64 = 30.0;
const SECONDS_OF_DAY: f64 = 86_400.0;
const NANOSECONDS_OF_SECOND: f64 = 1e9;

/// Returns both functions.
pub(super) fn functions() -> [ScalarUDF; 2] {
    [interval_epoch(), Epoch::new(true).into()]
}

/// Returns `interval_epoch`.
pub(crate) fn interval_epoch() -> ScalarUDF {
    Epoch::new(false).into()
}

/// `epoch_ms(t)`: milliseconds since 1970 of a time, those of an interval, or the timestamp of a whole number of them;
/// `interval_epoch(i)`: the seconds of an interval. NULL of NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Epoch {
    is_millis: bool,
    signature: Signature,
}

impl Epoch {
    fn new(is_millis: bool) -> Self {
        Self {
            is_millis,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Epoch {
    fn name(&self) -> &str {
        match self.is_millis {
            true => "epoch_ms",
            false => "interval_epoch",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        let [given] = given else {
            return plan_err!("{} takes one argument", self.name());
        };
        Ok(vec![match given {
            DataType::Interval(_) => interval,
            _ if !self.is_millis => return plan_err!("interval_epoch takes an interval"),
            DataType::Timestamp(..) => given.clone(),
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
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
        }])
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(match given {
            _ if !self.is_millis => DataType::Float64,
            [DataType::Int64] => DataType::Timestamp(TimeUnit::Millisecond, None),
            _ => DataType::Int64,
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let given = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone());
        let data_type = self.return_type(&given.collect::<Vec<_>>())?;
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), data_type, is_nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [given] = args.args.as_slice() else {
            return internal_err!("{} of {} arguments", self.name(), args.args.len());
        };
        let num_rows = match given {
            ColumnarValue::Scalar(_) => 1,
            ColumnarValue::Array(_) => args.number_rows,
        };
        let array = given.to_array(num_rows)?;
        let values: ArrayRef = match (array.data_type(), self.is_millis) {
            (DataType::Int64, true) => cast(&array, args.return_field.data_type())?,
            (_, true) => Arc::new(millis(&array)?),
            (_, false) => {
                let Some(intervals) = array.as_primitive_opt::<IntervalMonthDayNanoType>() else {
                    return internal_err!("interval_epoch of {}", array.data_type());
                };
                let seconds: Float64Array = intervals.unary(seconds);
                Arc::new(seconds)
            }
        };
        match given {
            ColumnarValue::Scalar(_) => Ok(ScalarValue::try_from_array(&values, 0)?.into()),
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(values)),
        }
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
