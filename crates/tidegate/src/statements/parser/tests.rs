//! Extension statements are told from others, and their mistakes are named.

use sqlparser::ast::Ident;

use super::{CacheStatement, Parsed, RegionFormat, Tier};
use crate::statements::StatementError;
use crate::statements::tests::text;

fn parsed(sql: &str) -> Result<Parsed, StatementError> {
    text(sql)?.parse()
}

#[track_caller]
fn check_error(sql: &str, expect: &str) {
    let error = parsed(sql).unwrap_err().to_string();
    assert!(error.contains(expect), "{sql}: {error}");
}

/// Returns the words that are left to DataFusion's parser; `None` of an extension statement.
fn rest(parsed: Parsed) -> Option<(String, bool)> {
    let (Parsed::Regions(_, rest) | Parsed::Standard(rest)) = parsed else {
        return None;
    };
    let words = rest.tokens.iter().map(|token| token.token.to_string());
    Some((words.collect(), rest.is_summary))
}

#[test]
fn queries_are_killed_by_their_number() {
    for sql in ["KILL QUERY 17", "kill 17;", "-- stop\nKill Query 17"] {
        assert!(matches!(parsed(sql), Ok(Parsed::Kill(17))), "{sql}");
    }
    for sql in ["KILL", "KILL QUERY", "KILL QUERY x", "KILL 1.5", "KILL 1 2"] {
        assert!(parsed(sql).is_err(), "{sql}");
    }
}

#[test]
fn statements_of_the_cache_are_recognised_in_any_case() {
    let check = |sql: &str, expect: CacheStatement| match parsed(sql) {
        Ok(Parsed::Cache(found)) => assert_eq!(found, expect, "{sql}"),
        other => panic!("{sql}: {other:?}"),
    };
    let cache = |columns: &[&str], tier| {
        let columns = columns.iter().map(|column| Ident::new(*column)).collect();
        CacheStatement::Cache {
            table: vec![Ident::new("t")],
            columns,
            tier,
        }
    };
    check("CACHE TABLE t ON DEVICE", cache(&[], Tier::Device));
    check("cache table t on device;", cache(&[], Tier::Device));
    check("CACHE TABLE t ON HOST", cache(&[], Tier::Host));
    check(
        "-- keep it\n Cache /* this */ Table t (a,\n b) On Device",
        cache(&["a", "b"], Tier::Device),
    );
    let table = vec![
        Ident::new("c"),
        Ident::with_quote('"', "My Schema"),
        Ident::new("t"),
    ];
    check(
        "UNCACHE TABLE c.\"My Schema\".t",
        CacheStatement::Uncache { table },
    );
}

#[test]
fn other_statements_are_left_as_they_are() {
    for sql in [
        "",
        "SELECT 1",
        "\"KILL\" 1",
        "CREATE TABLE cache(a INT)",
        "CACHE",
        "\"CACHE\" TABLE t ON DEVICE",
        "EXPLAIN",
        "EXPLAIN SELECT 1",
        "EXPLAIN FORMAT INDENT SELECT 1",
        "EXPLAIN (FORMAT TREE) SELECT 1",
        "EXPLAIN (ANALYZE, FORMAT CUDA) SELECT 1",
        "EXPLAIN (FORMAT \"CUDA\") SELECT 1",
        "EXPLAIN (SELECT format FROM cuda)",
        "EXPLAIN ANALYZE FORMAT CUDA SELECT 1",
        "EXECUTE explain(1)",
        "SELECT summarize FROM t",
        "\"SUMMARIZE\" t",
    ] {
        let found = parsed(sql).unwrap();
        assert!(matches!(found, Parsed::Standard(_)), "{sql}");
        assert_eq!(rest(found), Some((sql.to_string(), false)));
    }
    for sql in [
        "-- KILL 1",
        "-- CACHE TABLE t ON DEVICE",
        "/* CACHE */ SELECT 1",
        "/* EXPLAIN (FORMAT CUDA) */ SELECT 1",
        "-- SUMMARIZE t",
    ] {
        let found = parsed(sql).unwrap();
        assert!(matches!(found, Parsed::Standard(_)), "{sql}");
    }
}

#[test]
fn kernels_are_those_of_the_query_behind() {
    for (sql, expect) in [
        ("EXPLAIN (FORMAT CUDA) SELECT 1", "SELECT 1"),
        (
            "-- ö\nExplain(format\n/* x */ cuda)(SELECT 'ö;'); ",
            "(SELECT 'ö;'); ",
        ),
        (
            "explain format cuda WITH t AS (SELECT 1) TABLE t;",
            "WITH t AS (SELECT 1) TABLE t;",
        ),
    ] {
        let found = parsed(sql).unwrap();
        let is_it = matches!(found, Parsed::Regions(RegionFormat::Cuda, _));
        assert!(is_it, "{sql}");
        assert_eq!(rest(found), Some((expect.to_string(), false)), "{sql}");
    }
    for sql in [
        "EXPLAIN (FORMAT PROGRAM) TABLE t",
        "explain format program TABLE t",
    ] {
        let found = parsed(sql).unwrap();
        let is_it = matches!(found, Parsed::Regions(RegionFormat::Program, _));
        assert!(is_it, "{sql}");
        assert_eq!(rest(found), Some(("TABLE t".into(), false)), "{sql}");
    }
    let found = parsed("EXPLAIN FORMAT CUDA SUMMARIZE t").unwrap();
    assert_eq!(rest(found), Some(("SELECT*FROMt".into(), true)));
}

#[test]
fn tables_and_queries_are_summarized() {
    for (sql, expect) in [
        ("SUMMARIZE t", "SELECT*FROMt"),
        ("summarize TABLE \"values\";", "SELECT*FROM\"values\";"),
        ("-- how\nSummarize 'a.csv'", "SELECT*FROM'a.csv'"),
        ("SUMMARIZE s.t WHERE a > 1", "SELECT*FROMs.t WHERE a > 1"),
        ("SUMMARIZE SELECT 1", "SELECT 1"),
        ("SUMMARIZE\n(VALUES (1))", "(VALUES (1))"),
        (
            "SUMMARIZE with a AS (SELECT 1) TABLE a",
            "with a AS (SELECT 1) TABLE a",
        ),
    ] {
        let found = parsed(sql).unwrap();
        assert_eq!(rest(found), Some((expect.to_string(), true)), "{sql}");
    }
}

#[test]
fn what_is_wrong_is_named() {
    for (sql, expect) in [
        ("CACHE TABLE", "expected a table's name, found nothing"),
        (
            "CACHE TABLE 't' ON DEVICE",
            "expected a table's name, found 't'",
        ),
        (
            "CACHE TABLE t",
            "expected ON DEVICE or ON HOST, found nothing",
        ),
        (
            "CACHE TABLE t ON DISK",
            "expected DEVICE or HOST, found DISK",
        ),
        ("CACHE TABLE t () ON DEVICE", "expected a column's name"),
        (
            "CACHE TABLE t (a b) ON DEVICE",
            "expected ',' or ')', found b",
        ),
        (
            "CACHE TABLE t ON DEVICE now",
            "the end of the statement, found now",
        ),
        (
            "UNCACHE TABLE t ON DEVICE",
            "the end of the statement, found ON",
        ),
        (
            "CACHE TABLE t. (a) ON DEVICE",
            "found ( at line 1, column 16",
        ),
        ("EXPLAIN (FORMAT CUDA)", "expected a query, found nothing"),
        ("EXPLAIN FORMAT CUDA ;", "expected a query, found ;"),
        (
            "EXPLAIN (FORMAT CUDA, ANALYZE) SELECT 1",
            "expected ')', found , at line 1, column 21",
        ),
        (
            "EXPLAIN (FORMAT CUDA SELECT 1",
            "expected ')', found SELECT",
        ),
        ("EXPLAIN (FORMAT CUDA) SELECT 'x", "nterminated string"),
        ("SUMMARIZE", "expected a table or a query, found nothing"),
        ("SUMMARIZE ;", "expected a table or a query, found ;"),
        ("SUMMARIZE TABLE", "expected a table or a query, found"),
        ("SUMMARIZE 'x", "nterminated string"),
    ] {
        check_error(sql, expect);
    }
}

#[test]
fn names_of_new_columns_are_those_of_a_subquery() {
    for (sql, expect) in [
        (
            "CREATE TABLE t(a, \"B\") AS SELECT 1, 2;",
            "CREATE TABLE t AS SELECT * FROM (SELECT 1, 2 ) AS \"q\" ( a , \"B\" );",
        ),
        (
            "CREATE OR REPLACE TABLE s.t AS SELECT 1 WITH NO DATA",
            "CREATE OR REPLACE TABLE s.t  AS SELECT * FROM (SELECT 1 ) AS \"q\" LIMIT 0",
        ),
        (
            "CREATE TABLE t (a INT) AS SELECT 1",
            "CREATE TABLE t (a INT) AS SELECT 1",
        ),
        ("CREATE TABLE t (a INT)", "CREATE TABLE t (a INT)"),
    ] {
        let (words, _) = rest(parsed(sql).unwrap()).unwrap();
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        assert_eq!(squeezed(&words), squeezed(expect));
    }
}
