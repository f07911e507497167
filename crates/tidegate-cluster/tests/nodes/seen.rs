//! What is seen of statements that ran over executors.

use std::time::{Duration, Instant};

use crate::nodes::{Nodes, files};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn placements_and_tasks_name_executor_and_query() {
    let nodes = Nodes::start(2).await;
    let folder = files(&nodes.session).await;
    let sql = format!(
        "SELECT k, count(*), sum(v) FROM '{}/*.parquet' GROUP BY k",
        folder.path().display()
    );
    assert_eq!(nodes.rows(&sql).await.len(), 100);
    // Executors tell of their regions when their tasks have ended.
    let placed =
        "SELECT DISTINCT executor FROM system.placements WHERE executor IS NOT NULL ORDER BY 1";
    let began = Instant::now();
    while nodes.rows(placed).await != ["e1", "e2"] {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{:?}",
            nodes
                .rows("SELECT query_id, executor, place FROM system.placements")
                .await
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let asked = nodes
        .rows("SELECT query_id FROM system.queries WHERE sql LIKE 'SELECT k, count(*), sum(v)%'")
        .await;
    let placements = "SELECT DISTINCT query_id FROM system.placements WHERE executor IS NOT NULL";
    assert_eq!(nodes.rows(placements).await, asked);
    assert_eq!(
        nodes
            .rows("SELECT DISTINCT query_id FROM system.tasks")
            .await,
        asked
    );
    // Each row was read once, by one of them.
    let read = "SELECT sum(rows) FROM (SELECT DISTINCT executor, region, rows FROM system.placements \
                WHERE executor IS NOT NULL)";
    assert_eq!(nodes.rows(read).await, ["93001"]);
    let (executors, activity) = nodes.session.cluster().unwrap();
    assert_eq!(executors.len(), 2);
    assert_eq!((activity.joined, activity.lost), (2, 0));
    let done: u64 = activity
        .tasks
        .iter()
        .filter(|(state, _)| state == "done")
        .map(|(_, n)| n)
        .sum();
    assert!(done >= 2, "{activity:?}");
    assert!(activity.received_bytes > 0, "{activity:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_without_a_cluster_has_none() {
    let alone = crate::nodes::builder().build().unwrap();
    assert!(alone.cluster().is_none());
    let rows = crate::nodes::rows(&alone, "SELECT count(*) FROM system.tasks").await;
    assert_eq!(rows, ["0"]);
}
