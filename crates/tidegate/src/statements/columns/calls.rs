//! Calls of `COLUMNS` in an expression, its subqueries left out.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Function, Query, VisitorMut};

use super::super::visits;
use crate::functions::forms;

/// Tells whether an expression has `COLUMNS(…)`.
pub(crate) fn has_calls(expr: &Expr) -> bool {
    !calls_of(expr).is_empty()
}

/// Tells whether a call is one of `COLUMNS`.
pub(super) fn is_columns(call: &Function) -> bool {
    forms::name_of(call).as_deref() == Some("columns")
}

/// Returns the calls of `COLUMNS` in an expression.
pub(crate) fn calls_of(expr: &Expr) -> Vec<Function> {
    let mut found = Vec::new();
    let _ = visits::read_own_expressions(expr, |expr| {
        if let Expr::Function(call) = expr
            && is_columns(call)
        {
            found.push(call.clone());
        }
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Returns an expression with values in the place of its calls, in their order.
pub(crate) fn replaced(expr: &Expr, values: impl Iterator<Item = Expr>) -> Expr {
    struct Replace<I> {
        depth: usize,
        values: I,
    }
    impl<I: Iterator<Item = Expr>> VisitorMut for Replace<I> {
        type Break = ();

        fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
            self.depth -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr
                && self.depth == 0
                && is_columns(call)
                && let Some(value) = self.values.next()
            {
                *expr = value;
            }
            ControlFlow::Continue(())
        }
    }
    let mut expr = expr.clone();
    let _ = visits::change(&mut expr, &mut Replace { depth: 0, values });
    expr
}
