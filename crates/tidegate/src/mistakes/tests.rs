//! The table of rewrites names what is there. What is said of mistakes is in `tests/it/mistakes.rs`.

use std::collections::BTreeSet;

use super::rewrites;
use crate::Session;
use crate::functions::forms;

fn session() -> Session {
    Session::builder()
        .visible_devices(Some(String::new()))
        .build()
        .unwrap()
}

/// Lists all tables of rewrites.
fn tables() -> [(&'static str, &'static [rewrites::Row]); 8] {
    [
        ("functions", rewrites::FUNCTIONS),
        ("table functions", rewrites::TABLE_FUNCTIONS),
        ("tables", rewrites::TABLES),
        ("columns", rewrites::COLUMNS),
        ("types", rewrites::TYPES),
        ("statements", rewrites::STATEMENTS),
        ("settings", rewrites::SETTINGS),
        ("messages", rewrites::MESSAGES),
    ]
}

/// Finds the names of functions that a text calls.
fn called(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('(').filter_map(|(end, _)| {
        let before = &text[..end];
        let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let start = before.rfind(|c| !is_name(c)).map_or(0, |start| start + 1);
        let follows_word = before[..start].ends_with(|c: char| c.is_alphanumeric());
        (start < end && !follows_word).then_some(&before[start..])
    })
}

#[test]
fn what_is_to_be_written_is_there() {
    let session = session();
    let state = session.context().state();
    let mut known: BTreeSet<String> = super::names::functions(&state).into_iter().collect();
    known.extend(state.table_functions().keys().cloned());
    // Words that SQL reads in its own way, names of the examples, and functions of other crates.
    let words = [
        "f",
        "t",
        "unnest",
        "extract",
        "overlay",
        "date_diff",
        "read_csv",
        "read_json",
        "read_parquet",
    ];
    known.extend(words.map(str::to_owned));
    for (table, rows) in tables() {
        for (typed, help) in rows {
            for name in called(help) {
                assert!(
                    known.contains(name),
                    "{table}: {typed}: {name} is no function"
                );
            }
        }
    }
}

#[test]
fn no_row_stands_in_another_ones_way() {
    let session = session();
    let state = session.context().state();
    for (table, rows) in tables() {
        let mut seen = BTreeSet::new();
        for (typed, help) in rows {
            assert!(!help.is_empty() && help.len() < 160, "{table}: {typed}");
            let names: Vec<&str> = match table {
                "statements" | "messages" => vec![typed],
                _ => typed.split(' ').collect(),
            };
            for name in names {
                assert!(seen.insert(name), "{table}: {name} is there twice");
                if table == "functions" {
                    let is_there = super::names::canonical(&state, name).is_some();
                    assert!(!is_there, "{name} is a function");
                    assert!(!forms::names().any(|form| form == name), "{name} is a form");
                }
            }
        }
    }
}
