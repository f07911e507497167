//! Comparisons of casts that give several values the same, or none: `CAST(d AS INT) = 2` where d is 2.5, and
//! `TRY_CAST(x AS TINYINT) > 1` where x is 300.
//!
//! DataFusion's optimizer takes such a cast away and casts the literal back, so that it compares `d = 2.00` and `x > 1`. The
//! cast becomes the argument of a function here, into which it does not look. So does the year of a timestamp of
//! nanoseconds beside one that those do not reach: `extract(year FROM t) < 3000` became a comparison with NULL.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, ExprSchemable, LogicalPlan, TryCast};

use super::number_types::is_comparison;
use super::walk::{any_expression, change_parts};
use crate::functions::kept;

/// Keeps such casts; comes after types are coerced.
pub(super) fn keep_lossy_casts(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    match any_expression(&plan, |expr| operands(expr).into_iter().any(may_be_kept))? {
        true => change_parts(plan, in_comparison),
        false => Ok(plan),
    }
}

/// Returns what an expression compares.
fn operands(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => vec![left, right],
        Expr::InList(list) => vec![&list.expr],
        Expr::Between(between) => vec![&between.expr, &between.low, &between.high],
        _ => Vec::new(),
    }
}

fn may_be_kept(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(_) | Expr::TryCast(_)) || year_of(expr).is_some()
}

/// Returns whose year an expression is.
fn year_of(expr: &Expr) -> Option<&Expr> {
    let call = match expr {
        Expr::Cast(cast) => return year_of(&cast.expr),
        Expr::ScalarFunction(call) => call,
        _ => return None,
    };
    let [Expr::Literal(part, _), of] = call.args.as_slice() else {
        return None;
    };
    let part = part.try_as_str().flatten()?;
    (call.func.name() == "date_part" && part.eq_ignore_ascii_case("year")).then_some(of)
}

/// Tells whether an expression is a year whose first and last instant nanoseconds since 1970 reach.
fn is_near_year(expr: &Expr) -> bool {
    match expr {
        Expr::Cast(cast) => is_near_year(&cast.expr),
        Expr::Literal(value, _) => {
            let year = value.cast_to(&DataType::Int64);
            matches!(year, Ok(ScalarValue::Int64(Some(1678..=2261))))
        }
        _ => false,
    }
}

fn in_comparison(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let compared = operands(&expr);
    let list: &[Expr] = match &expr {
        Expr::InList(list) => &list.list,
        _ => &[],
    };
    let is_near = |other: &Expr| year_of(other).is_some() || is_near_year(other);
    let are_near = compared.iter().copied().chain(list).all(is_near);
    let is_kept =
        |operand: &Expr| is_lossy(operand, schema) || (!are_near && is_year(operand, schema));
    if !compared.into_iter().any(is_kept) {
        return Ok(Transformed::no(expr));
    }
    let keep = |operand: &mut Box<Expr>| {
        if is_kept(operand) {
            let own = std::mem::take(operand.as_mut());
            **operand = kept::kept_value().call(vec![own]);
        }
    };
    let mut expr = expr;
    match &mut expr {
        Expr::BinaryExpr(binary) => {
            keep(&mut binary.left);
            keep(&mut binary.right);
        }
        Expr::InList(list) => keep(&mut list.expr),
        Expr::Between(between) => {
            keep(&mut between.expr);
            keep(&mut between.low);
            keep(&mut between.high);
        }
        _ => {}
    }
    Ok(Transformed::yes(expr))
}

fn is_year(expr: &Expr, schema: &DFSchema) -> bool {
    let of = year_of(expr).and_then(|of| of.get_type(schema).ok());
    matches!(of, Some(DataType::Timestamp(TimeUnit::Nanosecond, _)))
}

/// Tells whether a cast, or one within it, does not give each value one of its own.
fn is_lossy(expr: &Expr, schema: &DFSchema) -> bool {
    let (inner, to, may_be_null) = match expr {
        Expr::Cast(Cast { expr, field }) => (expr, field.data_type(), false),
        Expr::TryCast(TryCast { expr, field }) => (expr, field.data_type(), true),
        _ => return false,
    };
    let Ok(from) = inner.get_type(schema) else {
        return false;
    };
    loses(&from, to) || (may_be_null && from != *to) || is_lossy(inner, schema)
}

/// Tells whether a cast rounds or cuts off.
fn loses(from: &DataType, to: &DataType) -> bool {
    match (scale(from), scale(to)) {
        (Some(scale), None) => scale > 0 && to.is_integer(),
        (Some(from), Some(to)) => to < from,
        (None, Some(to)) => to < 0,
        (None, None) => match (from, to) {
            (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) => digits(to) < digits(from),
            _ => false,
        },
    }
}

fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

fn digits(unit: &TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}
