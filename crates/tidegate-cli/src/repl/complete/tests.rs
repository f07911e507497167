//! Words fit their place.

use super::{Completion, complete};
use tidegate::{Names, TableNames};

fn names() -> Names {
    let table = |schema: &str, table: &str, columns: &[&str]| TableNames {
        schema: schema.into(),
        table: table.into(),
        columns: columns.iter().map(ToString::to_string).collect(),
    };
    Names {
        tables: vec![
            table("", "lineitem", &["l_orderkey", "l_tax"]),
            table("", "My table", &["Über"]),
            table("system", "queries", &["id"]),
        ],
        functions: vec!["sum".into(), "lower".into()],
        settings: vec!["tidegate.placement".into(), "tidegate.regions".into()],
    }
}

#[track_caller]
fn check(text: &str, expect: &[&str]) {
    let Completion::Words(start, words) = complete(&names(), text) else {
        panic!("a path: {text}")
    };
    let whole: Vec<String> = words
        .iter()
        .map(|word| format!("{}{}", &text[..start], word.replacement))
        .collect();
    assert_eq!(whole, expect, "{text}");
}

#[test]
fn words_fit_their_place() {
    check("SEL", &["SELECT"]);
    check("sel", &["select"]);
    check(
        "SELECT * FROM li",
        &[
            "SELECT * FROM lineitem",
            "SELECT * FROM like",
            "SELECT * FROM limit",
        ],
    );
    check("SELECT * FROM my", &["SELECT * FROM \"My table\""]);
    check(
        "SELECT l_ FROM lineitem WHERE l_t",
        &["SELECT l_ FROM lineitem WHERE l_tax"],
    );
    check("SELECT su", &["SELECT summarize", "SELECT sum("]);
    check("SELECT * FROM sys", &["SELECT * FROM system."]);
    check("SELECT * FROM system.q", &["SELECT * FROM system.queries"]);
    check("SELECT lineitem.l_t", &["SELECT lineitem.l_tax"]);
    check(
        "FROM lineitem AS a WHERE a.l_t",
        &["FROM lineitem AS a WHERE a.l_tax"],
    );
    check(
        "FROM lineitem a WHERE a.l_t",
        &["FROM lineitem a WHERE a.l_tax"],
    );
    check("SET tidegate.p", &["SET tidegate.placement"]);
    check("SELECT ", &[]);
    check("SELECT nothing_like_it", &[]);
}

#[test]
fn commands_are_completed_too() {
    check("\\tim", &["\\timing"]);
    check(".timing o", &[".timing on", ".timing off"]);
    check("\\d li", &["\\d lineitem"]);
    check("\\format c", &["\\format csv"]);
    assert!(matches!(complete(&names(), "\\i ab"), Completion::Path));
}

#[test]
fn paths_stand_in_quotes() {
    assert!(matches!(
        complete(&names(), "SELECT * FROM 'da"),
        Completion::Path
    ));
    assert!(matches!(
        complete(&names(), "SELECT * FROM '"),
        Completion::Path
    ));
    check("SELECT 'a' FROM linei", &["SELECT 'a' FROM lineitem"]);
}
