//! `IS [NOT] DISTINCT FROM`, bound tighter than `NOT`, `AND` and `OR`.
//!
//! The parser reads all that follows as the right operand: of `a IS DISTINCT FROM b AND c` it makes
//! `a IS DISTINCT FROM (b AND c)`. [`bind`] turns such a tree round, wherever `AND` or `OR` stands without
//! parentheses below an operator that binds tighter; what is in parentheses stays.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};

use super::arrows;
use super::calls::take;

/// Has `AND` and `OR` be the outermost operators of an expression whose operands are bound already.
pub(super) fn bind(expr: &mut Expr) {
    let is_and = matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::And,
            ..
        }
    );
    let is_looser: fn(&Expr) -> bool = if is_and { is_or } else { is_logic };
    let Some(operand) = last_operand(expr).filter(|operand| is_looser(operand)) else {
        return;
    };
    let mut tree = take(operand);
    let first = first_operand(&mut tree, is_looser);
    *operand = take(first);
    *first = take(expr);
    arrows::bind(first);
    *expr = tree;
}

/// Returns the operand on the right that the parser may have read too much of.
fn last_operand(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::BinaryOp {
            op: BinaryOperator::Or,
            ..
        } => None,
        Expr::BinaryOp { right: last, .. }
        | Expr::IsDistinctFrom(_, last)
        | Expr::IsNotDistinctFrom(_, last)
        | Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr: last,
        } => Some(last),
        _ => None,
    }
}

/// Returns the leftmost operand of a tree of looser operators.
fn first_operand(tree: &mut Expr, is_looser: fn(&Expr) -> bool) -> &mut Expr {
    if !is_looser(tree) {
        return tree;
    }
    match tree {
        Expr::BinaryOp { left, .. } => first_operand(left, is_looser),
        other => other,
    }
}

fn is_or(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::Or,
            ..
        }
    )
}

fn is_logic(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::BinaryOp {
            op: BinaryOperator::And | BinaryOperator::Or,
            ..
        }
    )
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Expr;

    use super::super::arrows;
    use super::{bind, is_logic};
    use crate::statements::tests::bound;

    #[test]
    fn and_and_or_are_outside() {
        for (sql, expect) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b AND c)"),
            (
                "a IS NOT DISTINCT FROM b AND c OR d",
                "((a IS NOT DISTINCT FROM b AND c) OR d)",
            ),
            (
                "x AND a IS DISTINCT FROM b OR c",
                "((x AND a IS DISTINCT FROM b) OR c)",
            ),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b AND c IS DISTINCT FROM d) OR e)",
            ),
            (
                "x OR a IS DISTINCT FROM b AND c",
                "(x OR (a IS DISTINCT FROM b AND c))",
            ),
            (
                "NOT a IS DISTINCT FROM b AND c",
                "(NOT a IS DISTINCT FROM b AND c)",
            ),
            (
                "a = 1 IS DISTINCT FROM b = 2 AND c",
                "(a = 1 IS DISTINCT FROM b = 2 AND c)",
            ),
            (
                "d -> 'k' IS DISTINCT FROM 'v' AND c",
                "(d -> 'k' IS DISTINCT FROM 'v' AND c)",
            ),
            (
                "a IS DISTINCT FROM (b AND c)",
                "a IS DISTINCT FROM ((b AND c))",
            ),
            ("a AND (b OR c)", "(a AND ((b OR c)))"),
            ("NOT a OR b AND c", "(NOT a OR (b AND c))"),
        ] {
            let both = |expr: &mut Expr| {
                bind(expr);
                arrows::bind(expr);
            };
            assert_eq!(bound(sql, both, is_logic), expect, "{sql}");
        }
    }
}
