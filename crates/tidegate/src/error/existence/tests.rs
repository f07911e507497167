//! DataFusion says so in these words.

use datafusion::prelude::SessionContext;

use super::ErrorKind;
use crate::error::Error;

/// Has DataFusion fail at a statement, after others.
async fn failing(before: &[&str], sql: &str) -> Error {
    let ctx = SessionContext::new();
    for sql in before {
        ctx.sql(sql).await.unwrap().collect().await.unwrap();
    }
    let error = match ctx.sql(sql).await {
        Ok(frame) => frame.collect().await.unwrap_err(),
        Err(error) => error,
    };
    Error::from(error)
}

#[tokio::test]
async fn datafusion_says_so_in_these_words() {
    use ErrorKind::{AlreadyExists, NotFound, Sql};
    let table = "CREATE TABLE t AS VALUES (1)";
    let view = "CREATE VIEW v AS SELECT 1";
    let schema = "CREATE SCHEMA s";
    let prepared = "PREPARE p AS SELECT 1";
    for (before, sql, expect) in [
        (table, table, AlreadyExists),
        (table, "CREATE TABLE t (a INT)", AlreadyExists),
        (
            table,
            "CREATE EXTERNAL TABLE t (a INT) STORED AS CSV LOCATION '/tmp/none/'",
            AlreadyExists,
        ),
        (view, view, AlreadyExists),
        (schema, schema, AlreadyExists),
        (prepared, prepared, AlreadyExists),
        (table, "SELECT * FROM u", NotFound),
        (table, "SELECT * FROM datafusion.public.u", NotFound),
        (table, "INSERT INTO u VALUES (1)", NotFound),
        (table, "DROP TABLE u", NotFound),
        (table, "DROP VIEW u", NotFound),
        (table, "DROP SCHEMA u", NotFound),
        (
            table,
            "CREATE EXTERNAL TABLE e STORED AS CSV LOCATION '/tmp/none.csv'",
            NotFound,
        ),
        (table, "EXECUTE u", NotFound),
        (table, "DEALLOCATE u", NotFound),
        (table, "SELECT b FROM t", Sql),
        (table, "SELECT nothing(1)", Sql),
        (table, "SELECT 'Table ' || 1 / 0 || ' already exists'", Sql),
    ] {
        let error = failing(&[before], sql).await;
        assert_eq!(error.kind(), expect, "{sql}: {error}");
    }
}
