//! `SELECT t FROM t`, `to_json(t)`, `list(t)`: the name of a table as a value, which is a struct of its columns, as in PostgreSQL
//! and DuckDB.
//!
//! A name that is a column's means the column, so nothing is done before a plan has failed for want of it.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, VisitorMut, WildcardAdditionalOptions,
};

use super::aliases::Write;
use super::calls::{call, string};
use super::repeated::{all_of, visible};
use super::scope::{TableColumn, TableColumns, selects, visit};
use super::using::{folded, table_of};
use super::visits;

/// Tells whether a query may use the name of one of its tables as a value.
pub(crate) fn may_use(statement: &mut Statement) -> bool {
    struct Find;
    impl VisitorMut for Find {
        type Break = ();

        fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
            match names(select).iter().any(|name| uses(select, name)) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
    }
    visit(statement, &mut Find).is_break()
}

/// Tells whether a query, its subqueries left out, uses the name of one of its tables as a value.
pub(crate) fn is_open(query: &Query, name: &str) -> bool {
    fn of_body(body: &SetExpr, name: &str) -> bool {
        match body {
            SetExpr::Select(select) => {
                names(select).iter().any(|known| known == name) && uses(select, name)
            }
            SetExpr::SetOperation { left, right, .. } => {
                of_body(left, name) || of_body(right, name)
            }
            _ => false,
        }
    }
    of_body(&query.body, name)
}

/// Writes a struct of its columns wherever a query, whose tables have these columns, uses the name of one as a value. Returns
/// whether it does.
pub(crate) fn write(query: &mut Query, tables: &TableColumns, name: &str) -> bool {
    let mut rest = tables.as_slice();
    let mut has_written = false;
    for select in selects(&mut query.body) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        let (own, others) = rest.split_at(joins.sum::<usize>().min(rest.len()));
        rest = others;
        let Some(row) = row_of(select, own, name) else {
            continue;
        };
        for item in &mut select.projection {
            if matches!(item, SelectItem::UnnamedExpr(expr) if is_it(expr, name)) {
                *item = SelectItem::ExprWithAlias {
                    expr: row.clone(),
                    alias: Ident::with_quote('"', name),
                };
                has_written = true;
            }
        }
        let mut write = Write::new(name, row);
        let _ = visits::change(select, &mut write);
        has_written |= write.has_written();
    }
    has_written
}

/// Returns the names of the tables of a query that are called by one word.
fn names(select: &Select) -> Vec<String> {
    let mut names = Vec::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|join| &join.relation);
        for table in std::iter::once(&from.relation).chain(joined) {
            if let Some([name]) = table_of(table).as_deref() {
                names.push(folded(name));
            }
        }
    }
    names
}

fn uses(select: &Select, name: &str) -> bool {
    let found = visits::read_own_expressions(select, |expr| match is_it(expr, name) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn is_it(expr: &Expr, name: &str) -> bool {
    matches!(expr, Expr::Identifier(found) if folded(found) == name)
}

/// Returns the struct of a table's columns; `None` if no table has this name, or if a column has it.
fn row_of(select: &Select, columns: &[Option<Vec<TableColumn>>], name: &str) -> Option<Expr> {
    let is_column = |column: &TableColumn| column.name == name;
    if columns.iter().flatten().flatten().any(is_column) {
        return None;
    }
    let of = [name.to_string()];
    let options = WildcardAdditionalOptions::default();
    let all = all_of(&visible(select, columns), Some(of.as_slice()), &options)?;
    let mut fields = Vec::with_capacity(2 * all.len());
    for item in all {
        let SelectItem::UnnamedExpr(column) = item else {
            return None;
        };
        let field = match &column {
            Expr::Identifier(field) => field.value.clone(),
            Expr::CompoundIdentifier(parts) => parts.last()?.value.clone(),
            _ => return None,
        };
        fields.extend([string(field), column]);
    }
    (!fields.is_empty()).then(|| call("named_struct", fields))
}

#[cfg(test)]
mod tests {
    use super::{is_open, write};
    use crate::statements::scope::TableColumn;
    use crate::statements::tests::query;

    #[track_caller]
    fn check(sql: &str, columns: &[&[&str]], expect: &str) {
        let mut query = query(sql);
        let column = |name: &&str| TableColumn {
            table: Vec::new(),
            name: (*name).to_string(),
            fields: Vec::new(),
        };
        let columns = columns
            .iter()
            .map(|names| Some(names.iter().map(column).collect()));
        let columns = columns.collect();
        let has_written = is_open(&query, "t") && write(&mut query, &columns, "t");
        assert_eq!(has_written, sql != expect, "{sql}");
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn names_of_tables_become_structs() {
        check(
            "SELECT T, f(t) FROM t WHERE g(t.a)",
            &[&["a", "b"]],
            "SELECT named_struct('a', t.\"a\", 'b', t.\"b\") AS \"t\", f(named_struct('a', t.\"a\", 'b', t.\"b\")) FROM t WHERE g(t.a)",
        );
        check(
            "SELECT f(t) FROM u JOIN s.x AS t ON true",
            &[&["a"], &["b"]],
            "SELECT f(named_struct('b', t.\"b\")) FROM u JOIN s.x AS t ON true",
        );
    }

    #[test]
    fn columns_stay() {
        for (sql, columns) in [
            ("SELECT t FROM t", vec![&["t"][..]]),
            ("SELECT t FROM t, u", vec![&["a"][..], &["t"][..]]),
            ("SELECT t FROM u", vec![&["a"][..]]),
            ("SELECT (SELECT t) FROM t", vec![&["a"][..]]),
        ] {
            check(sql, &columns, sql);
        }
    }
}
