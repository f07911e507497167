//! Prepared statements and repeated texts: what runs without a plan answers as what is planned.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Int64Type, Schema, UInt64Type};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use tidegate::{ErrorKind, Prepared, Session};

use crate::support::{answer, host_only, lines, rows, sides, simulated};

const SQL: &str = "SELECT k, s, sum(v), count(*) FROM t WHERE v >= $1 AND v < $2 + 10 AND s <> $3 \
                   GROUP BY k, s";

fn values(low: i64, high: i64, not: &str) -> [ScalarValue; 3] {
    [low.into(), high.into(), not.into()]
}

fn written(low: i64, high: i64, not: &str) -> String {
    SQL.replace("$1", &low.to_string())
        .replace("$2", &high.to_string())
        .replace("$3", &format!("'{not}'"))
}

/// Makes a session whose table of 6,000 rows lies in several batches, on a device if `cached`.
async fn session(settings: &[&str], cached: bool) -> Session {
    let session = simulated("1GB", settings).await;
    register(&session, 0);
    if cached {
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    }
    session
}

fn register(session: &Session, start: i64) {
    let batch = |at: i64| rows(start + at * 1_000, start + (at + 1) * 1_000);
    let batches: Vec<RecordBatch> = (0..6).map(batch).collect();
    let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
}

/// Runs a statement and compares its answer with that of the text with the values in it.
async fn check(session: &Session, prepared: &Prepared, low: i64, high: i64, not: &str) {
    let given = prepared.collect(&values(low, high, not)).await.unwrap();
    let found = lines(&given);
    let host = session.clone();
    assert_eq!(found, answer(&host, &written(low, high, not)).await);
}

/// Tells whether the last query was planned; what takes the fast path was not.
fn was_planned(session: &Session) -> bool {
    session.last_report().unwrap().plan_seconds > 0.0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_over_a_cached_table_runs_without_a_plan() {
    for settings in [&["placement = 'device'"], &["placement = 'strict'"]] {
        let session = session(settings, true).await;
        let prepared = session.prepare(SQL).await.unwrap();
        for (low, high) in [(10, 4_000), (10, 4_000), (100, 90), (5_990, 9_000)] {
            let given = prepared.collect(&values(low, high, "s1")).await.unwrap();
            assert!(!was_planned(&session), "{}", session.last_report().unwrap());
            let report = session.last_report().unwrap();
            assert_eq!(report.sql.as_deref(), Some(SQL));
            let num_rows: usize = given.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(report.rows, num_rows as u64);
            assert_eq!(sides(&session).0, (0, 0), "{report}");
            assert_eq!(sides(&session).1.1, 6_000, "{report}");
            assert_eq!(
                lines(&given),
                answer(&session, &written(low, high, "s1")).await
            );
        }
        let program = session.last_report().unwrap().regions[0].program.clone();
        assert!(program.is_some_and(|program| program.contains("v >= 5990")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_over_a_table_that_is_not_cached_is_planned() {
    for session in [host_only(), simulated("1GB", &[]).await] {
        register(&session, 0);
        let prepared = session.prepare(SQL).await.unwrap();
        check(&session, &prepared, 10, 4_000, "s1").await;
        prepared.collect(&values(0, 10, "s")).await.unwrap();
        assert!(was_planned(&session));
    }
}

/// What a column is called does not tell how the statement ran.
#[tokio::test(flavor = "multi_thread")]
async fn columns_are_called_as_planned() {
    let (session, host) = (session(&["placement = 'device'"], true).await, host_only());
    register(&host, 0);
    for sql in [
        "SELECT k, sum(v * $1) FROM t WHERE v + $1 > 7 GROUP BY k",
        "SELECT sum(v) / $1 AS share, count(*) FROM t",
        "SELECT k + $1, max(v) FROM t GROUP BY k + $1 ORDER BY k + $1 LIMIT 3",
    ] {
        let value = [3_i64.into()];
        let prepared = session.prepare(sql).await.unwrap();
        let found = prepared.collect(&value).await.unwrap();
        assert!(!was_planned(&session), "{sql}");
        let planned = host.prepare(sql).await.unwrap();
        let planned = planned.collect(&value).await.unwrap();
        assert_eq!(lines(&found), lines(&planned), "{sql}");
        let names = |rows: &[RecordBatch]| {
            let schema = rows[0].schema();
            let fields = schema.fields().iter();
            fields
                .map(|field| format!("{} {}", field.name(), field.data_type()))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&found), names(&planned), "{sql}");
    }
}

/// Counts what is remembered of the statement.
async fn asked(session: &Session) -> i64 {
    let sql = format!("SELECT count(*) FROM system.queries WHERE sql = '{SQL}'");
    let found = session.collect(&sql).await.unwrap();
    found[0].column(0).as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_changes_is_seen() {
    let session = session(&["placement = 'device'"], true).await;
    let prepared = session.prepare(SQL).await.unwrap();
    let run = async || check(&session, &prepared, 10, 60_000, "s1").await;
    let short = async || {
        let given = prepared.collect(&values(0, 60_000, "s2")).await.unwrap();
        (!was_planned(&session), lines(&given))
    };
    run().await;
    let (is_short, before) = short().await;
    assert!(is_short);
    session
        .collect("INSERT INTO t VALUES (1, 50000, 's0')")
        .await
        .unwrap();
    let known = asked(&session).await;
    let (is_short, after) = short().await;
    assert!(!is_short && before != after);
    // What the device had begun over the rows that were is in no book.
    assert_eq!(asked(&session).await, known + 1);
    run().await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(short().await, (true, after.clone()));
    session.collect("UNCACHE TABLE t").await.unwrap();
    assert_eq!(short().await, (false, after.clone()));
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(short().await, (true, after.clone()));
    // Other settings plan it anew; these leave it to the host.
    session
        .collect("SET tidegate.placement = 'host'")
        .await
        .unwrap();
    assert_eq!(short().await, (false, after.clone()));
    session
        .collect("SET tidegate.placement = 'device'")
        .await
        .unwrap();
    assert_eq!(short().await, (true, after));
    // A table of the same name and shape with other rows.
    session.collect("DROP TABLE t").await.unwrap();
    let gone = prepared.collect(&values(0, 1, "s")).await.unwrap_err();
    assert!(gone.to_string().contains("'t' not found"), "{gone}");
    register(&session, 1_000_000);
    check(&session, &prepared, 1_000_010, 1_004_000, "s1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_text_is_planned_once() {
    let session = session(&["placement = 'device'"], true).await;
    let text = written(10, 4_000, "s1");
    let expected = answer(&session, &text).await;
    assert!(was_planned(&session));
    for _ in 0..3 {
        assert_eq!(answer(&session, &text).await, expected);
        let report = session.last_report().unwrap();
        assert!(report.plan_seconds == 0.0, "{report}");
        assert_eq!(report.sql.as_deref(), Some(text.as_str()));
        assert_eq!(sides(&session), ((0, 0), (1, 6_000)), "{report}");
    }
    // A frame of it is like any other.
    for _ in 0..3 {
        let frame = session.sql(&text).await.unwrap();
        let sorted = frame.clone().sort_by(vec![datafusion::prelude::col("s")]);
        assert_eq!(lines(&frame.collect().await.unwrap()), expected);
        let sorted = sorted.unwrap().collect().await.unwrap();
        assert_eq!(lines(&sorted), expected);
    }
    session
        .collect("INSERT INTO t VALUES (1, 50, 's0')")
        .await
        .unwrap();
    let changed = answer(&session, &text).await;
    assert_ne!(changed, expected);
    register_again(&session).await;
    assert_eq!(answer(&session, &text).await, expected);
    assert!(was_planned(&session));
}

async fn register_again(session: &Session) {
    session.context().deregister_table("t").unwrap();
    register(session, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_was_made_before_rows_came_sees_them() {
    let session = session(&["placement = 'device'"], true).await;
    let text = "SELECT count(*), sum(v) FROM t";
    for _ in 0..3 {
        answer(&session, text).await;
    }
    let frame = session.sql(text).await.unwrap();
    session
        .collect("INSERT INTO t VALUES (1, 1000000, 's0')")
        .await
        .unwrap();
    let found = lines(&frame.collect().await.unwrap());
    assert_eq!(found, answer(&session, text).await);
    assert!(found[0].contains("6001"), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_with_time_is_planned_each_time() {
    let session = session(&["placement = 'device'"], true).await;
    for text in [
        "SELECT count(*) FROM t WHERE v > 10 * random()",
        "SELECT max(v) FROM t WHERE now() > TIMESTAMP '2020-01-01'",
        "SELECT count(*) FROM t WHERE v > (SELECT avg(v) FROM t)",
    ] {
        for _ in 0..3 {
            answer(&session, text).await;
            assert!(was_planned(&session), "{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_that_are_replaced_are_seen() {
    use datafusion::functions_aggregate::min_max::max_udaf;
    use datafusion::logical_expr::AggregateUDF;
    let session = session(&["placement = 'device'"], true).await;
    let text = "SELECT max(v) FROM t";
    answer(&session, text).await;
    answer(&session, text).await;
    assert!(!was_planned(&session));
    let again = AggregateUDF::clone(&max_udaf());
    session.context().register_udaf(again);
    answer(&session, text).await;
    assert!(was_planned(&session));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_every_type() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session
        .collect(
            "CREATE TABLE t AS SELECT value AS i, CAST(value AS DOUBLE) / 2 AS f,
                CAST(value AS DECIMAL(12, 2)) / 4 AS d, value % 2 = 0 AS b,
                DATE '2026-01-01' + CAST(value % 9 AS INT) AS day,
                arrow_cast(value * 1000000, 'Timestamp(Microsecond, None)') AS at,
                'x' || (value % 5) AS s, CAST(value % 50 AS SMALLINT) AS small
             FROM generate_series(1, 3000)",
        )
        .await
        .unwrap();
    let cases: [(&str, &str, ScalarValue); 9] = [
        ("i", "1500", 1_500_i64.into()),
        ("f", "700.5", 700.5.into()),
        ("d", "300.25", ScalarValue::Decimal128(Some(30_025), 12, 2)),
        ("d", "300.25", 300.25.into()),
        ("b", "false", false.into()),
        (
            "day",
            "DATE '2026-01-04'",
            ScalarValue::Date32(Some(20_457)),
        ),
        (
            "at",
            "TIMESTAMP '1970-01-01 00:20:00'",
            ScalarValue::TimestampMicrosecond(Some(1_200_000_000), None),
        ),
        ("s", "'x2'", "x2".into()),
        ("small", "17", 17_i32.into()),
    ];
    for cached in [false, true] {
        if cached {
            session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        }
        for (column, literal, value) in &cases {
            let sql = |value: &str| {
                format!(
                    "SELECT s, count(*), sum(i), max(d) FROM t WHERE {column} > {value} GROUP BY s"
                )
            };
            let prepared = session.prepare(&sql("$1")).await.unwrap();
            let found = prepared.collect(std::slice::from_ref(value)).await.unwrap();
            assert_eq!(was_planned(&session), !cached, "{column} > {literal}");
            let expected = answer(&session, &sql(literal)).await;
            assert!(!expected.is_empty());
            assert_eq!(lines(&found), expected, "{column} > {literal}");
            // Nothing is greater than NULL.
            let none = prepared.collect(&[ScalarValue::Null]).await.unwrap();
            assert!(lines(&none).len() <= 1, "{column}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told() {
    let session = session(&["placement = 'device'"], true).await;
    let prepared = session.prepare(SQL).await.unwrap();
    let types = [DataType::Int64, DataType::Int64, DataType::Utf8];
    assert_eq!(prepared.parameter_types(), types.map(Some));
    let schema: &Schema = &prepared.schema();
    assert_eq!(schema.fields().len(), 4);
    let few = prepared.collect(&[1_i64.into()]).await.unwrap_err();
    assert_eq!(few.kind(), ErrorKind::Sql);
    assert!(few.to_string().contains("3 parameters, but 1"), "{few}");
    let wrong = ["x".into(), 2_i64.into(), "s".into()];
    let wrong = prepared.collect(&wrong).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Sql);
    assert!(
        wrong.to_string().contains("parameter $1 is Int64"),
        "{wrong}"
    );
    let gap = session.prepare("SELECT count(*) FROM t WHERE v > $2").await;
    assert!(gap.unwrap_err().to_string().contains("without a gap"));
    let ddl = session.prepare("DROP TABLE t").await.unwrap_err();
    assert_eq!(ddl.kind(), ErrorKind::NotSupported);
    let missing = session.prepare("SELECT * FROM tt").await.unwrap_err();
    assert!(
        missing.to_string().contains("did you mean 't'"),
        "{missing}"
    );
    // An error of the rows is the host's, which runs a plan.
    let divided = session.prepare("SELECT sum(v / $1) FROM t").await.unwrap();
    let error = divided.collect(&[0_i64.into()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Sql);
    assert!(was_planned(&session));
    let planned = session.collect("SELECT sum(v / 0) FROM t").await;
    assert_eq!(error.to_string(), planned.unwrap_err().to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_leaves_the_answer_to_the_plan() {
    for fault in ["fail", "lost"] {
        for launch in 1..=4 {
            let spec = format!("1GB,faults=launch:{launch}={fault}");
            let session = simulated(&spec, &["placement = 'device'"]).await;
            register(&session, 0);
            session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
            let host = host_only();
            register(&host, 0);
            let expected = answer(&host, &written(10, 4_000, "s1")).await;
            let prepared = session.prepare(SQL).await.unwrap();
            for _ in 0..3 {
                let given = prepared.collect(&values(10, 4_000, "s1")).await.unwrap();
                assert_eq!(lines(&given), expected, "{spec}");
            }
            for _ in 0..3 {
                let found = answer(&session, &written(10, 4_000, "s1")).await;
                assert_eq!(found, expected, "{spec}");
            }
            let ended = session.reports();
            let running = ended.iter().filter(|report| report.error.is_some());
            assert_eq!(running.count(), 0, "{spec}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_run_one_at_once() {
    let session = session(&["placement = 'device'"], true).await;
    let other = Session::builder()
        .runtime(Arc::clone(session.runtime()))
        .target_partitions(4)
        .build()
        .unwrap();
    let prepared = session.prepare(SQL).await.unwrap();
    let mut expected = Vec::new();
    for low in 0..8 {
        expected.push(answer(&session, &written(low, 3_000, "s1")).await);
    }
    let tasks = (0..64).map(|task: i64| {
        let (prepared, expected) = (prepared.clone(), expected[task as usize % 8].clone());
        tokio::spawn(async move {
            let given = prepared.collect(&values(task % 8, 3_000, "s1")).await;
            assert_eq!(lines(&given.unwrap()), expected);
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    // Another session has a table of that name with other rows.
    register(&other, 500_000);
    let own = other.prepare(SQL).await.unwrap();
    check(&other, &own, 500_010, 500_100, "s1").await;
    check(&session, &prepared, 10, 100, "s1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn named_statements_belong_to_their_session() {
    let session = session(&["placement = 'device'"], true).await;
    session
        .collect("PREPARE p AS SELECT sum(v), count(*) FROM t WHERE v < $1")
        .await
        .unwrap();
    let found = answer(&session, "EXECUTE p(100)").await;
    assert!(!was_planned(&session));
    let report = session.last_report().unwrap();
    assert_eq!(report.sql.as_deref(), Some("EXECUTE p(100)"));
    assert_eq!(
        found,
        answer(&session, "SELECT sum(v), count(*) FROM t WHERE v < 100").await
    );
    let framed = session.sql("EXECUTE p(50 + 50)").await.unwrap();
    assert_eq!(lines(&framed.collect().await.unwrap()), found);
    let through = session.context().sql("EXECUTE p(100)").await.unwrap();
    assert_eq!(lines(&through.collect().await.unwrap()), found);
    session.collect("DEALLOCATE p").await.unwrap();
    assert!(session.collect("EXECUTE p(1)").await.is_err());
    assert!(session.context().sql("EXECUTE p(1)").await.is_err());
}

/// The order in which DataFusion deals batches out to partitions does not matter.
#[tokio::test(flavor = "multi_thread")]
async fn a_cached_table_of_many_batches_is_found_in_any_order() {
    for settings in [
        &["placement = 'device'", "regions = 'atomic'"],
        &["placement = 'device'", "regions = 'additive'"],
    ] {
        let session = simulated("1GB", settings).await;
        let batch = |size: i64| {
            let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..size));
            RecordBatch::try_from_iter([("v", column)]).unwrap()
        };
        let batches: Vec<RecordBatch> = (1..40).map(|at| batch(at % 11 + 1)).collect();
        let table = MemTable::try_new(batches[0].schema(), vec![batches]).unwrap();
        session.register_table("t", Arc::new(table)).unwrap();
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        let sql = "SELECT v, count(*) FROM t WHERE v > 2 GROUP BY v";
        answer(&session, sql).await;
        let report = session.last_report().unwrap();
        let places: Vec<_> = report.regions.iter().flat_map(|r| &r.places).collect();
        assert!(
            places
                .iter()
                .all(|place| place.bytes == 0 && (place.place != "host" || place.rows == 0)),
            "{report}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn analyze_tells_where_the_time_went() {
    let session = session(&["placement = 'device'"], true).await;
    let told = answer(&session, "EXPLAIN ANALYZE VERBOSE SELECT sum(v) FROM t").await;
    let told = told.join("\n");
    for phase in [
        "plan_time",
        "compile_time",
        "upload_time",
        "queue_time",
        "kernel_time",
        "download_time",
    ] {
        assert!(told.contains(phase), "{phase}: {told}");
    }
    let spent = answer(
        &session,
        "SELECT kernel_seconds > 0, plan_seconds >= 0 FROM system.queries WHERE sql LIKE 'EXPLAIN%'",
    )
    .await;
    let cells = |line: &String| line.matches("true").count();
    assert!(spent.iter().any(|line| cells(line) == 2), "{spent:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resident_memory_table_is_left_to_a_fast_device() {
    let session = simulated("1GB,launch=1us,rows=1e12/s", &[]).await;
    register(&session, 0);
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let host = host_only();
    register(&host, 0);
    let text = written(10, 4_000, "s1");
    let prepared = session.prepare(SQL).await.unwrap();
    for _ in 0..2 {
        assert_eq!(answer(&session, &text).await, answer(&host, &text).await);
        let report = session.last_report().unwrap().to_string();
        assert!(report.contains("resident in the column cache"), "{report}");
        check(&session, &prepared, 20, 4_000, "s2").await;
    }
    let slow = simulated("1GB,rows=1000/s", &[]).await;
    register(&slow, 0);
    slow.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(answer(&slow, &text).await, answer(&host, &text).await);
    assert_eq!(sides(&slow).1, (0, 0), "{}", slow.last_report().unwrap());
}

/// A statement that runs without a plan is listed, and ends when it is told to.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_runs_directly_can_be_killed() {
    let session = simulated("1GB,launch=5s", &["placement = 'device'"]).await;
    register(&session, 0);
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let prepared = session.prepare(SQL).await.unwrap();
    let running = tokio::spawn(async move { prepared.collect(&values(10, 4_000, "s1")).await });
    // Whoever looks must not wait for the device.
    let runtime = Arc::clone(session.runtime());
    let watcher = Session::builder().runtime(runtime).build().unwrap();
    watcher
        .collect("SET tidegate.placement = 'host'")
        .await
        .unwrap();
    let find = "SELECT query_id FROM system.queries WHERE state = 'running' AND sql LIKE '%$1%' \
                AND sql NOT LIKE '%system%'";
    let id = loop {
        let found = watcher.collect(find).await.unwrap();
        if let Some(batch) = found.iter().find(|batch| batch.num_rows() > 0) {
            break batch.column(0).as_primitive::<UInt64Type>().value(0);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    watcher.collect(&format!("KILL QUERY {id}")).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
    let error = ended.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    let state = format!("SELECT state FROM system.queries WHERE query_id = {id}");
    let state = answer(&watcher, &state).await.join(" ");
    assert!(state.contains("cancelled"), "{state}");
}
