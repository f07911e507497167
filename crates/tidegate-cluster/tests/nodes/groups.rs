//! Groups: where they are ended, and that they are those of one process.

use crate::nodes::{Nodes, builder};

/// Asserts that a query gives the same rows before and after its groups were counted; returns how it is planned then.
async fn counted(nodes: &Nodes, sql: &str, is_known: impl Fn(&str) -> bool) -> String {
    let alone = builder().build().unwrap();
    let explained = nodes.explained(sql).await;
    assert!(explained.contains("FinalPartitioned"), "{sql}: {explained}");
    nodes.same(&alone, sql).await;
    nodes.until(sql, is_known).await;
    nodes.same(&alone, sql).await;
    nodes.explained(sql).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_groups_are_ended_by_the_scheduler() {
    let nodes = Nodes::start(2).await;
    for sql in [
        "SELECT o_orderpriority, count(*), sum(o_totalprice), min(o_clerk) FROM tpch('orders', 0.05) GROUP BY 1 ORDER BY 1",
        "SELECT o_orderpriority, avg(o_totalprice) AS a FROM tpch('orders', 0.05) GROUP BY 1 HAVING count(*) > 7 \
         ORDER BY a LIMIT 3",
        "SELECT DISTINCT o_orderstatus, o_orderpriority FROM tpch('orders', 0.05)",
        "SELECT o_orderstatus, count(DISTINCT o_custkey) FROM tpch('orders', 0.02) GROUP BY 1",
        "SELECT n, count(*) FROM (SELECT o_custkey, count(*) AS n FROM tpch('orders', 0.02) GROUP BY 1) GROUP BY 1",
    ] {
        let ends = |explained: &str| explained.contains("mode=Final,");
        let explained = counted(&nodes, sql, ends).await;
        let head = explained.split("[Stage").next().unwrap();
        assert!(head.contains("mode=Final,"), "{sql}: {explained}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_groups_are_ended_side_by_side() {
    let nodes = Nodes::start(2).await;
    let sql = "SELECT l_orderkey, l_linenumber, sum(l_quantity) FROM tpch('lineitem', 0.05) GROUP BY 1, 2";
    let is_known = |explained: &str| !explained.contains("CountedExec");
    let explained = counted(&nodes, sql, is_known).await;
    assert!(!explained.contains("mode=Final,"), "{explained}");
}
