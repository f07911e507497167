//! The in-memory sort: the same order as DataFusion's, and its fallback to DataFusion's where memory is short.

use tidegate::Session;

use crate::host_engine::{analyzed, same_without};
use crate::support::answer;

/// Values of many types; those of `x` differ in their last bits, but for one row that is far away.
const ROWS: &str = "SELECT value AS id, (value * 7919) % 1009 AS k, value % 3 = 0 AS b, \
    CASE WHEN value % 5 = 0 THEN NULL ELSE (value * 31) % 170 - 85 END AS o, \
    CASE WHEN value = 77 THEN 9000000000000000 ELSE value % 13 END AS x, \
    CASE WHEN value % 6 = 0 THEN NULL WHEN value % 97 = 0 THEN 'NaN'::DOUBLE \
         ELSE ((value * 17) % 197) / 4.0::DOUBLE - 20 END AS f, \
    CASE WHEN value % 4 = 0 THEN NULL WHEN value % 7 = 0 THEN '' \
         ELSE repeat('same beginning ', CAST(value % 3 AS INT)) || ((value * 23) % 501) END AS s, \
    CAST((value * 29) % 1000 AS DECIMAL(30, 2)) / 7 AS d, \
    CAST(CAST((value * 3) % 60 AS INT) AS DATE) AS day FROM generate_series(1, 20000)";

const ORDERS: [&str; 14] = [
    "id DESC",
    "k, id",
    "b, id DESC",
    "o, id",
    "o DESC NULLS LAST, k DESC, id",
    "x, id",
    "x DESC, b, id DESC",
    "f, id",
    "f DESC NULLS LAST, id",
    "s, id",
    "s DESC NULLS LAST, id DESC",
    "d, day, k, x, id",
    "day DESC, s, d, id",
    "k % 2, s || k, id",
];

async fn session(partitions: usize) -> Session {
    let builder = Session::builder().target_partitions(partitions);
    let session = builder.build().unwrap();
    let table = format!("CREATE TABLE t AS {ROWS}");
    session.collect(&table).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn types_and_directions_have_the_same_order() {
    for partitions in [1, 3] {
        let session = session(partitions).await;
        for order in ORDERS {
            let sql = format!(
                "SELECT *, [k, o] AS l, arrow_cast(s, 'BinaryView') AS v FROM t ORDER BY {order}"
            );
            same_without(&session, &sql, "").await;
            let plan = answer(&session, &format!("EXPLAIN {sql}")).await;
            assert!(plan.join("\n").contains("HostSortExec"), "{plan:?}");
        }
        for (rows, count) in [("WHERE id < 0", 0), ("WHERE id = 3", 1)] {
            let sql = format!("SELECT s FROM t {rows} ORDER BY s, id");
            let given = session.collect(&sql).await.unwrap();
            let given: usize = given.iter().map(|batch| batch.num_rows()).sum();
            assert_eq!(given, count);
        }
    }
}

/// Rows of which there is no memory for entries are spilled by DataFusion's sort.
#[tokio::test(flavor = "multi_thread")]
async fn little_memory_spills() {
    let sql = "SELECT sum(n), min(n), max(v) FROM (SELECT v, row_number() OVER (ORDER BY k, v) - v AS n FROM \
        (SELECT (value * 7919) % 1000003 AS k, value AS v, repeat('x', 40) || value AS s \
         FROM generate_series(1, 400000)) WHERE s <> 'x')";
    let of = |bytes: u64| {
        let builder = Session::builder().target_partitions(2);
        builder.memory_limit(bytes).build().unwrap()
    };
    let wanted = answer(&of(1 << 30), sql).await;
    let session = of(16 << 20);
    let plan = analyzed(&session, sql).await;
    let sort = plan.lines().find(|line| line.contains("HostSortExec"));
    let sort = sort.unwrap_or_else(|| panic!("{plan}"));
    assert!(sort.contains("spill_count="), "{plan}");
    assert!(!sort.contains("spill_count=0,"), "{plan}");
    assert_eq!(answer(&session, sql).await, wanted);
}

/// Whatever a sort holds, there is memory for the merge of its partitions.
#[tokio::test(flavor = "multi_thread")]
async fn a_merge_of_partitions_finds_memory() {
    let builder = Session::builder().target_partitions(2);
    let session = builder.memory_limit(24 << 20).build().unwrap();
    for rows in [60_000, 90_000, 120_000, 180_000, 260_000] {
        let sql = format!(
            "SELECT v, s FROM (SELECT value AS v, md5(value::VARCHAR) || repeat('x', 40) AS s \
             FROM generate_series(1, {rows})) ORDER BY s"
        );
        let given = session.collect(&sql).await;
        let given = given.unwrap_or_else(|error| panic!("{rows}: {error}"));
        let given: usize = given.iter().map(|batch| batch.num_rows()).sum();
        assert_eq!(given, rows);
    }
}
