//! `unnest` in a FROM: what DataFusion's planner takes of it, and names for its columns.
//!
//! `LATERAL unnest(l)` is a table of lists like `unnest(l)`. A list that is written out (`[a, b]`) becomes a call of
//! `make_array`, in which columns of tables beside it are found. A column without a name has that of its table, as in
//! PostgreSQL, and is called `unnest` without one.
//!
//! `WITH ORDINALITY` has the values beside their places, from 1: these are one more list, `range(1, len(l) + 1)`, which
//! is unnested beside the others.

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, TableAlias, TableAliasColumnDef, TableFactor, Value,
};

use super::calls::call;
use super::visits::{change_expressions, read_expressions};
use crate::error::{Error, ErrorKind};

/// Prepares a table of lists for the planner; leaves any other one as it is.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for WITH ORDINALITY of a list that is a subquery: it would run twice.
pub(super) fn unnest_lists(table: &mut TableFactor) -> Result<(), Error> {
    if let Some(lists) = of_call(table) {
        *table = lists;
    }
    unnest_places(table)?;
    let TableFactor::UNNEST {
        alias,
        array_exprs: lists,
        ..
    } = table
    else {
        return Ok(());
    };
    for list in lists.iter_mut() {
        let _ = change_expressions(list, |expr| {
            if let Expr::Array(values) = expr {
                *expr = call("make_array", std::mem::take(&mut values.elem));
            }
            ControlFlow::<()>::Continue(())
        });
    }
    if lists.len() == 1 {
        let alias = alias.get_or_insert_with(unnamed);
        if alias.columns.is_empty() {
            let name = alias.name.clone();
            alias.columns.push(TableAliasColumnDef {
                name,
                data_type: None,
            });
        }
    }
    Ok(())
}

fn unnamed() -> TableAlias {
    TableAlias {
        explicit: true,
        name: Ident::new("unnest"),
        columns: Vec::new(),
        at: None,
    }
}

/// Returns the table of lists that `LATERAL unnest(…)` is, for the parser a call of any table function.
fn of_call(table: &mut TableFactor) -> Option<TableFactor> {
    let TableFactor::Function {
        name,
        args,
        with_ordinality,
        alias,
        ..
    } = table
    else {
        return None;
    };
    if !is_unnest(name) {
        return None;
    }
    let lists = args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(list)) => Some(list.clone()),
        _ => None,
    });
    Some(TableFactor::UNNEST {
        array_exprs: lists.collect::<Option<Vec<_>>>()?,
        alias: alias.take(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: *with_ordinality,
    })
}

/// Refuses the arguments by name that DuckDB's `unnest` has: how deep it goes, the type decides, which is not known yet.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for `unnest(x, recursive := true)` and `unnest(x, max_depth := 2)`.
pub(super) fn refuse_depth(call: &Function) -> Result<(), Error> {
    let FunctionArguments::List(list) = &call.args else {
        return Ok(());
    };
    let is_named = |argument: &FunctionArg| !matches!(argument, FunctionArg::Unnamed(_));
    if !is_unnest(&call.name) || !list.args.iter().any(is_named) {
        return Ok(());
    }
    let message = "unnest: recursive and max_depth are not supported: unnest each level, as in unnest(unnest(l)), and name \
                   the fields of structs, as in x.a";
    Err(Error::new(ErrorKind::NotSupported, message))
}

pub(super) fn is_unnest(name: &ObjectName) -> bool {
    match name.0.as_slice() {
        [part] => part
            .as_ident()
            .is_some_and(|name| name.value.eq_ignore_ascii_case("unnest")),
        _ => false,
    }
}

/// Unnests the places beside the lists.
fn unnest_places(table: &mut TableFactor) -> Result<(), Error> {
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
    let alias = alias.get_or_insert_with(unnamed);
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
    use sqlparser::ast::SetExpr;

    use super::unnest_lists;
    use crate::statements::tests::query;

    #[track_caller]
    fn check(from: &str, expect: &str) {
        let sql = format!("SELECT * FROM {from}");
        let mut query = query(&sql);
        let SetExpr::Select(select) = query.body.as_mut() else {
            panic!("{sql} selects nothing");
        };
        unnest_lists(&mut select.from[0].relation).unwrap();
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
            ("unnest(l) AS x", "UNNEST(l) AS x (x)"),
            (
                "unnest([a, [b]])",
                "UNNEST(make_array(a, make_array(b))) AS unnest (unnest)",
            ),
            ("LATERAL unnest(t.l) u(x)", "UNNEST(t.l) u (x)"),
            (
                "LATERAL unnest(l) WITH ORDINALITY u(x, n)",
                "UNNEST(l, range(1, len(l) + 1)) u (x, n)",
            ),
            ("unnest(a, b)", "UNNEST(a, b)"),
        ] {
            check(from, expect);
        }
    }
}
