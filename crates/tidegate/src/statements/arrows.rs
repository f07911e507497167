//! `->` and `->>`, bound as PostgreSQL binds them, and `x -> …` as an argument, which is a lambda.
//!
//! The parser binds these operators looser than comparisons: of `d ->> 'k' = 'v'` it makes `d ->> ('k' = 'v')`,
//! and of `'v' = d ->> 'k'` it makes `('v' = d) ->> 'k'`. [`bind`] turns such a tree round; what is in
//! parentheses stays. Of a function that takes lambdas, [`lambda`] makes one of `x -> x > 1 AND x < 5`, whose body goes
//! on to the end. [`fields`] writes `x.a` in its body as `x['a']`: the planner takes `x.a` for a column of a table.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax,
    OneOrManyWithParens, Subscript,
};

use super::calls::{string, take};
use super::using::folded;
use super::visits::change_expressions;

/// Has an arrow take its nearest operands, where the parser gave it comparisons. What is in the operands
/// is bound already.
pub(super) fn bind(expr: &mut Expr) {
    let Expr::BinaryOp { left, op, right } = expr else {
        return;
    };
    if !is_arrow(op) {
        return;
    }
    if !is_within(left, last) && !is_within(right, first) {
        return;
    }
    let op = op.clone();
    let mut left = take(left);
    let mut right = take(right);
    *expr = match is_within(&mut left, last) {
        true => {
            let operand = last(&mut left);
            let mut inner = Expr::BinaryOp {
                left: Box::new(take(operand)),
                op,
                right: Box::new(right),
            };
            bind(&mut inner);
            *operand = inner;
            left
        }
        false => {
            let operand = first(&mut right);
            *operand = Expr::BinaryOp {
                left: Box::new(left),
                op,
                right: Box::new(take(operand)),
            };
            right
        }
    };
}

/// Makes a lambda of an argument such as `x -> x + 1` or `(x, y) -> x + y`; leaves any other as it is.
pub(super) fn lambda(argument: &mut Expr) {
    let Some(arrow) = leftmost_arrow(argument) else {
        return;
    };
    let Expr::BinaryOp { left, right, .. } = arrow else {
        return;
    };
    let Some(params) = parameters(left) else {
        return;
    };
    let rest = take(right);
    *arrow = rest;
    *argument = Expr::Lambda(LambdaFunction {
        params,
        body: Box::new(take(argument)),
        syntax: LambdaSyntax::Arrow,
    });
}

/// Writes the fields of a lambda's parameters, `x.a.b`, as `x['a']['b']`. Which of several parameters of one name is meant
/// is left to the planner: the innermost.
pub(super) fn fields(expr: &mut Expr) {
    let Expr::Lambda(LambdaFunction { params, body, .. }) = expr else {
        return;
    };
    let names: Vec<String> = params.iter().map(|param| folded(&param.name)).collect();
    let _ = change_expressions(body.as_mut(), |part| {
        let access = match &*part {
            Expr::CompoundIdentifier(parts) => access_of(parts, &names),
            _ => None,
        };
        if let Some(access) = access {
            *part = access;
        }
        ControlFlow::<()>::Continue(())
    });
}

/// Returns the access to a field that a name with dots is, if it begins with one of `parameters`.
fn access_of(parts: &[Ident], parameters: &[String]) -> Option<Expr> {
    let (first, fields) = parts.split_first()?;
    if !parameters.contains(&folded(first)) {
        return None;
    }
    Some(access(Expr::Identifier(first.clone()), fields))
}

/// Writes the fields of a value, `x['a']['b']`.
pub(super) fn access(value: Expr, fields: &[Ident]) -> Expr {
    let by_name = |field: &Ident| {
        AccessExpr::Subscript(Subscript::Index {
            index: string(folded(field)),
        })
    };
    Expr::CompoundFieldAccess {
        root: Box::new(value),
        access_chain: fields.iter().map(by_name).collect(),
    }
}

fn parameters(expr: &Expr) -> Option<OneOrManyWithParens<LambdaFunctionParameter>> {
    let parameter = |name: &Ident| LambdaFunctionParameter {
        name: name.clone(),
        data_type: None,
    };
    match expr {
        Expr::Identifier(name) => Some(OneOrManyWithParens::One(parameter(name))),
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::Identifier(name) => Some(OneOrManyWithParens::One(parameter(name))),
            _ => None,
        },
        Expr::Tuple(names) => {
            let names = names.iter().map(|name| match name {
                Expr::Identifier(name) => Some(parameter(name)),
                _ => None,
            });
            Some(OneOrManyWithParens::Many(names.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// Finds the arrow with which an argument begins.
fn leftmost_arrow(expr: &mut Expr) -> Option<&mut Expr> {
    let mut current = expr;
    loop {
        let goes_on = match current {
            Expr::BinaryOp { left, op, .. } => {
                !(*op == BinaryOperator::Arrow && parameters(left).is_some())
            }
            _ => return None,
        };
        if !goes_on {
            return Some(current);
        }
        let Expr::BinaryOp { left, .. } = current else {
            return None;
        };
        current = left;
    }
}

fn is_arrow(op: &BinaryOperator) -> bool {
    matches!(op, BinaryOperator::Arrow | BinaryOperator::LongArrow)
}

/// Tells the operators that the parser binds tighter than an arrow, and PostgreSQL looser.
fn is_loose(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
            | BinaryOperator::Spaceship
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch
    )
}

/// Tells whether an arrow beside an expression belongs to an operand of it.
fn is_within(expr: &mut Expr, operand: fn(&mut Expr) -> &mut Expr) -> bool {
    let whole: *const Expr = expr;
    !std::ptr::eq(whole, operand(expr))
}

/// Returns the first operand, to which an arrow before an expression belongs.
fn first(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::BinaryOp { op, .. } if !is_loose(op) => expr,
        Expr::BinaryOp { left: inner, .. } => first(inner),
        Expr::IsNull(inner)
        | Expr::IsNotNull(inner)
        | Expr::IsTrue(inner)
        | Expr::IsNotTrue(inner)
        | Expr::IsFalse(inner)
        | Expr::IsNotFalse(inner)
        | Expr::IsDistinctFrom(inner, _)
        | Expr::IsNotDistinctFrom(inner, _)
        | Expr::Like { expr: inner, .. }
        | Expr::ILike { expr: inner, .. }
        | Expr::SimilarTo { expr: inner, .. }
        | Expr::Between { expr: inner, .. }
        | Expr::InList { expr: inner, .. }
        | Expr::InSubquery { expr: inner, .. } => first(inner),
        other => other,
    }
}

/// Returns the last operand, to which an arrow behind an expression belongs.
fn last(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::BinaryOp { op, .. } if !is_loose(op) => expr,
        Expr::BinaryOp { right: inner, .. } => last(inner),
        Expr::Between { high: inner, .. }
        | Expr::Like { pattern: inner, .. }
        | Expr::ILike { pattern: inner, .. }
        | Expr::SimilarTo { pattern: inner, .. }
        | Expr::IsDistinctFrom(_, inner)
        | Expr::IsNotDistinctFrom(_, inner) => last(inner),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Expr;

    use super::{bind, fields, is_arrow, lambda};
    use crate::statements::tests::{bound, expr};

    #[test]
    fn arrows_take_their_nearest_operands() {
        for (sql, expect) in [
            ("d -> 'a' ->> 'b' = 'x'", "((d -> 'a') ->> 'b') = 'x'"),
            ("'x' = d ->> 'a'", "'x' = (d ->> 'a')"),
            (
                "d ->> 'a' = d -> 'b' ->> 'c'",
                "(d ->> 'a') = ((d -> 'b') ->> 'c')",
            ),
            ("d ->> 'a' IS NULL", "(d ->> 'a') IS NULL"),
            ("d ->> 'a' LIKE 'x%' AND b", "(d ->> 'a') LIKE 'x%' AND b"),
            ("d ->> 'a' IN ('x', 'y')", "(d ->> 'a') IN ('x', 'y')"),
            (
                "b BETWEEN 'a' AND d ->> 'z'",
                "b BETWEEN 'a' AND (d ->> 'z')",
            ),
            ("d -> 1", "(d -> 1)"),
            ("NOT d ->> 'a' = 'x'", "NOT (d ->> 'a') = 'x'"),
            ("d -> ('a' = 'b')", "(d -> ('a' = 'b'))"),
        ] {
            let is_marked = |expr: &Expr| matches!(expr, Expr::BinaryOp { op, .. } if is_arrow(op));
            assert_eq!(bound(sql, bind, is_marked), expect, "{sql}");
        }
    }

    #[test]
    fn arguments_with_names_before_an_arrow_are_lambdas() {
        for (sql, is_lambda) in [
            ("x -> x + 1", true),
            ("x -> x > 1 AND x < 5 OR x = 9", true),
            ("(x, y) -> x + y", true),
            ("x -> x -> 'a'", true),
            ("a + 1", false),
            ("'a' -> 'b'", false),
        ] {
            let mut expr = expr(sql);
            lambda(&mut expr);
            assert_eq!(matches!(expr, Expr::Lambda(_)), is_lambda, "{sql}");
            assert_eq!(expr.to_string(), sql);
        }
    }

    #[test]
    fn parameters_have_fields() {
        for (sql, expect) in [
            ("s -> s.a > 1", "s -> s['a'] > 1"),
            ("S -> s.A.\"B\" + t.b", "S -> s['a']['B'] + t.b"),
            ("(x, y) -> x.a + y.b", "(x, y) -> x['a'] + y['b']"),
            ("s -> t.s", "s -> t.s"),
        ] {
            let mut expr = expr(sql);
            lambda(&mut expr);
            fields(&mut expr);
            assert_eq!(expr.to_string(), expect);
        }
    }
}
