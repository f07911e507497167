//! Many groups on the host engine: the same rows as DataFusion's operators, whether they are merged from
//! records or had to leave as states.

use std::time::{Duration, Instant};

use futures::StreamExt;
use tidegate::Session;

use crate::host_engine::{analyzed, set};
use crate::support::answer;

/// 30,000 rows `(v, k, d, x, big, b, s)`: `v` is unique, `s` has 202 strings and NULL, `x` NaN and −0.0,
/// and half of the rows of `h` are one value.
const ROWS: &str = "SELECT value AS v, CASE WHEN value % 11 = 0 THEN NULL ELSE value % 7 END AS k, \
    CAST(value % 1000 AS DECIMAL(12, 2)) / 4 AS d, \
    CASE WHEN value % 5000 = 4999 THEN CAST('NaN' AS DOUBLE) WHEN value % 13 = 0 THEN NULL \
    WHEN value % 17 = 0 THEN -0.0 WHEN value % 19 = 0 THEN 0.0 ELSE CAST(value % 9001 AS DOUBLE) / 2 END AS x, \
    9223372036854775807 - value % 2 AS big, \
    CASE WHEN value % 19 = 0 THEN NULL ELSE value % 2 = 0 END AS b, \
    CASE WHEN value % 23 = 0 THEN NULL WHEN value % 2 = 0 THEN 's' || (value * 7 % 101) \
    ELSE 'a string of more bytes than twelve ' || (value * 7 % 101) END AS s, \
    CASE WHEN value % 2 = 0 THEN 0 ELSE value END AS h FROM generate_series(1, 30000)";

/// Queries over it with many groups, all of which are merged.
const MERGED: [&str; 16] = [
    "SELECT v, count(*), sum(k), min(d), max(x), avg(k) FROM t GROUP BY v",
    "SELECT v % 20000 AS g, count(*), sum(v), avg(d), max(d), count(k) FROM t GROUP BY g",
    "SELECT s, v % 50 AS g, count(*), sum(v), min(b), max(b) FROM t GROUP BY s, g",
    "SELECT s, v % 3 AS g, k, sum(d), min(v) FROM t GROUP BY s, g, k",
    "SELECT v, s, x, b, count(*) FROM t GROUP BY v, s, x, b",
    "SELECT x, v % 4 AS g, count(*), min(x), max(x) FROM t GROUP BY x, g",
    "SELECT h, count(*), sum(v), bool_and(b), bit_or(k) FROM t GROUP BY h",
    "SELECT v, sum(k) FILTER (WHERE b), count(*) FILTER (WHERE k = 3), avg(x) FILTER (WHERE b) FROM t GROUP BY v",
    "SELECT CAST(v AS DECIMAL(30, 3)) AS g, sum(CAST(v AS DECIMAL(38, 3))), min(CAST(v AS DECIMAL(38, 3))) FROM t GROUP BY g",
    "SELECT CAST(v AS INT) AS g, round(var_pop(k), 6), round(stddev(v), 6) FROM t GROUP BY g",
    "SELECT DISTINCT v, k FROM t",
    "SELECT DISTINCT s, v % 500 AS k FROM t WHERE v % 5 < 4",
    "SELECT count(DISTINCT v), count(DISTINCT v + 1) FROM t",
    "SELECT v % 15000 AS g, count(*) AS c FROM t GROUP BY g HAVING count(*) > 1 ORDER BY g DESC LIMIT 10",
    "SELECT c, count(*) FROM (SELECT h, count(*) AS c FROM t GROUP BY h) GROUP BY c",
    "SELECT h % 2 AS g, sum(big % 1000) FROM (SELECT h, big, count(*) FROM t GROUP BY h, big) GROUP BY g",
];

/// Queries over groups whose rows have to be where others rely on their being.
const ROUTED: [&str; 6] = [
    "SELECT t.k, count(*), sum(g.c) FROM t JOIN (SELECT v + 0 AS g, count(*) AS c FROM t GROUP BY v + 0) g ON t.v = g.g GROUP BY t.k",
    "SELECT count(*), sum(a.c), sum(b.s) FROM (SELECT v, count(*) AS c FROM t GROUP BY v) a \
     JOIN (SELECT h, sum(v) AS s FROM t GROUP BY h) b ON a.v = b.h",
    "SELECT count(*), count(b.s) FROM (SELECT v, count(*) AS c FROM t GROUP BY v HAVING count(*) < 2) a \
     LEFT JOIN (SELECT h, sum(v) AS s FROM t GROUP BY h) b ON a.v = b.h",
    "SELECT v, sum(c) FROM (SELECT v, k, count(*) AS c FROM t GROUP BY v, k) GROUP BY v",
    "SELECT v, c, sum(c) OVER (PARTITION BY v) FROM (SELECT v, k, count(*) AS c FROM t GROUP BY v, k)",
    "SELECT v, count(*) FROM t GROUP BY v UNION SELECT v, sum(k) FROM t GROUP BY v",
];

/// Lets few rows be enough for the engine to look at how many groups they have.
async fn few_are_many(session: &Session) {
    for setting in [
        "SET datafusion.execution.skip_partial_aggregation_probe_rows_threshold = 1000",
        "SET datafusion.execution.skip_partial_aggregation_probe_ratio_threshold = 0.3",
    ] {
        session.collect(setting).await.unwrap();
    }
}

async fn session_with(partitions: usize, memory: Option<u64>) -> Session {
    let mut builder = Session::builder().target_partitions(partitions);
    if let Some(bytes) = memory {
        builder = builder.memory_limit(bytes);
    }
    let session = builder.build().unwrap();
    few_are_many(&session).await;
    session
}

/// Returns what the nodes of gathered groups counted as merged in a plan that has run; `None` without such.
fn merged(plan: &str) -> Option<bool> {
    let mut lines = plan.lines().filter(|line| line.contains("HostGroupsExec"));
    let first = lines.next()?;
    // A counter of nothing is left out.
    let is_merged = |line: &str| line.contains("merged_groups=");
    Some(is_merged(first) || lines.any(is_merged))
}

/// Compares the answers with and without the engine, and that of the plan with it.
async fn compare(session: &Session, sql: &str, what: &str) -> String {
    let reserved = || session.context().runtime_env().memory_pool.reserved();
    set(session, "host_engine = 'off'").await;
    let wanted = answer(session, sql).await;
    // The table may be in memory.
    let before = reserved();
    set(session, "host_engine = 'auto'").await;
    assert_eq!(answer(session, sql).await, wanted, "{what}: {sql}");
    let plan = analyzed(session, sql).await;
    assert_eq!(reserved(), before, "{what}: {sql}");
    plan
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_of_memory_tables_are_merged() {
    for partitions in [1, 3] {
        let session = session_with(partitions, None).await;
        let sql = format!("CREATE TABLE t AS {ROWS}");
        session.collect(&sql).await.unwrap();
        for sql in MERGED {
            let what = format!("{partitions} partitions");
            let plan = compare(&session, sql, &what).await;
            assert_eq!(merged(&plan), Some(true), "{what}: {sql}\n{plan}");
        }
        for sql in ROUTED {
            compare(&session, sql, &format!("{partitions} partitions")).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_of_parquet_files_are_merged() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    let file = file.to_str().unwrap();
    let session = session_with(3, None).await;
    let sql = format!(
        "COPY ({ROWS} ORDER BY value * 7919 % 30011) TO '{file}' OPTIONS (max_row_group_size 4000)"
    );
    session.collect(&sql).await.unwrap();
    session.register_parquet("t", file).await.unwrap();
    for sql in MERGED {
        let plan = compare(&session, sql, "parquet").await;
        assert_eq!(merged(&plan), Some(true), "{sql}\n{plan}");
    }
    for sql in ROUTED {
        compare(&session, sql, "parquet").await;
    }
}

/// Few groups, no rows and one row: states leave, as without it.
#[tokio::test(flavor = "multi_thread")]
async fn few_groups_leave_as_states() {
    let session = session_with(3, None).await;
    let sql = format!("CREATE TABLE t AS {ROWS}");
    session.collect(&sql).await.unwrap();
    for sql in [
        "SELECT k, count(*), sum(v) FROM t GROUP BY k",
        "SELECT v, count(*) FROM t WHERE v < 0 GROUP BY v",
        "SELECT v, count(*) FROM t WHERE v % 30001 = 77 GROUP BY v",
        "SELECT b, v % 2 AS odd, sum(d) FROM t GROUP BY b, odd",
    ] {
        let plan = compare(&session, sql, "few groups").await;
        assert_eq!(merged(&plan), Some(false), "{sql}\n{plan}");
    }
    let small = "CREATE TABLE u AS SELECT value AS v FROM generate_series(1, 900)";
    session.collect(small).await.unwrap();
    let plan = compare(&session, "SELECT v, count(*) FROM u GROUP BY v", "small").await;
    assert_eq!(merged(&plan), None, "{plan}");
}

/// What raises does so as in DataFusion's operators, be it a row or a group's value.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_those_of_the_operators() {
    let session = session_with(2, None).await;
    let sql = format!("CREATE TABLE t AS {ROWS}");
    session.collect(&sql).await.unwrap();
    for sql in [
        "SELECT v, sum(10 / (v - 15000)) FROM t GROUP BY v",
        "SELECT v % 10000 AS g, sum(big) FROM t GROUP BY g",
        "SELECT v % 10000 AS g, sum(big), avg(big) FROM t GROUP BY g",
        "SELECT v % 10000 AS g, sum(CAST(99999999999999999999999999999999999999 AS DECIMAL(38, 0)) - v) FROM t GROUP BY g",
        "SELECT v % 10000 AS g, avg(CAST(9999999999999999999999999999999999 AS DECIMAL(38, 0)) - v) FROM t GROUP BY g",
    ] {
        let mut told = Vec::new();
        for mode in ["off", "auto"] {
            set(&session, &format!("host_engine = '{mode}'")).await;
            told.push(match session.collect(sql).await {
                Ok(rows) => crate::support::lines(&rows).join("\n"),
                Err(error) => format!("{:?}: {error}", error.kind()),
            });
        }
        told.iter_mut().for_each(|told| {
            let mut lines: Vec<&str> = told.lines().collect();
            lines.sort_unstable();
            *told = lines.join("\n");
        });
        assert_eq!(told[0], told[1], "{sql}");
    }
}

/// Records that find no memory leave as states, and the query goes on.
#[tokio::test(flavor = "multi_thread")]
async fn little_memory_changes_no_answer() {
    let source = "(SELECT value * 7 % 600011 AS k, value AS v FROM generate_series(1, 900000))";
    let sql = format!(
        "SELECT count(*), sum(c), sum(s), min(a), max(b) FROM (SELECT k, count(*) AS c, sum(v) AS s, \
         min(v) AS a, max(v) AS b FROM {source} GROUP BY k)"
    );
    let wanted = answer(&session_with(2, None).await, &sql).await;
    for (bytes, is_enough) in [(24 << 20, false), (256 << 20, true)] {
        let session = session_with(2, Some(bytes)).await;
        set(&session, "host_engine = 'auto'").await;
        assert_eq!(answer(&session, &sql).await, wanted, "{bytes} bytes");
        let plan = analyzed(&session, &sql).await;
        assert_eq!(merged(&plan), Some(is_enough), "{bytes} bytes: {plan}");
    }
}

/// A stream that is dropped lets records go at once.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_stream_ends_its_work() {
    let session = session_with(2, None).await;
    set(&session, "host_engine = 'auto'").await;
    let sql =
        "SELECT value % 100000007 AS k, sum(value) FROM generate_series(1, 400000000) GROUP BY k";
    let mut rows = session.execute(sql).await.unwrap();
    let polled = tokio::time::timeout(Duration::from_millis(800), rows.next()).await;
    assert!(polled.is_err(), "it ended sooner than expected");
    let reserved = || session.context().runtime_env().memory_pool.reserved();
    assert!(reserved() > 0, "it has no records yet");
    let began = Instant::now();
    drop(rows);
    while reserved() > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "{}", reserved());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Rows that an ancestor reads in part end all of it without an error.
#[tokio::test(flavor = "multi_thread")]
async fn limits_above_groups_end_them() {
    let session = session_with(3, None).await;
    let sql = format!("CREATE TABLE t AS {ROWS}");
    session.collect(&sql).await.unwrap();
    set(&session, "host_engine = 'auto'").await;
    for limit in [1, 5, 29_999] {
        let sql = format!(
            "SELECT * FROM (SELECT v, count(*) AS c FROM t GROUP BY v) WHERE c = 1 LIMIT {limit}"
        );
        // The first line has the names.
        assert_eq!(answer(&session, &sql).await.len(), limit + 1);
    }
}
