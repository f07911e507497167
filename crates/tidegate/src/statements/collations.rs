//! `COLLATE NOCASE`, DuckDB's comparison without case, which is one of `lower(x)`; and `COLLATE "C"`, which is how strings are
//! compared without it.

use sqlparser::ast::{BinaryOperator, Expr, ObjectName, OrderByKind, Query};

use super::calls::{call, take};
use crate::error::{Error, ErrorKind};

/// How a collation compares.
enum Kind {
    WithoutCase,
    CodePoints,
    Other,
}

/// Has an ORDER BY compare without case where it says so.
pub(super) fn order(query: &mut Query) {
    let kind = query.order_by.as_mut().map(|order| &mut order.kind);
    if let Some(OrderByKind::Expressions(exprs)) = kind {
        for by in exprs {
            if ignores_case(&by.expr) {
                fold(&mut by.expr);
            }
        }
    }
}

/// Has a comparison be one without case where a side of it says so.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for another collation, and for one that stands elsewhere.
pub(super) fn bind(expr: &mut Expr) -> Result<(), Error> {
    match expr {
        Expr::BinaryOp { left, op, right } if compares(op) => fold_all([left, right]),
        Expr::Like { expr, pattern, .. } => fold_all([expr, pattern]),
        Expr::Between {
            expr, low, high, ..
        } => fold_all([expr, low, high]),
        Expr::InList { expr, list, .. } if ignores_case(expr) => {
            fold(expr);
            list.iter_mut().for_each(fold);
        }
        Expr::Collate {
            expr: inner,
            collation,
        } => {
            let message = match kind(collation) {
                Kind::CodePoints => {
                    *expr = take(inner);
                    return Ok(());
                }
                Kind::WithoutCase => format!(
                    "COLLATE {collation} stands in comparisons and in ORDER BY: elsewhere, write lower({inner})"
                ),
                Kind::Other => format!(
                    "COLLATE {collation} is not supported: strings are compared by their code points, or without case \
                     by COLLATE NOCASE"
                ),
            };
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        _ => {}
    }
    Ok(())
}

fn compares(op: &BinaryOperator) -> bool {
    matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    )
}

fn kind(collation: &ObjectName) -> Kind {
    let name = collation.0.last().and_then(|part| part.as_ident());
    let name = name.map(|name| name.value.to_ascii_lowercase());
    match name.as_deref() {
        Some("nocase") => Kind::WithoutCase,
        Some("c" | "posix" | "binary" | "ucs_basic" | "default") => Kind::CodePoints,
        _ => Kind::Other,
    }
}

/// Tells whether an operand is to be compared without case.
fn ignores_case(operand: &Expr) -> bool {
    match operand {
        Expr::Collate { collation, .. } => matches!(kind(collation), Kind::WithoutCase),
        Expr::Nested(inner) => ignores_case(inner),
        _ => false,
    }
}

/// Folds all operands if one of them is to be compared without case.
fn fold_all<const N: usize>(operands: [&mut Box<Expr>; N]) {
    if operands.iter().any(|operand| ignores_case(operand)) {
        for operand in operands {
            fold(operand);
        }
    }
}

/// Writes an operand in small letters, without its collation.
fn fold(operand: &mut Expr) {
    let mut inner = take(operand);
    while ignores_case(&inner) {
        inner = match inner {
            Expr::Collate { expr, .. } | Expr::Nested(expr) => *expr,
            other => other,
        };
    }
    *operand = call("lower", vec![inner]);
}

#[cfg(test)]
mod tests {
    use super::{bind, order};
    use crate::statements::tests::query;
    use crate::statements::visits::change_expressions;
    use std::ops::ControlFlow;

    fn bound(sql: &str) -> Result<String, String> {
        let mut query = query(sql);
        order(&mut query);
        let walked = change_expressions(&mut query, |expr| match expr {
            // Inner expressions come first here, and last where this is used.
            sqlparser::ast::Expr::Collate { .. } => ControlFlow::Continue(()),
            expr => match bind(expr) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error.to_string()),
            },
        });
        match walked {
            ControlFlow::Continue(()) => Ok(query.to_string()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    #[test]
    fn comparisons_without_case_are_of_small_letters() {
        for (sql, expect) in [
            (
                "SELECT a = 'X' COLLATE NOCASE FROM t ORDER BY (a COLLATE nocase) DESC, b",
                "SELECT lower(a) = lower('X') FROM t ORDER BY lower(a) DESC, b",
            ),
            (
                "SELECT 1 FROM t WHERE a COLLATE NOCASE IN ('x', b)",
                "SELECT 1 FROM t WHERE lower(a) IN (lower('x'), lower(b))",
            ),
            (
                "SELECT 1 FROM t WHERE a COLLATE NOCASE LIKE 'x%'",
                "SELECT 1 FROM t WHERE lower(a) LIKE lower('x%')",
            ),
        ] {
            assert_eq!(bound(sql).as_deref(), Ok(expect));
        }
    }

    #[test]
    fn other_collations_are_refused() {
        let mut query = query("SELECT a COLLATE de_DE FROM t");
        let walked = change_expressions(&mut query, |expr| match bind(expr) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error.to_string()),
        });
        let ControlFlow::Break(error) = walked else {
            panic!("{query}");
        };
        assert!(error.contains("COLLATE de_DE is not supported"), "{error}");
    }
}
