//! What EXPLAIN (FORMAT CUDA) tells of a query's kernels, on any machine.

use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::prelude::SQLOptions;
use tidegate::{ErrorKind, Session};

use crate::support::{host_only, simulated};

/// TPC-H query 6, less its bounds on the year.
const REVENUE: &str = "SELECT sum(l_extendedprice * l_discount) FROM tpch('lineitem', 0.01) \
                       WHERE l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24";

async fn explained(session: &Session, query: &str) -> Vec<RecordBatch> {
    let sql = format!("EXPLAIN (FORMAT CUDA) {query}");
    session.collect(&sql).await.unwrap()
}

/// Returns a column of an answer of at most one batch; NULL is `None`.
fn texts(answer: &[RecordBatch], column: &str) -> Vec<Option<String>> {
    let batches = answer
        .iter()
        .filter_map(|batch| batch.column_by_name(column));
    let values = batches.flat_map(|array| array.as_string::<i32>().iter());
    values.map(|value| value.map(str::to_string)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_has_its_kernel_without_a_device() {
    let answer = explained(&host_only(), REVENUE).await;
    let regions = answer[0].column_by_name("region").unwrap();
    assert_eq!(regions.as_primitive::<UInt64Type>().values(), &[1]);
    let program = texts(&answer, "program")[0].clone().unwrap();
    assert!(program.starts_with("filter l_discount >= "), "{program}");
    assert_eq!(texts(&answer, "store"), [Some("registers".into())]);
    let source = texts(&answer, "cuda")[0].clone().unwrap();
    for word in ["__global__", "fold"] {
        assert!(source.contains(word), "{word}: {source}");
    }
    assert_eq!(texts(&answer, "reason"), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_has_its_program() {
    let sql = format!("EXPLAIN (FORMAT PROGRAM) {REVENUE}");
    let answer = host_only().collect(&sql).await.unwrap();
    let program = texts(&answer, "program")[0].clone().unwrap();
    for line in [
        "= l_discount",
        "select v",
        "accumulate a0 = sum",
        "call sum of a0",
    ] {
        assert!(program.contains(line), "{line}: {program}");
    }
    assert_eq!(texts(&answer, "reason"), [None]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dates_moved_by_intervals_have_kernels() {
    let query = "SELECT l_shipdate + INTERVAL '1 month' AS next, count(*) FROM tpch('lineitem', 0.01) \
                 WHERE l_commitdate - INTERVAL '7 days' > l_shipdate GROUP BY next";
    let answer = explained(&host_only(), query).await;
    assert_eq!(texts(&answer, "reason"), [None]);
    let source = texts(&answer, "cuda")[0].clone().unwrap();
    assert!(source.contains("moved_by_months("), "{source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn extremes_of_strings_have_kernels() {
    let query = "SELECT l_returnflag, min(l_shipmode), max(l_comment) FROM tpch('lineitem', 0.01) \
                 GROUP BY l_returnflag";
    let answer = explained(&host_only(), query).await;
    assert_eq!(texts(&answer, "reason"), [None]);
    assert!(texts(&answer, "cuda")[0].is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_more_than_64_bits_have_kernels() {
    let wide = "l_extendedprice * l_quantity";
    let all = format!("l_orderkey, {wide}, l_tax::DOUBLE, l_shipmode");
    for keys in ["l_orderkey, l_partkey", wide, &all] {
        let query = format!(
            "SELECT {keys}, count(*), sum(l_linenumber) FROM tpch('lineitem', 0.01) GROUP BY {keys}"
        );
        let answer = explained(&host_only(), &query).await;
        assert_eq!(texts(&answer, "reason"), [None], "{keys}");
        assert_eq!(texts(&answer, "store"), [Some("hash table".into())]);
        let source = texts(&answer, "cuda")[0].clone().unwrap();
        assert!(source.contains("hash_key_word("), "{keys}: {source}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_changes_nothing() {
    let host = explained(&host_only(), REVENUE).await;
    let session = simulated("1GB", &["replay_placement = 'HD'"]).await;
    assert_eq!(
        texts(&explained(&session, REVENUE).await, "cuda"),
        texts(&host, "cuda")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_without_a_kernel_has_a_reason() {
    let check = async |query: &str, expect: &str| {
        let answer = explained(&host_only(), query).await;
        let reasons = texts(&answer, "reason");
        let is_told =
            |reason: &Option<String>| reason.as_deref().is_some_and(|why| why.contains(expect));
        assert!(reasons.iter().any(is_told), "{query}: {reasons:?}");
        for (source, reason) in texts(&answer, "cuda").iter().zip(&reasons) {
            assert_ne!(source.is_some(), reason.is_some(), "{query}");
        }
    };
    check(
        "SELECT median(n_nationkey) FROM tpch('nation', 0.01)",
        "not lowered: function median",
    )
    .await;
    check(
        "SELECT count(*) FROM tpch('nation', 0.01) \
         WHERE n_nationkey > (SELECT avg(r_regionkey) FROM tpch('region', 0.01))",
        "known only when the query runs",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_regions_gives_no_row() {
    let answer = explained(&host_only(), "SELECT 1").await;
    assert_eq!(answer.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
    assert!(host_only().kernels("SELECT 1").await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_queries_have_kernels() {
    let session = host_only();
    for statement in [
        "CREATE TABLE t AS SELECT 1 AS a",
        "SET tidegate.placement = 'host'",
        "EXPLAIN SELECT 1",
    ] {
        for sql in [statement, &format!("EXPLAIN (FORMAT CUDA) {statement}")] {
            let error = match sql.strip_prefix("EXPLAIN (FORMAT CUDA) ") {
                Some(_) => session.collect(sql).await.unwrap_err(),
                None => session.kernels(sql).await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::Sql, "{sql}: {error}");
            assert!(
                error.to_string().contains("only a query has kernels"),
                "{sql}: {error}"
            );
        }
    }
    session.collect("SELECT * FROM t").await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_bounds_a_query_bounds_its_explanation() {
    let session = host_only();
    let chain = format!("SELECT 1{}", " + 1".repeat(1_100));
    let deep = format!("SELECT {}1{}", "(".repeat(200), ")".repeat(200));
    for query in [chain, deep] {
        let error = session.kernels(&query).await.unwrap_err().to_string();
        assert!(error.contains("exceeds the limit"), "{error}");
        let sql = format!("EXPLAIN (FORMAT CUDA) {query}");
        let error = session.collect(&sql).await.unwrap_err().to_string();
        assert!(error.contains("exceeds the limit"), "{error}");
    }
    let allowed = SQLOptions::new().with_allow_ddl(false);
    let sql = "EXPLAIN (FORMAT CUDA) CREATE TABLE t AS SELECT 1";
    let refused = session.sql_with_options(sql, allowed).await.unwrap_err();
    assert!(refused.to_string().contains("DDL"), "{refused}");
}
