//! Statements that change rows of one table at the same time.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{Int64Type, SchemaRef};
use datafusion::catalog::{MemTable, Session as PlanSession, TableProvider};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{ExecutionPlan, collect};
use tidegate::{Error, ErrorKind, Session};

use crate::support::{host_only, rows};

/// A table t of 1,000 numbers i, each beside n = 1.
async fn with_table() -> Session {
    let session = host_only();
    let table = "CREATE TABLE t AS SELECT value AS i, 1 AS n FROM range(0, 1000)";
    session.collect(table).await.unwrap();
    session
}

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
    let session = with_table().await;
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
    let session = with_table().await;
    let delete = planned(&session, "DELETE FROM t WHERE i >= 0").await;
    session
        .collect("INSERT INTO t VALUES (5, 7)")
        .await
        .unwrap();
    run(&session, delete).await.unwrap();
    assert_eq!(sums(&session).await, (1, 7));
}

/// A table that changes rows by itself, as a program may register one.
#[derive(Debug)]
struct Own(MemTable);

#[async_trait::async_trait]
impl TableProvider for Own {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn PlanSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(state, projection, filters, limit).await
    }

    async fn delete_from(
        &self,
        state: &dyn PlanSession,
        filters: Vec<Expr>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        self.0.delete_from(state, filters).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_would_not_be_told_a_condition_keeps_its_rows() {
    let session = host_only();
    let batch = rows(0, 100);
    let table = MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap();
    session.register_table("own", Arc::new(Own(table))).unwrap();
    for condition in ["false", "k = NULL", "k IN (SELECT 1)"] {
        let sql = format!("DELETE FROM own WHERE {condition}");
        let Err(error) = session.collect(&sql).await else {
            panic!("no error: {sql}");
        };
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{sql}: {error}");
    }
    assert_eq!(count(&session).await, 100);
    session
        .collect("DELETE FROM own WHERE k = 1")
        .await
        .unwrap();
    assert!((1..100).contains(&count(&session).await));
    session.collect("DELETE FROM own").await.unwrap();
    assert_eq!(count(&session).await, 0);
}

async fn count(session: &Session) -> i64 {
    let rows = session.collect("SELECT count(*) FROM own").await.unwrap();
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}
