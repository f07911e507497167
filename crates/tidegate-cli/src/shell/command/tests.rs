//! Commands have two prefixes and some names.

use clap::ValueEnum;

use super::{Command, Expansion, parse};
use crate::args::{Format, MaxRows};

fn check(text: &str, expect: Command) {
    assert_eq!(parse(text), Some(Ok(expect)), "{text}");
}

#[test]
fn commands_have_two_prefixes_and_some_names() {
    for text in ["\\q", ".q", ".quit", "\\EXIT", "quit", "exit;", " quit ; "] {
        check(text, Command::Quit);
    }
    for text in ["\\h", "\\?", ".help", "help"] {
        check(text, Command::Help);
    }
    check("\\d", Command::Describe(None));
    check(".tables", Command::Describe(None));
    check(
        "\\d  \"My table\" ;",
        Command::Describe(Some("\"My table\"".into())),
    );
    check("\\timing", Command::Timing(None));
    check(".timer on", Command::Timing(Some(true)));
    check("\\placement off", Command::Placement(Some(false)));
    check("\\format JSON", Command::Format(Some(Format::Json)));
    check(".mode", Command::Format(None));
    check("\\maxrows all", Command::MaxRows(Some(MaxRows(None))));
    check("\\x", Command::Expanded(None));
    check("\\x auto", Command::Expanded(Some(Expansion::Auto)));
    check("\\o", Command::Output(None));
    check("\\o 'a b.csv'", Command::Output(Some("a b.csv".into())));
    check("\\i a.sql", Command::Include("a.sql".into()));
    check(".read a.sql", Command::Include("a.sql".into()));
    check(
        "\\watch 0.5",
        Command::Watch(std::time::Duration::from_millis(500)),
    );
    check("\\dt", Command::Describe(None));
    check("\\d+ t", Command::Describe(Some("t".into())));
    let value = || ("k".to_string(), "DATE '2024-01-31'".to_string());
    check("\\set k DATE '2024-01-31'", Command::Set(Some(value())));
    check(".param k=DATE '2024-01-31'", Command::Set(Some(value())));
    check("\\unset k", Command::Unset("k".into()));
    check("\\df pad", Command::Functions(Some("pad".into())));
    check("\\maxrows 7", Command::MaxRows(Some(MaxRows(Some(7)))));
}

#[test]
fn formats_have_the_names_of_the_command_line() {
    let names: Vec<String> = Format::value_variants()
        .iter()
        .map(Format::to_string)
        .collect();
    assert_eq!(names, super::FORMATS);
}

#[test]
fn sql_is_no_command() {
    for text in ["", "SELECT 1", "quit job;", "SELECT '\\d'", "-- \\d"] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn mistakes_get_a_way_out() {
    let check = |text: &str, expect: &str| assert_eq!(parse(text), Some(Err(expect.into())));
    check(
        "\\formt csv",
        "there is no command \\formt; did you mean \\format?",
    );
    check(
        ".timings",
        "there is no command \\timings; did you mean \\timing?",
    );
    check("\\table", "there is no command \\table; did you mean \\d?");
    check("\\xyzzy", "there is no command \\xyzzy; \\? lists them");
    check(
        ".import x.csv t",
        "there is no command \\import: CREATE TABLE t AS SELECT * FROM 'x.csv'",
    );
    check(
        ".headers on",
        "there is no command \\headers: results have the names of their columns; \\format chooses how they \
         are written",
    );
    check("\\timing maybe", "\\timing takes on, off or nothing");
    check(
        "\\format xml",
        "\\format takes one of table, expanded, csv, tsv, json, ndjson, markdown, arrow, parquet",
    );
    check("\\i", "\\i takes the name of a file");
    check("\\watch 0", "\\watch takes seconds, from 0.1 to 86400");
    check(
        "\\maxrows x",
        "\\maxrows: expected a number of rows or 'all'",
    );
}
