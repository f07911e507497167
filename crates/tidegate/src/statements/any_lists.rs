//! `x = ANY (l)` of a list, which is NULL and not false where only a NULL of the list could be the one.
//!
//! The planner knows of NULLs in `ALL (l)` alone: `x = ANY (l)` is `NOT (x <> ALL (l))`, in three-valued logic too.

use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::calls::take;

/// Writes a comparison with any element of a list as one with all of them; literals without NULL stay a list of values.
pub(super) fn bind(expr: &mut Expr) {
    let Expr::AnyOp {
        left,
        compare_op,
        right,
        ..
    } = expr
    else {
        return;
    };
    let is_subquery = matches!(right.as_ref(), Expr::Subquery(_));
    let Some(negated) = negated(compare_op) else {
        return;
    };
    if is_subquery || has_literals_alone(right) {
        return;
    }
    let all = Expr::AllOp {
        left: Box::new(take(left)),
        compare_op: negated,
        right: Box::new(take(right)),
    };
    *expr = Expr::Nested(Box::new(Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(all))),
    }));
}

fn negated(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::NotEq,
        BinaryOperator::NotEq => BinaryOperator::Eq,
        BinaryOperator::Lt => BinaryOperator::GtEq,
        BinaryOperator::GtEq => BinaryOperator::Lt,
        BinaryOperator::Gt => BinaryOperator::LtEq,
        BinaryOperator::LtEq => BinaryOperator::Gt,
        _ => return None,
    })
}

/// Tells whether a list is written out, of literals that are not NULL.
fn has_literals_alone(list: &Expr) -> bool {
    match list {
        Expr::Nested(list) => has_literals_alone(list),
        Expr::Array(list) => {
            let is_value = |of: &Expr| matches!(of, Expr::Value(of) if of.value != Value::Null);
            !list.elem.is_empty() && list.elem.iter().all(is_value)
        }
        _ => false,
    }
}
