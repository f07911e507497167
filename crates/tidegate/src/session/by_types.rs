//! Calls and casts that mean something else by the types of their arguments, or by a NULL among them.
//!
//! The epoch of an interval counts years of 365.25 days ([`epochs`](crate::functions::epochs)). `lag` and `lead` by NULL
//! rows are NULL; DataFusion takes NULL for none. A list, a struct or a map is cast to text with its NULLs named
//! ([`nested_text`](crate::functions::nested_text)), which Arrow leaves out, or refuses.

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction, WindowFunctionDefinition};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};

use super::types::literals::schema_below;
use crate::functions::epochs::interval_epoch;
use crate::functions::nested_text;
use crate::rewrite::walk::{any_expression, change_named, holds_any};

/// The window functions that look a number of rows away.
const SHIFTS: [&str; 2] = ["lag", "lead"];

/// Puts what they mean in the place of such calls and casts; comes after types are coerced.
pub(super) fn by_types(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    if !any_expression(&plan, may_change)? {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| {
        if !holds_any(&node, may_change)? {
            return Ok(Transformed::no(node));
        }
        let schema = schema_below(&node);
        let changed = change_named(node, |expr| {
            expr.transform_up(|part| in_part(part, &schema))
        })?;
        changed.map_data(LogicalPlan::recompute_schema)
    });
    rewritten.data()
}

/// Tells, without looking for types, whether an expression may be such.
fn may_change(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => of_epoch(call).is_some(),
        Expr::WindowFunction(window) => is_by_null(window),
        other => shown(other).is_some(),
    }
}

fn in_part(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match part {
        Expr::ScalarFunction(call) => {
            // Columns of an outer query are of no schema that is known here, but know their type.
            let interval = of_epoch(&call).and_then(|of| seconds_of(of, schema));
            Ok(match interval {
                Some(seconds) => Transformed::yes(seconds),
                None => Transformed::no(Expr::ScalarFunction(call)),
            })
        }
        Expr::WindowFunction(mut window) if is_by_null(&window) => {
            let value = window.params.args.first();
            let Some(Ok(data_type)) = value.map(|value| value.get_type(schema)) else {
                return Ok(Transformed::no(Expr::WindowFunction(window)));
            };
            // Whichever row is meant, its value is NULL.
            let null = ScalarValue::try_new_null(&data_type)?;
            window.params.args = vec![Expr::Literal(null, None)];
            Ok(Transformed::yes(Expr::WindowFunction(window)))
        }
        other => Ok(match shown(&other).and_then(|of| text_of(of, schema)) {
            Some(text) => Transformed::yes(with_operand(other, text)),
            None => Transformed::no(other),
        }),
    }
}

/// Returns what a call gives the epoch of.
fn of_epoch(call: &ScalarFunction) -> Option<&Expr> {
    let [Expr::Literal(part, _), of] = call.args.as_slice() else {
        return None;
    };
    let part = part.try_as_str().flatten()?;
    let is_epoch = call.func.name() == "date_part"
        && part.trim_matches(['\'', '"']).eq_ignore_ascii_case("epoch");
    is_epoch.then_some(of)
}

/// Returns the seconds of an interval; `None` of anything else.
fn seconds_of(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    let of_months = DataType::Interval(IntervalUnit::MonthDayNano);
    let interval = match of.get_type(schema).ok()? {
        given if given == of_months => of.clone(),
        DataType::Interval(_) => Expr::Cast(Cast::new(Box::new(of.clone()), of_months)),
        _ => return None,
    };
    Some(interval_epoch().call(vec![interval]))
}

/// Tells whether a call of `lag` or `lead` looks NULL rows away.
fn is_by_null(window: &WindowFunction) -> bool {
    let WindowFunctionDefinition::WindowUDF(function) = &window.fun else {
        return false;
    };
    let offset = window.params.args.get(1);
    SHIFTS.contains(&function.name()) && offset.is_some_and(is_null)
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// Returns what an expression casts to text.
fn shown(expr: &Expr) -> Option<&Expr> {
    let (of, field) = match expr {
        Expr::Cast(cast) => (&cast.expr, &cast.field),
        Expr::TryCast(cast) => (&cast.expr, &cast.field),
        _ => return None,
    };
    field.data_type().is_string().then_some(of)
}

/// Returns the text of a nested value; `None` of anything else.
fn text_of(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    let data_type = of.get_type(schema).ok()?;
    nested_text::is_nested(&data_type).then(|| nested_text::function().call(vec![of.clone()]))
}

/// Has a cast cast another value.
fn with_operand(cast: Expr, operand: Expr) -> Expr {
    let expr = Box::new(operand);
    match cast {
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr, field }),
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr, field }),
        other => other,
    }
}
