//! Errors of statements, with the place of the mistake and the way out.

use std::path::Path;

use super::Session;
use super::formats::ENDINGS;
use crate::error::{Error, ErrorKind};
use crate::mistakes::{Known, explain, listed, missing_table, nearest, place_of_table};
use crate::stores::access::AllowedPaths;
use crate::stores::remote_url;

/// The most names of a folder among which one is looked for.
const FOLDER_MAX: usize = 10_000;

/// Adds to an error where in the statement it is and what to write instead; of a file or a table that is not
/// there, the one that was probably meant.
pub(super) fn with_hint(error: impl Into<Error>, sql: &str, session: &Session) -> Error {
    let error = match &session.inputs {
        Some(inputs) => inputs.named(error.into()),
        None => error.into(),
    };
    if error.place().is_some() || error.help().is_some() {
        return error;
    }
    let state = session.context().state();
    if let Some(path) = quoted_path(sql) {
        if missing_table(&error).is_some() {
            let place = place_of_table(path, sql, &state);
            return missing_file(path, session).at(place);
        }
        // DataFusion does not say which file it is that cannot be read.
        // What stands behind '?' may be a signature.
        let shown = path.split('?').next().unwrap_or_default();
        let kind = error.kind();
        let is_of_file = matches!(kind, ErrorKind::Io | ErrorKind::NotFound);
        if is_of_file && !error.message().contains(shown) {
            let message = format!("reading '{shown}': {error}");
            return Error::with_source(kind, message, error);
        }
    }
    if let Some(table) = missing_table(&error) {
        let name = table.rsplit('.').next().unwrap_or(&table);
        if let Some(help) = file_instead(name, session) {
            let error = error.with_message(format!("table '{name}' not found"));
            return error
                .at(place_of_table(name, sql, &state))
                .with_help(Some(help));
        }
    }
    let known = Known {
        state: &state,
        tables: table_names(session),
    };
    explain(error, sql, &known)
}

/// Says how to read a file that has the name of a table that is not there.
fn file_instead(name: &str, session: &Session) -> Option<String> {
    let tables = table_names(session);
    if !session.reads_file_urls || nearest(tables.iter().map(String::as_str), name).is_some() {
        return None;
    }
    let (path, help) = file_of_name(name, Path::new("."))?;
    let allowed = AllowedPaths::of(&session.context().copied_config());
    match allowed.map(|allowed| allowed.check_text(&path)) {
        Some(Err(_)) => None,
        _ => Some(help),
    }
}

/// Finds a file or a folder with a name in a folder, with an ending or without; returns its path and how to read it.
fn file_of_name(name: &str, folder: &Path) -> Option<(String, String)> {
    let is_there = |path: &String| folder.join(path).is_file();
    let mut paths = ENDINGS.split(", ").map(|ending| format!("{name}{ending}"));
    if let Some(path) = paths.find(is_there) {
        let help = format!("there is a file: FROM '{path}'");
        return Some((path, help));
    }
    if folder.join(name).is_dir() {
        let path = format!("{name}/");
        let help = format!("there is a folder: FROM '{path}'");
        return Some((path, help));
    }
    let path = Some(name.to_string()).filter(is_there)?;
    let help = format!(
        "there is a file: read it with read_csv('{path}'), read_json('{path}') or read_parquet('{path}')"
    );
    Some((path, help))
}

/// Says why nothing could be read at a path.
fn missing_file(path: &str, session: &Session) -> Error {
    let allowed = AllowedPaths::of(&session.context().copied_config());
    if let Some(Err(error)) = allowed.map(|allowed| allowed.check_text(path)) {
        return error;
    }
    let missing = Error::new(ErrorKind::NotFound, format!("'{path}' not found"));
    if !session.reads_file_urls || remote_url(path).is_some() {
        let help = format!("no such file, folder or glob, or its ending is none of {ENDINGS}");
        return missing.with_help(Some(help));
    }
    if path.contains(['*', '?', '[']) {
        let help = format!("no file matches the pattern and ends in one of {ENDINGS}");
        return missing.with_help(Some(help));
    }
    let file = Path::new(path);
    if file.is_file() {
        if let Some((kind, help)) = of_others(path) {
            let message = format!("'{path}' is {kind}, which is not read");
            return Error::new(ErrorKind::NotSupported, message).with_help(Some(help.into()));
        }
        let message = format!("'{path}' is there, and its ending does not say what it is");
        let help = format!(
            "read it with read_csv('{path}'), read_json('{path}') or read_parquet('{path}')"
        );
        return Error::new(ErrorKind::Io, message).with_help(Some(help));
    }
    if file.is_dir() {
        let help = format!("the folder has no file that ends in one of {ENDINGS}");
        let message = format!("'{path}' has nothing to read");
        return Error::new(ErrorKind::Io, message).with_help(Some(help));
    }
    missing.with_help(Some(beside(file)))
}

/// Names the files of other programs by their endings, and says what those write that is read here.
fn of_others(path: &str) -> Option<(&'static str, &'static str)> {
    let ending = path.rsplit('.').next()?.to_ascii_lowercase();
    match ending.as_str() {
        "xlsx" | "xls" | "xlsm" | "ods" => Some((
            "a spreadsheet",
            "save the sheet as CSV, and read FROM 'x.csv'",
        )),
        "db" | "duckdb" | "sqlite" | "sqlite3" => Some((
            "a database file",
            "export its tables to Parquet or CSV there, and read FROM 'x.parquet'",
        )),
        _ => None,
    }
}

/// Says what there is in a folder instead of a file.
fn beside(file: &Path) -> String {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let Ok(entries) = folder.read_dir() else {
        return format!("there is no folder '{}'", folder.display());
    };
    let names = entries.flatten().take(FOLDER_MAX);
    let mut names: Vec<String> = names
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    match nearest(names.iter().map(String::as_str), &name) {
        Some(near) => format!("did you mean '{}'?", file.with_file_name(near).display()),
        None if names.is_empty() => format!("the folder '{}' is empty", folder.display()),
        None => {
            let listed = listed(names.iter().map(String::as_str), &name);
            format!("the folder '{}' has {listed}", folder.display())
        }
    }
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

/// Lists the session's own tables, without the system's.
fn table_names(session: &Session) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::file_of_name;

    #[test]
    fn files_with_the_name_of_a_table_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["orders.csv", "log"] {
            fs::write(folder.path().join(name), "a\n1\n").unwrap();
        }
        let help = |name| file_of_name(name, folder.path()).map(|(_, help)| help);
        assert_eq!(
            help("orders").as_deref(),
            Some("there is a file: FROM 'orders.csv'")
        );
        let log = "there is a file: read it with read_csv('log'), read_json('log') or read_parquet('log')";
        assert_eq!(help("log").as_deref(), Some(log));
        assert_eq!(help("other"), None);
    }
}
