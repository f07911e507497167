//! Names the columns of a statement's rows as the statement has them: `count(*)`, `max(a) + 1`.
//!
//! DataFusion names a computed column after the expression as it is planned, as in `sum(t.x)` or `Int64(1)`, and
//! refuses two columns of one name; here the second has a number.
//! Only the outermost select list is named: queries inside may refer to columns by DataFusion's names.

use std::collections::{HashMap, HashSet};

use datafusion::sql::parser::{CopyToSource, Statement};
use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, SetQuantifier, TableFactor,
};

use super::columns::calls::has_calls;
use super::using;
use crate::functions::forms;

/// Calls that may become several columns, or none of a known name.
const MANY_COLUMNS: [&str; 2] = ["unnest", "explode"];

/// Gives each computed column of the statement's rows an alias: its text.
pub(crate) fn name_outputs(statement: &mut Statement) {
    if let Some(query) = outer_query(statement) {
        name_query(query);
    }
}

/// Returns the query whose rows a statement gives, writes to a file, explains or prepares.
pub(crate) fn outer_query(statement: &mut Statement) -> Option<&mut Query> {
    match statement {
        Statement::Statement(inner) => outer_query_of(inner),
        Statement::CopyTo(copy) => match &mut copy.source {
            CopyToSource::Query(query) => Some(query),
            CopyToSource::Relation(_) => None,
        },
        Statement::Explain(explain) => outer_query(&mut explain.statement),
        Statement::CreateExternalTable(_) | Statement::Reset(_) => None,
    }
}

fn outer_query_of(statement: &mut ast::Statement) -> Option<&mut Query> {
    match statement {
        ast::Statement::Query(query) => Some(query),
        ast::Statement::Prepare { statement, .. } | ast::Statement::Explain { statement, .. } => {
            outer_query_of(statement)
        }
        _ => None,
    }
}

fn name_query(query: &mut Query) {
    name_body(&mut query.body);
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let names: HashSet<&str> = select.projection.iter().filter_map(alias_of).collect();
    let order = query.order_by.as_mut().map(|order| &mut order.kind);
    let Some(OrderByKind::Expressions(order)) = order else {
        return;
    };
    // What is ordered by a column's text is ordered by the column, and not computed a second time below it.
    for OrderByExpr { expr, .. } in order {
        // A number is a place.
        if matches!(expr, Expr::Value(_)) {
            continue;
        }
        if let Some(name) = text_of(expr).filter(|name| names.contains(name.as_str())) {
            *expr = Expr::Identifier(Ident::with_quote('"', name));
        }
    }
}

/// Returns the alias of a column that is named by its text.
fn alias_of(item: &SelectItem) -> Option<&str> {
    match item {
        SelectItem::ExprWithAlias { expr, alias }
            if text_of(expr).as_deref() == Some(alias.value.as_str()) =>
        {
            Some(&alias.value)
        }
        _ => None,
    }
}

fn name_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => name_select(select),
        SetExpr::Query(query) => name_query(query),
        SetExpr::SetOperation {
            left,
            right,
            set_quantifier,
            ..
        } => {
            name_body(left);
            // Otherwise the columns are those of the left side.
            if matches!(
                set_quantifier,
                SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
            ) {
                name_body(right);
            }
        }
        _ => {}
    }
}

/// Names what is computed by its text, and numbers what has the name of a column before it: the second
/// `sum(x)` is `sum(x)_1`.
fn name_select(select: &mut Select) {
    let tables = tables_of(select);
    for item in &mut select.projection {
        if let Some(alias) = field_of(item, tables.as_deref())
            && let SelectItem::UnnamedExpr(expr) = item
        {
            let expr = expr.clone();
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
    let names: Vec<Option<String>> = select.projection.iter().map(output_name).collect();
    let mut taken: HashSet<String> = names.iter().flatten().cloned().collect();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (item, name) in select.projection.iter_mut().zip(names) {
        let Some(name) = name else {
            continue;
        };
        let time = times.entry(name.clone()).or_default();
        let is_named = !matches!(&*item, SelectItem::UnnamedExpr(expr) if text_of(expr).is_some());
        let name = match *time {
            0 => name,
            _ => loop {
                let numbered = format!("{name}_{time}");
                if taken.insert(numbered.clone()) {
                    break numbered;
                }
                *time += 1;
            },
        };
        let is_first = *time == 0;
        *time += 1;
        if is_first && is_named {
            continue;
        }
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let expr = expr.clone();
        let alias = Ident::with_quote('"', name);
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// Returns the names of the tables of a query; `None` if the text does not tell them.
fn tables_of(select: &Select) -> Option<Vec<String>> {
    let mut tables = Vec::new();
    for from in &select.from {
        let joined = from.joins.iter().map(|join| &join.relation);
        for table in std::iter::once(&from.relation).chain(joined) {
            if matches!(table, TableFactor::NestedJoin { .. }) {
                return None;
            }
            let name = using::table_of(table);
            tables.extend(name.and_then(|parts| parts.last().map(using::folded)));
        }
    }
    Some(tables)
}

/// Returns the name of a struct's field that is selected, `k` of `s.k`; `None` of a table's column.
fn field_of(item: &SelectItem, tables: Option<&[String]>) -> Option<Ident> {
    let SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) = item else {
        return None;
    };
    let [.., of, field] = parts.as_slice() else {
        return None;
    };
    let is_column = tables?.contains(&using::folded(of));
    (!is_column).then(|| field.clone())
}

/// Returns what a column is called. `None` for columns with their table before them, of which several may have
/// one name, and for what may become several columns.
pub(super) fn output_name(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(using::folded(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => Some(using::folded(column)),
        SelectItem::UnnamedExpr(expr) => text_of(expr),
        _ => None,
    }
}

/// Returns the text of what is computed; `None` for a column, and for calls that become several columns.
fn text_of(expr: &Expr) -> Option<String> {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
        expr if has_calls(expr) => None,
        Expr::Function(call)
            if forms::name_of(call).is_some_and(|name| MANY_COLUMNS.contains(&name.as_str()))
                && !takes_list(call) =>
        {
            None
        }
        expr => Some(expr.to_string()),
    }
}

/// Tells whether a call takes a list as it is written, `[1, 2]`: that becomes one column.
fn takes_list(call: &Function) -> bool {
    let FunctionArguments::List(list) = &call.args else {
        return false;
    };
    matches!(
        list.args.as_slice(),
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(_)))]
    )
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::name_outputs;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
        name_outputs(&mut statement);
        assert_eq!(statement.to_string(), expect);
    }

    #[test]
    fn computed_columns_are_named_by_their_text() {
        check(
            "SELECT a, t.b, sum(x), max(a)+1, (x), (x * 2), 'y' AS z FROM t",
            "SELECT a, t.b, sum(x) AS \"sum(x)\", max(a) + 1 AS \"max(a) + 1\", (x), \
             (x * 2) AS \"x * 2\", 'y' AS z FROM t",
        );
        check("SELECT *, t.* FROM t", "SELECT *, t.* FROM t");
        check("SELECT unnest(l) FROM t", "SELECT unnest(l) FROM t");
        check(
            "SELECT s.k, t.s.k, t.a, public.t.a, u.b FROM t JOIN 'x.csv' AS u ON true",
            "SELECT s.k AS k, t.s.k AS \"k_1\", t.a, public.t.a, u.b FROM t JOIN 'x.csv' AS u ON true",
        );
        check(
            "SELECT unnest([1, 2])",
            "SELECT unnest([1, 2]) AS \"unnest([1, 2])\"",
        );
    }

    #[test]
    fn what_has_the_name_of_a_column_before_it_is_numbered() {
        check(
            "SELECT sum(x), sum(x), 1 AS \"count(*)\", count(*), sum(x) FROM t",
            "SELECT sum(x) AS \"sum(x)\", sum(x) AS \"sum(x)_1\", 1 AS \"count(*)\", \
             count(*) AS \"count(*)_1\", sum(x) AS \"sum(x)_2\" FROM t",
        );
        check(
            "SELECT a, A, 1 AS a_1, b AS a, \"A\" FROM t",
            "SELECT a, A AS \"a_2\", 1 AS a_1, b AS \"a_3\", \"A\" FROM t",
        );
        check(
            "SELECT t.a, u.a, *, (a) FROM t, u",
            "SELECT t.a, u.a, *, (a) FROM t, u",
        );
    }

    #[test]
    fn an_order_by_a_text_is_an_order_by_the_column() {
        check(
            "SELECT k, sum(x), 1 FROM t GROUP BY k ORDER BY (sum(x)) DESC, k, 1, max(x)",
            "SELECT k, sum(x) AS \"sum(x)\", 1 AS \"1\" FROM t GROUP BY k ORDER BY \"sum(x)\" DESC, k, 1, max(x)",
        );
    }

    #[test]
    fn only_the_outermost_columns_are_named() {
        check(
            "WITH c AS (SELECT sum(x) FROM t) SELECT (SELECT sum(y) FROM u) FROM c",
            "WITH c AS (SELECT sum(x) FROM t) SELECT (SELECT sum(y) FROM u) AS \
             \"(SELECT sum(y) FROM u)\" FROM c",
        );
        check(
            "SELECT sum(x) FROM t UNION ALL SELECT sum(y) FROM u",
            "SELECT sum(x) AS \"sum(x)\" FROM t UNION ALL SELECT sum(y) FROM u",
        );
        for sql in [
            "CREATE VIEW v AS SELECT sum(x) FROM t",
            "CREATE TABLE v AS SELECT sum(x) FROM t",
            "INSERT INTO v SELECT sum(x) FROM t",
        ] {
            check(sql, sql);
        }
    }
}
