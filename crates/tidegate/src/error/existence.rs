//! DataFusion's errors about things that are missing, or there already.
//!
//! DataFusion says these in words alone, as planning and execution errors like any other. Here, and
//! nowhere else, the words are read; the tests have DataFusion itself say them, so that a version with
//! other words fails there.

use super::ErrorKind;

/// What DataFusion names before its name.
const NAMED: [&str; 7] = [
    "Table ",
    "The table ",
    "External table ",
    "View ",
    "Schema ",
    "Catalog ",
    "Prepared statement ",
];

/// Tells whether a message says that something is missing or there already; `None` if it says neither.
pub(super) fn kind_of(message: &str) -> Option<ErrorKind> {
    let message = message.lines().next()?.trim_end_matches('.');
    if is_missing_table(message) {
        return Some(ErrorKind::NotFound);
    }
    if !NAMED.iter().any(|named| message.starts_with(named)) {
        return None;
    }
    if message.ends_with(" already exists") {
        return Some(ErrorKind::AlreadyExists);
    }
    let is_missing = message.ends_with(" doesn't exist") || message.ends_with(" does not exist");
    is_missing.then_some(ErrorKind::NotFound)
}

/// Tells whether a message is that of a query that names a table which there is not.
fn is_missing_table(message: &str) -> bool {
    message.starts_with("table '") && message.ends_with("' not found")
}

#[cfg(test)]
mod tests {
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
}
