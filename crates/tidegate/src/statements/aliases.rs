//! Names of the select list that its later items and WHERE use, `SELECT a + b AS c, c * 2`, as in DuckDB.
//!
//! A name that is a column's means the column, so nothing is done before a plan has failed for want of it. Then what
//! the name stands for is written in its place.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::Span;
use datafusion::sql::parser::Statement;
use sqlparser::ast::{Expr, Function, Ident, Query, Select, SelectItem, Visit, VisitorMut};

use super::scope::visit;
use super::using::folded;
use super::visits;
use crate::functions::forms;

/// The most parts that an expression may have which is written in several places.
const PARTS_MAX: usize = 200;

/// Tells whether a select list or its condition may use a name of the list: whether `inline` may find something.
pub(crate) fn may_use(statement: &mut Statement) -> bool {
    struct Find;
    impl VisitorMut for Find {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            let names: HashSet<String> = select.projection.iter().filter_map(alias_of).collect();
            let is_it = |expr: &Expr| matches!(expr, Expr::Identifier(name) if names.contains(&folded(name)));
            let mut items = select.projection.iter();
            let is_used = select.selection.iter().any(|expr| any_in(expr, &is_it))
                || items.any(|item| any_in(item, &is_it));
            match is_used && !names.is_empty() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    visit(statement, &mut Find).is_break()
}

fn alias_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
        _ => None,
    }
}

/// Writes what a name of a select list stands for wherever the select list uses it that has a column of this name at
/// a place. Returns whether there is one; there is none if it would be computed more than once with another value.
pub(crate) fn inline(
    statement: &mut Statement,
    name: &str,
    place: Span,
    is_volatile: &dyn Fn(&str) -> bool,
) -> bool {
    let mut inlined = Inline {
        name,
        place,
        is_volatile,
    };
    visit(statement, &mut inlined).is_break()
}

struct Inline<'a> {
    name: &'a str,
    place: Span,
    is_volatile: &'a dyn Fn(&str) -> bool,
}

impl VisitorMut for Inline<'_> {
    /// Whether the name was found.
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if !self.stands_in(select) {
            return ControlFlow::Continue(());
        }
        let is_it = |item: &SelectItem| alias_of(item).as_deref() == Some(self.name);
        let Some(index) = select.projection.iter().position(is_it) else {
            return ControlFlow::Continue(());
        };
        let Some(SelectItem::ExprWithAlias { expr, .. }) = select.projection.get(index) else {
            return ControlFlow::Continue(());
        };
        if !self.can_repeat(expr) {
            return ControlFlow::Continue(());
        }
        let mut write = Write::new(self.name, Expr::Nested(Box::new(expr.clone())));
        for item in select.projection.iter_mut().skip(index + 1) {
            let _ = visits::change(item, &mut write);
        }
        if let Some(condition) = &mut select.selection {
            let _ = visits::change(condition, &mut write);
        }
        match write.has_written {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Inline<'_> {
    /// Tells whether the name stands in a select list or its condition, subqueries left out.
    fn stands_in(&self, select: &Select) -> bool {
        let is_it = |expr: &Expr| match expr {
            Expr::Identifier(name) => is_at(name, self.place),
            _ => false,
        };
        let condition = select.selection.iter().any(|expr| any_in(expr, &is_it));
        condition || select.projection.iter().any(|item| any_in(item, &is_it))
    }

    /// Tells whether an expression is small, and is the same each time that it is computed.
    fn can_repeat(&self, expr: &Expr) -> bool {
        let is_other = |expr: &Expr| match expr {
            Expr::Function(call) => self.is_other(call),
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
            _ => false,
        };
        visits::count_expressions(expr) <= PARTS_MAX && !any_in(expr, &is_other)
    }

    fn is_other(&self, call: &Function) -> bool {
        forms::name_of(call).is_some_and(|name| (self.is_volatile)(&name))
    }
}

fn is_at(name: &Ident, place: Span) -> bool {
    let start = name.span.start;
    (start.line, start.column) == (place.start.line, place.start.column)
}

/// Tells whether a part of something is such, subqueries left out.
fn any_in(part: &impl Visit, is_it: &dyn Fn(&Expr) -> bool) -> bool {
    let found = visits::read_own_expressions(part, |expr| match is_it(expr) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Writes an expression in the place of a name, subqueries left out.
pub(super) struct Write<'a> {
    depth: usize,
    name: &'a str,
    expr: Expr,
    has_written: bool,
}

impl<'a> Write<'a> {
    pub(super) fn new(name: &'a str, expr: Expr) -> Self {
        Self {
            depth: 0,
            name,
            expr,
            has_written: false,
        }
    }

    pub(super) fn has_written(&self) -> bool {
        self.has_written
    }
}

impl VisitorMut for Write<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 && matches!(expr, Expr::Identifier(name) if folded(name) == self.name) {
            *expr = self.expr.clone();
            self.has_written = true;
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::{Location, Span};
    use datafusion::sql::parser::DFParser;

    use super::inline;

    #[track_caller]
    fn check(sql: &str, expect: Option<&str>) {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let column = sql.rfind('c').unwrap() as u64 + 1;
        let at = |column: u64| Location { line: 1, column };
        let place = Span::new(at(column), at(column + 1));
        let has_inlined = inline(&mut statement, "c", place, &|name| name == "random");
        assert_eq!(has_inlined, expect.is_some(), "{sql}");
        assert_eq!(statement.to_string(), expect.unwrap_or(sql));
    }

    #[test]
    fn names_become_what_they_stand_for() {
        check(
            "SELECT a AS c, c + 1 FROM t",
            Some("SELECT a AS c, (a) + 1 FROM t"),
        );
        check(
            "SELECT c, a + 1 AS c, C, (SELECT c) FROM t WHERE c",
            Some("SELECT c, a + 1 AS c, (a + 1), (SELECT c) FROM t WHERE (a + 1)"),
        );
        check(
            "SELECT 1 FROM (SELECT a AS c FROM t WHERE c) AS s",
            Some("SELECT 1 FROM (SELECT a AS c FROM t WHERE (a)) AS s"),
        );
    }

    #[test]
    fn what_would_change_stays() {
        check("SELECT random() AS c, c FROM t", None);
        check("SELECT (SELECT 1) AS c, c FROM t", None);
        check("SELECT a, c FROM t", None);
        check("SELECT a AS c FROM t WHERE (SELECT c)", None);
    }
}
