//! Dates and intervals that have a time of day.
//!
//! Arrow adds an interval to a date as whole days, and drops hours. PostgreSQL makes a timestamp of the date first. So
//! does [`plan`] where an interval has, or may have, a time of day; a literal of whole days, also so many times, leaves a date a date.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
use sqlparser::ast::BinaryOperator;

use super::multiples::INTERVAL_TIMES;
use super::operators::Planned;

/// What a date with a time of day is: microseconds hold every year that a date is likely to have.
pub(crate) const DATE_TIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Plans `+` and `-` of a date and an interval.
pub(crate) fn plan(mut expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
    let is_sum = expr.op == BinaryOperator::Plus;
    if !is_sum && expr.op != BinaryOperator::Minus {
        return Ok(PlannerResult::Original(expr));
    }
    let is_date = |of: &Expr| {
        let kind = of.get_type(schema);
        matches!(kind, Ok(DataType::Date32 | DataType::Date64))
    };
    let has_time = |of: &Expr| {
        let kind = of.get_type(schema);
        matches!(kind, Ok(DataType::Interval(_))) && !is_whole_days(of, schema)
    };
    if is_date(&expr.left) && has_time(&expr.right) {
        expr.left = cast(expr.left, DATE_TIME);
    } else if is_sum && has_time(&expr.left) && is_date(&expr.right) {
        expr.right = cast(expr.right, DATE_TIME);
    }
    Ok(PlannerResult::Original(expr))
}

/// Returns whether an interval is a literal without a time of day, or such a literal so many times.
fn is_whole_days(interval: &Expr, schema: &DFSchema) -> bool {
    match interval {
        Expr::Negative(interval) => is_whole_days(interval, schema),
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(interval)), _) => {
            interval.nanoseconds == 0
        }
        Expr::Literal(ScalarValue::IntervalDayTime(Some(interval)), _) => {
            interval.milliseconds == 0
        }
        Expr::Literal(ScalarValue::IntervalYearMonth(_), _) => true,
        Expr::ScalarFunction(call) if call.name() == INTERVAL_TIMES => match call.args.as_slice() {
            [interval, times] => {
                let times = times.get_type(schema);
                times.is_ok_and(|times| times.is_integer()) && is_whole_days(interval, schema)
            }
            _ => false,
        },
        _ => false,
    }
}
