//! Comparisons of intervals by the time that they span: a month is 30 days and a day is 24 hours, as in
//! PostgreSQL.
//!
//! DataFusion compares months, then days, then nanoseconds, so that the difference of two timestamps,
//! which has nanoseconds only, would be less than `INTERVAL '1 day'` however great it is.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::datatypes::{
    DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{DFSchema, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_DATETIME;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, ScalarUDF, binary_expr};
use sqlparser::ast::BinaryOperator;

use super::operators::Planned;
use super::plain::{self, Parts};

const DAYS_OF_MONTH: i128 = 30;
const NANOSECONDS_OF_DAY: i128 = 24 * 60 * 60 * 1_000_000_000;

/// Digits that the span of every interval has room in.
const DIGITS: u8 = 38;

/// Plans comparisons of intervals.
pub(crate) fn plan(expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
    let Some(op) = comparison(&expr.op) else {
        return Ok(PlannerResult::Original(expr));
    };
    // What has no type yet is of no interval.
    let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
        return Ok(PlannerResult::Original(expr));
    };
    let is_span =
        |data_type: &DataType| matches!(data_type, DataType::Interval(_) | DataType::Duration(_));
    let are_durations = matches!(
        (&left, &right),
        (DataType::Duration(_), DataType::Duration(_))
    );
    if !is_span(&left) || !is_span(&right) || are_durations {
        return Ok(PlannerResult::Original(expr));
    }
    let function = interval_span();
    let span = |interval: Expr| function.call(vec![interval]);
    let planned = binary_expr(span(expr.left), op, span(expr.right));
    Ok(PlannerResult::Planned(planned))
}

/// Returns the function `interval_span(i)`: nanoseconds of an interval, as a decimal.
pub(crate) fn interval_span() -> Arc<ScalarUDF> {
    Arc::new(plain::function(Parts {
        names: &["interval_span"],
        section: DOC_SECTION_DATETIME,
        description: "Returns the nanoseconds that an interval spans.",
        syntax: "interval_span(i)",
        takes: |given| match given {
            [DataType::Interval(_) | DataType::Duration(_)] => {
                Ok(vec![DataType::Interval(IntervalUnit::MonthDayNano)])
            }
            _ => plan_err!("interval_span takes an interval"),
        },
        returns: |_| DataType::Decimal128(DIGITS, 0),
        computes: spans,
    }))
}

fn spans(given: &[ArrayRef]) -> Result<ArrayRef> {
    let [intervals] = given else {
        return internal_err!("interval_span of several arguments");
    };
    let Some(intervals) = intervals.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return internal_err!("interval_span of {}", intervals.data_type());
    };
    let spans: Decimal128Array = intervals.unary(span);
    Ok(Arc::new(spans.with_precision_and_scale(DIGITS, 0)?))
}

fn comparison(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

fn span(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * DAYS_OF_MONTH + i128::from(interval.days);
    days * NANOSECONDS_OF_DAY + i128::from(interval.nanoseconds)
}
