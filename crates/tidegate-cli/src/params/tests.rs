//! Values are literals.

use super::{Params, literal};

#[test]
fn values_are_literals() {
    for value in [
        "42",
        "-1",
        "1.5",
        ".5",
        "1e9",
        "1E-3",
        "TRUE",
        "null",
        "'it''s'",
        "DATE '2024-01-31'",
        "interval '1 day'",
        "''",
    ] {
        assert_eq!(literal(value), value);
    }
    for (value, expect) in [
        ("abc", "'abc'"),
        ("it's", "'it''s'"),
        ("", "''"),
        ("1 OR 1=1", "'1 OR 1=1'"),
        ("' OR '1'='1", "''' OR ''1''=''1'"),
        ("'a' || 'b'", "'''a'' || ''b'''"),
        ("1--", "'1--'"),
        ("e9", "'e9'"),
        (".", "'.'"),
        ("DATE", "'DATE'"),
        ("date '1' or '1'", "'date ''1'' or ''1'''"),
        ("a\nb", "'a\nb'"),
    ] {
        assert_eq!(literal(value), expect);
    }
}

#[test]
fn values_take_the_place_of_names() {
    let params = ["k=3".into(), "name=O'Hara".into(), "kk=-4".into()];
    let params = Params::read(&params).unwrap();
    for (sql, expect) in [
        ("SELECT $k", "SELECT 3"),
        ("SELECT $k+$kk, '$k', $$k$$", "SELECT 3+(-4), '$k', $$k$$"),
        ("SELECT 1-$kk", "SELECT 1-(-4)"),
        ("SELECT $1, $other -- $k", "SELECT $1, $other -- $k"),
        (
            "SELECT * FROM t WHERE n = $name",
            "SELECT * FROM t WHERE n = 'O''Hara'",
        ),
    ] {
        assert_eq!(params.fill(sql), expect);
    }
    for wrong in ["k", "1=2", "a-b=2", "=2"] {
        assert!(Params::read(&[wrong.into()]).is_err(), "{wrong}");
    }
}
