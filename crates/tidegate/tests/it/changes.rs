//! Statements that change rows of one table at the same time.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::physical_plan::{ExecutionPlan, collect};
use tidegate::{Error, ErrorKind, Session};

async fn planned(session: &Session, sql: &str) -> Arc<dyn ExecutionPlan> {
    let frame = session.context().sql(sql).await.unwrap();
    frame.create_physical_plan().await.unwrap()
}

async fn run(session: &Session, plan: Arc<dyn ExecutionPlan>) -> Result<(), Error> {
    collect(plan, session.context().task_ctx()).await?;
    Ok(())
}

async fn sums(session: &Session) -> (i64, i64) {
    let sql = "SELECT CAST(count(*) AS BIGINT), CAST(sum(n) AS BIGINT) FROM t";
    let rows = session.collect(sql).await.unwrap();
    let value = |column: usize| {
        let values = rows[0].column(column).as_primitive::<Int64Type>();
        values.value(0)
    };
    (value(0), value(1))
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_changed_meanwhile_are_a_conflict() {
    let session = Session::builder().build().unwrap();
    let table = "CREATE TABLE t AS SELECT value AS i, 1 AS n FROM range(0, 1000)";
    session.collect(table).await.unwrap();
    let late = planned(&session, "UPDATE t SET n = 5 WHERE i < 10").await;
    session
        .collect("UPDATE t SET n = 2 WHERE i = 0")
        .await
        .unwrap();
    let error = run(&session, late).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(error.to_string().contains("run it again"), "{error}");
    assert_eq!(sums(&session).await, (1000, 1001));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_were_added_meanwhile_stay() {
    let session = Session::builder().build().unwrap();
    let table = "CREATE TABLE t AS SELECT value AS i, 1 AS n FROM range(0, 1000)";
    session.collect(table).await.unwrap();
    let delete = planned(&session, "DELETE FROM t WHERE i >= 0").await;
    session
        .collect("INSERT INTO t VALUES (5, 7)")
        .await
        .unwrap();
    run(&session, delete).await.unwrap();
    assert_eq!(sums(&session).await, (1, 7));
}
