//! What EXPLAIN prints for regions, as snapshots.

use datafusion::arrow::util::pretty::pretty_format_batches;
use tidegate::Session;

use crate::support::{answer, host_only, rows, simulated};

/// Returns the lines of EXPLAIN that stand for regions, without the plan's indentation.
async fn regions(session: &Session, sql: &str) -> String {
    let explained = session
        .collect(&format!("EXPLAIN FORMAT INDENT {sql}"))
        .await
        .unwrap();
    let text = pretty_format_batches(&explained).unwrap().to_string();
    let lines = text
        .lines()
        .filter_map(|line| line.split_once("PipelineExec: "));
    lines
        .map(|(_, region)| region.trim_end_matches(['|', ' ']))
        .collect::<Vec<_>>()
        .join("\n")
}

const GROUP_BY: &str = "SELECT k, sum(v), avg(v) FROM t WHERE v > 7 AND s LIKE 's%' GROUP BY k";

#[tokio::test(flavor = "multi_thread")]
async fn a_region_without_a_device() {
    let session = host_only();
    session.register_batch("t", rows(0, 100)).unwrap();
    // What was looked for and found differs from machine to machine.
    let told = regions(&session, GROUP_BY).await;
    let (told, looked_for) = told.split_once("no device: ").unwrap();
    assert!(
        looked_for.starts_with("looked for the NVIDIA driver"),
        "{looked_for}"
    );
    insta::assert_snapshot!(told, @r#"
    host, program=[filter v > 7 and s like 's%' → project k, v → group by k: sum(v), avg(cast(v as Float64)) [state]], float_sums=unordered, reasons=[
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_additive_region() {
    let session = simulated("1GB", &["replay_placement = 'HD'"]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    insta::assert_snapshot!(regions(&session, GROUP_BY).await, @r#"
    additive on host, device 0 (simulated device, not a GPU), program=[filter v > 7 and s like 's%' → project k, v → group by k: sum(v), avg(cast(v as Float64)) [state]], float_sums=unordered
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_region() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    let sql = format!("{GROUP_BY} HAVING sum(v) > 10 ORDER BY sum(v) DESC LIMIT 3");
    insta::assert_snapshot!(regions(&session, &sql).await, @r#"
    atomic on device 0 (simulated device, not a GPU), program=[filter v > 7 and s like 's%' → project k, v → group by k: sum(v), avg(cast(v as Float64)) → filter sum(t.v) > 10 → sort by sum(t.v) desc nulls first fetch 3 → project k, sum(t.v) as sum(v), avg(t.v) as avg(v)], float_sums=unordered
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_wise_region_stays_where_its_rows_go() {
    let session = simulated("1GB", &[]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    let sql = "SELECT v * 2 AS w FROM t WHERE v BETWEEN 3 AND 5";
    insta::assert_snapshot!(regions(&session, sql).await, @r#"
    host, program=[filter v >= 3 and v <= 5 → project v * 2 as w], reasons=[the rows return to the host: moving them costs more than filtering them]
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_that_cannot_be_said() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_batch("t", rows(0, 100)).unwrap();
    let sql = "SELECT initcap(s), median(v), count(DISTINCT v) FILTER (WHERE v > 1) FROM t GROUP BY initcap(s)";
    insta::assert_snapshot!(regions(&session, sql).await, @r#"
    host, no program, reasons=[not lowered: function initcap; not lowered: function median; not lowered: count(DISTINCT)]
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages() {
    let session = host_only();
    session.register_batch("trips", rows(0, 100)).unwrap();
    let mut told = Vec::new();
    for sql in [
        "SELECT * FROM trip",
        "SELECT * FROM 'no/such/file.parquet'",
        "SELECT vv FROM trips",
        "SELECT v / 0 FROM trips",
        "SELECT CAST(v AS DECIMAL(3, 2)) FROM trips",
        "SET tidegate.placment = 'host'",
        "SET tidegate.placement = 'gpu'",
        "SELECT * FROM tpch('lineitems', 1)",
    ] {
        let error = session.collect(sql).await.err();
        told.push(match error {
            Some(error) => format!("{:?}: {error}", error.kind()),
            None => format!("no error: {sql}"),
        });
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    NotFound: table 'trip' not found: did you mean 'trips'?
    NotFound: 'no/such/file.parquet' not found: no such file, folder or glob, or its ending is none of .parquet, .csv, .tsv, .json, .ndjson, .jsonl, .arrow, .arrows, .feather, .ipc
    Sql: column 'vv' not found: did you mean v?
    Sql: division by zero
    Sql: 10.00 is too large to store in a DECIMAL of precision 3. Max is 9.99
    Sql: unknown setting tidegate.placment: did you mean tidegate.placement?
    Sql: tidegate.placement = 'gpu': expected auto, host, device or strict at line 1, column 26
    Sql: tpch has no table 'lineitems', did you mean 'lineitem'?; its tables are customer, lineitem, nation, orders, part, partsupp, region, supplier at line 1, column 20
    "#);
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_that_ran_have_three_more_formats() {
    let session = Session::builder().target_partitions(2).build().unwrap();
    session
        .collect("CREATE TABLE nums AS SELECT value % 3 AS k, value AS v FROM range(0, 1000)")
        .await
        .unwrap();
    let query = "SELECT k, sum(v) AS s FROM nums GROUP BY k ORDER BY k";
    let told = async |form: &str| {
        let rows = session.collect(&format!("{form} {query}")).await.unwrap();
        let rows = pretty_format_batches(&rows).unwrap();
        rows.to_string()
    };
    for form in [
        "EXPLAIN ANALYZE FORMAT TREE",
        "EXPLAIN (ANALYZE, FORMAT TREE)",
    ] {
        let tree = told(form).await;
        assert!(tree.contains("ran on the host"), "{tree}");
        assert!(tree.contains("3 rows in "), "{tree}");
        assert!(tree.contains("└─ "), "{tree}");
        assert!(tree.contains("operator"), "{tree}");
    }
    for form in [
        "EXPLAIN ANALYZE FORMAT JSON",
        "EXPLAIN (ANALYZE, FORMAT PGJSON)",
    ] {
        let json = told(form).await;
        assert!(json.contains("\"verdict\": \""), "{json}");
        assert!(json.contains("\"rows\": 3"), "{json}");
    }
    let graph = told("EXPLAIN ANALYZE FORMAT GRAPHVIZ").await;
    assert!(
        graph.contains("digraph {") && graph.contains("n1 -> n0"),
        "{graph}"
    );
    // The rows themselves are those of the query.
    let plain = told("EXPLAIN ANALYZE").await;
    assert!(plain.contains("output_rows"), "{plain}");
    assert!(told("EXPLAIN FORMAT JSON").await.contains("\"Plan\""));
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_listed_and_described_in_the_words_of_sql() {
    let session = Session::builder().build().unwrap();
    let create = "CREATE TABLE b (n BIGINT NOT NULL, t VARCHAR, d DECIMAL(10, 2), a INT[])";
    session.collect(create).await.unwrap();
    session
        .collect("CREATE VIEW a AS SELECT 1 AS x")
        .await
        .unwrap();
    let told = async |sql: &str| {
        let rows = session.collect(sql).await.unwrap();
        let rows = pretty_format_batches(&rows).unwrap();
        rows.to_string()
    };
    let expect = "\
+--------------+------------+------------+
| table_schema | table_name | table_type |
+--------------+------------+------------+
| public       | a          | VIEW       |
| public       | b          | BASE TABLE |
+--------------+------------+------------+";
    assert_eq!(told("SHOW TABLES").await, expect);
    let expect = "\
+-------------+----------------+-------------+----------------+
| column_name | data_type      | is_nullable | column_default |
+-------------+----------------+-------------+----------------+
| n           | BIGINT         | NO          |                |
| t           | VARCHAR        | YES         |                |
| d           | DECIMAL(10, 2) | YES         |                |
| a           | INT[]          | YES         |                |
+-------------+----------------+-------------+----------------+";
    assert_eq!(told("DESCRIBE b").await, expect);
    assert_eq!(told("DESCRIBE b").await, expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_execute_stands_for_is_explained() {
    let session = host_only();
    session.register_batch("t", rows(0, 60)).unwrap();
    let prepare = "PREPARE above AS SELECT k FROM t WHERE v > $1";
    session.collect(prepare).await.unwrap();
    for explain in ["EXPLAIN", "EXPLAIN ANALYZE", "EXPLAIN VERBOSE"] {
        let explained = answer(&session, &format!("{explain} EXECUTE above(7)")).await;
        let explained = explained.join("\n");
        assert!(explained.contains("v > 7"), "{explain}: {explained}");
    }
    let unknown = session.collect("EXPLAIN EXECUTE below(7)").await;
    let message = unknown.unwrap_err().to_string();
    assert!(message.contains("below"), "{message}");
}
