//! `ARRAY(SELECT …)`: the rows of a query as a list, in the query's order, and an empty list if there are none, as in DuckDB.
//!
//! It is `coalesce((SELECT array_agg(v ORDER BY k) FROM (SELECT … AS v, … AS k) AS rows (v, k)), [])`: an aggregate keeps no
//! order that is not its own.

use sqlparser::ast::{
    Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectNamePart, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr,
    TableAliasColumnDef, TableFactor, Value,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::using::folded;

/// What stands for such a list: its only table is the query, and its aggregate gets the order.
const TEMPLATE: &str =
    "coalesce((SELECT array_agg(array_value) FROM (SELECT 1) AS array_rows), make_array())";

const VALUE: &str = "array_value";

/// Writes such a list as the planner takes it.
pub(super) fn bind(expr: &mut Expr) {
    let Expr::Function(call) = expr else {
        return;
    };
    let is_array = match call.name.0.as_slice() {
        [ObjectNamePart::Identifier(name)] => {
            name.quote_style.is_none() && name.value.eq_ignore_ascii_case("array")
        }
        _ => false,
    };
    let FunctionArguments::Subquery(query) = &call.args else {
        return;
    };
    if !is_array {
        return;
    }
    let mut query = query.clone();
    let keys = with_keys(&mut query);
    if let Some(list) = list_of(query, keys) {
        *expr = list;
    }
}

/// Names the value of a query's rows, and has it give the keys by which they are sorted; returns these.
fn with_keys(query: &mut Query) -> Vec<OrderByExpr> {
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Vec::new();
    };
    let [item] = select.projection.as_mut_slice() else {
        return Vec::new();
    };
    let (value, alias) = match item {
        SelectItem::UnnamedExpr(value) => (value.clone(), None),
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(folded(alias))),
        _ => return Vec::new(),
    };
    *item = SelectItem::ExprWithAlias {
        expr: value.clone(),
        alias: Ident::new(VALUE),
    };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_mut().map(|order| &mut order.kind)
    else {
        return Vec::new();
    };
    let is_value = |key: &Expr| match key {
        Expr::Identifier(name) => alias.as_ref() == Some(&folded(name)),
        Expr::Value(key) => matches!(&key.value, Value::Number(place, _) if place == "1"),
        key => *key == value,
    };
    let mut outer = Vec::with_capacity(keys.len());
    for (place, key) in keys.iter_mut().enumerate() {
        let name = match is_value(&key.expr) {
            true => {
                key.expr = value.clone();
                VALUE.to_string()
            }
            // Rows that differ are all that such a query has.
            false if matches!(select.distinct, Some(Distinct::Distinct)) => continue,
            false => {
                let name = format!("array_key_{place}");
                select.projection.push(SelectItem::ExprWithAlias {
                    expr: key.expr.clone(),
                    alias: Ident::new(name.clone()),
                });
                name
            }
        };
        outer.push(OrderByExpr {
            expr: Expr::Identifier(Ident::new(name)),
            ..key.clone()
        });
    }
    outer
}

fn list_of(query: Box<Query>, keys: Vec<OrderByExpr>) -> Option<Expr> {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(TEMPLATE);
    let mut list = parser.and_then(|mut parser| parser.parse_expr()).ok()?;
    let Expr::Function(Function {
        args: FunctionArguments::List(arguments),
        ..
    }) = &mut list
    else {
        return None;
    };
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Subquery(rows))) =
        arguments.args.first_mut()?
    else {
        return None;
    };
    let SetExpr::Select(select) = rows.body.as_mut() else {
        return None;
    };
    let is_named = matches!(query.body.as_ref(), SetExpr::Select(select)
        if matches!(select.projection.first(), Some(SelectItem::ExprWithAlias { alias, .. }) if alias.value == VALUE));
    if let TableFactor::Derived {
        subquery, alias, ..
    } = &mut select.from.first_mut()?.relation
    {
        *subquery = query;
        // The rows of VALUES, of set operations and of `*` have one column, whatever it is called.
        if let Some(alias) = alias.as_mut().filter(|_| !is_named) {
            alias.columns.push(TableAliasColumnDef::from_name(VALUE));
        }
    }
    if let Some(SelectItem::UnnamedExpr(Expr::Function(aggregate))) = select.projection.first_mut()
        && let FunctionArguments::List(list) = &mut aggregate.args
        && !keys.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(keys));
    }
    Some(list)
}

#[cfg(test)]
mod tests {
    use super::bind;
    use crate::statements::tests::expr;

    #[track_caller]
    fn check(sql: &str, aggregate: &str, rows: &str) {
        let mut expr = expr(sql);
        bind(&mut expr);
        let expect =
            format!("coalesce((SELECT {aggregate} FROM ({rows}) AS array_rows), make_array())");
        assert_eq!(expr.to_string(), expect);
    }

    #[test]
    fn rows_are_aggregated_in_their_order() {
        check(
            "ARRAY(SELECT x FROM t)",
            "array_agg(array_value)",
            "SELECT x AS array_value FROM t",
        );
        check(
            "ARRAY(SELECT x + 1 AS y FROM t ORDER BY y DESC, z LIMIT 2)",
            "array_agg(array_value ORDER BY array_value DESC, array_key_1)",
            "SELECT x + 1 AS array_value, z AS array_key_1 FROM t ORDER BY x + 1 DESC, z LIMIT 2",
        );
        check(
            "ARRAY(SELECT DISTINCT x FROM t ORDER BY 1)",
            "array_agg(array_value ORDER BY array_value)",
            "SELECT DISTINCT x AS array_value FROM t ORDER BY x",
        );
    }
}
