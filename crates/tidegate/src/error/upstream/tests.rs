//! DataFusion says so in these words.

use datafusion::prelude::SessionContext;

use super::Mistake;

async fn mistake(sql: &str) -> Mistake {
    let ctx = SessionContext::new();
    let table = "CREATE TABLE t AS SELECT 'a' AS name, 1 AS n, [1] AS l";
    ctx.sql(table).await.unwrap();
    let error = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await.unwrap_err(),
        Err(error) => error,
    };
    let found = Mistake::of(&error);
    found.unwrap_or_else(|| panic!("{sql}: {error}"))
}

#[tokio::test]
async fn datafusion_says_so_in_these_words() {
    for (sql, expect) in [
        ("SELECT nmae FROM t", "column 'nmae' not found"),
        ("SELECT x.name FROM t", "column 'name' not found in x"),
        (
            "SELECT name FROM t, t AS u",
            "column 'name' is ambiguous: several tables have it",
        ),
        (
            "SELECT *, name FROM t",
            "the select list has two columns 'name'",
        ),
        (
            "SELECT name AS a, n AS a FROM t",
            "the select list has two columns 'a'",
        ),
        (
            "SELECT max(n), max(n) FROM t",
            "the select list has two columns 'max(t.n)'",
        ),
        ("SELECT * FROM u", "table 'datafusion.public.u' not found"),
        ("SELECT nothing(1)", "function 'nothing' not found"),
        (
            "SELECT * FROM nothing(1)",
            "table function 'nothing' not found",
        ),
        ("SELECT CAST(1 AS NUMBR)", "type NUMBR not found"),
        ("SELECT sum('x')", "sum does not take VARCHAR"),
        ("SELECT abs('x')", "abs does not take VARCHAR"),
        ("SELECT abs(1, 2)", "abs takes 1 argument, and 2 were given"),
        ("SELECT sqrt()", "sqrt takes arguments, and 0 were given"),
        (
            "SELECT element_at(l, 1) FROM t",
            "map_extract: Expected a Map type, got List(BIGINT)",
        ),
        ("SET x = 1", "unknown setting x"),
        ("SHOW DATABASES", "SHOW DATABASES is not supported"),
        ("SELECT name RLIKE 'a' FROM t", "RLike is not supported"),
        (
            "SELECT * FROM t PIVOT (sum(n) FOR name IN ('a'))",
            "Pivot is not supported",
        ),
        ("SELECT TOP 3 * FROM t", "TOP is not supported"),
        (
            "SELEC 1",
            "syntax error: expected an SQL statement, found SELEC, at line 1, column 1",
        ),
        (
            "SELECT 1 WHERE",
            "syntax error: expected an expression, found the end",
        ),
    ] {
        let found = mistake(sql).await;
        assert_eq!(found.message(), expect, "{sql}: {found:?}");
    }
}
