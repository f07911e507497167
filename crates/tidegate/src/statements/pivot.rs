//! `PIVOT` and `UNPIVOT` behind a table: subqueries of what there is.
//!
//! `t PIVOT (sum(v) FOR k IN ('a', 'b'))` is an aggregate with `FILTER` for each value, `sum(v) FILTER (WHERE k = 'a') AS
//! "a"`, grouped by all columns but those that the aggregates and `FOR` name. `t UNPIVOT (v FOR k IN (a, b))` is `unnest`
//! of the names and of the values of the columns, without what is NULL.
//!
//! The columns of a plan are known before it runs. Where the values are not listed, `IN (ANY)` or `IN (SELECT …)`, a query is asked
//! for them first ([`question`], [`answer`]).

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
use super::columns::calls::has_calls;
use super::scope::{merged, selects};
use super::using::folded;
use super::visits;
use crate::error::{Error, ErrorKind};

/// The most columns that a PIVOT makes.
const COLUMNS_MAX: usize = 10_000;

/// The function whose arguments are the columns of GROUP BY, among the aggregates: see `pivot_words`.
pub(super) const GROUPS: &str = "group by";

/// A value that becomes columns: of each part the text, and its SQL type if it is no string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PivotValue(pub(crate) Vec<(Option<String>, String)>);

impl PivotValue {
    /// Returns the value as it is written in a list.
    fn expr(&self) -> Result<ExprWithAlias, Error> {
        let part = |(data_type, text): &(Option<String>, String)| {
            let text = text.replace('\'', "''");
            match data_type {
                Some(data_type) => format!("CAST('{text}' AS {data_type})"),
                None => format!("'{text}'"),
            }
        };
        let parts: Vec<String> = self.0.iter().map(part).collect();
        let texts: Vec<&str> = self.0.iter().map(|(_, text)| text.as_str()).collect();
        let sql = format!("({})", parts.join(", "));
        let parser = Parser::new(&GenericDialect {}).try_with_sql(&sql);
        let expr = parser.and_then(|mut parser| parser.parse_expr());
        let expr = expr.map_err(|_| {
            let message = format!(
                "PIVOT: {} cannot be written as a value of a list: cast the column behind ON or FOR to VARCHAR",
                texts.join(", ")
            );
            not_supported(&message)
        })?;
        let alias = Some(Ident::with_quote('"', texts.join("_")));
        Ok(ExprWithAlias { expr, alias })
    }
}

/// Tells whether a query has a PIVOT whose values are not listed, its subqueries left out.
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
        _ => false,
    }
}

/// Finds the first PIVOT of a query whose values are not listed; of several behind one table, that which is next to it.
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

/// Returns the PIVOT next to a table, of those behind it whose values are not listed.
fn innermost(pivot: &mut TableFactor) -> &mut TableFactor {
    let goes_on =
        matches!(pivot, TableFactor::Pivot { table, .. } if is_open_table(table.as_ref()));
    if !goes_on {
        return pivot;
    }
    match pivot {
        TableFactor::Pivot { table, .. } => innermost(table),
        other => other,
    }
}

/// Returns the query of the values of the first PIVOT that does not list them, where these names are known.
pub(crate) fn question(query: &mut Query, with: Option<With>) -> Option<Query> {
    let Some(TableFactor::Pivot {
        table,
        value_column,
        value_source,
        ..
    }) = open(query)
    else {
        return None;
    };
    let mut question = match value_source {
        PivotValueSource::Subquery(values) => Query::clone(values),
        _ => {
            let places: Vec<String> = (1..=value_column.len()).map(|at| at.to_string()).collect();
            let sql = format!(
                "SELECT DISTINCT 1 FROM t ORDER BY {} LIMIT {}",
                places.join(", "),
                COLUMNS_MAX + 1
            );
            let parsed = Parser::parse_sql(&GenericDialect {}, &sql).ok()?.pop();
            let Some(ast::Statement::Query(mut question)) = parsed else {
                return None;
            };
            if let [select] = selects(&mut question.body).as_mut_slice() {
                let columns = value_column.iter().cloned();
                select.projection = columns.map(SelectItem::UnnamedExpr).collect();
                select.from = vec![TableWithJoins {
                    relation: TableFactor::clone(table),
                    joins: Vec::new(),
                }];
            }
            *question
        }
    };
    question.with = match (with, question.with.take()) {
        (Some(outer), Some(inner)) => Some(merged(outer, inner)),
        (outer, inner) => outer.or(inner),
    };
    Some(question)
}

/// Lists the values of the PIVOT that was asked for.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for a value of a type that SQL has no literal of.
pub(crate) fn answer(query: &mut Query, values: &[PivotValue]) -> Result<(), Error> {
    if let Some(TableFactor::Pivot { value_source, .. }) = open(query) {
        let exprs = values.iter().map(PivotValue::expr);
        *value_source = PivotValueSource::List(exprs.collect::<Result<_, _>>()?);
    }
    Ok(())
}

/// Writes PIVOT or UNPIVOT behind a table as a subquery.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for values that are not listed and for what is no name where one belongs.
pub(super) fn expand(table: &mut TableFactor) -> Result<(), Error> {
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
}

impl Pivot<'_> {
    fn query(&self, table: &mut TableFactor) -> Result<Query, Error> {
        let is_groups = |call: &Function| match call.name.0.as_slice() {
            [part] => part.as_ident().is_some_and(|name| name.value == GROUPS),
            _ => false,
        };
        let mut groups = None;
        let mut aggregates = Vec::with_capacity(self.aggregates.len());
        for aggregate in self.aggregates {
            match &aggregate.expr {
                Expr::Function(call) if is_groups(call) => groups = Some(arguments(call)),
                Expr::Function(call) => aggregates.push((call, aggregate.alias.as_ref())),
                other => {
                    let message = format!("PIVOT: {other} is no call of an aggregate function");
                    return Err(not_supported(&message));
                }
            }
        }
        let mut items = match groups {
            Some(groups) => groups.into_iter().map(SelectItem::UnnamedExpr).collect(),
            None => {
                let named = aggregates
                    .iter()
                    .flat_map(|(call, _)| columns_of(&Expr::Function((*call).clone())));
                let of_values = self.columns.iter().flat_map(columns_of);
                vec![all_but(of_values.chain(named).collect())]
            }
        };
        let made = self.values.len().saturating_mul(aggregates.len());
        if made > COLUMNS_MAX {
            let message = format!(
                "PIVOT would make {made} columns, and may make {COLUMNS_MAX}: list fewer values"
            );
            return Err(Error::new(ErrorKind::ResourcesExhausted, message));
        }
        for value in self.values {
            let condition = self.condition(&value.expr)?;
            let name = match &value.alias {
                Some(alias) => folded(alias),
                None => name_of(&value.expr),
            };
            for (call, alias) in &aggregates {
                let name = match alias {
                    Some(alias) => format!("{name}_{}", folded(alias)),
                    None if aggregates.len() > 1 => format!("{name}_{call}"),
                    None => name.clone(),
                };
                let expr = self.aggregate(call, condition.clone());
                let alias = Ident::with_quote('"', name);
                items.push(SelectItem::ExprWithAlias { expr, alias });
            }
        }
        let (query, mut select) = select(items, taken(table))?;
        select.group_by = GroupByExpr::All(Vec::new());
        Ok(with_body(query, select))
    }

    fn aggregate(&self, call_of: &Function, condition: Expr) -> Expr {
        let condition = match &call_of.filter {
            Some(own) => Expr::BinaryOp {
                left: Box::new(Expr::Nested(own.clone())),
                op: BinaryOperator::And,
                right: Box::new(condition),
            },
            None => condition,
        };
        let aggregate = Expr::Function(Function {
            filter: Some(Box::new(condition)),
            ..call_of.clone()
        });
        match self.default {
            Some(default) => call("coalesce", vec![aggregate, default.clone()]),
            None => aggregate,
        }
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
            names.push(string(match &column.alias {
                Some(alias) => folded(alias),
                None => name_of(&column.expr),
            }));
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
        // A row of several values is left out if none of them is there.
        kept.selection = is_there.reduce(|left, right| Expr::BinaryOp {
            left: Box::new(left),
            op: BinaryOperator::Or,
            right: Box::new(right),
        });
        Ok(with_body(query, kept))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use sqlparser::ast::{TableFactor, VisitMut, VisitorMut};
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::expand;

    struct Expand;

    impl VisitorMut for Expand {
        type Break = String;

        fn pre_visit_table_factor(&mut self, table: &mut TableFactor) -> ControlFlow<String> {
            match expand(table) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error.to_string()),
            }
        }
    }

    #[track_caller]
    fn check(from: &str, expect: Result<&str, &str>) {
        let sql = format!("SELECT * FROM {from}");
        let mut statements = Parser::parse_sql(&GenericDialect {}, &sql).unwrap();
        match (statements.visit(&mut Expand), expect) {
            (ControlFlow::Continue(()), Ok(expect)) => {
                assert_eq!(statements[0].to_string(), format!("SELECT * FROM {expect}"));
            }
            (ControlFlow::Break(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (done, _) => panic!("{from}: {done:?}"),
        }
    }

    #[test]
    fn pivot_is_an_aggregate_for_each_value() {
        check(
            "t PIVOT (sum(v) FOR k IN ('a', 2 AS b)) AS p",
            Ok(
                "(SELECT * EXCLUDE (k, v), sum(v) FILTER (WHERE (k) = ('a')) AS \"a\", \
                sum(v) FILTER (WHERE (k) = (2)) AS \"b\" FROM t GROUP BY ALL) AS p",
            ),
        );
        check(
            "t PIVOT (count(*) AS n, max(v + w) FOR (j, k) IN ((1, NULL)))",
            Ok(
                "(SELECT * EXCLUDE (j, k, v, w), count(*) FILTER (WHERE (j) = (1) AND (k) IS NULL) AS \"1_NULL_n\", \
                max(v + w) FILTER (WHERE (j) = (1) AND (k) IS NULL) AS \"1_NULL_max(v + w)\" FROM t GROUP BY ALL)",
            ),
        );
        check(
            "t PIVOT (sum(v), \"group by\"(g, h) FOR k IN ('a'))",
            Ok("(SELECT g, h, sum(v) FILTER (WHERE (k) = ('a')) AS \"a\" FROM t GROUP BY ALL)"),
        );
        check("t PIVOT (sum(v) FOR k IN (ANY))", Err("list the values"));
        check(
            "t PIVOT (sum(v) FOR (j, k) IN (1))",
            Err("1 has 1 values, and FOR names 2 columns"),
        );
    }

    #[test]
    fn unpivot_is_unnest_of_names_and_values() {
        check(
            "t UNPIVOT (v FOR k IN (a, B AS c))",
            Ok(
                "(SELECT * FROM (SELECT * EXCLUDE (a, B), unnest(make_array('a', 'c')) AS k, \
                unnest(make_array(a, B)) AS v FROM t) WHERE v IS NOT NULL)",
            ),
        );
        check(
            "t UNPIVOT INCLUDE NULLS (v FOR k IN (a)) AS u",
            Ok(
                "(SELECT * EXCLUDE (a), unnest(make_array('a')) AS k, unnest(make_array(a)) AS v FROM t) AS u",
            ),
        );
        check("t UNPIVOT (1 FOR k IN (a))", Err("1 is no name"));
    }
}
