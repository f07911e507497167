//! Predicates that rows must pass, in a form that still prunes files.
//!
//! Statistics of Parquet leave NaN out, and Arrow orders −NaN below −infinity. A comparison of a
//! column with constants that no NaN passes stands twice in a predicate: as it was written, for the
//! statistics, and in canonical form, which decides.
//!
//! | condition | written as |
//! |---|---|
//! | `x = c`, `x < c`, `x <= c`, `x IN (c, …)` | itself `AND` the same of `canonical(x)` |
//! | `x > a AND x < b` | `x > a AND x < b AND canonical(x) < b` |
//! | `x BETWEEN a AND b` | itself `AND canonical(x) <= b` |
//! | `x = 0` | `x <= 0 AND canonical(x) = 0`, for filters of hashes know zeros apart |
//! | `x > c`, `x >= c`, `x <> c`, `x NOT IN (c, …)` | with `canonical(x)` alone, for NaN passes |
//!
//! No constant may be NaN. All this holds only beneath AND and OR: the negation of such a form would
//! prune NaN away.

use std::collections::HashSet;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Between, BinaryExpr, InList};
use datafusion::logical_expr::utils::{conjunction, disjunction, split_binary_owned};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, Operator, lit};

use super::expressions::{compares_floats, done, is_comparison, rewrite};

/// Rewrites a predicate that rows pass where it is true.
pub(super) fn rewrite_predicate(predicate: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !compares_floats(&predicate, schema)? {
        return Ok(Transformed::no(predicate));
    }
    // Comparisons of one column with two constants stand in one conjunction: it is looked at whole.
    let conjuncts = split_binary_owned(predicate, Operator::And);
    let ranged = ranged_columns(&conjuncts, schema);
    let before: HashSet<Expr> = conjuncts.iter().cloned().collect();
    let mut changed = false;
    let mut rewritten = Vec::with_capacity(conjuncts.len());
    for conjunct in conjuncts {
        let conjunct = match conjunct {
            Expr::BinaryExpr(BinaryExpr {
                op: Operator::Or, ..
            }) => alternatives(conjunct, schema)?,
            conjunct => comparison(conjunct, schema, &ranged, &before)?,
        };
        changed |= conjunct.transformed;
        rewritten.push(conjunct.data);
    }
    Ok(done(
        conjunction(rewritten).unwrap_or_else(|| lit(true)),
        changed,
    ))
}

fn alternatives(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut rewritten = Vec::new();
    for alternative in split_binary_owned(expr, Operator::Or) {
        let alternative = rewrite_predicate(alternative, schema)?;
        changed |= alternative.transformed;
        rewritten.push(alternative.data);
    }
    Ok(done(
        disjunction(rewritten).unwrap_or_else(|| lit(false)),
        changed,
    ))
}

/// Returns the columns that the conjunction bounds on both sides by constants.
fn ranged_columns(conjuncts: &[Expr], schema: &DFSchema) -> HashSet<Expr> {
    let (mut above, mut below) = (HashSet::new(), HashSet::new());
    for conjunct in conjuncts {
        let Some((column, op, _)) = with_constant(conjunct, schema) else {
            continue;
        };
        match op {
            Operator::Gt | Operator::GtEq => above.insert(column.clone()),
            Operator::Lt | Operator::LtEq => below.insert(column.clone()),
            _ => continue,
        };
    }
    above.retain(|column| below.contains(column));
    above
}

fn comparison(
    conjunct: Expr,
    schema: &DFSchema,
    ranged: &HashSet<Expr>,
    before: &HashSet<Expr>,
) -> Result<Transformed<Expr>> {
    let Some(guard) = guard_of(&conjunct, schema) else {
        // What bounds the column from above decides about NaN.
        let is_decided = matches!(
            with_constant(&conjunct, schema),
            Some((column, Operator::Gt | Operator::GtEq, _)) if ranged.contains(column)
        );
        return match is_decided {
            true => Ok(Transformed::no(conjunct)),
            false => rewrite(conjunct, schema),
        };
    };
    let decides = match &conjunct {
        Expr::Between(between) => between.expr.as_ref().clone().lt_eq(*between.high.clone()),
        conjunct => conjunct.clone(),
    };
    let decided = rewrite(decides, schema)?.data;
    // The same rule may have written it before.
    match before.contains(&decided) {
        true => Ok(Transformed::no(conjunct)),
        false => Ok(Transformed::yes(guard.and(decided))),
    }
}

/// Returns what statistics may be asked of beside a conjunct; whatever passes that passes this.
fn guard_of(conjunct: &Expr, schema: &DFSchema) -> Option<Expr> {
    if is_sound_list(conjunct, schema) || is_sound_range(conjunct, schema) {
        return Some(conjunct.clone());
    }
    let (column, op, constant) = with_constant(conjunct, schema)?;
    match op {
        // DataFusion compares both zeros as equal here.
        Operator::Eq if is_zero(&constant) => {
            Some(column.clone().lt_eq(Expr::Literal(constant, None)))
        }
        Operator::Eq | Operator::Lt | Operator::LtEq => Some(conjunct.clone()),
        _ => None,
    }
}

/// Takes a comparison of a float column with a constant apart, as if the column stood on the left.
fn with_constant<'a>(
    expr: &'a Expr,
    schema: &DFSchema,
) -> Option<(&'a Expr, Operator, ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return None;
    };
    if !is_comparison(*op) {
        return None;
    }
    if is_float_column(left, schema) {
        return Some((left, *op, constant(right)?));
    }
    if is_float_column(right, schema) {
        return Some((right, op.swap()?, constant(left)?));
    }
    None
}

fn is_sound_list(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::InList(InList {
        expr,
        list,
        negated: false,
    }) = expr
    else {
        return false;
    };
    let is_sound = |item: &Expr| constant(item).is_some_and(|value| !is_zero(&value));
    is_float_column(expr, schema) && list.iter().all(is_sound)
}

fn is_sound_range(expr: &Expr, schema: &DFSchema) -> bool {
    let Expr::Between(Between {
        expr,
        negated: false,
        low,
        high,
    }) = expr
    else {
        return false;
    };
    is_float_column(expr, schema) && constant(low).is_some() && constant(high).is_some()
}

/// Returns whether an expression is a column of floats, or one that is only made wider.
fn is_float_column(expr: &Expr, schema: &DFSchema) -> bool {
    let column = match expr {
        Expr::Cast(Cast { expr, field }) if field.data_type().is_floating() => expr.as_ref(),
        other => other,
    };
    matches!(column, Expr::Column(_))
        && column
            .get_type(schema)
            .is_ok_and(|data_type| data_type.is_floating())
}

/// Returns a constant that is not NaN.
fn constant(expr: &Expr) -> Option<ScalarValue> {
    let value = match expr {
        Expr::Literal(value, _) => value.clone(),
        // Constants are folded only later, when what was coerced is a number with a cast.
        Expr::Cast(Cast { expr, field }) => match expr.as_ref() {
            Expr::Literal(value, _) => value.cast_to(field.data_type()).ok()?,
            _ => return None,
        },
        _ => return None,
    };
    let is_number = value.data_type().is_floating() && !value.is_null() && !is_nan(&value);
    is_number.then_some(value)
}

fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => value.is_nan(),
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        _ => false,
    }
}

fn is_zero(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    }
}
