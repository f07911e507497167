//! Fields of structs of the tables beside a list and around a subquery: `FROM j, unnest(j.u.t)` becomes `unnest(j.u['t'])`. From
//! there, the planner takes no more of a name than table and column.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Ident, Select, TableFactor};

use super::arrows::access;
use super::unnested::is_unnest;
use super::using::{folded, table_of};
use super::visits::change_expressions;

/// The tables of the queries around what is visited.
#[derive(Default)]
pub(super) struct TableNames {
    queries: Vec<Tables>,
    /// Whether a statement changes a table, which its queries may name too.
    pub(super) has_target: bool,
}

/// The tables of a query.
#[derive(Default)]
struct Tables {
    names: HashSet<String>,
    /// Whether all of them have been told.
    are_all: bool,
    /// Whether one of them is no list.
    have_columns: bool,
}

impl TableNames {
    /// Enters a query, and writes the fields in the lists of its FROM.
    pub(super) fn enter(&mut self, select: &mut Select) {
        let mut tables = Tables {
            are_all: true,
            ..Tables::default()
        };
        for from in &select.from {
            let joined = from.joins.iter().map(|join| &join.relation);
            for table in std::iter::once(&from.relation).chain(joined) {
                tables.add(table);
            }
        }
        self.queries.push(tables);
        for from in &mut select.from {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            for table in std::iter::once(&mut from.relation).chain(joined) {
                for list in lists_of(table) {
                    self.bind_list(list);
                }
            }
        }
    }

    /// Leaves the query that was entered last.
    pub(super) fn leave(&mut self) {
        self.queries.pop();
    }

    /// Writes a field of a table of a query around.
    pub(super) fn bind(&self, expr: &mut Expr) {
        let Expr::CompoundIdentifier(parts) = &*expr else {
            return;
        };
        let [first, second, _, ..] = parts.as_slice() else {
            return;
        };
        let (first, second) = (folded(first), folded(second));
        // The first may be the schema of the second.
        let is_own = |tables: &Tables| {
            let names = &tables.names;
            names.contains(&first) || names.contains(&second)
        };
        if !self.queries.last().is_some_and(is_own) && self.knows(&first) {
            *expr = of_column(parts, 2);
        }
    }

    fn bind_list(&self, list: &mut Expr) {
        let _ = change_expressions(list, |expr| {
            let field = match &*expr {
                Expr::CompoundIdentifier(parts) => self.field(parts),
                _ => None,
            };
            if let Some(field) = field {
                *expr = field;
            }
            ControlFlow::<()>::Continue(())
        });
    }

    /// Returns the field that a name in a list is; `None` of a column.
    fn field(&self, parts: &[Ident]) -> Option<Expr> {
        let [first, second, rest @ ..] = parts else {
            return None;
        };
        if self.knows(&folded(first)) {
            return (!rest.is_empty()).then(|| of_column(parts, 2));
        }
        let has_columns = self.queries.last().is_some_and(|own| own.have_columns);
        let are_all = !self.has_target && self.queries.iter().all(|tables| tables.are_all);
        (has_columns && are_all && !self.knows(&folded(second))).then(|| of_column(parts, 1))
    }

    fn knows(&self, name: &str) -> bool {
        let mut queries = self.queries.iter();
        queries.any(|tables| tables.names.contains(name))
    }
}

impl Tables {
    fn add(&mut self, table: &TableFactor) {
        let is_list = match table {
            TableFactor::UNNEST { .. } => true,
            TableFactor::Function { name, .. } => is_unnest(name),
            _ => false,
        };
        let alias = match table {
            TableFactor::UNNEST { alias, .. } => alias.as_ref().map(|alias| alias.name.clone()),
            table => table_of(table).and_then(|mut parts| parts.pop()),
        };
        self.are_all &= is_list || alias.is_some();
        self.have_columns |= !is_list;
        self.names.extend(alias.iter().map(folded));
    }
}

/// Returns the lists that a table unnests.
fn lists_of(table: &mut TableFactor) -> Vec<&mut Expr> {
    match table {
        TableFactor::UNNEST { array_exprs, .. } => array_exprs.iter_mut().collect(),
        TableFactor::Function { name, args, .. } if is_unnest(name) => {
            let lists = args.iter_mut().filter_map(|argument| match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list),
                _ => None,
            });
            lists.collect()
        }
        _ => Vec::new(),
    }
}

/// Writes what follows so many parts of a name as fields of a column.
fn of_column(parts: &[Ident], num_parts: usize) -> Expr {
    let (column, fields) = parts.split_at(num_parts.min(parts.len()));
    let column = match column {
        [column] => Expr::Identifier(column.clone()),
        column => Expr::CompoundIdentifier(column.to_vec()),
    };
    access(column, fields)
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::SetExpr;

    use super::TableNames;
    use crate::statements::tests::query;

    #[test]
    fn fields_in_lists_are_told_from_columns() {
        for (from, expect) in [
            ("j, unnest(j.u.t)", "j, UNNEST(j.u['t'])"),
            ("j, unnest(u.t.X) AS x", "j, UNNEST(u['t']['x']) AS x"),
            ("s.j, unnest(s.j.l)", "s.j, UNNEST(s.j.l)"),
            ("j, unnest(j.l)", "j, UNNEST(j.l)"),
            ("unnest(o.l)", "UNNEST(o.l)"),
            (
                "(a JOIN b ON true), unnest(a.l)",
                "(a JOIN b ON true), UNNEST(a.l)",
            ),
            (
                "j AS t, unnest(t.l) AS x (y), unnest(x.y)",
                "j AS t, UNNEST(t.l) AS x (y), UNNEST(x.y)",
            ),
        ] {
            let mut query = query(&format!("SELECT 1 FROM {from}"));
            let SetExpr::Select(select) = query.body.as_mut() else {
                panic!("{from} is of no query");
            };
            TableNames::default().enter(select);
            assert_eq!(query.to_string(), format!("SELECT 1 FROM {expect}"));
        }
    }
}
