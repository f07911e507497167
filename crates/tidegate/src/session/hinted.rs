//! Errors of planning, with the name or the file that was probably meant.

use datafusion::error::DataFusionError;

use super::Session;
use crate::error::{Error, ErrorKind};
use crate::stores::access::AllowedPaths;
use crate::suggest::nearest;

/// Describes a planning error; for a table that is not there, names the one that was probably meant.
pub(super) async fn with_hint(error: DataFusionError, sql: &str, session: &Session) -> Error {
    let described = Error::from(error);
    let message = described.to_string();
    let Some(missing) = missing_table(&message) else {
        return match quoted_path(sql) {
            // DataFusion does not say which file it is that cannot be read.
            Some(path) if described.kind() == ErrorKind::Io && !message.contains(path) => {
                // What stands behind '?' may be a signature.
                let path = path.split('?').next().unwrap_or_default();
                if message.contains(path) {
                    return described;
                }
                Error::with_source(
                    ErrorKind::Io,
                    format!("reading '{path}': {message}"),
                    described,
                )
            }
            _ => described,
        };
    };
    if let Some(path) = quoted_path(sql) {
        let allowed = AllowedPaths::of(&session.context().copied_config());
        if let Some(Err(error)) = allowed.map(|allowed| allowed.check_text(path)) {
            return error;
        }
        let message = format!(
            "'{path}' not found: no such file, folder or glob, or its ending is none of .parquet, \
             .csv, .tsv, .json, .ndjson, .jsonl, .arrow"
        );
        return Error::new(ErrorKind::Io, message);
    }
    let names = table_names(session).await;
    let name = missing.rsplit('.').next().unwrap_or(missing);
    let hint = match nearest(&names, name) {
        Some(candidate) => format!("did you mean '{candidate}'?"),
        _ if names.is_empty() => {
            "there are no tables yet: CREATE EXTERNAL TABLE, or a table function such as \
             tpch('lineitem', 0.1)"
                .to_string()
        }
        _ => format!("there are {}", names.join(", ")),
    };
    Error::new(
        described.kind(),
        format!("table '{name}' not found: {hint}"),
    )
}

/// Finds a quoted path of which the text selects, as `FROM 'data/t.parquet'`, that is not there.
fn quoted_path(sql: &str) -> Option<&str> {
    let quoted = sql.split('\'').skip(1).step_by(2);
    let mut paths = quoted.filter(|text| text.contains('/') || text.contains('.'));
    paths.find(|path| {
        let before = sql
            .split(*path)
            .next()
            .unwrap_or_default()
            .trim_end_matches('\'');
        let word = before
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .to_ascii_uppercase();
        matches!(word.as_str(), "FROM" | "JOIN" | "SUMMARIZE") || word.ends_with(',')
    })
}

fn missing_table(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("table '")?;
    let (name, rest) = rest.split_once('\'')?;
    rest.starts_with(" not found").then_some(name)
}

/// Lists the session's own tables, without the system's.
async fn table_names(session: &Session) -> Vec<String> {
    let ctx = session.context();
    let mut names = Vec::new();
    for catalog in ctx.catalog_names() {
        let Some(catalog) = ctx.catalog(&catalog) else {
            continue;
        };
        for schema in catalog.schema_names() {
            if schema == "information_schema" || schema == "system" {
                continue;
            }
            names.extend(
                catalog
                    .schema(&schema)
                    .into_iter()
                    .flat_map(|schema| schema.table_names()),
            );
        }
    }
    names.sort();
    names
}
