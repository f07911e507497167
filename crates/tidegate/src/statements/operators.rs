//! Arithmetic and `||`, bound as PostgreSQL and DuckDB bind them, and `^`, which is a power.
//!
//! From the tightest to the loosest: `^`; `*`, `/`, `//` and `%`; `+` and `-`; `||`. The parser binds `||` as
//! tightly as `*`, and `^` looser than `+`: of `2 + 3 || 'x'` it makes `2 + (3 || 'x')`, and of `2 * 3 ^ 2` it makes
//! `(2 * 3) ^ 2`. [`bind`] turns such a tree round; what is in parentheses stays.
//!
//! `s ^@ t` is `starts_with(s, t)`, and `s SIMILAR TO p` is `s ~ similar_to_escape(p)`. The planner takes `^` for an exclusive or, which is `xor(a, b)` here.

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
};

use super::calls::{call, double, take};
use crate::functions::{forms, similar_to};

/// The function that is an exclusive or of integers.
const XOR: &str = "xor";

/// Binds an operation whose operands are bound already.
pub(super) fn bind(expr: &mut Expr) {
    if let Expr::BinaryOp {
        left,
        op: BinaryOperator::PGStartsWith,
        right,
    } = expr
    {
        let (left, right) = (take(left), take(right));
        *expr = call("starts_with", vec![left, right]);
    } else if let Expr::SimilarTo {
        negated,
        expr: text,
        pattern,
        escape_char,
    } = expr
    {
        let escape = escape_char.take().map(Expr::Value);
        let pattern = std::iter::once(take(pattern)).chain(escape).collect();
        let op = match negated {
            true => BinaryOperator::PGRegexNotMatch,
            false => BinaryOperator::PGRegexMatch,
        };
        *expr = Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(take(text)),
            op,
            right: Box::new(call(similar_to::NAME, pattern)),
        }));
    } else if let Expr::BinaryOp { left, op, right } = expr
        && tightness(op).is_some()
    {
        let (left, right) = (take(left), take(right));
        *expr = bound(left, op.clone(), right);
    } else if let Expr::Function(call) = expr
        && let Some((left, right)) = exclusive(call)
    {
        *expr = Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::PGBitwiseXor,
            right: Box::new(right),
        }));
    }
}

/// Returns how tightly an operator binds.
fn tightness(op: &BinaryOperator) -> Option<u8> {
    Some(match op {
        BinaryOperator::StringConcat => 1,
        BinaryOperator::Plus | BinaryOperator::Minus => 2,
        BinaryOperator::Multiply
        | BinaryOperator::Divide
        | BinaryOperator::DuckIntegerDivide
        | BinaryOperator::Modulo => 3,
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => 4,
        _ => return None,
    })
}

/// Takes an operation apart that is bound looser than an operator, or as tightly; gives any other operand back.
#[expect(
    clippy::result_large_err,
    reason = "the operand is given back, and is as large as the parts"
)]
fn looser(operand: Expr, than: u8, or_same: bool) -> Result<(Expr, BinaryOperator, Expr), Expr> {
    match operand {
        Expr::BinaryOp { left, op, right }
            if tightness(&op).is_some_and(|own| own < than || (or_same && own == than)) =>
        {
            Ok((*left, op, *right))
        }
        other => Err(other),
    }
}

/// Makes an operation of two that are bound.
fn bound(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    let Some(own) = tightness(&op) else {
        return operation(left, op, right);
    };
    let left = match looser(left, own, false) {
        Ok((first, outer, last)) => return bound(first, outer, bound(last, op, right)),
        Err(left) => left,
    };
    match looser(right, own, true) {
        Ok((first, outer, last)) => bound(bound(left, op, first), outer, last),
        Err(right) => operation(left, op, right),
    }
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    match op {
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => {
            call("power", vec![double(left), double(right)])
        }
        op => Expr::BinaryOp {
            left: Box::new(left),
            op,
            right: Box::new(right),
        },
    }
}

/// Returns the operands of `xor(a, b)`.
fn exclusive(call: &Function) -> Option<(Expr, Expr)> {
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    if forms::name_of(call).as_deref() != Some(XOR) {
        return None;
    }
    match list.args.as_slice() {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
            FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
        ] => Some((left.clone(), right.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Expr;

    use super::bind;
    use crate::statements::tests::bound;

    #[test]
    fn operators_are_bound_as_in_postgresql() {
        for (sql, expect) in [
            ("2 + 3 || 'x'", "((2 + 3) || 'x')"),
            ("'x' || 2 + 3", "('x' || (2 + 3))"),
            ("'x' || 2 * 3", "('x' || (2 * 3))"),
            ("a * b || c * d", "((a * b) || (c * d))"),
            ("a || b + c || d", "((a || (b + c)) || d)"),
            ("a + b || c + d || e", "(((a + b) || (c + d)) || e)"),
            ("a || b - c - d", "(a || ((b - c) - d))"),
            ("a || b + c * d", "(a || (b + (c * d)))"),
            ("a + b * c || d", "((a + (b * c)) || d)"),
            ("a % 2 || 'x' = '1x'", "(((a % 2) || 'x') = '1x')"),
            ("a + (b || c)", "(a + ((b || c)))"),
            ("-a || b", "(-a || b)"),
            ("a || b || c", "((a || b) || c)"),
            ("a - b - c + d", "(((a - b) - c) + d)"),
            ("a / b * c", "((a / b) * c)"),
            ("2 ^ 3", "power(2, 3)"),
            ("2 * 3 ^ 2", "(2 * power(3, 2))"),
            ("a / b ^ c / d", "((a / power(b, c)) / d)"),
            ("a + b ^ c * d - e", "((a + (power(b, c) * d)) - e)"),
            ("2 ^ 3 ^ 2", "power(power(2, 3), 2)"),
            ("-2 ^ 2", "power(-2, 2)"),
            ("a ^ 2 < b ^ 2 + 1", "(power(a, 2) < (power(b, 2) + 1))"),
            ("xor(a, 3) + 1", "(((a # 3)) + 1)"),
        ] {
            let is_operation = |expr: &Expr| matches!(expr, Expr::BinaryOp { .. });
            let text = bound(sql, bind, is_operation);
            let text = text.replace("CAST(", "").replace(" AS DOUBLE)", "");
            assert_eq!(text, expect, "{sql}");
        }
    }
}
