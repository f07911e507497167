//! Multiples and parts of intervals: `3 * INTERVAL '1 day'`, `INTERVAL '1 hour' / 4`, as in PostgreSQL.
//!
//! A part of a month becomes days, of which it has 30, and a part of a day becomes hours, minutes and seconds.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use sqlparser::ast::BinaryOperator;

/// The name of the product of an interval and a number.
pub(super) const INTERVAL_TIMES: &str = "interval_times";

const DAYS_OF_MONTH: f64 = 30.0;
const NANOSECONDS_OF_DAY: f64 = 86_400e9;

/// Plans `*` and `/` of an interval and a number.
#[derive(Debug)]
pub(crate) struct IntervalMultiples;

impl ExprPlanner for IntervalMultiples {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_product = expr.op == BinaryOperator::Multiply;
        if !is_product && expr.op != BinaryOperator::Divide {
            return Ok(PlannerResult::Original(expr));
        }
        let of = |operand: &Expr| operand.get_type(schema).ok();
        let (left, right) = (of(&expr.left), of(&expr.right));
        let is_interval = |of: &Option<DataType>| matches!(of, Some(DataType::Interval(_)));
        let is_number = |of: &Option<DataType>| of.as_ref().is_some_and(DataType::is_numeric);
        let (interval, number) = match is_product && is_number(&left) && is_interval(&right) {
            true => (expr.right, expr.left),
            false if is_interval(&left) && is_number(&right) => (expr.left, expr.right),
            false => return Ok(PlannerResult::Original(expr)),
        };
        let multiple = ScalarUDF::from(Multiple::new(is_product));
        Ok(PlannerResult::Planned(
            multiple.call(vec![interval, number]),
        ))
    }
}

/// Returns the functions, for plans that are read from bytes.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [true, false].map(|is_product| Multiple::new(is_product).into())
}

/// `interval_times(i, n)` or `interval_divided(i, n)`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Multiple {
    is_product: bool,
    signature: Signature,
}

impl Multiple {
    fn new(is_product: bool) -> Self {
        Self {
            is_product,
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Multiple {
    fn name(&self) -> &str {
        match self.is_product {
            true => INTERVAL_TIMES,
            false => "interval_divided",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let interval = DataType::Interval(IntervalUnit::MonthDayNano);
        match given {
            [DataType::Interval(_), number] if self.is_product && number.is_integer() => {
                Ok(vec![interval, DataType::Int64])
            }
            [DataType::Interval(_), number] if number.is_numeric() => {
                Ok(vec![interval, DataType::Float64])
            }
            _ => plan_err!("{} takes an interval and a number", self.name()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let are_scalars = args.args.iter().all(is_scalar);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [intervals, numbers] = arrays.as_slice() else {
            return internal_err!("{} of other arguments", self.name());
        };
        let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
        let multiples = match numbers.as_primitive_opt::<Int64Type>() {
            Some(numbers) => try_binary::<_, _, _, IntervalMonthDayNanoType>(
                intervals,
                numbers,
                |interval, number| whole_multiple(interval, number).ok_or_else(out_of_range),
            )?,
            None => try_binary::<_, _, _, IntervalMonthDayNanoType>(
                intervals,
                numbers.as_primitive::<Float64Type>(),
                |interval, number| {
                    let of = |part: f64| match self.is_product {
                        true => part * number,
                        false => part / number,
                    };
                    multiple(interval, of).ok_or_else(out_of_range)
                },
            )?,
        };
        match are_scalars {
            true => Ok(ScalarValue::try_from_array(&multiples, 0)?.into()),
            false => Ok(ColumnarValue::Array(Arc::new(multiples))),
        }
    }
}

fn out_of_range() -> ArrowError {
    ArrowError::ComputeError("the interval is out of range".into())
}

fn whole_multiple(interval: IntervalMonthDayNano, number: i64) -> Option<IntervalMonthDayNano> {
    let part = |part: i32| -> Option<i32> { i64::from(part).checked_mul(number)?.try_into().ok() };
    Some(IntervalMonthDayNano {
        months: part(interval.months)?,
        days: part(interval.days)?,
        nanoseconds: interval.nanoseconds.checked_mul(number)?,
    })
}

fn multiple(
    interval: IntervalMonthDayNano,
    of: impl Fn(f64) -> f64,
) -> Option<IntervalMonthDayNano> {
    let months = of(f64::from(interval.months));
    let days = of(f64::from(interval.days)) + months.fract() * DAYS_OF_MONTH;
    let nanoseconds = of(interval.nanoseconds as f64) + days.fract() * NANOSECONDS_OF_DAY;
    let within = |value: f64, most: f64| (value.abs() < most).then_some(value);
    Some(IntervalMonthDayNano {
        months: within(months, 2f64.powi(31))? as i32,
        days: within(days, 2f64.powi(31))? as i32,
        nanoseconds: within(nanoseconds, 2f64.powi(63))?.round() as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::{IntervalMonthDayNano, multiple, whole_multiple};

    #[test]
    fn parts_of_months_and_days_become_smaller_units() {
        let interval = IntervalMonthDayNano::new;
        let hour = 3_600_000_000_000;
        let doubled = whole_multiple(interval(1, 2, hour), 2);
        assert_eq!(doubled, Some(interval(2, 4, 2 * hour)));
        let half = multiple(interval(1, 1, hour), |part| part / 2.0);
        assert_eq!(half, Some(interval(0, 15, 12 * hour + hour / 2)));
        let third = multiple(interval(0, 1, 0), |part| part / 3.0);
        assert_eq!(third, Some(interval(0, 0, 8 * hour)));
        assert_eq!(multiple(interval(0, 1, 0), |part| part / 0.0), None);
        assert_eq!(multiple(interval(0, 0, 1), |_| f64::NAN), None);
        assert_eq!(whole_multiple(interval(i32::MAX, 0, 0), 2), None);
    }
}
