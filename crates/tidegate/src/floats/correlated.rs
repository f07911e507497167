//! Equalities with an outer query's column.
//!
//! DataFusion turns a correlated subquery with an aggregate into a join only if each of its
//! correlated conditions is a column that equals something of the outer query; it then groups by
//! that column. `canonical(x)` therefore becomes a column of a projection below the filter.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Cast, Expr, Filter, LogicalPlan, Operator, Projection, lit};

use super::canonical::is_canonical;

/// How the names of such columns begin, by which the rule knows that they are canonical.
const KEY: &str = "__canonical_key ";

/// Returns whether a column was made here.
pub(super) fn is_key_column(column: &Column) -> bool {
    column.relation.is_none() && column.name.starts_with(KEY)
}

/// Gives the canonical operands of correlated equalities columns of their own.
pub(super) fn with_key_columns(filter: Filter) -> Result<Filter> {
    if !filter.predicate.contains_outer() {
        return Ok(filter);
    }
    let mut keys: Vec<Expr> = Vec::new();
    let conjuncts = split_conjunction_owned(filter.predicate).into_iter();
    let conjuncts: Vec<Expr> = conjuncts
        .map(|conjunct| with_columns(conjunct, &mut keys))
        .collect();
    let predicate = conjunction(conjuncts).unwrap_or_else(|| lit(true));
    let schema = filter.input.schema();
    keys.retain(|key| !schema.has_column(&column_of(key)));
    let input = if keys.is_empty() {
        filter.input
    } else {
        let keys = keys.into_iter().map(|key| {
            let name = column_of(&key).name;
            key.alias(name)
        });
        let columns = schema.iter().map(Expr::from).chain(keys).collect();
        let projection = Projection::try_new(columns, Arc::clone(&filter.input))?;
        Arc::new(LogicalPlan::Projection(projection))
    };
    Filter::try_new(predicate, input)
}

fn with_columns(conjunct: Expr, keys: &mut Vec<Expr>) -> Expr {
    let Expr::BinaryExpr(BinaryExpr {
        left,
        op: Operator::Eq,
        right,
    }) = conjunct
    else {
        return conjunct;
    };
    let (left, right) = if is_key(&left) && is_outer(&right) {
        (as_column(*left, keys), *right)
    } else if is_key(&right) && is_outer(&left) {
        (*left, as_column(*right, keys))
    } else {
        (*left, *right)
    };
    left.eq(right)
}

/// Returns whether an expression is `canonical` of a column, or of one with another type.
fn is_key(expr: &Expr) -> bool {
    let Expr::ScalarFunction(call) = expr else {
        return false;
    };
    let argument = match call.args.first() {
        Some(Expr::Cast(Cast { expr, .. })) => Some(expr.as_ref()),
        argument => argument,
    };
    is_canonical(expr) && matches!(argument, Some(Expr::Column(_)))
}

fn is_outer(expr: &Expr) -> bool {
    expr.contains_outer() && !expr.any_column_refs()
}

fn as_column(expr: Expr, keys: &mut Vec<Expr>) -> Expr {
    let column = column_of(&expr);
    if !keys.contains(&expr) {
        keys.push(expr);
    }
    Expr::Column(column)
}

fn column_of(expr: &Expr) -> Column {
    Column::new_unqualified(format!("{KEY}{}", expr.schema_name()))
}
