//! `'abc'.upper()` and `t.s.upper().left(1)`: calls behind their first argument, as in DuckDB.

use sqlparser::ast::{
    AccessExpr, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart,
};

use super::arrows::access;
use super::calls::take;

/// Writes the value before a call as its first argument. A name with dots is a column and a function that is known.
pub(super) fn bind(expr: &mut Expr, is_known: &dyn Fn(&Function) -> bool) {
    let written = match expr {
        Expr::CompoundFieldAccess { root, access_chain } if access_chain.iter().any(is_call) => {
            let accesses = std::mem::take(access_chain).into_iter();
            Some(accesses.fold(take(root), applied))
        }
        Expr::Function(call) => of_column(call, is_known),
        _ => None,
    };
    if let Some(written) = written {
        *expr = written;
    }
}

/// Tells calls from words that the parser takes for calls without parentheses.
fn is_call(access: &AccessExpr) -> bool {
    matches!(access, AccessExpr::Dot(Expr::Function(call)) if has_arguments(call))
}

fn has_arguments(call: &Function) -> bool {
    matches!(call.args, FunctionArguments::List(_))
}

fn applied(value: Expr, next: AccessExpr) -> Expr {
    match (value, next) {
        (value, AccessExpr::Dot(Expr::Function(mut call))) if has_arguments(&call) => {
            let Some(name) = call.name.0.pop() else {
                return value;
            };
            let fields = call.name.0.iter().filter_map(ObjectNamePart::as_ident);
            let fields: Vec<Ident> = fields.cloned().collect();
            let value = match fields.is_empty() {
                true => value,
                false => access(value, &fields),
            };
            with_first(call, name, value)
        }
        (
            Expr::CompoundFieldAccess {
                root,
                mut access_chain,
            },
            next,
        ) => {
            access_chain.push(next);
            Expr::CompoundFieldAccess { root, access_chain }
        }
        (value, next) => Expr::CompoundFieldAccess {
            root: Box::new(value),
            access_chain: vec![next],
        },
    }
}

/// Returns the call of a function with a column, if a name with dots is one.
fn of_column(call: &Function, is_known: &dyn Fn(&Function) -> bool) -> Option<Expr> {
    let (name, column) = call.name.0.split_last()?;
    if column.is_empty() || !has_arguments(call) || is_known(call) {
        return None;
    }
    let parts = column.iter().map(|part| part.as_ident().cloned());
    let column = match parts.collect::<Option<Vec<Ident>>>()?.as_slice() {
        [column] => Expr::Identifier(column.clone()),
        parts => Expr::CompoundIdentifier(parts.to_vec()),
    };
    let alone = Function {
        name: ObjectName(vec![name.clone()]),
        ..call.clone()
    };
    is_known(&alone).then(|| with_first(alone, name.clone(), column))
}

/// Calls a function with one argument before the others.
fn with_first(mut call: Function, name: ObjectNamePart, first: Expr) -> Expr {
    call.name = ObjectName(vec![name]);
    if let FunctionArguments::List(list) = &mut call.args {
        let first = FunctionArg::Unnamed(FunctionArgExpr::Expr(first));
        list.args.insert(0, first);
    }
    Expr::Function(call)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::bind;
    use crate::statements::tests::expr;
    use crate::statements::visits::change_expressions;

    #[test]
    fn the_value_before_a_call_is_its_first_argument() {
        for (sql, expect) in [
            ("'abc'.upper()", "upper('abc')"),
            (
                "('a' || 'b').upper().left(1)",
                "left(upper(('a' || 'b')), 1)",
            ),
            ("s.upper()", "upper(s)"),
            ("t.s.upper().left(1)", "left(upper(t.s), 1)"),
            ("l[1].upper()", "upper(l[1])"),
            ("[3, 1].f()[1]", "f([3, 1])[1]"),
            ("s.other()", "s.other()"),
            ("f(x)", "f(x)"),
            ("t.user", "t.user"),
        ] {
            let mut parsed = expr(sql);
            let known = ["upper", "left", "f"];
            let _ = change_expressions(&mut parsed, |part| {
                bind(part, &|call| {
                    known.contains(&call.name.to_string().as_str())
                });
                ControlFlow::<()>::Continue(())
            });
            assert_eq!(parsed.to_string(), expect, "{sql}");
        }
    }
}
