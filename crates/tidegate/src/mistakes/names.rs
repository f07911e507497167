//! Names in scope: the nearest to one that is wrong, and how they are written.

use datafusion::common::Column;
use datafusion::execution::context::SessionState;

use super::Known;
use super::rewrites::{MESSAGES, Row};
use crate::error::in_sql;

/// The most names that an error lists.
const LISTED_MAX: usize = 5;

/// The types that a CAST takes.
pub(super) const TYPES: [&str; 16] = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "VARCHAR",
    "BYTEA",
    "DATE",
    "TIME",
    "TIMESTAMP",
    "TIMESTAMPTZ",
    "INTERVAL",
    "JSON",
];

/// Other names of these types, which may be meant too.
pub(super) const OTHER_TYPES: [&str; 7] = [
    "INTEGER", "TEXT", "STRING", "NUMERIC", "REAL", "DATETIME", "BOOL",
];

/// The views of `information_schema`, which is in no catalog.
const INFORMATION_SCHEMA: [&str; 7] = [
    "columns",
    "df_settings",
    "parameters",
    "routines",
    "schemata",
    "tables",
    "views",
];

/// Schemas whose tables are the system's.
const SYSTEM: [&str; 2] = ["information_schema", "system"];

/// Finds the row of a name.
pub(super) fn row(table: &[Row], name: &str) -> Option<&'static str> {
    let is_it = |typed: &str| {
        typed
            .split(' ')
            .any(|typed| typed.eq_ignore_ascii_case(name))
    };
    table
        .iter()
        .find(|(typed, _)| is_it(typed))
        .map(|(_, help)| *help)
}

/// Finds the way out of what a message begins with.
pub(super) fn row_of_message(message: &str) -> Option<&'static str> {
    let rows = MESSAGES.iter();
    let mut rows = rows.filter(|(begins, _)| message.starts_with(begins));
    rows.next().map(|(_, help)| *help)
}

/// Finds the name that a slip of the pen made another of: about one letter in three may be wrong.
pub(crate) fn nearest<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Option<&'a str> {
    let (distance, near) = by_distance(names, name).into_iter().next()?;
    let longer = last_part(near).chars().count().max(name.chars().count());
    (distance <= 1.max(longer / 3) && distance < longer).then_some(near)
}

/// Lists the names that are most like another one.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> String {
    let names: Vec<&str> = names.collect();
    if names.len() <= LISTED_MAX {
        return names.join(", ");
    }
    let near = by_distance(names.into_iter(), name);
    let near: Vec<&str> = near
        .into_iter()
        .take(LISTED_MAX)
        .map(|(_, name)| name)
        .collect();
    format!("{}, …", near.join(", "))
}

fn by_distance<'a>(names: impl Iterator<Item = &'a str>, name: &str) -> Vec<(usize, &'a str)> {
    let name = name.to_lowercase();
    let mut measured: Vec<(usize, &str)> = names
        .map(|candidate| {
            let plain = last_part(candidate).to_lowercase();
            let whole = strsim::osa_distance(&candidate.to_lowercase(), &name);
            (whole.min(strsim::osa_distance(&plain, &name)), candidate)
        })
        .collect();
    measured.sort();
    measured
}

/// Returns the last part of a name, without its quotes.
fn last_part(name: &str) -> &str {
    match name.starts_with('"') {
        true => name.trim_matches('"'),
        false => name.rsplit('.').next().unwrap_or(name).trim_matches('"'),
    }
}

/// Writes a column as a statement has it, with its table's name if `table` is given.
pub(super) fn written(column: &Column, table: Option<&str>) -> String {
    let is_plain = column
        .name
        .chars()
        .all(|c| c == '_' || c.is_ascii_lowercase() || c.is_ascii_digit())
        && !column.name.starts_with(|c: char| c.is_ascii_digit());
    let name = match is_plain {
        true => column.name.clone(),
        false => format!("\"{}\"", column.name.replace('"', "\"\"")),
    };
    match table {
        Some(table) => format!("{table}.{name}"),
        None => name,
    }
}

/// Says which tables a statement has, of which one is named that it has not.
pub(super) fn tables_in_scope(table: &str, column: &str, known: &[Column]) -> String {
    let mut tables: Vec<&str> = known
        .iter()
        .filter_map(|known| known.relation.as_ref().map(|table| table.table()))
        .collect();
    tables.dedup();
    let has = known.iter().find(|known| known.name == column);
    let owner = has.and_then(|known| known.relation.as_ref());
    match (owner, nearest(tables.iter().copied(), table)) {
        (_, Some(near)) => format!("did you mean {near}.{column}?"),
        (Some(owner), None) => {
            format!(
                "{table} is no table or alias of this query: {}.{column}",
                owner.table()
            )
        }
        (None, None) if tables.is_empty() => format!("{table} is no table of this query"),
        (None, None) => {
            let tables = listed(tables.iter().copied(), table);
            format!("{table} is no table or alias of this query, which has {tables}")
        }
    }
}

/// Returns the tables among which one was meant: the session's own, or those of the system's schema.
pub(super) fn tables(known: &Known<'_>, schema: Option<&str>) -> Vec<String> {
    let Some(schema) = schema.filter(|schema| SYSTEM.contains(schema)) else {
        return known.tables.clone();
    };
    if schema == "information_schema" {
        return INFORMATION_SCHEMA.map(str::to_owned).to_vec();
    }
    let list = known.state.catalog_list();
    let mut names: Vec<String> = list
        .catalog_names()
        .iter()
        .filter_map(|catalog| list.catalog(catalog)?.schema(schema))
        .flat_map(|schema| schema.table_names())
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Lists the functions that a statement may call.
pub(super) fn functions(state: &SessionState) -> Vec<String> {
    let mut names: Vec<String> = state.scalar_functions().keys().cloned().collect();
    names.extend(state.aggregate_functions().keys().cloned());
    names.extend(state.window_functions().keys().cloned());
    names.extend(state.higher_order_functions().keys().cloned());
    names.extend(crate::functions::forms::names().map(str::to_owned));
    names.sort();
    names.dedup();
    names
}

/// Returns the first of a function's names.
pub(super) fn canonical(state: &SessionState, name: &str) -> Option<String> {
    let scalar = state
        .scalar_functions()
        .get(name)
        .map(|f| f.name().to_string());
    scalar.or_else(|| {
        let aggregate = state.aggregate_functions().get(name);
        aggregate.map(|f| f.name().to_string())
    })
}

/// Returns how a call of a function is written.
pub(super) fn example(state: &SessionState, name: &str) -> Option<String> {
    let scalar = state.scalar_functions().get(name);
    let doc = scalar.and_then(|f| f.documentation().cloned());
    let doc = doc.or_else(|| {
        let aggregate = state.aggregate_functions().get(name);
        aggregate.and_then(|f| f.documentation().cloned())
    });
    let syntax = doc?.syntax_example;
    let first = syntax.lines().next()?.trim();
    (!first.is_empty()).then(|| in_sql(first))
}
