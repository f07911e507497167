//! `lag(x, 1, y)` and `lead(x, 1, y)`, whose default is no constant: `CASE WHEN lag(1, 1) IS NULL THEN y ELSE lag(x, 1) END`,
//! each over the same window. The planner takes constants alone there, and for numbers of rows and of groups.

use std::ops::ControlFlow;

use sqlparser::ast::helpers::attached_token::AttachedToken;
use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArgumentList, FunctionArguments, NullTreatment, Value,
};

use super::visits::read_expressions;
use crate::error::{Error, ErrorKind};
use crate::functions::forms;

/// The functions that look a number of rows away.
const SHIFTS: [&str; 2] = ["lag", "lead"];

/// Functions of windows, which argument is a constant, and what it counts.
const CONSTANTS: [(&str, usize, &str); 4] = [
    ("lag", 1, "the number of rows to look back"),
    ("lead", 1, "the number of rows to look ahead"),
    ("ntile", 0, "the number of groups"),
    ("nth_value", 1, "which row is meant"),
];

/// Writes a default that is computed as a CASE.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for a number that is not the same in all rows.
pub(super) fn bind(expr: &mut Expr) -> Result<(), Error> {
    let Expr::Function(call) = expr else {
        return Ok(());
    };
    let (Some(name), true, FunctionArguments::List(list)) =
        (forms::name_of(call), call.over.is_some(), &call.args)
    else {
        return Ok(());
    };
    for (function, place, what) in CONSTANTS {
        if function == name && argument(list, place).is_some_and(is_computed) {
            let message = format!("{name}: {what} is a constant: it cannot differ from row to row");
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
    }
    let default = argument(list, 2).filter(|default| is_computed(default));
    let Some(default) = default.filter(|_| SHIFTS.contains(&name.as_str())) else {
        return Ok(());
    };
    let leaves_out = [call.null_treatment]
        .into_iter()
        .chain(list.clauses.iter().map(treatment))
        .any(|treatment| treatment == Some(NullTreatment::IgnoreNulls));
    if leaves_out {
        let message = format!(
            "{name}: a default beside IGNORE NULLS is a constant: write coalesce({name}(…), y)"
        );
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    let default = default.clone();
    let one = Expr::Value(Value::Number("1".into(), false).with_empty_span());
    let there = shifted(call, Some(one));
    *expr = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen {
            condition: Expr::IsNull(Box::new(there)),
            result: default,
        }],
        else_result: Some(Box::new(shifted(call, None))),
    };
    Ok(())
}

/// Returns the call without its default, perhaps of another value.
fn shifted(call: &Function, value: Option<Expr>) -> Expr {
    let mut call = call.clone();
    if let FunctionArguments::List(list) = &mut call.args {
        list.args.truncate(2);
        if let (Some(first), Some(value)) = (list.args.first_mut(), value) {
            *first = FunctionArg::Unnamed(FunctionArgExpr::Expr(value));
        }
    }
    Expr::Function(call)
}

fn argument(list: &FunctionArgumentList, place: usize) -> Option<&Expr> {
    match list.args.get(place)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn treatment(clause: &FunctionArgumentClause) -> Option<NullTreatment> {
    match clause {
        FunctionArgumentClause::IgnoreOrRespectNulls(treatment) => Some(*treatment),
        _ => None,
    }
}

/// Tells whether an expression reads a column.
fn is_computed(expr: &Expr) -> bool {
    let found = read_expressions(expr, |part| match part {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use super::bind;
    use crate::statements::tests::expr;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let mut expr = expr(sql);
        let bound = bind(&mut expr).map(|()| expr.to_string());
        assert_eq!(
            bound.unwrap_or_else(|error| error.message().to_string()),
            expect
        );
    }

    #[test]
    fn defaults_may_be_computed() {
        check(
            "lag(x, 1, y + 1) OVER (ORDER BY z)",
            "CASE WHEN lag(1, 1) OVER (ORDER BY z) IS NULL THEN y + 1 ELSE lag(x, 1) OVER (ORDER BY z) END",
        );
        check("lag(x, 1, -1) OVER w", "lag(x, 1, -1) OVER w");
        check("lag(x, 1, y)", "lag(x, 1, y)");
        check("sum(y) OVER w", "sum(y) OVER w");
        check(
            "lead(x, y) OVER w",
            "lead: the number of rows to look ahead is a constant: it cannot differ from row to row",
        );
        check(
            "ntile(x) OVER w",
            "ntile: the number of groups is a constant: it cannot differ from row to row",
        );
        check(
            "lag(x, 1, y) IGNORE NULLS OVER w",
            "lag: a default beside IGNORE NULLS is a constant: write coalesce(lag(…), y)",
        );
    }
}
