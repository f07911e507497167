//! Commands stand on lines of their own.

use super::{What, cut};

#[track_caller]
fn check(text: &str, expect: &[(&str, u64)]) {
    let steps = cut(text).unwrap();
    let found: Vec<(String, u64)> = steps
        .iter()
        .map(|step| match &step.what {
            What::Statement(statement) => (statement.text().to_string(), step.line),
            What::Command(line) => (line.clone(), step.line),
        })
        .collect();
    let found: Vec<(&str, u64)> = found
        .iter()
        .map(|(text, line)| (text.as_str(), *line))
        .collect();
    assert_eq!(found, expect);
}

#[test]
fn commands_stand_on_lines_of_their_own() {
    check("", &[]);
    check("SELECT 1;SELECT 2", &[("SELECT 1", 1), ("SELECT 2", 1)]);
    check(
        "\\timing on\nSELECT\n1;\n.mode csv\n\nSELECT 2",
        &[
            ("\\timing on", 1),
            ("SELECT\n1", 2),
            (".mode csv", 4),
            ("SELECT 2", 6),
        ],
    );
    check("SELECT '\n.mode csv\n'", &[("SELECT '\n.mode csv\n'", 1)]);
    check("SELECT\n.5", &[("SELECT\n.5", 1)]);
    check("-- a\n\\q\n", &[("\\q", 2)]);
    check(
        "SELECT 1;\nexit\nSELECT 2;\nQUIT;\n",
        &[("SELECT 1", 1), ("exit", 2), ("SELECT 2", 3), ("QUIT;", 4)],
    );
    check("SELECT 1 AS\nexit", &[("SELECT 1 AS\nexit", 1)]);
}

#[test]
fn mistakes_keep_their_line() {
    let error = cut("\\timing\nSELECT 1;\nSELECT 'a").unwrap_err();
    assert!(error.contains("\n  3 | SELECT 'a\n"), "{error}");
}
