//! Calls, casts and patterns that DataFusion computes otherwise than SQL says.
//!
//! - The epoch of an interval counts years of 365.25 days ([`epochs`](crate::functions::epochs)), and the parts of a
//!   difference of timestamps are those of days and a time ([`spans`]).
//! - `lag` and `lead` by NULL rows are NULL; DataFusion takes NULL for none. Those that leave NULLs out do not
//!   lose rows ([`lag_past_nulls`]), and `lead` looks back in the opposite order.
//! - A list, a struct or a map is cast to text with its NULLs named ([`nested_text`]), which Arrow leaves out, or refuses;
//!   an interval or a difference of times as `1 year 01:30:00`.
//! - A number that is cast to a decimal type has the digits that stand there: 1.005 is less than itself as a double.
//! - `ceil` and `floor` of decimals have room for one digit more ([`whole_decimals`]).
//! - Patterns with a backslash that stands for itself are kept from becoming patterns of LIKE.

use std::ops::RangeInclusive;

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{
    NullTreatment, ScalarFunction, WindowFunction, WindowFunctionDefinition,
};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, Operator, TryCast, lit};

use super::walk::{any_expression, change_parts};
use crate::functions::epochs::interval_epoch;
use crate::functions::{nested_text, spans, whole_decimals};
use crate::windows::{is_past_nulls, lag_past_nulls, lead_past_nulls};

/// The window functions that look a number of rows away.
const SHIFTS: [&str; 2] = ["lag", "lead"];

/// Doubles whose digits are few enough to be written out.
const PLAIN: RangeInclusive<f64> = 1e-18..=1e18;

/// Puts what they mean in the place of such calls, casts and patterns; comes after types are coerced.
pub(super) fn rewrite_calls(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    match any_expression(&plan, may_change)? {
        true => change_parts(plan, in_part),
        false => Ok(plan),
    }
}

/// Tells, without looking for types, whether an expression may be such.
fn may_change(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => {
            of_part(call).is_some()
                || is_backslash(call.args.get(1))
                || whole_decimals::is_such(call)
        }
        Expr::WindowFunction(window) => is_by_null(window) || leaves_nulls_out(window),
        Expr::BinaryExpr(binary) => is_match(binary.op) && is_backslash(Some(&binary.right)),
        other => shown(other).is_some() || digits(other).is_some(),
    }
}

fn in_part(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match part {
        Expr::ScalarFunction(call) => {
            if let Some(plain) = whole_decimals::plain_call(&call, schema) {
                return Ok(Transformed::yes(plain));
            }
            // Columns of an outer query are of no schema that is known here, but know their type.
            let part = of_part(&call).and_then(|(part, of)| part_of(part, of, &call, schema));
            Ok(match part {
                Some(part) => Transformed::yes(part),
                None if call.func.name() == "regexp_like" && is_backslash(call.args.get(1)) => {
                    Transformed::yes(Expr::ScalarFunction(in_group(call)))
                }
                None => Transformed::no(Expr::ScalarFunction(call)),
            })
        }
        Expr::BinaryExpr(mut binary)
            if is_match(binary.op) && is_backslash(Some(&binary.right)) =>
        {
            *binary.right = grouped(*binary.right);
            Ok(Transformed::yes(Expr::BinaryExpr(binary)))
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
        Expr::WindowFunction(window) if leaves_nulls_out(&window) => {
            Ok(Transformed::yes(Expr::WindowFunction(past_nulls(window))))
        }
        other => {
            let text = digits(&other).map(lit);
            let text = text.or_else(|| shown(&other).and_then(|of| text_of(of, schema)));
            Ok(match text {
                Some(text) => Transformed::yes(with_operand(other, text)),
                None => Transformed::no(other),
            })
        }
    }
}

/// Returns the part that a call gives, and of what.
fn of_part(call: &ScalarFunction) -> Option<(&str, &Expr)> {
    let [Expr::Literal(part, _), of] = call.args.as_slice() else {
        return None;
    };
    let part = part.try_as_str().flatten()?;
    (call.func.name() == "date_part").then_some((part.trim_matches(['\'', '"']), of))
}

/// Returns the part of an interval or a difference of times that DataFusion computes otherwise; `None` of anything else.
fn part_of(part: &str, of: &Expr, call: &ScalarFunction, schema: &DFSchema) -> Option<Expr> {
    let is_epoch = part.eq_ignore_ascii_case("epoch");
    match of.get_type(schema).ok()? {
        DataType::Duration(_) => {
            let interval = spans::function().call(vec![of.clone()]);
            Some(match is_epoch {
                true => interval_epoch().call(vec![interval]),
                false => call.func.call(vec![call.args.first()?.clone(), interval]),
            })
        }
        _ if is_epoch => seconds_of(of, schema),
        _ => None,
    }
}

fn is_match(op: Operator) -> bool {
    matches!(
        op,
        Operator::RegexMatch
            | Operator::RegexIMatch
            | Operator::RegexNotMatch
            | Operator::RegexNotIMatch
    )
}

/// Tells whether a pattern has a backslash that stands for itself: DataFusion makes a pattern of LIKE of it, in which
/// the backslash would have to be doubled. One in a group is left alone.
fn is_backslash(pattern: Option<&Expr>) -> bool {
    let pattern = match pattern {
        Some(Expr::Literal(pattern, _)) => pattern.try_as_str().flatten(),
        Some(Expr::Cast(cast)) => return is_backslash(Some(&cast.expr)),
        _ => None,
    };
    pattern.is_some_and(|of| of.contains("\\\\") && !(of.starts_with('(') && of.ends_with(')')))
}

fn in_group(mut call: ScalarFunction) -> ScalarFunction {
    if let Some(pattern) = call.args.get_mut(1) {
        *pattern = grouped(pattern.clone());
    }
    call
}

fn grouped(pattern: Expr) -> Expr {
    let (value, metadata) = match pattern {
        Expr::Literal(value, metadata) => (value, metadata),
        Expr::Cast(Cast { expr, field }) => {
            let expr = Box::new(grouped(*expr));
            return Expr::Cast(Cast { expr, field });
        }
        pattern => return pattern,
    };
    let grouped = match &value {
        ScalarValue::Utf8(Some(of)) => ScalarValue::Utf8(Some(format!("({of})"))),
        ScalarValue::LargeUtf8(Some(of)) => ScalarValue::LargeUtf8(Some(format!("({of})"))),
        ScalarValue::Utf8View(Some(of)) => ScalarValue::Utf8View(Some(format!("({of})"))),
        _ => value,
    };
    Expr::Literal(grouped, metadata)
}

/// Tells whether a call of DataFusion's `lag` or `lead` leaves NULLs out: it loses rows where some lie between.
fn leaves_nulls_out(window: &WindowFunction) -> bool {
    let WindowFunctionDefinition::WindowUDF(function) = &window.fun else {
        return false;
    };
    window.params.null_treatment == Some(NullTreatment::IgnoreNulls)
        && SHIFTS.contains(&function.name())
        && !is_past_nulls(function)
}

/// Puts a function that loses none in its place; looks back in the opposite order instead of ahead, which takes less
/// memory.
fn past_nulls(mut window: Box<WindowFunction>) -> Box<WindowFunction> {
    let is_lead = window.fun.name() == "lead";
    let function = match is_lead && window.params.order_by.is_empty() {
        true => lead_past_nulls(),
        false => lag_past_nulls(),
    };
    window.fun = WindowFunctionDefinition::WindowUDF(function);
    if is_lead {
        for key in &mut window.params.order_by {
            key.asc = !key.asc;
            key.nulls_first = !key.nulls_first;
        }
    }
    window
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
    let (of, to) = operand(expr)?;
    to.is_string().then_some(of)
}

/// Returns the digits of a constant that is cast from a double to a decimal type: the fewest that make this double,
/// which are those that a statement has, up to 15.
fn digits(expr: &Expr) -> Option<String> {
    match operand(expr)? {
        (
            Expr::Literal(ScalarValue::Float64(Some(number)), _),
            DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..),
        ) if PLAIN.contains(&number.abs()) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns what is cast, and to which type.
fn operand(expr: &Expr) -> Option<(&Expr, &DataType)> {
    match expr {
        Expr::Cast(cast) => Some((&cast.expr, cast.field.data_type())),
        Expr::TryCast(cast) => Some((&cast.expr, cast.field.data_type())),
        _ => None,
    }
}

/// Returns the text of a nested value or an interval; `None` of anything else.
fn text_of(of: &Expr, schema: &DFSchema) -> Option<Expr> {
    let data_type = of.get_type(schema).ok()?;
    nested_text::is_written(&data_type).then(|| nested_text::function().call(vec![of.clone()]))
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
