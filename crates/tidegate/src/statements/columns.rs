//! `COLUMNS(…)`, as DuckDB has it: an expression for each of several columns, `min(COLUMNS(*))`.
//!
//! `COLUMNS(*)`, `COLUMNS(t.*)` and `COLUMNS(* EXCLUDE (a))` stand for the columns that `*` does, `COLUMNS('^a')` for those
//! whose name a regular expression finds, `COLUMNS(['a', 'b'])` for those that are named, and `COLUMNS(c -> c LIKE 'a%')` for those
//! for whose name a condition is true. An item of the select list
//! becomes an item for each column, named by its text; a condition of WHERE holds if it does for each; ORDER BY
//! orders by each. Which columns there are, the tables of the query tell, which are planned before it.

pub(super) mod calls;

use std::collections::HashSet;
use std::ops::ControlFlow;

use regex::RegexBuilder;
use sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, WildcardAdditionalOptions,
};

use super::calls::string;
use super::output_names::output_name;
use super::repeated::{Visible, all_of, has_using, visible};
use super::scope::{TableColumn, TableColumns, selects};
use super::using::folded;
use super::visits::change_expressions;
use crate::error::{Error, ErrorKind};
use calls::{calls_of, has_calls, is_columns, replaced};

/// The most bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Tells whether a condition of constants is true.
type IsTrue<'a> = &'a dyn Fn(&Expr) -> Result<bool, Error>;

/// Tells whether a query has `COLUMNS(…)`, its subqueries left out.
pub(crate) fn is_open(query: &Query) -> bool {
    fn of_body(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => {
                let mut items = select.projection.iter().filter_map(expr_of);
                items.any(has_calls) || select.selection.as_ref().is_some_and(has_calls)
            }
            SetExpr::SetOperation { left, right, .. } => of_body(left) || of_body(right),
            _ => false,
        }
    }
    of_body(&query.body) || ordered(query).iter().any(|by| has_calls(&by.expr))
}

/// Writes an expression for each column wherever a query, whose tables have these columns, has `COLUMNS(…)`.
///
/// # Errors
/// [`ErrorKind::Sql`] for a pattern that is none or finds nothing, [`ErrorKind::NotSupported`] for other arguments; those
/// of `is_true`.
pub(crate) fn expand(
    query: &mut Query,
    tables: &TableColumns,
    is_true: IsTrue<'_>,
) -> Result<(), Error> {
    let mut rest = tables.as_slice();
    let mut scope = None;
    for select in selects(&mut query.body) {
        let joins = select.from.iter().map(|from| from.joins.len() + 1);
        let (own, others) = rest.split_at(joins.sum::<usize>().min(rest.len()));
        rest = others;
        let known = Scope::of(select, own, is_true);
        expand_select(select, &known)?;
        scope.get_or_insert(known);
    }
    let (Some(scope), Some(order)) = (scope, query.order_by.as_mut()) else {
        return Ok(());
    };
    if let OrderByKind::Expressions(exprs) = &mut order.kind {
        let mut all = Vec::with_capacity(exprs.len());
        for by in exprs.drain(..) {
            if !has_calls(&by.expr) {
                all.push(by);
                continue;
            }
            let each = scope.each(&by.expr)?.into_iter();
            all.extend(each.map(|(expr, _)| OrderByExpr { expr, ..by.clone() }));
        }
        *exprs = all;
    }
    Ok(())
}

fn ordered(query: &Query) -> &[OrderByExpr] {
    match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(exprs)) => exprs,
        _ => &[],
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn expand_select(select: &mut Select, scope: &Scope<'_>) -> Result<(), Error> {
    let mut taken: HashSet<String> = select.projection.iter().filter_map(output_name).collect();
    let mut items = Vec::with_capacity(select.projection.len());
    for item in select.projection.drain(..) {
        let Some(expr) = expr_of(&item).filter(|expr| has_calls(expr)) else {
            items.push(item);
            continue;
        };
        let alias = match &item {
            SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
            _ => None,
        };
        if let Some(alias) = &alias {
            taken.remove(alias);
        }
        for (expr, name) in scope.each(expr)? {
            let name = alias.clone().unwrap_or(name);
            let numbered = (1..).map(|number| format!("{name}_{number}"));
            let mut names = std::iter::once(name.clone()).chain(numbered);
            let free = names.find(|name| taken.insert(name.clone()));
            let alias = Ident::with_quote('"', free.unwrap_or(name));
            items.push(SelectItem::ExprWithAlias { expr, alias });
        }
    }
    select.projection = items;
    if let Some(condition) = select.selection.take_if(|condition| has_calls(condition)) {
        let each = scope.each(&condition)?.into_iter();
        let each = each.map(|(expr, _)| Expr::Nested(Box::new(expr)));
        select.selection = each.reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
    }
    Ok(())
}

/// The columns that expressions of a query see.
struct Scope<'a> {
    tables: Vec<Visible<'a>>,
    has_using: bool,
    is_true: IsTrue<'a>,
}

impl<'a> Scope<'a> {
    fn of(select: &Select, columns: &'a [Option<Vec<TableColumn>>], is_true: IsTrue<'a>) -> Self {
        Self {
            is_true,
            tables: visible(select, columns),
            has_using: has_using(select),
        }
    }

    /// Returns an expression for each column, and its name.
    fn each(&self, expr: &Expr) -> Result<Vec<(Expr, String)>, Error> {
        let calls = calls_of(expr);
        let mut columns = Vec::with_capacity(calls.len());
        for call in &calls {
            columns.push(self.columns(call)?);
        }
        let num_columns = columns.first().map_or(0, Vec::len);
        if columns.iter().any(|other| other.len() != num_columns) {
            let message = "the COLUMNS of one expression stand for as many columns each";
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let mut inner = expr;
        while let Expr::Nested(nested) = inner {
            inner = nested;
        }
        let is_bare = matches!(inner, Expr::Function(call) if is_columns(call));
        let each = (0..num_columns).map(|index| {
            let row = || columns.iter().map(move |of| &of[index]);
            let value = replaced(expr, row().map(|(value, _)| value.clone()));
            let name = match row().next() {
                Some((_, name)) if is_bare => name.clone(),
                _ => {
                    let names = row().map(|(_, name)| Expr::Identifier(Ident::new(name)));
                    replaced(inner, names).to_string()
                }
            };
            (value, name)
        });
        Ok(each.collect())
    }

    /// Returns the columns for which a call stands, and their names.
    fn columns(&self, call: &Function) -> Result<Vec<(Expr, String)>, Error> {
        let refuse = |why: &str| {
            let message = format!("{call}: {why}");
            Err(Error::new(ErrorKind::NotSupported, message))
        };
        if self.has_using {
            return refuse("COLUMNS does not go with USING: name the columns, or join with ON");
        }
        let FunctionArguments::List(list) = &call.args else {
            return refuse("COLUMNS takes *, a pattern or a list of names");
        };
        let all = WildcardAdditionalOptions::default();
        let [FunctionArg::Unnamed(argument)] = list.args.as_slice() else {
            return refuse("COLUMNS takes one argument");
        };
        let mut chosen = Chosen::All;
        let items = match argument {
            FunctionArgExpr::Wildcard => all_of(&self.tables, None, &all),
            FunctionArgExpr::WildcardWithOptions(options) => all_of(&self.tables, None, options),
            FunctionArgExpr::QualifiedWildcard(table) => {
                let parts = table.0.iter().map(|part| part.as_ident().map(folded));
                let parts: Option<Vec<String>> = parts.collect();
                parts.and_then(|table| all_of(&self.tables, Some(&table), &all))
            }
            FunctionArgExpr::Expr(expr) => match Chosen::of(expr)? {
                Some(found) => {
                    chosen = found;
                    all_of(&self.tables, None, &all)
                }
                None => {
                    return refuse(
                        "COLUMNS takes *, a pattern as in COLUMNS('^a'), names as in COLUMNS(['a', 'b']), or a condition as in \
                         COLUMNS(c -> c LIKE 'a%')",
                    );
                }
            },
        };
        let Some(items) = items else {
            return refuse("the columns of the tables cannot be told: name them");
        };
        let known: Vec<(Expr, String)> = items.into_iter().filter_map(named).collect();
        chosen.of_all(call, known, self.is_true)
    }
}

/// Which of the columns a call stands for.
enum Chosen {
    All,
    Pattern(regex::Regex),
    Names(Vec<String>),
    /// What the name is called in a condition of it, and the condition.
    Condition(String, Box<Expr>),
}

impl Chosen {
    /// Reads a pattern or a list of names; `None` of any other argument.
    fn of(expr: &Expr) -> Result<Option<Self>, Error> {
        match expr {
            Expr::Value(value) => {
                let Some(pattern) = value.value.clone().into_string() else {
                    return Ok(None);
                };
                let built = RegexBuilder::new(&pattern)
                    .size_limit(COMPILED_BYTES_MAX)
                    .build();
                let pattern = built.map_err(|error| {
                    let message = format!("COLUMNS('{pattern}'): {error}");
                    Error::with_source(ErrorKind::Sql, message, error)
                })?;
                Ok(Some(Self::Pattern(pattern)))
            }
            Expr::Array(array) => {
                let names = array.elem.iter().map(|name| match name {
                    Expr::Value(name) => name.value.clone().into_string(),
                    Expr::Identifier(name) => Some(folded(name)),
                    _ => None,
                });
                Ok(names.collect::<Option<_>>().map(Self::Names))
            }
            Expr::Lambda(lambda) => {
                let mut names = lambda.params.iter().map(|param| folded(&param.name));
                Ok(match (names.next(), names.next()) {
                    (Some(name), None) => Some(Self::Condition(name, lambda.body.clone())),
                    _ => None,
                })
            }
            _ => Ok(None),
        }
    }

    fn of_all(
        self,
        call: &Function,
        known: Vec<(Expr, String)>,
        is_true: IsTrue<'_>,
    ) -> Result<Vec<(Expr, String)>, Error> {
        let names = known.iter().map(|(_, name)| name.as_str());
        let listed = names.take(10).collect::<Vec<_>>().join(", ");
        let missing = |what: &str| {
            let message = format!("{call} {what}: columns are {listed}");
            Err(Error::new(ErrorKind::Sql, message))
        };
        let columns: Vec<(Expr, String)> = match self {
            Self::All => known,
            Self::Pattern(pattern) => {
                let mut known = known;
                known.retain(|(_, name)| pattern.is_match(name));
                known
            }
            Self::Names(names) => {
                let mut columns = Vec::with_capacity(names.len());
                for wanted in names {
                    match known.iter().find(|(_, name)| *name == wanted) {
                        Some(column) => columns.push(column.clone()),
                        None => return missing(&format!("names {wanted}, which there is not")),
                    }
                }
                columns
            }
            Self::Condition(parameter, condition) => {
                let mut columns = Vec::with_capacity(known.len());
                for (column, name) in known {
                    let mut of_name = condition.as_ref().clone();
                    let _ = change_expressions(&mut of_name, |part| {
                        if matches!(&*part, Expr::Identifier(ident) if folded(ident) == parameter) {
                            *part = string(name.as_str());
                        }
                        ControlFlow::<()>::Continue(())
                    });
                    if is_true(&of_name)? {
                        columns.push((column, name));
                    }
                }
                columns
            }
        };
        match columns.is_empty() {
            true => missing("finds no column"),
            false => Ok(columns),
        }
    }
}

/// Returns a column and its name.
fn named(item: SelectItem) -> Option<(Expr, String)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((expr, alias.value)),
        SelectItem::UnnamedExpr(expr) => {
            let name = match &expr {
                Expr::Identifier(name) => name.value.clone(),
                Expr::CompoundIdentifier(parts) => parts.last()?.value.clone(),
                _ => return None,
            };
            Some((expr, name))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Ident;

    use super::{expand, is_open};
    use crate::statements::scope::TableColumn;
    use crate::statements::tests::query;

    fn expanded(sql: &str) -> Result<String, String> {
        let mut query = query(sql);
        assert!(is_open(&query), "{sql}");
        let column = |name: &str| TableColumn {
            table: vec![Ident::new("t")],
            name: name.into(),
            fields: Vec::new(),
        };
        let columns = ["a", "ab", "c"].map(column).to_vec();
        let done = expand(&mut query, &vec![Some(columns)], &|_| Ok(true));
        done.map_err(|error| error.to_string())?;
        assert!(!is_open(&query), "{query}");
        Ok(query.to_string())
    }

    #[test]
    fn an_expression_is_written_for_each_column() {
        for (sql, expect) in [
            (
                "SELECT COLUMNS('^a'), 1 FROM t",
                "SELECT t.\"a\" AS \"a\", t.\"ab\" AS \"ab\", 1 FROM t",
            ),
            (
                "SELECT min(COLUMNS(* EXCLUDE (ab))) FROM t",
                "SELECT min(t.\"a\") AS \"min(a)\", min(t.\"c\") AS \"min(c)\" FROM t",
            ),
            (
                "SELECT a, COLUMNS(['c', 'a']) + COLUMNS(['a', 'c']) AS s FROM t",
                "SELECT a, t.\"c\" + t.\"a\" AS \"s\", t.\"a\" + t.\"c\" AS \"s_1\" FROM t",
            ),
            (
                "SELECT 1 FROM t WHERE COLUMNS('a') > 0 ORDER BY COLUMNS(t.*) DESC",
                "SELECT 1 FROM t WHERE (t.\"a\" > 0) AND (t.\"ab\" > 0) \
                 ORDER BY t.\"a\" DESC, t.\"ab\" DESC, t.\"c\" DESC",
            ),
        ] {
            assert_eq!(expanded(sql).as_deref(), Ok(expect));
        }
    }

    #[test]
    fn what_stands_for_no_column_is_an_error() {
        for (sql, expect) in [
            (
                "SELECT COLUMNS('z') FROM t",
                "finds no column: columns are a, ab, c",
            ),
            (
                "SELECT COLUMNS(['z']) FROM t",
                "names z, which there is not",
            ),
            ("SELECT COLUMNS('(') FROM t", "COLUMNS('('):"),
            ("SELECT COLUMNS(1 + 2) FROM t", "COLUMNS takes *"),
            (
                "SELECT COLUMNS('a') + COLUMNS('c') FROM t",
                "as many columns each",
            ),
            ("SELECT COLUMNS(*) FROM t JOIN u USING (a)", "join with ON"),
        ] {
            let error = expanded(sql).unwrap_err();
            assert!(error.contains(expect), "{sql}: {error}");
        }
    }
}
