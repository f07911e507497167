//! DataFusion's texts in the words of SQL: without the names of its parts, its types and its syntax trees.

use datafusion::error::DataFusionError;

use super::existence::location_without_files;

/// What stands before a cause, and says nothing to whoever wrote the statement.
const NESTING: [&str; 17] = [
    "Error during planning: ",
    "SQL error: ",
    "Execution error: ",
    "Arrow error: ",
    "External error: ",
    "Compute error: ",
    "Invalid regex",
    "Schema error: ",
    "Internal error: ",
    "This feature is not implemented: ",
    "Parquet error: ",
    "Parser error: ",
    "Invalid or Unsupported Configuration: ",
    "Object Store error: ",
    "Resources exhausted: ",
    "type_coercion",
    "caused by",
];

/// Where DataFusion asks for a report of what it takes for a defect of its own.
const REPORT: &str = "This issue was likely caused by a bug in DataFusion's code";

/// Beginnings of a syntax tree's debug format.
const TREES: [&str; 5] = [
    "Ident {",
    "ObjectName(",
    "Span(",
    "Token::",
    "Some(HiveFormat",
];

/// Arrow's types and the SQL types that they are.
const TYPES: [(&str, &str); 22] = [
    ("Boolean", "BOOLEAN"),
    ("Int8", "TINYINT"),
    ("Int16", "SMALLINT"),
    ("Int32", "INT"),
    ("Int64", "BIGINT"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("Float16", "FLOAT"),
    ("Float32", "FLOAT"),
    ("Float64", "DOUBLE"),
    ("Utf8", "VARCHAR"),
    ("Utf8View", "VARCHAR"),
    ("LargeUtf8", "VARCHAR"),
    ("Binary", "BYTEA"),
    ("BinaryView", "BYTEA"),
    ("LargeBinary", "BYTEA"),
    ("Date32", "DATE"),
    ("Date64", "DATE"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
];

/// Units of Arrow's times and intervals.
const UNITS: [&str; 12] = [
    "s",
    "ms",
    "us",
    "µs",
    "ns",
    "Second",
    "Millisecond",
    "Microsecond",
    "Nanosecond",
    "YearMonth",
    "DayTime",
    "MonthDayNano",
];

/// What the physical planner says of an expression of which no rule made something else.
pub(super) const LEFT: &str = "Physical plan does not support logical expression";

/// Writes an error without its nesting, any backtrace and any syntax tree.
pub(super) fn plain(error: &DataFusionError) -> String {
    let message = error.strip_backtrace();
    let message = message.split("\n\nbacktrace").next().unwrap_or_default();
    let mut rest = match message.split_once(REPORT) {
        Some((before, _)) => before.trim().trim_end_matches('.'),
        None => message.trim(),
    };
    loop {
        let inner = NESTING.iter().find_map(|prefix| rest.strip_prefix(prefix));
        let inner = inner.or_else(|| after_rule(rest));
        match inner {
            Some(inner) => rest = inner.trim_start(),
            None => break,
        }
    }
    if rest.starts_with(LEFT) && rest.contains("WindowFunction") {
        return "a window function has no value yet where WHERE, ON and GROUP BY are computed"
            .into();
    }
    if rest.starts_with(LEFT) {
        return "a subquery uses columns of the query around it in a way that is not supported"
            .into();
    }
    if let Some(location) = location_without_files(rest) {
        let name = location.strip_prefix("file://").unwrap_or(location);
        return format!("cannot read {name}: no such file, or an empty file");
    }
    let text = without_tree(rest.trim_end());
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let text = lines.join(" ");
    match error.find_root() {
        DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => in_sql(&text),
        _ => text,
    }
}

/// Returns what follows the name of an optimizer's rule.
fn after_rule(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("Optimizer rule '")?;
    rest.split_once("' failed").map(|(_, rest)| rest)
}

/// Cuts a text before a syntax tree.
pub(super) fn without_tree(text: &str) -> &str {
    let Some(tree) = TREES.iter().filter_map(|tree| text.find(tree)).min() else {
        return text;
    };
    let before = &text[..tree];
    let end = before.find(['(', '{', '[']).unwrap_or(tree);
    before[..end].trim_end_matches([' ', ':', ','])
}

/// Writes Arrow's types as SQL types, and literals such as `Int64(1)` as their values.
pub(crate) fn in_sql(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        if !is_word(c) {
            // What is quoted is the user's.
            let end = match c {
                '\'' | '"' => rest[1..].find(c).map_or(1, |end| end + 2),
                _ => c.len_utf8(),
            };
            written.push_str(&rest[..end]);
            rest = &rest[end..];
            continue;
        }
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let word = &rest[..end];
        rest = &rest[end..];
        if let Some((sql, behind)) = time(word, rest) {
            written.push_str(sql);
            rest = behind;
            continue;
        }
        let Some((_, sql)) = TYPES.iter().find(|(arrow, _)| *arrow == word) else {
            written.push_str(word);
            continue;
        };
        match literal(rest).filter(|_| !sql.starts_with("DECIMAL")) {
            Some((value, after)) => {
                match value
                    .strip_prefix('"')
                    .and_then(|value| value.strip_suffix('"'))
                {
                    Some(text) => written.push_str(&format!("'{text}'")),
                    None => written.push_str(value),
                }
                rest = after;
            }
            None => written.push_str(sql),
        }
    }
    written
}

/// Reads the unit of a time or an interval, as in `Timestamp(ns)`.
fn time<'a>(word: &str, rest: &'a str) -> Option<(&'static str, &'a str)> {
    let (inner, behind) = rest.strip_prefix('(')?.split_once(')')?;
    let mut parts = inner.split(',').map(str::trim);
    if !UNITS.contains(&parts.next()?) {
        return None;
    }
    let has_zone = parts.next().is_some_and(|zone| zone != "None");
    let sql = match word {
        "Timestamp" if has_zone => "TIMESTAMP WITH TIME ZONE",
        "Timestamp" => "TIMESTAMP",
        "Time32" | "Time64" => "TIME",
        "Interval" | "Duration" => "INTERVAL",
        _ => return None,
    };
    Some((sql, behind))
}

/// Reads a value in parentheses, as in `Int64(1)`.
fn literal(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('(')?;
    let end = match inner.strip_prefix('"') {
        Some(quoted) => quoted.find("\")")? + 2,
        None => inner.find(')')?,
    };
    Some((&inner[..end], &inner[end + 1..]))
}

#[cfg(test)]
mod tests;
