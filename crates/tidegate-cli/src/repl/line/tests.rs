//! Enter runs commands and whole statements.

use super::{coloured, is_complete};

#[test]
fn enter_runs_commands_and_whole_statements() {
    for text in [
        "",
        "\\d",
        ".timing",
        "\\nonsense",
        "quit",
        "SELECT 1;",
        "SELECT\n1;\n",
    ] {
        assert!(is_complete(text), "{text}");
    }
    for text in [
        "SELECT 1",
        "SELECT 'a;",
        "SELECT (1;",
        "quit job",
        "SELECT\n\\d",
    ] {
        assert!(!is_complete(text), "{text}");
    }
}

#[test]
fn colours_change_no_text() {
    let text = coloured("SELECT 'a' -- b");
    assert_eq!(
        text,
        "\x1b[1;34mSELECT\x1b[0m \x1b[32m'a'\x1b[0m \x1b[2m-- b\x1b[0m"
    );
}
