//! Frames of windows that are ordered by a date.
//!
//! DataFusion adds the bound of a RANGE frame to a date as whole days, and takes a number for an interval of its own. A
//! number is days; where a bound has a time of day, the dates become timestamps.

use datafusion::arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits, cast,
};

use super::walk::{any_expression, change_named};
use crate::functions::dates::DATE_TIME;

/// Has RANGE frames over dates mean what they do in PostgreSQL, and a number mean days; it runs before types are
/// coerced.
pub(super) fn range_over_dates(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    if !any_expression(&plan, has_range)? {
        return Ok(plan);
    }
    let changed = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Window(window) = &node else {
            return Ok(Transformed::no(node));
        };
        let schema = window.input.schema().clone();
        change_named(node, |expr| {
            expr.transform_up(|part| over_dates(part, &schema))
        })
    });
    changed.data()
}

fn has_range(expr: &Expr) -> bool {
    let Expr::WindowFunction(function) = expr else {
        return false;
    };
    let frame = &function.params.window_frame;
    frame.units == WindowFrameUnits::Range
        && [&frame.start_bound, &frame.end_bound]
            .iter()
            .any(|bound| offset(bound).is_some())
}

/// Returns the text of a bound, which is coerced later.
fn offset(bound: &WindowFrameBound) -> Option<&str> {
    match bound {
        WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => {
            value.try_as_str().flatten()
        }
        WindowFrameBound::CurrentRow => None,
    }
}

fn over_dates(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut function) = expr else {
        return Ok(Transformed::no(expr));
    };
    if !is_over_date(&function, schema) {
        return Ok(Transformed::no(Expr::WindowFunction(function)));
    }
    let frame = &mut function.params.window_frame;
    let mut has_time = false;
    for bound in [&mut frame.start_bound, &mut frame.end_bound] {
        let Some(text) = offset(bound).map(str::to_owned) else {
            continue;
        };
        if text.trim().parse::<i32>().is_ok() {
            let days = ScalarValue::from(format!("{} days", text.trim()));
            *bound = match bound {
                WindowFrameBound::Preceding(_) => WindowFrameBound::Preceding(days),
                _ => WindowFrameBound::Following(days),
            };
        } else if let Ok(interval) = parse_interval_month_day_nano(&text) {
            has_time |= interval.nanoseconds != 0;
        }
    }
    if has_time {
        for key in &mut function.params.order_by {
            key.expr = cast(key.expr.clone(), DATE_TIME);
        }
    }
    Ok(Transformed::yes(Expr::WindowFunction(function)))
}

fn is_over_date(function: &WindowFunction, schema: &DFSchema) -> bool {
    let [key] = function.params.order_by.as_slice() else {
        return false;
    };
    function.params.window_frame.units == WindowFrameUnits::Range
        && matches!(
            key.expr.get_type(schema),
            Ok(DataType::Date32 | DataType::Date64)
        )
}
