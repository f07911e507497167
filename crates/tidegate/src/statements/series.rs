//! The column of `range(…)` and `generate_series(…)` in a FROM, by the name that PostgreSQL gives it.
//!
//! It is called `value` here. In PostgreSQL it has the name of its table: `SELECT i FROM generate_series(1, 3) AS i`, and
//! without one that of the function. So has it here, if the query has that name as a column's and not `value` too.

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Query, TableAlias, TableAliasColumnDef, TableFactor};

use super::scope::selects;
use super::using::folded;
use super::visits::read_expressions;

/// Functions whose tables have one column.
const FUNCTIONS: [&str; 2] = ["range", "generate_series"];

/// What their column is called.
const VALUE: &str = "value";

/// Names the columns of a query's series by their tables, where the query does so.
pub(super) fn name_columns(query: &mut Query) {
    if !tables_of(query).any(|table| unnamed(table).is_some()) {
        return;
    }
    let columns = columns_of(query);
    if columns.iter().any(|name| name == VALUE) {
        return;
    }
    for table in tables_of(query) {
        name_column(table, &columns);
    }
}

/// Returns the tables of a query, those of its subqueries left out.
fn tables_of(query: &mut Query) -> impl Iterator<Item = &mut TableFactor> {
    let selects = selects(&mut query.body).into_iter();
    let tables = selects.flat_map(|select| select.from.iter_mut());
    tables.flat_map(|from| {
        let joined = from.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut from.relation).chain(joined)
    })
}

/// Names the column of a series by its table, if it is one of these columns.
fn name_column(table: &mut TableFactor, columns: &[String]) {
    let Some(mut named) = unnamed(table) else {
        return;
    };
    if !columns.contains(&folded(&named.name)) {
        return;
    }
    named.columns.push(TableAliasColumnDef {
        name: named.name.clone(),
        data_type: None,
    });
    if let TableFactor::Table { alias, .. } | TableFactor::Function { alias, .. } = table {
        *alias = Some(named);
    }
}

/// Returns the alias of a series whose column has no name, or the name of its function.
fn unnamed(table: &TableFactor) -> Option<TableAlias> {
    let (TableFactor::Table {
        name,
        alias,
        args: Some(_),
        ..
    }
    | TableFactor::Function { name, alias, .. }) = table
    else {
        return None;
    };
    let [part] = name.0.as_slice() else {
        return None;
    };
    let function = part.as_ident().map(folded)?;
    if !FUNCTIONS.contains(&function.as_str()) {
        return None;
    }
    match alias {
        Some(alias) => alias.columns.is_empty().then(|| alias.clone()),
        None => Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', function),
            columns: Vec::new(),
            at: None,
        }),
    }
}

/// Lists the columns that a query has without a table, and `value` if it has one of that name.
fn columns_of(query: &Query) -> Vec<String> {
    let mut names = Vec::new();
    let _ = read_expressions(query, |expr| {
        match expr {
            Expr::Identifier(name) => names.push(folded(name)),
            Expr::CompoundIdentifier(parts) => {
                let last = parts.last().map(folded);
                names.extend(last.filter(|name| name == VALUE));
            }
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    names
}

#[cfg(test)]
mod tests {
    use super::name_columns;
    use crate::statements::tests::query;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let mut query = query(sql);
        name_columns(&mut query);
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn a_series_has_the_column_that_is_asked_for() {
        for (sql, expect) in [
            (
                "SELECT i FROM generate_series(1, 3) AS i",
                "SELECT i FROM generate_series(1, 3) AS i (i)",
            ),
            (
                "SELECT 1 FROM t CROSS JOIN range(3) AS i ORDER BY I",
                "SELECT 1 FROM t CROSS JOIN range(3) AS i (i) ORDER BY I",
            ),
            (
                "SELECT range FROM range(3)",
                "SELECT range FROM range(3) AS \"range\" (\"range\")",
            ),
        ] {
            check(sql, expect);
        }
        for sql in [
            "SELECT value FROM range(3) AS i",
            "SELECT i.value FROM range(3) AS i WHERE i > 0",
            "SELECT * FROM range(3) AS i",
            "SELECT i FROM range(3) AS i (i)",
            "SELECT i FROM f(3) AS i",
        ] {
            check(sql, sql);
        }
    }
}
