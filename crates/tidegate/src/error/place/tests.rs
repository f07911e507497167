//! Carets stand below the place.

use super::SqlPlace;

fn check(sql: &str, line: u64, column: u64, characters: u64, expect: &str) {
    let place = SqlPlace::new(sql, line, column, characters);
    assert_eq!(place.to_string(), expect);
}

#[test]
fn carets_stand_below_the_place() {
    check("SELECT a", 1, 8, 1, "  1 | SELECT a\n    |        ^");
    check("SELECT\n\tabc", 2, 2, 3, "  2 |  abc\n    |  ^^^");
    check(
        "SELECT 表 x",
        1,
        10,
        1,
        "  1 | SELECT 表 x\n    |           ^",
    );
    check("SELECT", 1, 7, 1, "  1 | SELECT\n    |       ^");
    check("SELECT", 9, 9, 9, "  at line 9, column 9");
}

#[test]
fn long_lines_are_cut_around_the_place() {
    let sql = format!(
        "SELECT {}, wrong, {} FROM t",
        "a".repeat(200),
        "b".repeat(200)
    );
    let text = SqlPlace::new(&sql, 1, 210, 5).to_string();
    let lines: Vec<&str> = text.lines().collect();
    let at = lines[1].chars().position(|c| c == '^').unwrap();
    let under: String = lines[0].chars().skip(at).take(5).collect();
    assert_eq!(under, "wrong");
    assert!(lines[0].chars().count() < 112, "{text}");
}
