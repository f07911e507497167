//! Windows that are computed batch by batch: the same answers as DataFusion's operators give.

use tidegate::Session;

use crate::host_engine::set;
use crate::support::answer;

const ROWS: &str = "SELECT value AS id, (value * 7919) % 11 AS k, value % 3 = 0 AS b, \
    CASE WHEN value % 5 = 0 THEN NULL ELSE (value * 31) % 17 END AS o, \
    CASE WHEN value % 7 = 0 THEN NULL ELSE (value * 13) % 101 END AS i, \
    CASE WHEN value % 6 = 0 THEN NULL ELSE ((value * 17) % 97) / 4.0::DOUBLE END AS f, \
    CASE WHEN value % 4 = 0 THEN NULL ELSE 'text number ' || ((value * 23) % 50) END AS s, \
    CAST((value * 29) % 1000 AS DECIMAL(12, 2)) / 7 AS d, \
    CAST(CAST((value * 3) % 60 AS INT) AS DATE) AS day FROM generate_series(1, 600)";

const PARTITIONS: [&str; 5] = [
    "",
    "PARTITION BY k",
    "PARTITION BY k, b",
    "PARTITION BY s",
    "PARTITION BY id",
];

/// Orders in which no two rows are equal.
const ORDERS: [&str; 4] = [
    "ORDER BY id",
    "ORDER BY o DESC NULLS LAST, id",
    "ORDER BY f, id",
    "ORDER BY s DESC, id DESC",
];

const FRAMES: [&str; 14] = [
    "",
    "ROWS UNBOUNDED PRECEDING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "GROUPS UNBOUNDED PRECEDING",
    "ROWS 0 PRECEDING",
    "ROWS 3 PRECEDING",
    "ROWS BETWEEN 60 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 500 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 3 PRECEDING",
    "ROWS BETWEEN 6 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND 5 FOLLOWING",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND 4 FOLLOWING",
    "ROWS BETWEEN 2 FOLLOWING AND 64 FOLLOWING",
];

/// Functions over a frame.
const FRAMED: &str = "sum(i), sum(f), count(i), count(*), sum(d), avg(d), avg(i), min(s), max(s), min(day), max(d), \
    max(b), first_value(s), first_value(i)";

/// Functions over a frame that ends with a row up to the current one, or with a group.
const LAST: &str = "last_value(s), last_value(i)";

/// Functions that have no frame, or one that begins with the partition.
const OTHERS: &str = "row_number(), rank(), dense_rank(), first_value(s), lag(s), lag(i, 3), lag(s, 2, 'none'), \
    lag(day, 100), lag(i, 0), lag(f, -1), lead(s), lead(i, 5, -1), lead(d, 40), lead(s, 600), lead(i, -2), ntile(4), ntile(7), ntile(900), \
    percent_rank(), cume_dist()";

/// Splits a list at the commas that are not within a call.
fn calls(list: &str) -> Vec<String> {
    let calls = list.split("), ").map(|call| call.trim_end_matches(')'));
    calls.map(|call| format!("{call})")).collect()
}

async fn sessions() -> Vec<(&'static str, Session)> {
    let mut sessions = Vec::new();
    for (what, batch_size, partitions) in [
        ("one batch", 8192, 2),
        ("batches of 100", 100, 3),
        ("batches of 7", 7, 1),
        ("batches of 1", 1, 2),
    ] {
        let builder = Session::builder().target_partitions(partitions);
        let session = builder.build().unwrap();
        let size = format!("SET datafusion.execution.batch_size = {batch_size}");
        session.collect(&size).await.unwrap();
        let table = format!("CREATE TABLE t AS {ROWS}");
        session.collect(&table).await.unwrap();
        sessions.push((what, session));
    }
    sessions
}

/// Compares a query with the host engine and without it; returns the plan with it.
async fn compare(sessions: &[(&str, Session)], sql: &str) -> String {
    let (_, first) = &sessions[0];
    set(first, "host_engine = 'off'").await;
    let wanted = answer(first, sql).await;
    let explain = format!("EXPLAIN {sql}");
    let plan = answer(first, &explain).await.join("\n");
    assert!(!plan.contains("HostWindowExec"), "{plan}");
    for (what, session) in sessions {
        set(session, "host_engine = 'auto'").await;
        assert_eq!(answer(session, sql).await, wanted, "{what}: {sql}");
    }
    answer(first, &explain).await.join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_partitions_orders_and_frames_have_the_same_answers() {
    let sessions = sessions().await;
    for (number, partition) in PARTITIONS.iter().enumerate() {
        for (at, frame) in FRAMES.iter().enumerate() {
            let order = ORDERS[(number + at) % ORDERS.len()];
            let mut framed = calls(FRAMED);
            let ends_later =
                frame.ends_with(" FOLLOWING") && !frame.ends_with("UNBOUNDED FOLLOWING");
            if !ends_later {
                framed.extend(calls(LAST));
            }
            let framed = framed
                .iter()
                .map(|call| format!("{call} OVER ({partition} {order} {frame})"));
            let mut columns: Vec<String> = framed.collect();
            if at == 0 {
                let others = calls(OTHERS);
                let others = others.iter();
                columns.extend(others.map(|call| format!("{call} OVER ({partition} {order})")));
            }
            let sql = format!("SELECT id, {} FROM t ORDER BY id", columns.join(", "));
            let plan = compare(&sessions, &sql).await;
            assert!(plan.contains("HostWindowExec"), "{plan}");
            assert!(!plan.contains("WindowAggExec"), "{plan}");
        }
    }
}

/// Rows that are equal in the order have the value of all of them.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_place_share_a_value() {
    let sessions = sessions().await;
    for partition in PARTITIONS {
        for order in [
            "",
            "ORDER BY o",
            "ORDER BY b DESC",
            "ORDER BY s",
            "ORDER BY k, o",
        ] {
            let columns =
                calls("sum(i), count(*), avg(i), sum(d), avg(d), min(s), max(f), max(day)");
            let columns = columns
                .iter()
                .map(|call| format!("{call} OVER ({partition} {order})"));
            let mut columns: Vec<String> = columns.collect();
            if !order.is_empty() {
                columns.push(format!("rank() OVER ({partition} {order})"));
                columns.push(format!("dense_rank() OVER ({partition} {order})"));
                columns.push(format!("percent_rank() OVER ({partition} {order})"));
                columns.push(format!("cume_dist() OVER ({partition} {order})"));
            }
            let sql = format!("SELECT id, {} FROM t ORDER BY id", columns.join(", "));
            let plan = compare(&sessions, &sql).await;
            assert!(plan.contains("HostWindowExec"), "{plan}");
        }
    }
}

/// What does not run here goes through DataFusion's operators.
#[tokio::test(flavor = "multi_thread")]
async fn other_functions_and_frames_are_left_to_datafusion() {
    let sessions = sessions().await;
    for call in [
        "lag(s) IGNORE NULLS OVER (ORDER BY id)",
        "first_value(s) IGNORE NULLS OVER (ORDER BY id)",
        "sum(i) FILTER (WHERE b) OVER (ORDER BY id)",
        "count(DISTINCT s) OVER (PARTITION BY k)",
        "max(i * INTERVAL '1 day') OVER (ORDER BY id)",
        "nth_value(s, 3) OVER (ORDER BY id)",
        "last_value(i) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
        "sum(i) OVER (ORDER BY id RANGE 5 PRECEDING)",
        "sum(i) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        "sum(i) OVER (PARTITION BY id ORDER BY i ROWS BETWEEN CURRENT ROW AND 60000 FOLLOWING)",
    ] {
        let sql = format!("SELECT id, {call} FROM t ORDER BY id");
        let plan = compare(&sessions, &sql).await;
        assert!(!plan.contains("HostWindowExec"), "{call}: {plan}");
    }
    // An order that is the input's read backwards.
    let sql = "SELECT id, lag(i) OVER (ORDER BY id), lag(i) OVER (ORDER BY id DESC), \
        sum(i) OVER (ORDER BY id DESC) FROM t ORDER BY id";
    compare(&sessions, sql).await;
}

/// A NaN is greater than all numbers, and zeros are equal.
#[tokio::test(flavor = "multi_thread")]
async fn floats_are_compared_as_everywhere() {
    let session = Session::builder().build().unwrap();
    let rows = "(VALUES (1, 2.0), (2, 'NaN'::DOUBLE), (3, -'NaN'::DOUBLE), (4, '-inf'::DOUBLE), (5, 9.0)) AS t(id, x)";
    for (call, wanted) in [
        ("max(x) OVER (ORDER BY id)", "2.0, NaN, NaN, NaN, NaN"),
        ("min(x) OVER (ORDER BY id)", "2.0, 2.0, 2.0, -inf, -inf"),
        (
            "max(x) OVER (ORDER BY id ROWS 1 PRECEDING)",
            "2.0, NaN, NaN, NaN, 9.0",
        ),
        // What has left the frame leaves nothing behind.
        (
            "sum(x) OVER (ORDER BY id ROWS 0 PRECEDING)",
            "2.0, NaN, NaN, -inf, 9.0",
        ),
        (
            "sum(x) OVER (ORDER BY id ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)",
            "NaN, NaN, NaN, -inf, 9.0",
        ),
    ] {
        let sql = format!(
            "SELECT string_agg(c::VARCHAR, ', ' ORDER BY id) FROM (SELECT id, {call} AS c FROM {rows})"
        );
        let given = answer(&session, &sql).await.join("\n");
        assert!(given.contains(wanted), "{call}: {given}");
    }
}
