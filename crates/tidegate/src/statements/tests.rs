//! Cutting, completeness and the bounds, on text of every shape.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use datafusion::common::config::SqlParserOptions;
use sqlparser::ast::{Expr, Query, Statement, visit_expressions_mut};
use sqlparser::dialect::GenericDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::TokenWithSpan;

use super::{EXCERPT_MAX, SqlText, StatementError, WINDOW, is_complete, locate, tokenize};
use crate::statements::calls::take;
use crate::statements::limits::{MAX_CHAIN, MAX_JOINS};

/// Cuts a statement into tokens, as a session does with its defaults.
pub(super) fn text(sql: &str) -> Result<SqlText<'_>, StatementError> {
    SqlText::new(sql, &SqlParserOptions::default())
}

/// Cuts text into tokens, up to the first mistake.
pub(super) fn tokens(sql: &str) -> Vec<TokenWithSpan> {
    tokenize(sql, &GenericDialect {}).0
}

/// Writes tokens as they stand.
pub(super) fn written(tokens: &[TokenWithSpan]) -> String {
    let tokens = tokens.iter().map(|token| token.token.to_string());
    tokens.collect()
}

/// Reads an expression.
pub(super) fn expr(sql: &str) -> Expr {
    let parser = Parser::new(&GenericDialect {}).try_with_sql(sql);
    parser.unwrap().parse_expr().unwrap()
}

/// Reads a statement.
pub(super) fn statement(sql: &str) -> Statement {
    let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
    statements.remove(0)
}

/// Reads a query.
pub(super) fn query(sql: &str) -> Box<Query> {
    match statement(sql) {
        Statement::Query(query) => query,
        _ => panic!("{sql} is no query"),
    }
}

/// Reads an expression, has `bind` change each part of it, inner ones first, and writes it with those that `is_marked` in
/// parentheses.
pub(super) fn bound(
    sql: &str,
    bind: impl Fn(&mut Expr),
    is_marked: impl Fn(&Expr) -> bool,
) -> String {
    let mut expr = expr(sql);
    let _ = visit_expressions_mut(&mut expr, |expr| {
        bind(expr);
        ControlFlow::<()>::Continue(())
    });
    let _ = visit_expressions_mut(&mut expr, |expr| {
        if is_marked(expr) {
            *expr = Expr::Nested(Box::new(take(expr)));
        }
        ControlFlow::<()>::Continue(())
    });
    expr.to_string()
}

fn check_depth(sql: &str) -> Result<(), StatementError> {
    text(sql).map(drop)
}

fn split(text: &str) -> Result<Vec<String>, StatementError> {
    let statements = locate(text)?.into_iter();
    Ok(statements.map(|statement| statement.text).collect())
}

fn check_split(text: &str, expect: &[&str]) {
    assert_eq!(split(text).unwrap(), expect, "{text}");
}

#[test]
fn semicolons_cut_statements() {
    check_split("", &[]);
    check_split(" ;; \n ; ", &[]);
    check_split("SELECT 1", &["SELECT 1"]);
    check_split("SELECT 1;", &["SELECT 1"]);
    check_split(
        "SELECT 1;SELECT 2 ;\n\nSELECT 3",
        &["SELECT 1", "SELECT 2", "SELECT 3"],
    );
    check_split("a;b", &["a", "b"]);
    check_split("ä 'ö;' ;\r\n\tß", &["ä 'ö;'", "ß"]);
}

#[test]
fn semicolons_in_strings_names_and_comments_do_not_cut() {
    check_split("SELECT 'a;b'; SELECT 2", &["SELECT 'a;b'", "SELECT 2"]);
    check_split("SELECT 'it''s;'; x", &["SELECT 'it''s;'", "x"]);
    check_split(
        r#"SELECT "a;b", `c;d`; x"#,
        &[r#"SELECT "a;b", `c;d`"#, "x"],
    );
    check_split(
        "SELECT $$a;b$$, $t$;$$;$t$; x",
        &["SELECT $$a;b$$, $t$;$$;$t$", "x"],
    );
    check_split(
        r"SELECT E'\';', N';', X'00;'; x",
        &[r"SELECT E'\';', N';', X'00;'", "x"],
    );
    check_split("SELECT 1 -- a; b\n; x", &["SELECT 1 -- a; b", "x"]);
    check_split(
        "SELECT /* a; /* b; */ c; */ 1; x",
        &["SELECT /* a; /* b; */ c; */ 1", "x"],
    );
    check_split("-- only; this\n; /* ; */ ; x", &["x"]);
    check_split("-- first\nx; -- last", &["-- first\nx"]);
}

#[test]
fn a_hint_comment_belongs_to_its_statement() {
    check_split(
        "SELECT /*!1 + 'a;b' ; */ 2; x",
        &["SELECT /*!1 + 'a;b' ; */ 2", "x"],
    );
    check_split("/*!50110 SELECT 1 */; x", &["/*!50110 SELECT 1 */", "x"]);
    check_split("a /*!*/; /*!\n\n;*/\n ; b", &["a /*!*/", "/*!\n\n;*/", "b"]);
}

#[test]
fn statements_know_their_line_and_first_words() {
    let text = "\n-- c\nSELECT 1;\nSELECT\n  2, 'x\ny'; /* z */ SELECT 3";
    let found = locate(text).unwrap();
    let seen: Vec<_> = found.iter().map(|s| (s.line(), s.excerpt())).collect();
    let expect = [(3, "SELECT 1"), (4, "SELECT 2, 'x y'"), (6, "SELECT 3")];
    assert_eq!(seen, expect.map(|(line, words)| (line, words.to_string())));
    let long = &locate(&format!("SELECT {}", "é, ".repeat(99))).unwrap()[0];
    assert!(long.excerpt().chars().count() <= EXCERPT_MAX + 1);
    assert!(long.excerpt().ends_with('…'));
}

#[test]
fn open_quotes_are_errors_with_a_place() {
    let error = split("SELECT 1;\nSELECT 'abc").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unterminated string literal at line 2, column 8"
    );
    for text in ["/* a", "\"a", "$$a", "$t$a", "E'a", "`a"] {
        assert!(
            matches!(split(text), Err(StatementError::Syntax { .. })),
            "{text}"
        );
    }
}

#[test]
fn scripts_larger_than_a_window_are_cut_alike() {
    // Statements of every length up to some windows, so that window ends fall into every token.
    let filler = "SELECT 'ü;', $$;$$ /* ; */ -- ;\n";
    let statement = |n: usize| format!("{}{n}", filler.repeat(n * 997));
    let expect: Vec<_> = [1, 50, 3, 160, 2].map(statement).to_vec();
    let text = expect.join(";\n");
    assert!(text.len() > 5 * WINDOW);
    assert_eq!(split(&text).unwrap(), expect);
    let lines = locate(&text).unwrap();
    assert_eq!(lines[3].line(), 54 * 997 + 4);
    let error = split(&format!("{text}; '")).unwrap_err().to_string();
    let last_line = text.lines().count();
    let column = text.lines().last().unwrap().chars().count() + 3;
    assert!(
        error.ends_with(&format!("line {last_line}, column {column}")),
        "{error}"
    );
}

#[test]
fn prompts_wait_for_the_semicolon() {
    for complete in [
        "",
        "  \n",
        "SELECT 1;",
        "SELECT 1; -- x",
        "a; b;",
        "-- x",
        ";",
        "SELECT 1);",
    ] {
        assert!(is_complete(complete), "{complete}");
    }
    for open in [
        "SELECT 1",
        "SELECT ';",
        "SELECT (1;",
        "/* ;",
        "SELECT \"a;",
        "$$;",
        "a; b",
        "f([1;",
    ] {
        assert!(!is_complete(open), "{open}");
    }
    // An error that no further line can mend.
    assert!(is_complete(r"SELECT E'\u12';"));
    assert!(is_complete("SELECT U&'\\00';"));
}

/// Checks that `text` is refused, with the message of a limit.
fn refused(text: &str, message: &str) {
    let start = Instant::now();
    let error = check_depth(text).expect_err(message).to_string();
    assert!(error.contains(message), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{message}");
}

fn allowed(text: &str) {
    let head: String = text.chars().take(80).collect();
    assert_eq!(check_depth(text), Ok(()), "{head}");
}

#[test]
fn chains_are_bounded() {
    allowed(&format!("SELECT 1{}", "+1".repeat(MAX_CHAIN)));
    refused(
        &format!("SELECT 1{}", "+1".repeat(2500)),
        "expression chain of 2500 operators exceeds the limit of 1000: use IN (...)",
    );
    for link in [
        " OR a = 1",
        " AND b",
        " || 'x'",
        "::int",
        " IS NULL",
        " LIKE 'x'",
        " BETWEEN 1 AND 2",
        " IN (1)",
        " COLLATE c",
        " AT TIME ZONE 'x'",
        " IS DISTINCT FROM b",
        " NOT NULL",
        " -> 'a'",
        " SIMILAR TO on",
        " NOT LIKE limit",
        " + limit",
        " * from",
        " + all",
        " + CASE a WHEN 1 THEN 2 END",
        " AND CASE WHEN a THEN b END",
        " OPERATOR(+) on",
        " < array < int > offset",
        " = interval '1' day",
        " /*! + 1 */",
    ] {
        refused(
            &format!("SELECT a{} FROM t", link.repeat(2500)),
            "exceeds the limit of 1000",
        );
    }
    for prefix in ["- ", "+ ", "~ "] {
        refused(
            &format!("SELECT {}1", prefix.repeat(1001)),
            "exceeds the limit of 1000",
        );
    }
    refused(
        &format!("SELECT {}1", "NOT ".repeat(1001)),
        "exceeds the limit of",
    );
}

#[test]
fn commas_clauses_and_operators_that_bind_tighter_do_not_add_up() {
    allowed(&format!("SELECT {}", "a + b * c, ".repeat(5000)));
    allowed(&format!("SELECT a WHERE x IN ({}1)", "1, ".repeat(100_000)));
    allowed(&format!(
        "INSERT INTO t VALUES {}(1)",
        "(1 + 2, NOT true), ".repeat(5000)
    ));
    allowed(&format!(
        "SELECT a FROM t WHERE {}true",
        "t.x = 1 + 2 OR ".repeat(900)
    ));
    allowed(&format!(
        "SELECT CASE {} END",
        "WHEN a = 1 AND b > 2 THEN 3 ".repeat(5000)
    ));
    allowed(&"SELECT 1 + 1;".repeat(5000));
    allowed("SELECT * FROM a, b WHERE count(*) * 2 > 1 ORDER BY t.*, array < 5");
    allowed("SELECT CAST(x AS ARRAY<STRUCT<a INT, b MAP<INT, INT>>>) FROM t");
}

#[test]
fn nesting_is_bounded() {
    allowed(&format!("SELECT {}1{}", "(".repeat(99), ")".repeat(99)));
    for opener in [
        "(",
        "[",
        "{'a': ",
        "abs(",
        "(SELECT ",
        "CASE WHEN ",
        "ARRAY<",
        "STRUCT<a ",
    ] {
        refused(
            &format!("SELECT {}1", opener.repeat(5000)),
            "nesting of 5000 levels",
        );
    }
    refused(
        &format!("{}SELECT 1", "EXPLAIN ".repeat(5000)),
        "nesting of 5000 levels",
    );
    allowed(&"(1) ".repeat(5000));
    allowed(&")".repeat(5000));
}

#[test]
fn tables_nest_deeper_than_subqueries_of_expressions() {
    let nested =
        |opener: &str, depth| format!("SELECT {}1{}", opener.repeat(depth), ")".repeat(depth));
    for opener in [
        "* FROM (SELECT ",
        "* FROM a JOIN (SELECT ",
        "* FROM a, (SELECT ",
    ] {
        allowed(&nested(opener, 90));
    }
    for opener in [
        "a FROM t WHERE a IN (SELECT ",
        "(SELECT 1 + ",
        "a WHERE EXISTS (SELECT ",
    ] {
        allowed(&nested(opener, 12));
        refused(&nested(opener, 40), "exceeds the limit of 16");
    }
}

#[test]
fn what_doubles_the_work_is_bounded() {
    for opener in [
        "CAST(",
        "substring(",
        "CEIL(",
        "EXTRACT(a, ",
        "ARRAY[",
        "ARRAY(SELECT ",
        "current_date(",
        "((SELECT 1 FROM ",
        "NOT (",
        "CASE -",
        "INTERVAL ",
        "INTERVAL (",
        "(SELECT IN ",
        "a.b[",
        "a.",
    ] {
        allowed(&format!("SELECT {}1", opener.repeat(5)));
        refused(
            &format!("SELECT {}1", opener.repeat(40)),
            "exceeds the limit of 16",
        );
    }
}

#[test]
fn joins_set_operations_and_queries_are_bounded() {
    allowed(&format!("SELECT * FROM a{}", ", a".repeat(MAX_JOINS)));
    for link in [
        " JOIN a ON a.x = b.x",
        ", a",
        " CROSS JOIN a",
        ", (SELECT 1)",
        " WINDOW JOIN a",
    ] {
        refused(
            &format!("SELECT * FROM a{}", link.repeat(1500)),
            "1500 joins exceed",
        );
    }
    refused(
        &format!("SELECT DISTINCT ON (x) * FROM set{}", ", a".repeat(300)),
        "300 joins exceed",
    );
    for link in [
        " UNION ALL SELECT 1",
        " EXCEPT SELECT 1",
        " INTERSECT SELECT 1",
    ] {
        refused(
            &format!("SELECT 1{}", link.repeat(201)),
            "201 set operations exceed",
        );
    }
    let with = format!(
        "WITH {} a AS (SELECT 1) SELECT 1",
        "a AS (SELECT * FROM b), ".repeat(900)
    );
    refused(&with, "902 queries exceed");
    refused(
        &format!("FROM t {}", "|> WHERE a ".repeat(600)),
        "600 queries exceed",
    );
}

#[test]
fn a_megabyte_of_anything_is_answered_soon() {
    const MEGABYTE: usize = 1 << 20;
    for piece in [
        "-",
        "- ",
        "(",
        ")",
        "NOT ",
        "'",
        "\"",
        "$",
        "$$",
        "$a$",
        "/*",
        "*/",
        "/*!",
        "--",
        ";",
        ",",
        "[",
        "{",
        "1+",
        "a.",
        ".",
        "CASE ",
        "END ",
        "<",
        ">",
        "ARRAY<",
        "x'",
        "E'",
        "\\",
        "\n",
        "\r",
        "é",
        "\u{0}",
        "0",
        "1e",
        "INTERVAL ",
        "UNION ",
        "FROM ",
        "SELECT ",
        "JOIN ",
        "`",
        "@",
        "#",
        "? ",
        "(SELECT ",
        "EXPLAIN ",
    ] {
        let text = piece.repeat(MEGABYTE / piece.len());
        let start = Instant::now();
        let _ = split(&text);
        let _ = is_complete(&text);
        let _ = check_depth(&text);
        assert!(
            start.elapsed() < Duration::from_secs(30),
            "{piece:?} took {:?}",
            start.elapsed()
        );
    }
}

#[test]
fn queries_of_the_benchmarks_pass() {
    allowed(
        "WITH revenue AS (SELECT l_suppkey AS supplier_no, sum(l_extendedprice * (1 - l_discount)) AS total
         FROM lineitem WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-01-01' + INTERVAL '3' MONTH
         GROUP BY l_suppkey) SELECT s_suppkey, t.* FROM supplier, revenue t WHERE NOT EXISTS (SELECT * FROM nation
         WHERE n_name NOT LIKE '%x' AND EXTRACT(year FROM o_orderdate) IS NOT DISTINCT FROM 1995) ORDER BY 1 LIMIT 5",
    );
}
