//! Joins: which side goes where, and that the rows are those of one process.

use crate::nodes::{Nodes, builder};

/// Orders with their lines, and some without, in files: what is read again costs bytes.
async fn tables(nodes: &Nodes) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, sql) in [
        (
            "orders",
            "SELECT value AS o_key, value % 7 AS o_kind, CASE WHEN value % 11 = 0 THEN NULL ELSE value % 40 END AS o_part \
             FROM range(20000)",
        ),
        (
            "lines",
            "SELECT value % 15000 AS l_key, value % 50 AS l_part, value % 13 AS l_count FROM range(60000)",
        ),
        (
            "parts",
            "SELECT value AS p_key, 'p' || value AS p_name FROM range(45)",
        ),
    ] {
        let path = folder.path().join(format!("{name}.parquet"));
        let path = path.display();
        nodes
            .session
            .collect(&format!(
                "COPY ({sql}) TO '{path}' OPTIONS ('format.max_row_group_size' '3000')"
            ))
            .await
            .unwrap();
        nodes
            .session
            .collect(&format!(
                "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{path}'"
            ))
            .await
            .unwrap();
    }
    folder
}

/// Asserts that a query gives the rows of one process; returns how EXPLAIN shows it.
async fn same(nodes: &Nodes, sql: &str) -> String {
    let set = async |spread| nodes.session.set("tidegate.spread", spread).await.unwrap();
    let explained = nodes.explained(sql).await;
    assert!(explained.contains("Spread over"), "{sql}: {explained}");
    let mut spread = nodes.rows(sql).await;
    set("never").await;
    let mut one = nodes.rows(sql).await;
    set("always").await;
    spread.sort();
    one.sort();
    assert_eq!(spread, one, "{sql}: {explained}");
    explained
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_tables_are_read_whole() {
    let nodes = Nodes::start(2).await;
    let _folder = tables(&nodes).await;
    for sql in [
        "SELECT p_name, o_kind, count(*), sum(l_count) FROM lines JOIN orders ON l_key = o_key \
         JOIN parts ON l_part = p_key GROUP BY 1, 2",
        "SELECT l_key, l_count, o_part FROM orders RIGHT JOIN lines ON l_key = o_key AND o_kind < 3",
        "SELECT l_part, p_name FROM lines LEFT JOIN parts ON l_part = p_key WHERE l_count = 1",
        "SELECT l_key FROM lines WHERE l_key IN (SELECT o_key FROM orders WHERE o_kind = 1)",
        "SELECT l_key FROM lines WHERE NOT EXISTS (SELECT 1 FROM orders WHERE o_key = l_key AND o_part = l_part)",
    ] {
        let explained = same(&nodes, sql).await;
        assert!(
            explained.contains("LocalExec: joins="),
            "{sql}: {explained}"
        );
        assert!(
            !explained.contains("NetworkBroadcastExec"),
            "{sql}: {explained}"
        );
    }
    // Rows that differ where they are read, and rows that every executor would give.
    for sql in [
        "SELECT count(*) FROM lines JOIN (SELECT * FROM orders LIMIT 20000) ON l_key = o_key",
        "SELECT count(*) FROM lines JOIN orders ON l_key = o_key AND random() >= 0",
        "SELECT count(*) FROM lines JOIN (SELECT p_key, random() AS r FROM parts) ON l_part = p_key AND r < l_count + 2",
        "SELECT o_key, l_part FROM orders FULL JOIN lines ON o_key = l_key AND l_count = 5",
        "SELECT o_key, l_part FROM orders LEFT JOIN lines ON o_key = l_key AND l_count = 5",
    ] {
        let explained = same(&nodes, sql).await;
        assert!(!explained.contains("LocalExec"), "{sql}: {explained}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_side_that_was_counted_is_known() {
    let nodes = Nodes::start(2).await;
    let sql = "SELECT count(*), sum(n) FROM tpch('orders', 0.2) JOIN \
               (SELECT l_orderkey AS k, l_linenumber AS n FROM tpch('lineitem', 0.2) \
                GROUP BY 1, 2 HAVING max(l_quantity) > 49) ON k = o_orderkey";
    let explained = same(&nodes, sql).await;
    assert!(!explained.contains("mode=CollectLeft"), "{explained}");
    let is_known = |explained: &str| explained.contains("mode=CollectLeft");
    nodes.until(sql, is_known).await;
    same(&nodes, sql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_without_a_key_of_the_smaller_side_stay_where_they_are() {
    let nodes = Nodes::start(2).await;
    let _folder = tables(&nodes).await;
    for sql in [
        "SELECT o_key FROM orders WHERE o_kind = 1 AND EXISTS \
         (SELECT 1 FROM lines WHERE l_key = o_key AND l_count <> o_kind)",
        "SELECT o_key FROM orders WHERE o_kind = 1 AND NOT EXISTS \
         (SELECT 1 FROM lines WHERE l_key = o_key AND l_count < 12)",
        "SELECT o_key, l_count FROM orders LEFT JOIN lines ON o_key = l_key WHERE o_kind = 1",
        "SELECT o_key, n FROM orders LEFT JOIN (SELECT l_key, count(*) AS n FROM lines GROUP BY l_key HAVING count(*) > 3) \
         ON o_key = l_key WHERE o_kind = 1",
        "SELECT o_key FROM orders WHERE o_kind = 1 AND (o_part = 3 OR EXISTS (SELECT 1 FROM lines WHERE l_key = o_key))",
        // The keys of what a join leaves are those of its side.
        "SELECT o_key FROM orders WHERE o_kind = 1 \
         AND EXISTS (SELECT 1 FROM lines WHERE l_key = o_key AND l_count > 1) \
         AND NOT EXISTS (SELECT 1 FROM lines WHERE l_key = o_key AND l_count = 12)",
    ] {
        let explained = same(&nodes, sql).await;
        assert!(explained.contains("RightSemi"), "{sql}: {explained}");
    }
    // NULL is no key, and equals NULL where it is asked for.
    for sql in [
        "SELECT o_key, l_count FROM orders LEFT JOIN lines ON o_part = nullif(l_part, 3) WHERE o_kind = 1 AND o_key < 50",
        "SELECT o_key, l_count FROM orders LEFT JOIN lines ON o_part IS NOT DISTINCT FROM nullif(l_part, 3) \
         WHERE o_kind = 1 AND o_key < 50",
        "SELECT o_key FROM orders WHERE o_kind = 1 AND o_part NOT IN (SELECT nullif(l_part, 3) FROM lines WHERE l_count = 1)",
    ] {
        same(&nodes, sql).await;
    }
    let alone = builder().build().unwrap();
    nodes
        .same(
            &alone,
            "SELECT count(*) FROM tpch('orders', 0.05) LEFT JOIN tpch('lineitem', 0.05) ON l_orderkey = o_orderkey",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_larger_side_may_be_the_left_one() {
    let nodes = Nodes::start(2).await;
    let _folder = tables(&nodes).await;
    for limit in ["threshold", "threshold_rows"] {
        let name = format!("datafusion.optimizer.hash_join_single_partition_{limit}");
        nodes.session.set(&name, "1").await.unwrap();
    }
    let sql = "SELECT o_key FROM orders WHERE o_kind >= 0 AND NOT EXISTS \
               (SELECT 1 FROM (SELECT l_key, l_count FROM lines WHERE l_count % 13 >= 0 GROUP BY 1, 2) \
               WHERE l_key = o_key AND l_count <> o_kind)";
    let explained = same(&nodes, sql).await;
    assert!(explained.contains("RightAnti"), "{explained}");
    assert!(!explained.contains("RightSemi"), "{explained}");
    let is_known = |explained: &str| explained.contains("RightSemi");
    nodes.until(sql, is_known).await;
    same(&nodes, sql).await;
}
