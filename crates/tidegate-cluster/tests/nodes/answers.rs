//! Answers over executors are those of one process.

use futures::StreamExt;
use tidegate::ErrorKind;

use crate::nodes::{Nodes, builder, confined, files, rows};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parquet_files_are_read_once() {
    let nodes = Nodes::start(2).await;
    let alone = builder().file_urls().build().unwrap();
    let folder = files(&alone).await;
    let t = format!("'{}/*.parquet'", folder.path().display());
    for sql in [
        format!("SELECT count(*), sum(id), min(v), max(name) FROM {t}"),
        format!("SELECT k, count(*), sum(id), avg(v) FROM {t} GROUP BY k"),
        format!("SELECT name, count(DISTINCT k) FROM {t} WHERE v > 100 GROUP BY name"),
        format!("SELECT id, k FROM {t} WHERE k = 3 AND id % 1000 = 3"),
        format!("SELECT * FROM {t} ORDER BY v DESC, id LIMIT 7"),
        format!("SELECT a.k, count(*) FROM {t} a JOIN {t} b ON a.id = b.id + 1 GROUP BY a.k"),
        format!("SELECT k FROM {t} WHERE id < 500 UNION SELECT k + 1 FROM {t} WHERE id > 1000"),
        format!(
            "SELECT k, id, row_number() OVER (PARTITION BY k ORDER BY id) FROM {t} WHERE id < 900"
        ),
        format!("SELECT count(*) FROM {t} WHERE v > (SELECT avg(v) FROM {t})"),
    ] {
        nodes.same(&alone, &sql).await;
    }
    let tasks = "SELECT DISTINCT executor, state FROM system.tasks ORDER BY executor, state";
    assert_eq!(nodes.rows(tasks).await, ["e1|done", "e2|done"]);
    let memory = nodes.session.runtime();
    assert!(memory.devices().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generated_tables_are_shared_by_parts() {
    let nodes = Nodes::start(2).await;
    let alone = builder().build().unwrap();
    for sql in [
        "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM tpch('lineitem', 0.05) \
         GROUP BY 1, 2",
        "SELECT l_returnflag, avg(l_discount), count(DISTINCT l_suppkey) FROM tpch('lineitem', 0.05) \
         GROUP BY 1",
        "SELECT o_orderpriority, count(*) FROM tpch('orders', 0.05) JOIN tpch('lineitem', 0.05) \
         ON o_orderkey = l_orderkey GROUP BY 1",
        "SELECT id1, sum(v1), count(v3) FROM h2o_g1(300000, 10, 5) GROUP BY id1",
        "SELECT count(*), min(x), max(x) FROM random_normal([700, 700], 10, 1, [100, 100], 3)",
        "SELECT i % 3, count(*) FROM random_integers([600, 600], 0, 9) WHERE j < 300 GROUP BY 1",
        "SELECT sum(x) FROM arange(500000) WHERE i % 2 = 0",
    ] {
        nodes.same(&alone, sql).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scheduler_of_one_partition_spreads() {
    let nodes = Nodes::start(2).await;
    let folder = files(&nodes.session).await;
    nodes
        .rows("SET datafusion.execution.target_partitions = 1")
        .await;
    let alone = builder().file_urls().build().unwrap();
    let table = format!("'{}/*.parquet'", folder.path().display());
    for sql in [
        format!("SELECT k, count(*), sum(id) FROM {table} GROUP BY k"),
        format!("SELECT id, v FROM {table} ORDER BY v DESC LIMIT 5"),
        format!("SELECT id, name FROM {table} ORDER BY id DESC"),
        format!("SELECT id, row_number() OVER (PARTITION BY k ORDER BY id) FROM {table}"),
    ] {
        nodes.same(&alone, &sql).await;
    }
}

/// An aggregate in one step takes one partition, and there is one below each part of a union.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_of_one_partition_stays_whole() {
    let nodes = Nodes::start(2).await;
    let folder = files(&nodes.session).await;
    let alone = builder().file_urls().build().unwrap();
    let one = format!("'{}/2.parquet'", folder.path().display());
    for sql in [
        format!("SELECT count(DISTINCT name), count(id % 3) FROM {one}"),
        format!("SELECT sum(k) FROM {one} UNION ALL SELECT sum(id) FROM {one}"),
        // Rows that belong together are in one partition without an exchange.
        format!("SELECT id, row_number() OVER (PARTITION BY name ORDER BY id) FROM {one}"),
        format!("SELECT name FROM {one} EXCEPT ALL SELECT name FROM {one} WHERE k > 50"),
        format!("SELECT id FROM {one} ORDER BY v DESC, id LIMIT 7"),
        format!("SELECT count(*) FROM {one} a JOIN {one} b ON a.k = b.k AND a.id < b.id"),
    ] {
        let rows_of = |mut rows: Vec<String>| {
            rows.sort();
            rows
        };
        let spread = rows_of(nodes.rows(&sql).await);
        assert_eq!(spread, rows_of(rows(&alone, &sql).await), "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_is_of_all_shares_together() {
    let nodes = Nodes::start(2).await;
    let folder = files(&nodes.session).await;
    for partitions in [1, 2] {
        let set = format!("SET datafusion.execution.target_partitions = {partitions}");
        nodes.rows(&set).await;
        for table in [
            format!("'{}/*.parquet'", folder.path().display()),
            "tpch('orders', 0.01)".into(),
            "arange(500000)".into(),
        ] {
            assert_eq!(
                nodes
                    .rows(&format!("SELECT * FROM {table} LIMIT 5"))
                    .await
                    .len(),
                5
            );
            let counted = format!(
                "SELECT count(*) FROM (SELECT * FROM {table} LIMIT 5) JOIN tpch('region', 0.01) ON r_regionkey = 0"
            );
            assert_eq!(nodes.rows(&counted).await, ["5"], "{table}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordered_float_sums_have_the_bits_of_one_process() {
    let ordered = "SET tidegate.float_sums = 'ordered'";
    let alone = builder().build().unwrap();
    rows(&alone, ordered).await;
    let x =
        "l_extendedprice::double / 3.0 * (CASE WHEN l_linenumber % 2 = 0 THEN -1e9 ELSE 1e-9 END)";
    let sql = format!(
        "SELECT l_returnflag, sum({x}), avg({x}), stddev({x}), corr({x}, l_discount::double), \
         sum({x}) FILTER (WHERE l_tax > 0.03) \
         FROM tpch('lineitem', 0.05) GROUP BY 1"
    );
    for executors in [2, 7] {
        let nodes = Nodes::start(executors).await;
        nodes.rows(ordered).await;
        nodes.same(&alone, &sql).await;
        let tasks = "SELECT count(DISTINCT executor) FROM system.tasks WHERE state = 'done'";
        assert_eq!(nodes.rows(tasks).await, [executors.to_string()]);
        let gram = "SELECT gram(o_orderkey, o_custkey) FROM tpch('orders', 0.01)";
        let error = nodes.session.collect(gram).await.unwrap_err();
        assert!(error.to_string().contains("no exact form"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_tables_in_memory_travel() {
    let nodes = Nodes::start(2).await;
    let alone = builder().build().unwrap();
    for session in [&nodes.session, &alone] {
        rows(
            session,
            "CREATE TABLE names AS VALUES (0, 'zero'), (1, 'one'), (2, NULL)",
        )
        .await;
    }
    nodes
        .same(
            &alone,
            "SELECT column2, count(*) FROM h2o_g1(300000, 10) JOIN names ON v1 % 3 = column1 \
             GROUP BY column2",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_stays_says_why() {
    let nodes = Nodes::start(2).await;
    nodes
        .rows("CREATE FUNCTION plus_one(a BIGINT) RETURNS BIGINT RETURN a + 1")
        .await;
    for (setting, sql, why) in [
        ("", "SELECT 1", "nothing that could be shared"),
        (
            "",
            "SELECT * FROM system.queries",
            "nothing that could be shared",
        ),
        (
            "SET tidegate.spread = 'never'",
            "SELECT count(*) FROM tpch('lineitem', 0.01)",
            "tidegate.spread = 'never'",
        ),
        (
            "SET tidegate.spread = 'auto'",
            "SELECT count(*) FROM tpch('lineitem', 0.001)",
            "tidegate.spread_above",
        ),
        (
            "SET tidegate.executors = 'e7'",
            "SELECT count(*) FROM tpch('lineitem', 0.01)",
            "names no executor",
        ),
    ] {
        if !setting.is_empty() {
            nodes.rows(setting).await;
        }
        let explained = nodes.explained(sql).await;
        assert!(explained.contains("Not spread: "), "{sql}: {explained}");
        assert!(explained.contains(why), "{sql}: {explained}");
        nodes.rows("SET tidegate.spread = 'always'").await;
        nodes.rows("SET tidegate.executors = ''").await;
    }
    let sql = "SELECT plus_one(o_orderkey), count(*) FROM tpch('orders', 0.01) GROUP BY 1";
    let explained = nodes.explained(sql).await;
    assert!(explained.contains("Spread over 2 executors"), "{explained}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_keep_their_kind_and_name_the_executor() {
    let mut nodes = Nodes::alone().await;
    let folder = files(&nodes.session).await;
    let elsewhere = tempfile::tempdir().unwrap();
    for name in ["confined-1", "confined-2"] {
        nodes.add(name, confined(elsewhere.path())).await;
    }
    nodes.ready(2).await;
    let t = format!("'{}/*.parquet'", folder.path().display());
    let sql = format!("SELECT k, count(*) FROM {t} GROUP BY k");
    let denied = nodes.session.collect(&sql).await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
    assert!(denied.message().contains("executor confined-"), "{denied}");
    let alone = builder().build().unwrap();
    let sql = "SELECT sum(10 / (o_custkey - o_custkey)) FROM tpch('orders', 0.01)";
    let (spread, one) = (nodes.session.collect(sql).await, alone.collect(sql).await);
    let (spread, one) = (spread.unwrap_err(), one.unwrap_err());
    assert_eq!(
        (spread.kind(), spread.message()),
        (one.kind(), one.message())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_travel() {
    let nodes = Nodes::start(2).await;
    // The host engine makes blocks of its own: DataFusion's operators obey the size of batches.
    nodes.rows("SET tidegate.host_engine = 'off'").await;
    nodes
        .rows("SET datafusion.execution.batch_size = 100")
        .await;
    let sql = "SELECT o_orderkey FROM tpch('orders', 0.01) WHERE o_orderkey > 0";
    let batches = nodes.session.collect(sql).await.unwrap();
    let largest = batches
        .iter()
        .map(arrow::array::RecordBatch::num_rows)
        .max();
    assert!(largest.unwrap() <= 100, "{largest:?}");
    let zone = "SELECT to_char(max(to_timestamp_seconds(o_orderkey)::TIMESTAMPTZ), '%H') \
                FROM tpch('orders', 0.01)";
    let alone = builder().build().unwrap();
    for session in [&nodes.session, &alone] {
        rows(session, "SET datafusion.execution.time_zone = 'Asia/Tokyo'").await;
    }
    assert_eq!(nodes.rows(zone).await, rows(&alone, zone).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_statement_leaves_nothing_behind() {
    let nodes = Nodes::start(2).await;
    let sql = "SELECT a.id1, b.id2, count(*) FROM h2o_g1(3000000, 1000) a \
               JOIN h2o_g1(3000000, 1000) b ON a.id6 = b.id6 GROUP BY a.id1, b.id2";
    let explained = nodes.explained(sql).await;
    assert!(explained.contains("Spread over"), "{explained}");
    let mut rows = nodes.session.execute(sql).await.unwrap();
    let busy = "SELECT count(*) FROM system.executors WHERE tasks > 0";
    let began = std::time::Instant::now();
    // Nothing comes while the executors join.
    while nodes.rows(busy).await != ["2"] {
        let early = tokio::time::timeout(std::time::Duration::from_millis(50), rows.next()).await;
        assert!(early.is_err(), "rows came before the executors reported");
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "no tasks"
        );
    }
    drop(rows);
    let idle = "SELECT count(*) FROM system.executors WHERE tasks = 0 AND memory_used = 0";
    let began = std::time::Instant::now();
    while nodes.rows(idle).await != ["2"] {
        assert!(
            began.elapsed() < std::time::Duration::from_secs(60),
            "tasks go on"
        );
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let states = "SELECT DISTINCT state FROM system.tasks";
    assert_eq!(nodes.rows(states).await, ["cancelled"]);
}
