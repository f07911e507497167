//! `ORDER BY ALL`: by each column of the select list, from the left.
//!
//! The parser takes `ALL` for a column. It becomes the places of the columns, `ORDER BY 1, 2, …`; where a `*`
//! stands among them, their number is known when the query without its order has been planned.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use sqlparser::ast::{
    self, Expr, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, SelectItem, SetExpr,
    VisitMut, VisitorMut,
};

use super::output_names::outer_query;

/// Writes the places of the columns for `ALL`, wherever the text tells how many they are.
pub(crate) fn place_all(statement: &mut Statement) {
    let _ = match statement {
        Statement::Statement(inner) => inner.visit(&mut Places),
        _ => match outer_query(statement) {
            Some(query) => query.visit(&mut Places),
            None => return,
        },
    };
}

/// Takes `ORDER BY ALL` off a statement's outermost query; returns how it orders, and the query that tells the
/// number of columns. `None` if there is none left.
pub(crate) fn unplaced_all(statement: &mut Statement) -> Option<(OrderByOptions, Statement)> {
    let query = outer_query(statement)?;
    let options = orders_by_all(query)?;
    let mut without = query.clone();
    without.order_by = None;
    let without = Box::new(ast::Statement::Query(Box::new(without)));
    Some((options, Statement::Statement(without)))
}

/// Has a statement's outermost query order by so many columns.
pub(crate) fn order_by_places(
    statement: &mut Statement,
    num_columns: usize,
    options: OrderByOptions,
) {
    if let Some(query) = outer_query(statement) {
        query.order_by = Some(by_places(num_columns, options));
    }
}

struct Places;

impl VisitorMut for Places {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(options) = orders_by_all(query)
            && let Some(num_columns) = num_columns(&query.body)
        {
            query.order_by = Some(by_places(num_columns, options));
        }
        ControlFlow::Continue(())
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
