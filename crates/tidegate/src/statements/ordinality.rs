//! `unnest(l) WITH ORDINALITY`: the values of a list beside their places, from 1, as in PostgreSQL.
//!
//! The places are one more list, `range(1, len(l) + 1)`, which is unnested beside the others. Columns that have no alias are
//! called `unnest` and `ordinality`.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Ident, TableAlias, TableAliasColumnDef, TableFactor, Value,
};

use super::rewrites::call;
use super::visits::read_expressions;
use crate::error::{Error, ErrorKind};

/// Unnests the places beside the lists.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for a list that is a subquery: it would run twice.
pub(super) fn unnest_places(table: &mut TableFactor) -> Result<(), Error> {
    let TableFactor::UNNEST {
        alias,
        array_exprs: lists,
        with_ordinality,
        ..
    } = table
    else {
        return Ok(());
    };
    if !*with_ordinality {
        return Ok(());
    }
    if lists.iter().any(has_query) {
        let message = "WITH ORDINALITY of a subquery is not supported: use row_number() OVER ()";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    *with_ordinality = false;
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new("unnest"),
        columns: Vec::new(),
        at: None,
    });
    for place in alias.columns.len()..lists.len() {
        let name = match place {
            0 => "unnest".to_string(),
            place => format!("unnest_{}", place + 1),
        };
        alias.columns.push(TableAliasColumnDef::from_name(name));
    }
    if alias.columns.len() == lists.len() {
        let name = TableAliasColumnDef::from_name("ordinality");
        alias.columns.push(name);
    }
    let lengths = lists.iter().map(|list| call("len", vec![list.clone()]));
    let mut lengths: Vec<Expr> = lengths.collect();
    let length = match lengths.len() {
        1 => lengths.remove(0),
        _ => call("greatest", lengths),
    };
    let one = || Expr::Value(Value::Number("1".into(), false).with_empty_span());
    let end = Expr::BinaryOp {
        left: Box::new(length),
        op: BinaryOperator::Plus,
        right: Box::new(one()),
    };
    lists.push(call("range", vec![one(), end]));
    Ok(())
}

fn has_query(list: &Expr) -> bool {
    let found = read_expressions(list, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::{SetExpr, Statement};
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::unnest_places;

    #[track_caller]
    fn check(from: &str, expect: &str) {
        let sql = format!("SELECT * FROM {from}");
        let mut statements = Parser::parse_sql(&GenericDialect {}, &sql).unwrap();
        let Some(Statement::Query(mut query)) = statements.pop() else {
            panic!("{sql} is no query");
        };
        let SetExpr::Select(select) = query.body.as_mut() else {
            panic!("{sql} selects nothing");
        };
        unnest_places(&mut select.from[0].relation).unwrap();
        assert_eq!(select.from[0].to_string(), expect);
    }

    #[test]
    fn places_are_a_list_beside_the_others() {
        for (from, expect) in [
            (
                "unnest(l) WITH ORDINALITY",
                "UNNEST(l, range(1, len(l) + 1)) AS unnest (unnest, ordinality)",
            ),
            (
                "unnest(l) WITH ORDINALITY AS t(x, n)",
                "UNNEST(l, range(1, len(l) + 1)) AS t (x, n)",
            ),
            (
                "unnest(a, b) WITH ORDINALITY AS t(x)",
                "UNNEST(a, b, range(1, greatest(len(a), len(b)) + 1)) AS t (x, unnest_2, ordinality)",
            ),
            ("unnest(l) AS t (x)", "UNNEST(l) AS t (x)"),
        ] {
            check(from, expect);
        }
    }
}
