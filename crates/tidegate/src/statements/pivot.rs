//! `PIVOT` and `UNPIVOT` behind a table: subqueries of what there is.
//!
//! `t PIVOT (sum(v) FOR k IN ('a', 'b'))` is an aggregate with `FILTER` for each value, `sum(v) FILTER (WHERE k = 'a') AS
//! "a"`, grouped by all columns but those that the aggregates and `FOR` name. `t UNPIVOT (v FOR k IN (a, b))` is `unnest`
//! of the names and of the values of the columns, without what is NULL.
//!
//! The columns of a plan are known before it runs. Where the values are not listed, `IN (ANY)` or `IN (SELECT …)`, a query is asked
//! for them first ([`question`], [`answer`]); of several columns, there is a column for each of their values with each of the others'.
//! Of columns in parentheses, `PIVOT t ON (j, k)`, there is a column for each of their rows ([`ROWS`]).
//! The columns of `UNPIVOT t ON COLUMNS(…)` are asked for, too ([`name_columns`]).

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    self, BinaryOperator, ExcludeSelectItem, Expr, ExprWithAlias, Function, FunctionArguments,
    GroupByExpr, Ident, NullInclusion, ObjectName, PivotValueSource, Query, Select, SelectItem,
    SetExpr, TableAlias, TableFactor, TableWithJoins, Visitor, WildcardAdditionalOptions, With,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;

use super::calls::{call, string};
use super::columns::calls::{calls_of, has_calls, replaced};
use super::scope::{merged, selects};
use super::using::folded;
use super::visits::{self, change_expressions};
use crate::error::{Error, ErrorKind};
use crate::functions::forms;

/// The most columns that a PIVOT makes.
pub(super) const COLUMNS_MAX: usize = 10_000;

/// The function whose arguments are the columns of GROUP BY, among the aggregates: see `pivot_words`.
pub(super) const GROUPS: &str = "group by";

/// The function whose argument is computed of aggregates, among the aggregates.
pub(super) const COMPUTED: &str = "value of";

/// What values that are not listed are ordered by where each row of the columns is a value: see `pivot_words`.
pub(super) const ROWS: &str = "as rows";

/// What is to be known before a statement is planned.
#[derive(Debug)]
pub(crate) enum Question {
    /// The rows of a query, which are values of a PIVOT.
    Values(Query),
    /// The columns of a query, which are those of an UNPIVOT.
    Columns(Query),
}

/// A part of a value: its SQL type, if it is no string, and its text; `None` is NULL.
type Part = Option<(Option<String>, String)>;

/// A value that becomes columns, of one part for each column behind ON or FOR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PivotValue(pub(crate) Vec<Part>);

fn text_of(part: &Part) -> &str {
    part.as_ref().map_or("NULL", |(_, text)| text.as_str())
}

impl PivotValue {
    fn has_null(&self) -> bool {
        self.0.iter().any(Option::is_none)
    }

    fn texts(&self) -> Vec<&str> {
        self.0.iter().map(text_of).collect()
    }

    /// Returns the value as it is written in a list, with the name of its columns.
    fn expr(&self, name: String) -> Result<ExprWithAlias, Error> {
        let part = |part: &Part| {
            let Some((data_type, text)) = part else {
                return "NULL".to_string();
            };
            let text = text.replace('\'', "''");
            match data_type {
                Some(data_type) => format!("CAST('{text}' AS {data_type})"),
                None => format!("'{text}'"),
            }
        };
        let parts: Vec<String> = self.0.iter().map(part).collect();
        let sql = format!("({})", parts.join(", "));
        let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
        let expr = parser.and_then(|mut parser| parser.parse_expr());
        let expr = expr.map_err(|_| {
            let message = format!(
                "PIVOT: {} cannot be written as a value of a list: cast the column behind ON or FOR to VARCHAR",
                self.texts().join(", ")
            );
            not_supported(&message)
        })?;
        let alias = Some(Ident::with_quote('"', name));
        Ok(ExprWithAlias { expr, alias })
    }
}

/// Tells whether a query has a PIVOT whose values are not listed, or an UNPIVOT of `COLUMNS`, its subqueries left out.
pub(crate) fn is_open(query: &Query) -> bool {
    fn of_body(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => tables(select).any(is_open_table),
            SetExpr::SetOperation { left, right, .. } => of_body(left) || of_body(right),
            _ => false,
        }
    }
    of_body(&query.body)
}

fn tables(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        let joined = from.joins.iter().map(|join| &join.relation);
        std::iter::once(&from.relation).chain(joined)
    })
}

fn is_open_table(table: &TableFactor) -> bool {
    match table {
        TableFactor::Pivot {
            table,
            value_source,
            ..
        } => !matches!(value_source, PivotValueSource::List(_)) || is_open_table(table),
        TableFactor::Unpivot { table, columns, .. } => {
            columns.iter().any(|column| has_calls(&column.expr)) || is_open_table(table)
        }
        _ => false,
    }
}

/// Finds the first PIVOT or UNPIVOT of a query that is open; of several behind one table, that which is next to it.
fn open(query: &mut Query) -> Option<&mut TableFactor> {
    let tables = selects(&mut query.body).into_iter().flat_map(|select| {
        select.from.iter_mut().flat_map(|from| {
            let joined = from.joins.iter_mut().map(|join| &mut join.relation);
            std::iter::once(&mut from.relation).chain(joined)
        })
    });
    tables
        .into_iter()
        .find(|table| is_open_table(table))
        .map(innermost)
}

/// Returns the PIVOT or UNPIVOT next to a table, of those behind it that are open.
fn innermost(pivot: &mut TableFactor) -> &mut TableFactor {
    let goes_on = matches!(pivot, TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. }
        if is_open_table(table.as_ref()));
    if !goes_on {
        return pivot;
    }
    match pivot {
        TableFactor::Pivot { table, .. } | TableFactor::Unpivot { table, .. } => innermost(table),
        other => other,
    }
}

/// Returns what is to be asked for the first PIVOT or UNPIVOT that is open, where these names are known.
pub(crate) fn question(query: &mut Query, with: Option<With>) -> Option<Question> {
    match open(query)? {
        TableFactor::Pivot {
            table,
            value_column,
            value_source,
            ..
        } => {
            let question = match value_source {
                PivotValueSource::Subquery(values) => Query::clone(values),
                _ => {
                    let places: Vec<String> =
                        (1..=value_column.len()).map(|at| at.to_string()).collect();
                    let sql = format!(
                        "SELECT DISTINCT 1 FROM t ORDER BY {} LIMIT {}",
                        places.join(", "),
                        COLUMNS_MAX + 1
                    );
                    selected(&sql, value_column.iter().cloned(), table)?
                }
            };
            Some(Question::Values(with_names(question, with)))
        }
        TableFactor::Unpivot { table, columns, .. } => {
            let mut calls = columns.iter().flat_map(|column| calls_of(&column.expr));
            let call = Expr::Function(calls.next()?);
            let question = selected("SELECT 1 FROM t", std::iter::once(call), table)?;
            Some(Question::Columns(with_names(question, with)))
        }
        _ => None,
    }
}

/// Makes a query of these items of a table, in the form of a text.
fn selected(sql: &str, items: impl Iterator<Item = Expr>, table: &TableFactor) -> Option<Query> {
    let parsed = Parser::parse_sql(&GenericDialect {}, sql).ok()?.pop();
    let Some(ast::Statement::Query(mut question)) = parsed else {
        return None;
    };
    if let [select] = selects(&mut question.body).as_mut_slice() {
        select.projection = items.map(SelectItem::UnnamedExpr).collect();
        select.from = vec![TableWithJoins {
            relation: table.clone(),
            joins: Vec::new(),
        }];
    }
    Some(*question)
}

fn with_names(mut question: Query, with: Option<With>) -> Query {
    question.with = match (with, question.with.take()) {
        (Some(outer), Some(inner)) => Some(merged(outer, inner)),
        (outer, inner) => outer.or(inner),
    };
    question
}

/// Lists the values of the PIVOT that was asked for.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for a value of a type that SQL has no literal of, [`ErrorKind::ResourcesExhausted`] for too
/// many columns.
pub(crate) fn answer(query: &mut Query, values: &[PivotValue]) -> Result<(), Error> {
    let Some(TableFactor::Pivot {
        value_column,
        value_source,
        ..
    }) = open(query)
    else {
        return Ok(());
    };
    let is_of_any = matches!(value_source, PivotValueSource::Any(_));
    let exprs: Result<Vec<ExprWithAlias>, Error> = if are_rows(value_source) {
        let named = values.iter();
        let named = named.map(|value| (format!("({})", value.texts().join(", ")), value));
        let mut named: Vec<(String, &PivotValue)> = named.collect();
        named.sort_by(|left, right| left.0.cmp(&right.0));
        let named = named.into_iter();
        named.map(|(name, value)| value.expr(name)).collect()
    } else {
        let known = values.iter().filter(|value| !value.has_null());
        let mut known: Vec<PivotValue> = known.cloned().collect();
        if is_of_any && value_column.len() > 1 {
            known = combined(&known)?;
        }
        let named = known.iter();
        named
            .map(|value| value.expr(value.texts().join("_")))
            .collect()
    };
    *value_source = PivotValueSource::List(exprs?);
    Ok(())
}

/// Tells whether each row of the columns is a value, one with NULL, too.
fn are_rows(source: &PivotValueSource) -> bool {
    match source {
        PivotValueSource::Any(order) => order.iter().any(
            |by| matches!(&by.expr, Expr::Identifier(name) if name.value == ROWS && name.quote_style.is_some()),
        ),
        _ => false,
    }
}

/// Returns each value of a column with each of the others.
fn combined(values: &[PivotValue]) -> Result<Vec<PivotValue>, Error> {
    let num_columns = values.first().map_or(0, |value| value.0.len());
    let mut all = vec![PivotValue(Vec::new())];
    for column in 0..num_columns {
        let mut seen = HashSet::new();
        let parts = values.iter().filter_map(|value| value.0.get(column));
        let mut parts: Vec<_> = parts.filter(|part| seen.insert(text_of(part))).collect();
        parts.sort_by(|left, right| by_value(text_of(left), text_of(right)));
        let made = all.len().saturating_mul(parts.len());
        if made > COLUMNS_MAX {
            return Err(too_many(made));
        }
        let longer = |value: &PivotValue, part: &Part| {
            let mut value = value.clone();
            value.0.push(part.clone());
            value
        };
        let with_each = |value: &PivotValue| -> Vec<PivotValue> {
            parts
                .iter()
                .copied()
                .map(|part| longer(value, part))
                .collect()
        };
        all = all.iter().flat_map(with_each).collect();
    }
    Ok(match num_columns {
        0 => Vec::new(),
        _ => all,
    })
}

/// Orders texts as numbers, if they are.
fn by_value(left: &str, right: &str) -> Ordering {
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(left), Ok(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    }
}

fn too_many(made: usize) -> Error {
    let message =
        format!("PIVOT would make {made} columns, and may make {COLUMNS_MAX}: list fewer values");
    Error::new(ErrorKind::ResourcesExhausted, message)
}

/// Lists the columns of the UNPIVOT that was asked for.
pub(crate) fn name_columns(query: &mut Query, names: &[String]) {
    let Some(TableFactor::Unpivot { columns, .. }) = open(query) else {
        return;
    };
    let place = columns.iter().position(|column| has_calls(&column.expr));
    if let Some(place) = place {
        let open = columns[place].expr.clone();
        let named = names.iter().map(|name| {
            let column = Expr::Identifier(Ident::with_quote('"', name));
            ExprWithAlias {
                expr: replaced(&open, std::iter::repeat(column)),
                alias: None,
            }
        });
        columns.splice(place..=place, named);
    }
}

/// Writes PIVOT or UNPIVOT behind a table as a subquery; `is_aggregate` tells names of aggregate functions.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for values that are not listed and for what is no name where one belongs.
pub(super) fn expand(
    table: &mut TableFactor,
    is_aggregate: &dyn Fn(&str) -> bool,
) -> Result<(), Error> {
    let (query, alias) = match table {
        TableFactor::Pivot {
            table,
            aggregate_functions,
            value_column,
            value_source,
            default_on_null,
            alias,
        } => {
            let PivotValueSource::List(values) = value_source else {
                return Err(not_supported(
                    "PIVOT: list the values that become columns, as in FOR k IN ('a', 'b'); SELECT DISTINCT k \
                     FROM t shows them",
                ));
            };
            let pivot = Pivot {
                aggregates: aggregate_functions,
                columns: value_column,
                values,
                default: default_on_null.as_ref(),
                is_aggregate,
            };
            (pivot.query(table)?, alias.take())
        }
        TableFactor::Unpivot {
            table,
            value,
            null_inclusion,
            name,
            columns,
            alias,
        } => {
            let unpivot = Unpivot {
                value,
                name,
                columns,
                keeps_nulls: *null_inclusion == Some(NullInclusion::IncludeNulls),
            };
            (unpivot.query(table)?, alias.take())
        }
        _ => return Ok(()),
    };
    *table = derived(query, alias);
    Ok(())
}

fn not_supported(message: &str) -> Error {
    Error::new(ErrorKind::NotSupported, message)
}

fn derived(query: Query, alias: Option<TableAlias>) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias,
        sample: None,
    }
}

/// Makes a query of items of a table.
fn select(items: Vec<SelectItem>, table: TableFactor) -> Result<(Query, Box<Select>), Error> {
    let parsed = Parser::parse_sql(&GenericDialect {}, "SELECT 1 FROM t");
    let statement = parsed.ok().and_then(|mut statements| statements.pop());
    let unread = || {
        Error::new(
            ErrorKind::Internal,
            "a query that was written cannot be read",
        )
    };
    let Some(ast::Statement::Query(query)) = statement else {
        return Err(unread());
    };
    let SetExpr::Select(mut select) = *query.body.clone() else {
        return Err(unread());
    };
    select.projection = items;
    select.from = vec![TableWithJoins {
        relation: table,
        joins: Vec::new(),
    }];
    Ok((*query, select))
}

fn with_body(mut query: Query, select: Box<Select>) -> Query {
    *query.body = SetExpr::Select(select);
    query
}

/// Takes a table out of its place.
pub(super) fn taken(table: &mut TableFactor) -> TableFactor {
    let none = TableFactor::Table {
        name: ObjectName::from(Vec::<Ident>::new()),
        alias: None,
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
    std::mem::replace(table, none)
}

/// Returns `*` without some columns, each of which is named once.
fn all_but(columns: Vec<Ident>) -> SelectItem {
    let mut seen = HashSet::new();
    let columns = columns.into_iter();
    let columns = columns.filter(|name| seen.insert((name.value.clone(), name.quote_style)));
    let names: Vec<ObjectName> = columns.map(|name| ObjectName::from(vec![name])).collect();
    let exclude = (!names.is_empty()).then_some(ExcludeSelectItem::Multiple(names));
    SelectItem::Wildcard(WildcardAdditionalOptions {
        opt_exclude: exclude,
        ..WildcardAdditionalOptions::default()
    })
}

/// Lists the columns that an expression names, as they are called in their table.
fn columns_of(expr: &Expr) -> Vec<Ident> {
    struct Columns(Vec<Ident>);
    impl Visitor for Columns {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) => self.0.push(name.clone()),
                Expr::CompoundIdentifier(parts) => self.0.extend(parts.last().cloned()),
                _ => {}
            }
            ControlFlow::Continue(())
        }
    }
    let mut columns = Columns(Vec::new());
    let _ = visits::read(expr, &mut columns);
    columns.0
}

/// Returns what a value or a column is called: its text, without quotes.
fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Value(value) => match value.value.clone().into_string() {
            Some(text) => text,
            None => value.to_string(),
        },
        Expr::Identifier(name) => folded(name),
        Expr::CompoundIdentifier(parts) => parts.last().map(folded).unwrap_or_default(),
        Expr::Tuple(parts) => parts.iter().map(name_of).collect::<Vec<_>>().join("_"),
        Expr::Nested(inner) => name_of(inner),
        other => other.to_string(),
    }
}

/// Returns the parts of a tuple, or the one that it is.
fn parts(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Tuple(parts) => parts,
        Expr::Nested(inner) => std::slice::from_ref(inner.as_ref()),
        other => std::slice::from_ref(other),
    }
}

struct Pivot<'a> {
    aggregates: &'a [ExprWithAlias],
    columns: &'a [Expr],
    values: &'a [ExprWithAlias],
    default: Option<&'a Expr>,
    is_aggregate: &'a dyn Fn(&str) -> bool,
}

impl Pivot<'_> {
    fn query(&self, table: &mut TableFactor) -> Result<Query, Error> {
        let is_called = |call: &Function, wanted: &str| match call.name.0.as_slice() {
            [part] => part.as_ident().is_some_and(|name| name.value == wanted),
            _ => false,
        };
        let mut groups = None;
        let mut aggregates = Vec::with_capacity(self.aggregates.len());
        for aggregate in self.aggregates {
            match &aggregate.expr {
                Expr::Function(call) if is_called(call, GROUPS) => groups = Some(arguments(call)),
                Expr::Function(call) if is_called(call, COMPUTED) => {
                    let computed = arguments(call).into_iter();
                    aggregates.extend(computed.map(|value| (value, aggregate.alias.as_ref())));
                }
                Expr::Function(_) => {
                    aggregates.push((aggregate.expr.clone(), aggregate.alias.as_ref()));
                }
                other => {
                    let message = format!("PIVOT: {other} is no call of an aggregate function");
                    return Err(not_supported(&message));
                }
            }
        }
        let mut items = match groups {
            Some(groups) => groups.into_iter().map(SelectItem::UnnamedExpr).collect(),
            None => {
                let named = aggregates.iter().flat_map(|(value, _)| columns_of(value));
                let of_values = self.columns.iter().flat_map(columns_of);
                vec![all_but(of_values.chain(named).collect())]
            }
        };
        let made = self.values.len().saturating_mul(aggregates.len());
        if made > COLUMNS_MAX {
            return Err(too_many(made));
        }
        for value in self.values {
            let condition = self.condition(&value.expr)?;
            let name = match &value.alias {
                Some(alias) => folded(alias),
                None => name_of(&value.expr),
            };
            for (aggregate, alias) in &aggregates {
                let name = match alias {
                    Some(alias) => format!("{name}_{}", folded(alias)),
                    None if aggregates.len() > 1 => format!("{name}_{aggregate}"),
                    None => name.clone(),
                };
                let expr = self.aggregate(aggregate, &condition)?;
                let alias = Ident::with_quote('"', name);
                items.push(SelectItem::ExprWithAlias { expr, alias });
            }
        }
        let (query, mut select) = select(items, taken(table))?;
        select.group_by = GroupByExpr::All(Vec::new());
        Ok(with_body(query, select))
    }

    /// Has an aggregate, or those of which something is computed, take the rows of a condition alone.
    fn aggregate(&self, value: &Expr, condition: &Expr) -> Result<Expr, Error> {
        let mut value = value.clone();
        let mut has_any = false;
        let _ = change_expressions(&mut value, |part| {
            if let Expr::Function(call) = part
                && call.over.is_none()
                && forms::name_of(call).is_some_and(|name| (self.is_aggregate)(&name))
            {
                filter(call, condition);
                has_any = true;
            }
            ControlFlow::<()>::Continue(())
        });
        match &mut value {
            _ if has_any => {}
            // It may be another name of an aggregate.
            Expr::Function(call) => filter(call, condition),
            other => {
                let message = format!("PIVOT: {other} has no call of an aggregate function");
                return Err(not_supported(&message));
            }
        }
        Ok(match self.default {
            Some(default) => call("coalesce", vec![value, default.clone()]),
            None => value,
        })
    }

    /// Returns whether a row is of a value.
    fn condition(&self, value: &Expr) -> Result<Expr, Error> {
        let values = match self.columns {
            [_] => std::slice::from_ref(value),
            _ => parts(value),
        };
        if values.len() != self.columns.len() {
            let message = format!(
                "PIVOT: {value} has {} values, and FOR names {} columns",
                values.len(),
                self.columns.len()
            );
            return Err(not_supported(&message));
        }
        let equal = self.columns.iter().zip(values).map(|(column, value)| {
            let is_null = matches!(value, Expr::Value(value) if value.value == ast::Value::Null);
            let column = Box::new(Expr::Nested(Box::new(column.clone())));
            match is_null {
                true => Expr::IsNull(column),
                false => Expr::BinaryOp {
                    left: column,
                    op: BinaryOperator::Eq,
                    right: Box::new(Expr::Nested(Box::new(value.clone()))),
                },
            }
        });
        let all = equal.reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
        all.ok_or_else(|| not_supported("PIVOT: FOR names no column"))
    }
}

/// Has a call of an aggregate function take the rows of a condition alone, beside its own.
fn filter(call: &mut Function, condition: &Expr) {
    let condition = condition.clone();
    call.filter = Some(Box::new(match call.filter.take() {
        Some(own) => Expr::BinaryOp {
            left: Box::new(Expr::Nested(own)),
            op: BinaryOperator::And,
            right: Box::new(condition),
        },
        None => condition,
    }));
}

/// Returns the arguments of a call.
fn arguments(call: &Function) -> Vec<Expr> {
    let FunctionArguments::List(list) = &call.args else {
        return Vec::new();
    };
    let plain = list.args.iter().filter_map(|argument| match argument {
        ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    plain.collect()
}

struct Unpivot<'a> {
    value: &'a Expr,
    name: &'a Ident,
    columns: &'a [ExprWithAlias],
    keeps_nulls: bool,
}

impl Unpivot<'_> {
    fn query(&self, table: &mut TableFactor) -> Result<Query, Error> {
        let values = parts(self.value);
        let mut named = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Expr::Identifier(name) => named.push(name.clone()),
                other => {
                    let message = format!("UNPIVOT: {other} is no name for a column of values");
                    return Err(not_supported(&message));
                }
            }
        }
        let mut excluded = Vec::new();
        let mut names = Vec::with_capacity(self.columns.len());
        let mut lists = vec![Vec::with_capacity(self.columns.len()); named.len()];
        for column in self.columns {
            if has_calls(&column.expr) {
                let message = format!("UNPIVOT: list the columns instead of {}", column.expr);
                return Err(not_supported(&message));
            }
            let exprs = parts(&column.expr);
            if exprs.len() != named.len() {
                let message = format!(
                    "UNPIVOT: {} has {} columns, and {} are named before FOR",
                    column.expr,
                    exprs.len(),
                    named.len()
                );
                return Err(not_supported(&message));
            }
            let of_expr = || match columns_of(&column.expr).as_slice() {
                [one] => folded(one),
                _ => name_of(&column.expr),
            };
            names.push(string(column.alias.as_ref().map_or_else(of_expr, folded)));
            for (list, expr) in lists.iter_mut().zip(exprs) {
                excluded.extend(columns_of(expr));
                list.push(expr.clone());
            }
        }
        let unnested = |list: Vec<Expr>, alias: &Ident| SelectItem::ExprWithAlias {
            expr: call("unnest", vec![call("make_array", list)]),
            alias: alias.clone(),
        };
        let mut items = vec![all_but(excluded), unnested(names, self.name)];
        let columns = lists.into_iter().zip(&named);
        items.extend(columns.map(|(list, name)| unnested(list, name)));
        let (query, rows) = select(items, taken(table))?;
        let rows = with_body(query, rows);
        if self.keeps_nulls {
            return Ok(rows);
        }
        let all = SelectItem::Wildcard(WildcardAdditionalOptions::default());
        let (query, mut kept) = select(vec![all], derived(rows, None))?;
        let is_there = named.into_iter().map(|name| {
            let name = Box::new(Expr::Identifier(name));
            Expr::IsNotNull(name)
        });
        // A row of several values is left out if one of them is not there, as in DuckDB.
        kept.selection = is_there.reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::And,
            right: Box::new(right),
        });
        Ok(with_body(query, kept))
    }
}

#[cfg(test)]
mod tests;
