//! `ORDER BY ALL`: by each column of the select list, from the left.
//!
//! The parser takes `ALL` for a column. It becomes the places of the columns, `ORDER BY 1, 2, …`; where a `*`
//! stands among them, their number is known when the query without its order has been planned, with the
//! `WITH` of the queries around it. `unnest(s)` may be several columns, which only a query around it can count.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use sqlparser::ast::{
    self, Cte, Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SelectItem, SetExpr,
    TableFactor, VisitorMut, With,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::scope::visit;
use super::visits;
use crate::functions::forms;

/// Writes the places of the columns for `ALL`, wherever the text tells how many they are. Returns whether any
/// is left.
pub(crate) fn place_all(statement: &mut Statement) -> bool {
    let mut places = Places::default();
    let _ = visit(statement, &mut places);
    places.has_unplaced
}

/// Returns the first query that is left, without its order.
pub(crate) fn unplaced_all(statement: &mut Statement) -> Option<Statement> {
    let query = visit(statement, &mut Unplaced::default()).break_value()?;
    let query = Box::new(ast::Statement::Query(Box::new(query)));
    Some(Statement::Statement(query))
}

/// Has the first query that is left order by so many columns.
pub(crate) fn order_by_places(statement: &mut Statement, num_columns: usize) {
    let _ = visit(statement, &mut Placing(num_columns));
}

#[derive(Default)]
struct Places {
    has_unplaced: bool,
}

impl VisitorMut for Places {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(options) = orders_by_all(query) {
            if unnests(&query.body) {
                nest(query);
            }
            match num_columns(&query.body) {
                Some(num_columns) => query.order_by = Some(by_places(num_columns, options)),
                None => self.has_unplaced = true,
            }
        }
        ControlFlow::Continue(())
    }
}

/// Finds a query that orders by `ALL`, inner ones first.
#[derive(Default)]
struct Unplaced {
    /// The `WITH` of the queries around.
    around: Vec<Option<With>>,
}

impl VisitorMut for Unplaced {
    type Break = Query;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Query> {
        self.around.push(query.with.clone());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Query> {
        self.around.pop();
        if orders_by_all(query).is_none() {
            return ControlFlow::Continue(());
        }
        let mut without = query.clone();
        without.order_by = None;
        let mut withs: Vec<With> = self.around.drain(..).flatten().collect();
        for with in &mut withs {
            // The query may be a part of one, and names those before it.
            let is_left =
                |cte: &mut Cte| visits::change(cte.query.as_mut(), &mut Placing(1)).is_break();
            if let Some(first) = with.cte_tables.iter_mut().position(is_left) {
                with.cte_tables.truncate(first);
            }
        }
        let withs = withs.into_iter().chain(without.with.take());
        without.with = withs.reduce(|mut outer, inner| {
            outer.recursive |= inner.recursive;
            outer.cte_tables.extend(inner.cte_tables);
            outer
        });
        without.with = without.with.filter(|with| !with.cte_tables.is_empty());
        ControlFlow::Break(without)
    }
}

/// Has a query that orders by `ALL` order by so many columns, inner ones first.
struct Placing(usize);

impl VisitorMut for Placing {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(options) = orders_by_all(query) else {
            return ControlFlow::Continue(());
        };
        query.order_by = Some(by_places(self.0, options));
        ControlFlow::Break(())
    }
}

/// Returns how a query orders by `ALL`, unless it has a column of that name.
fn orders_by_all(query: &Query) -> Option<OrderByOptions> {
    let OrderBy { kind, interpolate } = query.order_by.as_ref()?;
    let options = match kind {
        OrderByKind::All(options) => *options,
        OrderByKind::Expressions(exprs) => match exprs.as_slice() {
            [
                OrderByExpr {
                    expr: Expr::Identifier(name),
                    options,
                    with_fill: None,
                },
            ] if name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all") => *options,
            _ => return None,
        },
    };
    let is_named = names_all(&query.body);
    (interpolate.is_none() && !is_named).then_some(options)
}

fn names_all(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else {
        return false;
    };
    select.projection.iter().any(|item| {
        let name = match item {
            SelectItem::ExprWithAlias { alias, .. } => alias,
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => name,
            _ => return false,
        };
        name.value.eq_ignore_ascii_case("all")
    })
}

/// Counts the columns of a query; `None` if its text does not tell.
fn num_columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(
                    item,
                    SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
                )
            };
            let items = &select.projection;
            (!items.is_empty() && items.iter().all(is_one)).then_some(items.len())
        }
        SetExpr::Query(query) => num_columns(&query.body),
        SetExpr::SetOperation { left, .. } => num_columns(left),
        _ => None,
    }
}

/// Tells whether a column of a query may be several.
fn unnests(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else {
        return false;
    };
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(Expr::Function(call)) => {
            forms::name_of(call).as_deref() == Some("unnest")
        }
        _ => false,
    })
}

/// Makes a query all columns of the query that it was.
fn nest(query: &mut Query) {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT * FROM (SELECT 1) AS unnested");
    let Some(ast::Statement::Query(mut outer)) = parsed.ok().and_then(|mut all| all.pop()) else {
        return;
    };
    let SetExpr::Select(select) = outer.body.as_mut() else {
        return;
    };
    if let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
        query.body = outer.body;
    }
}

fn by_places(num_columns: usize, options: OrderByOptions) -> OrderBy {
    let place = |place: usize| OrderByExpr {
        expr: Expr::Value(ast::Value::Number(place.to_string(), false).with_empty_span()),
        options,
        with_fill: None,
    };
    OrderBy {
        kind: OrderByKind::Expressions((1..=num_columns).map(place).collect()),
        interpolate: None,
    }
}
