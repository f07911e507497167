//! Keeps calls apart that differ in casts alone: `sum(x::double)` and `sum(x)`.
//!
//! DataFusion leaves casts out of the names of expressions, and refuses two aggregates, windows or group keys of
//! one name. In the second of them, the first argument passes through `coalesce`, which changes nothing but the
//! name, and is gone once the statement is planned.

use std::collections::HashMap;
use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, Select,
    Visit, VisitMut, Visitor, VisitorMut,
};

use super::calls::{call, take};
use super::visits;

/// Has each of the calls of a statement have a name of its own.
pub(crate) fn keep_apart(statement: &mut (impl Visit + VisitMut)) {
    let mut found = Found::default();
    let _ = visits::read(statement, &mut found);
    let numbers = found.numbers();
    if !numbers.is_empty() {
        let _ = visits::change(statement, &mut Wrap(numbers));
    }
}

/// The calls and keys of a statement, by what they are without casts.
#[derive(Default)]
struct Found {
    by_name: HashMap<String, Named>,
}

#[derive(Default)]
struct Named {
    texts: Vec<String>,
    has_casts: bool,
}

impl Found {
    fn note(&mut self, expr: &Expr) {
        let text = text_of(expr);
        let mut plain = expr.clone();
        let mut has_casts = false;
        let _ = visits::change_expressions(&mut plain, |part| {
            has_casts |= matches!(part, Expr::Cast { .. });
            strip(part);
            ControlFlow::<()>::Continue(())
        });
        let named = self.by_name.entry(text_of(&plain)).or_default();
        named.has_casts |= has_casts;
        if !named.texts.contains(&text) {
            // A key that is no cast stays as it is.
            match expr {
                Expr::Cast { .. } | Expr::Function(_) => named.texts.push(text),
                _ => named.texts.insert(0, text),
            }
        }
    }

    /// Returns how often the argument of each call passes through `coalesce`.
    fn numbers(self) -> HashMap<String, usize> {
        let clashing = self.by_name.into_values();
        let clashing = clashing.filter(|named| named.has_casts && named.texts.len() > 1);
        let numbered = clashing.flat_map(|named| named.texts.into_iter().enumerate().skip(1));
        numbered.map(|(number, text)| (text, number)).collect()
    }
}

impl Visitor for Found {
    type Break = ();

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if let GroupByExpr::Expressions(keys, _) = &select.group_by {
            keys.iter().for_each(|key| self.note(key));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Function(_)) {
            self.note(expr);
        }
        ControlFlow::Continue(())
    }
}

struct Wrap(HashMap<String, usize>);

impl VisitorMut for Wrap {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let number = match expr {
            Expr::Function(_) => self.0.get(&text_of(expr)).copied(),
            _ => None,
        };
        if let (Some(number), Expr::Function(function)) = (number, expr)
            && let Some(argument) = first_argument(function)
        {
            wrap(argument, number);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Cast { .. })
            && let Some(number) = self.0.get(&text_of(expr))
        {
            wrap(expr, *number);
        }
        ControlFlow::Continue(())
    }
}

fn first_argument(function: &mut Function) -> Option<&mut Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    match list.args.first_mut()? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => Some(argument),
        _ => None,
    }
}

fn wrap(expr: &mut Expr, times: usize) {
    for _ in 0..times {
        *expr = call("coalesce", vec![take(expr)]);
    }
}

/// Leaves out what does not stand in the planner's name of an expression.
fn strip(expr: &mut Expr) {
    while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
        *expr = take(inner);
    }
    if let Expr::CompoundIdentifier(parts) = expr
        && let Some(column) = parts.pop()
    {
        *expr = Expr::Identifier(Ident::new(column.value));
    }
}

fn text_of(expr: &Expr) -> String {
    expr.to_string().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::keep_apart;
    use crate::statements::tests::statement;

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        let mut statement = statement(sql);
        keep_apart(&mut statement);
        assert_eq!(statement.to_string(), expect);
    }

    #[test]
    fn calls_that_differ_in_casts_have_different_names() {
        check(
            "SELECT sum(x::DOUBLE), sum(x), sum(x::INT) FROM t ORDER BY sum(x)",
            "SELECT sum(x::DOUBLE), sum(coalesce(x)), sum(coalesce(coalesce(x::INT))) FROM t \
             ORDER BY sum(coalesce(x))",
        );
        check(
            "SELECT count(DISTINCT CAST(t.x AS DATE)), count(DISTINCT (x)) FROM t",
            "SELECT count(DISTINCT CAST(t.x AS DATE)), count(DISTINCT coalesce((x))) FROM t",
        );
        check(
            "SELECT x::INT, sum(x) FROM t GROUP BY x::INT, x",
            "SELECT coalesce(x::INT), sum(x) FROM t GROUP BY coalesce(x::INT), x",
        );
    }

    #[test]
    fn others_stay_as_they_are() {
        for sql in [
            "SELECT sum(x), sum(y), sum(x) FROM t",
            "SELECT sum(x::DOUBLE), min(x), sum(X::DOUBLE) FROM t",
            "SELECT x::INT FROM t GROUP BY x::INT",
            "SELECT count(*), count(x::INT) FROM t",
        ] {
            check(sql, sql);
        }
    }
}
