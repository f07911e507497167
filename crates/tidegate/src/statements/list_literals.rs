//! `[x, 1]` in a lambda, and `[t.a, 1]` in a subquery, as calls of `make_array`.
//!
//! The planner reads the values of a list without what is around it: it knows neither the parameters of a lambda nor the
//! columns of an outer query there. It does in a call.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Query, VisitMut, VisitorMut};

use super::calls::call;
use super::visits;
use crate::functions::forms;

/// Writes lists that name something as calls where the planner would not find it.
pub(super) fn as_calls(node: &mut impl VisitMut) {
    let _ = visits::change(node, &mut Lists::default());
}

#[derive(Default)]
struct Lists {
    /// Queries around.
    num_queries: usize,
    /// Lambdas around.
    num_lambdas: usize,
    /// Calls of COLUMNS around, which takes a list of names as it is written.
    num_columns: usize,
}

impl VisitorMut for Lists {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.num_queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.num_queries = self.num_queries.saturating_sub(1);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.num_lambdas += usize::from(matches!(expr, Expr::Lambda(_)));
        self.num_columns += usize::from(is_columns(expr));
        let is_within = self.num_lambdas > 0 || self.num_queries > 1;
        if is_within
            && self.num_columns == 0
            && names_something(expr)
            && let Expr::Array(list) = expr
        {
            *expr = call("make_array", std::mem::take(&mut list.elem));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_lambda = matches!(expr, Expr::Lambda(_));
        self.num_lambdas = self.num_lambdas.saturating_sub(usize::from(is_lambda));
        let is_columns = is_columns(expr);
        self.num_columns = self.num_columns.saturating_sub(usize::from(is_columns));
        ControlFlow::Continue(())
    }
}

fn is_columns(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(call) if forms::name_of(call).as_deref() == Some("columns"))
}

/// Tells whether an expression is a list whose values name a column or a parameter.
fn names_something(expr: &Expr) -> bool {
    if !matches!(expr, Expr::Array(_)) {
        return false;
    }
    let found = visits::read_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use super::as_calls;
    use crate::statements::tests::statement;

    #[test]
    fn lists_in_lambdas_and_subqueries_become_calls() {
        for (sql, expect) in [
            (
                "SELECT f(l, x -> [x, [1, x]], [a]) FROM t",
                "SELECT f(l, x -> make_array(x, make_array(1, x)), [a]) FROM t",
            ),
            (
                "SELECT [a], (SELECT [t.a, 1]) FROM t",
                "SELECT [a], (SELECT make_array(t.a, 1)) FROM t",
            ),
            (
                "SELECT f(l, x -> [1, 2]) FROM t",
                "SELECT f(l, x -> [1, 2]) FROM t",
            ),
            (
                "SELECT * FROM (SELECT columns([a, b]) FROM t)",
                "SELECT * FROM (SELECT columns([a, b]) FROM t)",
            ),
        ] {
            let mut statement = statement(sql);
            // The parser takes arrows for operators: `arrows` makes lambdas of them.
            let _ = crate::statements::visits::change_expressions(&mut statement, |expr| {
                crate::statements::arrows::lambda(expr);
                std::ops::ControlFlow::<()>::Continue(())
            });
            as_calls(&mut statement);
            assert_eq!(statement.to_string(), expect);
        }
    }
}
