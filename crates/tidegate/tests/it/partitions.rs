//! N partitions of a plan give N/N of the rows, polled one after another or all at once, wherever
//! the morsels run; and a plan is never executed twice.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::TryStreamExt;
use tidegate::Session;

use crate::support::{answer, host_only, lines, simulated, write_parquet};

const NUM_ROWS: i64 = 20_000;

async fn plan(session: &Session, sql: &str) -> Arc<dyn ExecutionPlan> {
    session
        .sql(sql)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap()
}

async fn in_sequence(session: &Session, plan: &Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    let mut rows = Vec::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let stream = plan
            .execute(partition, session.context().task_ctx())
            .unwrap();
        rows.extend(stream.try_collect::<Vec<_>>().await.unwrap());
    }
    rows
}

async fn at_once(session: &Session, plan: &Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    let partitions = 0..plan.output_partitioning().partition_count();
    let tasks: Vec<_> = partitions
        .map(|partition| {
            let stream = plan
                .execute(partition, session.context().task_ctx())
                .unwrap();
            tokio::spawn(stream.try_collect::<Vec<_>>())
        })
        .collect();
    let mut rows = Vec::new();
    for task in tasks {
        rows.extend(task.await.unwrap().unwrap());
    }
    rows
}

/// Each way to place morsels, as settings.
const PLACEMENTS: [&[&str]; 6] = [
    &["placement = 'auto'"],
    &["placement = 'host'"],
    &["placement = 'device'"],
    &["placement = 'device'", "regions = 'additive'"],
    &["replay_placement = 'HD'", "morsel_rows = 512"],
    &["replay_placement = 'DDH'", "morsel_rows = 512"],
];

#[tokio::test(flavor = "multi_thread")]
async fn sequence_equals_at_once_equals_stock() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 3, NUM_ROWS, 1_000);
    let path = folder.path().to_string_lossy().to_string();
    let host = host_only();
    host.register_parquet("t", &path).await.unwrap();
    let queries = [
        "SELECT k, v + 1 AS w FROM t WHERE v % 3 = 0",
        "SELECT k, s, sum(v), count(*), min(s), avg(v) FROM t WHERE v > 100 GROUP BY k, s",
        "SELECT sum(v), count(k), max(s) FROM t",
    ];
    for sql in queries {
        let expected = answer(&host, sql).await;
        for settings in PLACEMENTS {
            for stealing in [true, false] {
                let session = simulated("1GB", settings).await;
                session.register_parquet("t", &path).await.unwrap();
                let set = format!(
                    "SET datafusion.execution.enable_file_stream_work_stealing = {stealing}"
                );
                session.collect(&set).await.unwrap();
                let once = at_once(&session, &plan(&session, sql).await).await;
                assert_eq!(
                    lines(&once),
                    expected,
                    "at once: {sql} {settings:?} {stealing}"
                );
                let sequence = in_sequence(&session, &plan(&session, sql).await).await;
                assert_eq!(
                    lines(&sequence),
                    expected,
                    "sequence: {sql} {settings:?} {stealing}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_that_is_reset_runs_again() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, NUM_ROWS, 1_000);
    for settings in PLACEMENTS {
        let session = simulated("1GB", settings).await;
        session
            .register_parquet("t", &folder.path().to_string_lossy())
            .await
            .unwrap();
        let sql = "SELECT k, count(*), sum(v) FROM t WHERE v >= 10 GROUP BY k";
        let first = plan(&session, sql).await;
        let expected = lines(&at_once(&session, &first).await);
        let again = datafusion::physical_plan::execution_plan::reset_plan_states(first).unwrap();
        assert_eq!(
            lines(&at_once(&session, &again).await),
            expected,
            "{settings:?}"
        );
    }
}
