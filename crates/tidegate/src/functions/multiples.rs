//! Multiples and parts of intervals: `3 * INTERVAL '1 day'`, `INTERVAL '1 hour' / 4`, as in PostgreSQL.
//!
//! A part of a month becomes days, of which it has 30, and a part of a day becomes hours, minutes and seconds.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::try_binary;
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{Expr, ExprSchemable, ScalarUDF};
use sqlparser::ast::BinaryOperator;

use super::operators::Planned;
use super::plain::{self, Parts};

/// The name of the product of an interval and a number.
pub(super) const INTERVAL_TIMES: &str = "interval_times";

/// The name of the quotient.
const INTERVAL_DIVIDED: &str = "interval_divided";

/// The type of both.
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

const DAYS_OF_MONTH: f64 = 30.0;
const NANOSECONDS_OF_DAY: f64 = 86_400e9;

/// Plans `*` and `/` of an interval and a number.
pub(crate) fn plan(expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
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
    let multiple = match is_product {
        true => times(),
        false => divided(),
    };
    Ok(PlannerResult::Planned(
        multiple.call(vec![interval, number]),
    ))
}

/// Returns the functions, for plans that are read from bytes.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [times(), divided()]
}

fn times() -> ScalarUDF {
    plain::function(Parts {
        names: &[INTERVAL_TIMES],
        section: DOC_SECTION_DATETIME,
        description: "Multiplies an interval by a number.",
        syntax: "interval_times(i, n)",
        takes: |given| match given {
            [DataType::Interval(_), number] if number.is_integer() => {
                Ok(vec![INTERVAL, DataType::Int64])
            }
            _ => takes(INTERVAL_TIMES, given),
        },
        returns: |_| INTERVAL,
        computes: |given| multiples(given, |part, number| part * number),
    })
}

fn divided() -> ScalarUDF {
    plain::function(Parts {
        names: &[INTERVAL_DIVIDED],
        section: DOC_SECTION_DATETIME,
        description: "Divides an interval by a number.",
        syntax: "interval_divided(i, n)",
        takes: |given| takes(INTERVAL_DIVIDED, given),
        returns: |_| INTERVAL,
        computes: |given| multiples(given, |part, number| part / number),
    })
}

fn takes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [DataType::Interval(_), number] if number.is_numeric() => {
            Ok(vec![INTERVAL, DataType::Float64])
        }
        _ => plan_err!("{name} takes an interval and a number"),
    }
}

/// Computes `of` of the parts of each interval and a number; a whole number is taken as many times.
fn multiples(given: &[ArrayRef], of: fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let [intervals, numbers] = given else {
        return internal_err!("a multiple of {} arguments", given.len());
    };
    let intervals = intervals.as_primitive::<IntervalMonthDayNanoType>();
    Ok(Arc::new(match numbers.as_primitive_opt::<Int64Type>() {
        Some(numbers) => try_binary::<_, _, _, IntervalMonthDayNanoType>(
            intervals,
            numbers,
            |interval, number| whole_multiple(interval, number).ok_or_else(out_of_range),
        )?,
        None => try_binary::<_, _, _, IntervalMonthDayNanoType>(
            intervals,
            numbers.as_primitive::<Float64Type>(),
            |interval, number| multiple(interval, |part| of(part, number)).ok_or_else(out_of_range),
        )?,
    }))
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
