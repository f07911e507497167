//! `(a, b) IN (SELECT x, y …)` in a condition, which becomes EXISTS of a row of the subquery that is the same.
//!
//! The planner takes one column in the subquery of `IN`. A row that has NULL is neither in the subquery nor not in it; in a
//! condition that is as good as false, or, below a NOT, as true. So each becomes the EXISTS that tells it from the
//! others there: of rows that are the same, or of rows that are not known to be others.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, Query, Select, SetExpr, TableAliasColumnDef, TableFactor,
    UnaryOperator,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::visits::read_expressions;
use crate::error::{Error, ErrorKind};

/// The name of the subquery, which nobody else gives to a table.
const TABLE: &str = "subquery of IN";

/// Writes tuples in subqueries as EXISTS in the conditions of a query's clauses.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for any that stands elsewhere in it.
pub(super) fn bind(select: &mut Select) -> Result<(), Error> {
    for condition in select.selection.iter_mut().chain(&mut select.having) {
        bind_condition(condition);
    }
    let found = read_expressions(&*select, |expr| match expr {
        Expr::InSubquery { expr: tuple, .. } if matches!(tuple.as_ref(), Expr::Tuple(_)) => {
            ControlFlow::Break(tuple.to_string())
        }
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(tuple) => {
            let message = format!(
                "{tuple} IN (SELECT …) is supported in a condition of WHERE and HAVING, joined by AND, OR and NOT: write \
                 EXISTS (SELECT 1 FROM (SELECT …) AS s(x, y) WHERE s.x = a AND s.y = b)"
            );
            Err(Error::new(ErrorKind::NotSupported, message))
        }
    }
}

/// Writes them so in the condition of an UPDATE or a DELETE.
pub(super) fn bind_rows(statement: &mut ast::Statement) {
    let condition = match statement {
        ast::Statement::Update(update) => &mut update.selection,
        ast::Statement::Delete(delete) => &mut delete.selection,
        _ => return,
    };
    if let Some(condition) = condition {
        bind_condition(condition);
    }
}

/// Writes them so in a condition, of which true alone counts.
fn bind_condition(condition: &mut Expr) {
    bind_part(condition, false);
}

/// Does it in a part of a condition, where NULL is as good as `null_is`.
fn bind_part(part: &mut Expr, null_is: bool) {
    match part {
        Expr::Nested(inner) => bind_part(inner, null_is),
        Expr::UnaryOp {
            op: UnaryOperator::Not,
            expr,
        } => bind_part(expr, !null_is),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::And | BinaryOperator::Or,
            right,
        } => {
            bind_part(left, null_is);
            bind_part(right, null_is);
        }
        Expr::InSubquery {
            expr,
            subquery,
            negated,
        } => {
            if let Expr::Tuple(values) = expr.as_ref()
                && let Some(exists) = exists(values, subquery, *negated, null_is)
            {
                *part = exists;
            }
        }
        _ => {}
    }
}

/// Returns `[NOT] EXISTS (SELECT 1 FROM (subquery) AS s(c1, c2) WHERE s.c1 = a AND s.c2 = b)`.
fn exists(values: &[Expr], subquery: &Query, negated: bool, null_is: bool) -> Option<Expr> {
    let column = |place: usize| Ident::with_quote('"', format!("column {} of IN", place + 1));
    let same = values.iter().enumerate().map(|(place, value)| {
        let table = Ident::with_quote('"', TABLE);
        Expr::BinaryOp {
            left: Box::new(Expr::CompoundIdentifier(vec![table, column(place)])),
            op: BinaryOperator::Eq,
            right: Box::new(Expr::Nested(Box::new(value.clone()))),
        }
    });
    let same = same.reduce(|all, next| Expr::BinaryOp {
        left: Box::new(all),
        op: BinaryOperator::And,
        right: Box::new(next),
    })?;
    // Of `NOT IN`, NULL below is what is not true above.
    let condition = match null_is == negated {
        true => same,
        false => Expr::IsNotFalse(Box::new(Expr::Nested(Box::new(same)))),
    };
    let mut query = parsed("SELECT 1 FROM (SELECT 1) AS s WHERE true")?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    select.selection = Some(condition);
    let TableFactor::Derived {
        subquery: rows,
        alias: Some(alias),
        ..
    } = &mut select.from.first_mut()?.relation
    else {
        return None;
    };
    **rows = subquery.clone();
    alias.name = Ident::with_quote('"', TABLE);
    let columns = (0..values.len()).map(|place| TableAliasColumnDef {
        name: column(place),
        data_type: None,
    });
    alias.columns = columns.collect();
    Some(Expr::Exists {
        subquery: query,
        negated,
    })
}

/// Reads a query of ours.
fn parsed(text: &str) -> Option<Box<Query>> {
    match Parser::parse_sql(&GenericDialect {}, text).ok()?.pop()? {
        ast::Statement::Query(query) => Some(query),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::bind_condition;
    use crate::statements::tests::expr;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let mut expr = expr(sql);
        bind_condition(&mut expr);
        assert_eq!(expr.to_string(), expect);
    }

    #[test]
    fn tuples_are_rows_of_subqueries() {
        let rows = "SELECT 1 FROM (SELECT x, y FROM u) AS \"subquery of IN\" (\"column 1 of IN\", \"column 2 of IN\")";
        let same = "\"subquery of IN\".\"column 1 of IN\" = (a) AND \"subquery of IN\".\"column 2 of IN\" = (b)";
        for (sql, expect) in [
            (
                "(a, b) IN (SELECT x, y FROM u)",
                format!("EXISTS ({rows} WHERE {same})"),
            ),
            (
                "c OR ((a, b) NOT IN (SELECT x, y FROM u))",
                format!("c OR (NOT EXISTS ({rows} WHERE ({same}) IS NOT FALSE))"),
            ),
            (
                "NOT (a, b) IN (SELECT x, y FROM u)",
                format!("NOT EXISTS ({rows} WHERE ({same}) IS NOT FALSE)"),
            ),
            (
                "NOT (a, b) NOT IN (SELECT x, y FROM u)",
                format!("NOT NOT EXISTS ({rows} WHERE {same})"),
            ),
        ] {
            check(sql, &expect);
        }
    }

    #[test]
    fn others_stay() {
        for sql in [
            "a IN (SELECT x FROM u)",
            "(a, b) IN ((1, 2), (3, 4))",
            "((a, b) IN (SELECT x, y FROM u)) IS NULL",
        ] {
            check(sql, sql);
        }
    }
}
