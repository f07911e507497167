//! Windows that begin with the name of another, `OVER (w ORDER BY x)`: what the other says is copied into them.
//!
//! The planner would leave it out. As in PostgreSQL and DuckDB, a window that begins so adds an order and a frame to
//! one that has none, and never another partition.
//!
//! In QUALIFY, `OVER w` becomes the window itself: the planner knows names of windows in the select list alone. A condition
//! without a window, beside a select list that has one, is given that window, which decides nothing: the planner wants
//! one there.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, NamedWindowDefinition, NamedWindowExpr, Select,
    SelectItem, Value, Visit, WindowSpec, WindowType,
};

use super::calls::take;
use super::visits::{change_expressions, read_own_expressions};
use crate::error::{Error, ErrorKind};

/// The windows of the WINDOW clauses around a place, the innermost last.
#[derive(Default)]
pub(super) struct NamedWindows(Vec<Vec<NamedWindowDefinition>>);

impl NamedWindows {
    /// Begins a query, whose windows may begin with those before them.
    ///
    /// # Errors
    /// Those of [`Self::extend`].
    pub(super) fn enter(&mut self, select: &mut Select) -> Result<(), Error> {
        self.0.push(Vec::new());
        for definition in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(window) = &mut definition.1 {
                self.extend(window)?;
            }
            if let Some(known) = self.0.last_mut() {
                known.push(definition.clone());
            }
        }
        match &mut select.qualify {
            Some(condition) => {
                name_window(condition, &select.projection);
                self.write_out(condition)
            }
            None => Ok(()),
        }
    }

    /// Writes windows out that a condition has by their names.
    fn write_out(&self, condition: &mut Expr) -> Result<(), Error> {
        let written = change_expressions(condition, |expr| {
            if let Expr::Function(call) = expr
                && let Some(WindowType::NamedWindow(name)) = &call.over
            {
                match self.find(name) {
                    Ok(window) => call.over = Some(WindowType::WindowSpec(window.clone())),
                    Err(error) => return ControlFlow::Break(error),
                }
            }
            ControlFlow::Continue(())
        });
        match written {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(error),
        }
    }

    /// Ends the query that was begun last.
    pub(super) fn leave(&mut self) {
        self.0.pop();
    }

    /// Copies what another window says into one that begins with its name.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if the query has no such window, or if both say the same part.
    pub(super) fn extend(&self, window: &mut WindowSpec) -> Result<(), Error> {
        let Some(name) = window.window_name.take() else {
            return Ok(());
        };
        let base = self.find(&name)?;
        let refused = if !window.partition_by.is_empty() {
            "it cannot have a PARTITION BY of its own: leave that out"
        } else if !window.order_by.is_empty() && !base.order_by.is_empty() {
            "it cannot be ordered, which that is already: leave one ORDER BY out"
        } else if base.window_frame.is_some() {
            "that cannot have a frame: leave ROWS, RANGE or GROUPS out of it, or write OVER w \
             without parentheses"
        } else {
            window.partition_by.clone_from(&base.partition_by);
            if window.order_by.is_empty() {
                window.order_by.clone_from(&base.order_by);
            }
            return Ok(());
        };
        Err(invalid(&format!(
            "the window ({name} …) begins with the window {name}, so {refused}"
        )))
    }

    fn find(&self, name: &Ident) -> Result<&WindowSpec, Error> {
        let known = self.0.last().map_or(&[][..], Vec::as_slice);
        let mut wanted = name;
        // A window may be another's second name. Each is after what it names, so that the search ends.
        for NamedWindowDefinition(known, said) in known.iter().rev() {
            match said {
                _ if !is_same(known, wanted) => {}
                NamedWindowExpr::WindowSpec(window) => return Ok(window),
                NamedWindowExpr::NamedWindow(other) => wanted = other,
            }
        }
        let names: Vec<String> = known.iter().map(|known| known.0.to_string()).collect();
        let instead = match names.is_empty() {
            true => "write WINDOW name AS (…) behind WHERE, GROUP BY and HAVING".to_owned(),
            false => format!("the query names {} before it", names.join(", ")),
        };
        Err(invalid(&format!(
            "there is no window called {name} here: {instead}"
        )))
    }
}

/// Adds `AND (window IS NULL OR TRUE)` to a condition without a window, if the select list has one.
fn name_window(condition: &mut Expr, projection: &[SelectItem]) {
    if first_window(&*condition).is_some() {
        return;
    }
    let Some(window) = projection.iter().find_map(first_window) else {
        return;
    };
    let truth = Value::Boolean(true).with_empty_span();
    let nothing = Expr::BinaryOp {
        left: Box::new(Expr::IsNull(Box::new(Expr::Function(window)))),
        op: BinaryOperator::Or,
        right: Box::new(Expr::Value(truth)),
    };
    let own = take(condition);
    *condition = Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(own))),
        op: BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(nothing))),
    };
}

/// Finds a call with a window outside of subqueries.
fn first_window(node: &impl Visit) -> Option<Function> {
    let found = read_own_expressions(node, |expr| match expr {
        Expr::Function(call) if call.over.is_some() => ControlFlow::Break(call.clone()),
        _ => ControlFlow::Continue(()),
    });
    match found {
        ControlFlow::Break(call) => Some(call),
        ControlFlow::Continue(()) => None,
    }
}

fn is_same(left: &Ident, right: &Ident) -> bool {
    let normal = |name: &Ident| match name.quote_style {
        None => name.value.to_lowercase(),
        Some(_) => name.value.clone(),
    };
    normal(left) == normal(right)
}

fn invalid(message: &str) -> Error {
    Error::new(ErrorKind::Sql, message)
}
