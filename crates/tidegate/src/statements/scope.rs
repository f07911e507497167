//! The queries of a statement whose tables must be planned before the query can be: what the text leaves open
//! hangs on the columns that there are.
//!
//! Queries have places, inner ones first, so that a table which is a query has been put right before the columns
//! of it are asked for. [`places`] finds those that have something open, [`tables_at`] makes a statement of each of their
//! tables, with the `WITH` of the queries around, and [`visit_at`] changes a query once the columns are known.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use sqlparser::ast::{
    self, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Visitor, VisitorMut,
    WildcardAdditionalOptions, With,
};

use super::output_names::outer_query;
use super::visits;

/// A column of a table: the name of the table, if it has one, its own, and those of its fields if it is a struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) table: Vec<ast::Ident>,
    pub(crate) name: String,
    pub(crate) fields: Vec<String>,
}

/// The columns of each table of a query, in the order of the text; `None` if they cannot be told.
pub(crate) type TableColumns = Vec<Option<Vec<TableColumn>>>;

/// Returns the places of the queries for which `is_open`; it is told whether a query's rows are the statement's, as
/// those of INSERT and CREATE are not.
pub(crate) fn places(
    statement: &mut Statement,
    is_open: impl FnMut(&Query, bool) -> bool,
) -> Vec<usize> {
    let mut found = Places {
        depth: usize::from(outer_query(statement).is_none()),
        next: 0,
        open: Vec::new(),
        is_open,
    };
    let _ = visit(statement, &mut found);
    found.open
}

struct Places<F> {
    depth: usize,
    next: usize,
    open: Vec<usize>,
    is_open: F,
}

impl<F: FnMut(&Query, bool) -> bool> VisitorMut for Places<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        if (self.is_open)(query, self.depth == 0) {
            self.open.push(self.next);
        }
        self.next += 1;
        ControlFlow::Continue(())
    }
}

/// Returns a query of all columns of each table of the query at a place.
pub(crate) fn tables_at(statement: &mut Statement, place: usize) -> Vec<Statement> {
    let tables = visit_at(statement, place, |query, with, _| {
        let mut tables = Vec::new();
        for select in selects(&mut query.body) {
            for from in &select.from {
                let joined = from.joins.iter().map(|join| &join.relation);
                for table in std::iter::once(&from.relation).chain(joined) {
                    tables.extend(all_of(table, with.clone()));
                }
            }
        }
        tables
    });
    tables.unwrap_or_default()
}

/// Writes `WITH … SELECT * FROM table`.
fn all_of(table: &TableFactor, with: Option<With>) -> Option<Statement> {
    let dialect = sqlparser::dialect::GenericDialect {};
    let parsed = sqlparser::parser::Parser::parse_sql(&dialect, "SELECT 1 FROM t");
    let ast::Statement::Query(mut query) = parsed.ok()?.pop()? else {
        return None;
    };
    query.with = with;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let options = WildcardAdditionalOptions::default();
    select.projection = vec![SelectItem::Wildcard(options)];
    select.from = vec![TableWithJoins {
        relation: table.clone(),
        joins: Vec::new(),
    }];
    Some(Statement::Statement(Box::new(ast::Statement::Query(query))))
}

/// Calls `change` with the query at a place, the tables that the `WITH` around it names, and whether it is the
/// outermost.
pub(crate) fn visit_at<T>(
    statement: &mut Statement,
    place: usize,
    change: impl FnOnce(&mut Query, Option<With>, bool) -> T,
) -> Option<T> {
    let mut at = At {
        gives_rows: outer_query(statement).is_some(),
        around: Vec::new(),
        place,
        next: 0,
        change: Some(change),
        done: None,
    };
    let _ = visit(statement, &mut at);
    at.done
}

struct At<F, T> {
    /// Whether the rows of the outermost query are the statement's.
    gives_rows: bool,
    /// The `WITH` of each query around, and how many queries had been before it.
    around: Vec<(Option<With>, usize)>,
    place: usize,
    next: usize,
    change: Option<F>,
    done: Option<T>,
}

impl<F: FnOnce(&mut Query, Option<With>, bool) -> T, T> VisitorMut for At<F, T> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.around.push((query.with.clone(), self.next));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = self.around.pop();
        if self.next != self.place {
            self.next += 1;
            return ControlFlow::Continue(());
        }
        let is_outermost = self.around.is_empty() && self.gives_rows;
        let around = self.around.drain(..).filter_map(|(with, before)| {
            let inside = self.place - before;
            with.and_then(|with| known(with, inside))
        });
        // What the query's own `WITH` names has been changed since it was begun.
        let own = own.and_then(|_| query.with.clone());
        let with = around.chain(own).reduce(merged);
        if let Some(change) = self.change.take() {
            self.done = Some(change(query, with, is_outermost));
        }
        ControlFlow::Break(())
    }
}

/// Returns what a `WITH` names for the query that so many queries of it come before: it may be a part of it.
fn known(mut with: With, mut before: usize) -> Option<With> {
    let is_past = |cte: &ast::Cte| {
        let queries = num_queries(&cte.query);
        let is_past = queries <= before;
        before = before.saturating_sub(queries);
        is_past
    };
    let num_known = with.cte_tables.iter().map(is_past).take_while(|past| *past);
    let num_known = num_known.count();
    with.cte_tables.truncate(num_known);
    (num_known > 0).then_some(with)
}

fn num_queries(query: &Query) -> usize {
    struct Count(usize);
    impl Visitor for Count {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }
    }
    let mut count = Count(0);
    let _ = visits::read(query, &mut count);
    count.0
}

/// Puts the names of an inner `WITH` behind those of an outer one, which they hide.
pub(super) fn merged(mut outer: With, inner: With) -> With {
    let hidden = |name: &ast::Ident| {
        let mut names = inner.cte_tables.iter().map(|cte| &cte.alias.name);
        names.any(|inner| inner == name)
    };
    outer.cte_tables.retain(|cte| !hidden(&cte.alias.name));
    outer.recursive |= inner.recursive;
    outer.cte_tables.extend(inner.cte_tables);
    outer
}

/// Returns the select lists of a query with their tables, those of its subqueries left out.
pub(crate) fn selects(body: &mut SetExpr) -> Vec<&mut Select> {
    match body {
        SetExpr::Select(select) => vec![select],
        SetExpr::SetOperation { left, right, .. } => {
            let mut all = selects(left);
            all.append(&mut selects(right));
            all
        }
        _ => Vec::new(),
    }
}

pub(super) fn visit<V: VisitorMut>(
    statement: &mut Statement,
    visitor: &mut V,
) -> ControlFlow<V::Break> {
    match statement {
        Statement::Statement(inner) => visits::change(inner.as_mut(), visitor),
        _ => match outer_query(statement) {
            Some(query) => visits::change(query, visitor),
            None => ControlFlow::Continue(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::{places, tables_at, visit_at};

    #[test]
    fn tables_are_asked_for_with_what_is_named_around_them() {
        let sql = "WITH a AS (SELECT * FROM x), b AS (SELECT * FROM a JOIN y ON true) \
                   SELECT * FROM (WITH c AS (SELECT * FROM b) SELECT * FROM c, a) AS d";
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        let all = places(&mut statement, |_, _| true);
        assert_eq!(all, [0, 1, 2, 3, 4]);
        let asked = all.iter().map(|place| {
            let tables = tables_at(&mut statement, *place);
            let tables = tables.iter().map(ToString::to_string);
            tables.collect::<Vec<_>>().join("; ")
        });
        let asked: Vec<String> = asked.collect();
        let (a, b) = (
            "a AS (SELECT * FROM x)",
            "b AS (SELECT * FROM a JOIN y ON true)",
        );
        assert_eq!(asked[0], "SELECT * FROM x");
        let expect = format!("WITH {a} SELECT * FROM a; WITH {a} SELECT * FROM y");
        assert_eq!(asked[1], expect);
        assert_eq!(asked[2], format!("WITH {a}, {b} SELECT * FROM b"));
        let all = format!("WITH {a}, {b}, c AS (SELECT * FROM b)");
        let expect = format!("{all} SELECT * FROM c; {all} SELECT * FROM a");
        assert_eq!(asked[3], expect);
        assert!(asked[4].starts_with("WITH a AS"), "{}", asked[4]);
        let outermost = places(&mut statement, |_, is_outermost| is_outermost);
        assert_eq!(outermost, [4]);
        let found = visit_at(&mut statement, 3, |query, _, _| query.to_string());
        assert!(found.unwrap().starts_with("WITH c"));
    }
}
