//! `IN` lists that DataFusion's optimizer joins as if there were no NULL.
//!
//! Of `x IN (1, 2) OR x NOT IN (3, NULL)` it makes one list by the rules of sets, and of `x IN (1) AND x IN (2)`
//! FALSE, though the first has a NULL that decides, and the second is NULL where `x` is. Here a NULL leaves its list
//! (`x IN (1, NULL)` is `x IN (1) OR NULL`), and two lists that have nothing in common become what they are in
//! three-valued logic, before the optimizer sees them. A list with a CASE becomes comparisons.

use std::collections::HashSet;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};

use super::walk::{any_expression, change_parts};

/// Rewrites such lists; comes after types are coerced.
pub(super) fn separate_lists(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    if !any_expression(&plan, |expr| replaced(expr).is_some())? {
        return Ok(plan);
    }
    change_parts(plan, |expr, _| Ok(rewrite(expr)))
}

fn rewrite(expr: Expr) -> Transformed<Expr> {
    match replaced(&expr) {
        Some(replaced) => Transformed::yes(replaced),
        None => Transformed::no(expr),
    }
}

/// Returns what stands for a list with NULL, or for two lists of one value that share nothing.
fn replaced(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::InList(list) => without_null(list).or_else(|| with_branches(list)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (Expr::InList(left), Expr::InList(right)) => disjoint(left, *op, right),
            _ => None,
        },
        _ => None,
    }
}

fn null() -> Expr {
    lit(ScalarValue::Boolean(None))
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

fn without_null(list: &InList) -> Option<Expr> {
    if !list.list.iter().any(is_null) {
        return None;
    }
    let others: Vec<Expr> = list
        .list
        .iter()
        .filter(|value| !is_null(value))
        .cloned()
        .collect();
    if others.is_empty() {
        return Some(null());
    }
    let others = Expr::InList(InList::new(list.expr.clone(), others, list.negated));
    Some(match list.negated {
        false => others.or(null()),
        true => others.and(null()),
    })
}

/// Writes a list with a CASE as comparisons: DataFusion loses the NULLs of one whose branches are literals.
fn with_branches(list: &InList) -> Option<Expr> {
    let is_case = |value: &Expr| value.exists(|part| Ok(matches!(part, Expr::Case(_))));
    let has_case = list.list.len() > 1
        && list
            .list
            .iter()
            .any(|value| is_case(value).is_ok_and(|is| is));
    if !has_case || list.expr.is_volatile() {
        return None;
    }
    let is_equal = list
        .list
        .iter()
        .map(|value| list.expr.as_ref().clone().eq(value.clone()));
    let any = is_equal.reduce(Expr::or)?;
    Some(match list.negated {
        false => any,
        true => !any,
    })
}

fn disjoint(left: &InList, op: Operator, right: &InList) -> Option<Expr> {
    if left.expr != right.expr {
        return None;
    }
    let (a, b): (HashSet<&Expr>, HashSet<&Expr>) =
        (left.list.iter().collect(), right.list.iter().collect());
    let is_literal = |list: &InList| {
        list.list
            .iter()
            .all(|value| matches!(value, Expr::Literal(..)))
    };
    if !is_literal(left) || !is_literal(right) {
        return None;
    }
    let value = || left.expr.as_ref().clone();
    // Whatever `x` is, the answer is known unless it is NULL.
    let is_false = match (op, left.negated, right.negated) {
        (Operator::And, false, false) => a.is_disjoint(&b),
        (Operator::And, false, true) => a.is_subset(&b),
        (Operator::And, true, false) => b.is_subset(&a),
        _ => false,
    };
    let is_true = match (op, left.negated, right.negated) {
        (Operator::Or, true, true) => a.is_disjoint(&b),
        (Operator::Or, false, true) => b.is_subset(&a),
        (Operator::Or, true, false) => a.is_subset(&b),
        _ => false,
    };
    match (is_false, is_true) {
        (true, _) => Some(value().is_null().and(null())),
        (_, true) => Some(value().is_not_null().or(null())),
        _ => None,
    }
}
