//! `substring(s, -3)`, which counts from the end, as in DuckDB: `substring(s, character_length(s) + 1 - 3)`. In PostgreSQL
//! and DataFusion it begins before the string.

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{BinaryOperator, CaseWhen, Expr, UnaryOperator, Value};

use super::calls::call;
use super::visits::count_expressions;

/// The most parts that a string may have which is written twice.
const PARTS_MAX: usize = 50;

/// Counts a place from the beginning that may be counted from the end.
pub(super) fn bind(expr: &mut Expr) {
    let Expr::Substring {
        expr: text,
        substring_from: Some(start),
        ..
    } = expr
    else {
        return;
    };
    let Some(sign) = sign_of(start) else {
        return;
    };
    if count_expressions(text.as_ref()) + count_expressions(start.as_ref()) > PARTS_MAX {
        return;
    }
    let number = |digits: &str| Expr::Value(Value::Number(digits.into(), false).with_empty_span());
    let plus = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Plus,
        right: Box::new(right),
    };
    let given = Expr::Nested(Box::new(start.as_ref().clone()));
    let length = call("character_length", vec![text.as_ref().clone()]);
    let from_end = plus(plus(length, number("1")), given.clone());
    **start = match sign {
        Sign::Minus => from_end,
        Sign::Any => Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen {
                condition: Expr::BinaryOp {
                    left: Box::new(given.clone()),
                    op: BinaryOperator::Lt,
                    right: Box::new(number("0")),
                },
                result: from_end,
            }],
            else_result: Some(Box::new(given)),
        },
    };
}

enum Sign {
    Minus,
    Any,
}

/// Returns the sign of a place; `None` of one that is counted from the beginning.
fn sign_of(start: &Expr) -> Option<Sign> {
    match start {
        Expr::Value(_) => None,
        Expr::Nested(inner) => sign_of(inner),
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } if matches!(expr.as_ref(), Expr::Value(value) if matches!(value.value, Value::Number(..))) => {
            Some(Sign::Minus)
        }
        _ => Some(Sign::Any),
    }
}

#[cfg(test)]
mod tests {
    use super::bind;
    use crate::statements::tests::expr;

    #[test]
    fn places_may_be_counted_from_the_end() {
        for (sql, expect) in [
            ("substring(s, 2)", "SUBSTRING(s, 2)"),
            (
                "substr(s, -3, 2)",
                "SUBSTR(s, character_length(s) + 1 + (-3), 2)",
            ),
            (
                "substring(s FROM n)",
                "SUBSTRING(s FROM CASE WHEN (n) < 0 THEN character_length(s) + 1 + (n) ELSE (n) END)",
            ),
        ] {
            let mut expr = expr(sql);
            bind(&mut expr);
            assert_eq!(expr.to_string(), expect);
        }
    }
}
