//! Cached columns answer as the table does, move nothing, and never answer for what has changed.

use datafusion::arrow::array::{AsArray, Float64Array, RecordBatch};
use datafusion::arrow::datatypes::UInt64Type;
use tidegate::{ErrorKind, Session};

use crate::support::{answer, host_only, lines, rows, sides, simulated, write_parquet};

const SQL: &str = "SELECT k, s, sum(v), count(*), max(s) FROM t WHERE v % 5 <> 0 GROUP BY k, s";

/// Sums the bytes that the last query moved to devices.
fn bytes_moved(session: &Session) -> u64 {
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let devices = places.filter(|place| place.place != "host");
    devices.map(|place| place.bytes).sum()
}

async fn number(session: &Session, sql: &str) -> u64 {
    let batches = session.collect(sql).await.unwrap();
    let column = batches[0].column(0).as_primitive::<UInt64Type>();
    column.value(0)
}

async fn device_used(session: &Session) -> u64 {
    number(session, "SELECT memory_used FROM system.devices").await
}

async fn error(session: &Session, sql: &str) -> (ErrorKind, String) {
    let error = session.collect(sql).await.unwrap_err();
    (error.kind(), error.to_string())
}

/// Runs the query where everything must come from the cache.
async fn check_resident(session: &Session, sql: &str, expected: &[String]) {
    assert_eq!(answer(session, sql).await, expected, "{sql}");
    let ((host, _), (device, _)) = sides(session);
    let report = session.last_report().unwrap();
    assert!(host == 0 && device > 0, "{sql}: {report}");
    assert_eq!(bytes_moved(session), 0, "{sql}: {report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cached_memory_table_moves_no_bytes() {
    for settings in [
        ["placement = 'device'", "morsel_rows = 700"],
        ["placement = 'strict'", "morsel_rows = 700"],
        ["replay_placement = 'D'", "morsel_rows = 700"],
    ] {
        let (host, session) = (host_only(), simulated("1GB", &settings).await);
        for session in [&host, &session] {
            session.register_batch("t", rows(0, 6_000)).unwrap();
        }
        let expected = answer(&host, SQL).await;
        assert_eq!(answer(&session, SQL).await, expected);
        assert!(bytes_moved(&session) > 0);
        let told = session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        let told = lines(&told).join("\n");
        assert!(told.contains("k, v, s") && told.contains("6000"), "{told}");
        check_resident(&session, SQL, &expected).await;
        check_resident(&session, SQL, &expected).await;
        // A region may also read fewer of the columns.
        let some = "SELECT count(*), min(v) FROM t WHERE v > 10";
        check_resident(&session, some, &answer(&host, some).await).await;
        let used = device_used(&session).await;
        session.collect("UNCACHE TABLE t").await.unwrap();
        assert!(device_used(&session).await < used);
        assert_eq!(device_used(&session).await, 0);
        assert_eq!(answer(&session, SQL).await, expected);
        assert!(bytes_moved(&session) > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_added_to_a_cached_table_are_seen() {
    let settings = ["placement = 'device'", "regions = 'additive'"];
    let (host, session) = (host_only(), simulated("1GB", &settings).await);
    for session in [&host, &session] {
        session
            .collect(
                "CREATE TABLE t AS SELECT value AS k, value AS v, 'x' || (value % 3) AS s \
                      FROM generate_series(1, 5000)",
            )
            .await
            .unwrap();
    }
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    check_resident(&session, SQL, &answer(&host, SQL).await).await;
    for session in [&host, &session] {
        session
            .collect("INSERT INTO t VALUES (1, 1, 'x1'), (1, 7, 'y')")
            .await
            .unwrap();
    }
    assert_eq!(answer(&session, SQL).await, answer(&host, SQL).await);
    assert!(bytes_moved(&session) > 0);
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    check_resident(&session, SQL, &answer(&host, SQL).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_is_read_again() {
    for is_folder in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = if is_folder {
            folder.path().to_string_lossy().to_string()
        } else {
            folder
                .path()
                .join("0.parquet")
                .to_string_lossy()
                .to_string()
        };
        write_parquet(folder.path(), 1, 8_000, 1_000);
        let session = simulated("1GB", &["placement = 'device'"]).await;
        session.register_parquet("t", &path).await.unwrap();
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        let host = host_only();
        host.register_parquet("t", &path).await.unwrap();
        let before = answer(&host, SQL).await;
        check_resident(&session, SQL, &before).await;

        let other = tempfile::tempdir().unwrap();
        write_parquet(other.path(), 2, 16_000, 1_000);
        // The same number of rows, in row groups of the same size.
        std::fs::rename(
            other.path().join("1.parquet"),
            folder.path().join("0.parquet"),
        )
        .unwrap();
        let host = host_only();
        host.register_parquet("t", &path).await.unwrap();
        let after = answer(&host, SQL).await;
        assert_ne!(before, after);
        if !is_folder {
            // DataFusion remembers a folder's listing: what it would make of the file is its own.
            assert_eq!(answer(&session, SQL).await, after);
            assert!(bytes_moved(&session) > 0);
        } else if let Ok(batches) = session.collect(SQL).await {
            assert_ne!(lines(&batches), before);
        }
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        check_resident(&session, SQL, &after).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_and_other_names_of_a_table_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy().to_string();
    write_parquet(folder.path(), 2, 12_000, 1_000);
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_parquet("t", &path).await.unwrap();
    session.register_parquet("u", &path).await.unwrap();
    session
        .collect("cache table T (v, K) on device")
        .await
        .unwrap();
    let host = host_only();
    host.register_parquet("t", &path).await.unwrap();
    let some = "SELECT k, sum(v) AS total FROM t GROUP BY k";
    check_resident(&session, some, &answer(&host, some).await).await;
    let other = some.replace("FROM t", "FROM u");
    check_resident(&session, &other, &answer(&host, some).await).await;
    // One column is missing: everything is loaded.
    assert_eq!(answer(&session, SQL).await, answer(&host, SQL).await);
    assert!(bytes_moved(&session) > 0);
    let cached = answer(
        &session,
        "SELECT \"table\", \"column\", chunks, rows, encoding, hits > 0 FROM system.cache \
         WHERE tier = 'device'",
    )
    .await;
    assert_eq!(cached.len(), 3, "{cached:?}");
    assert!(cached[1].contains("12     | 12000 | plain"), "{cached:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn generated_tables_are_found_again() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session
        .collect("CREATE VIEW g AS SELECT * FROM h2o_g1(300000, 100)")
        .await
        .unwrap();
    session
        .collect("CACHE TABLE g (id1, v1, id4) ON DEVICE")
        .await
        .unwrap();
    let host = host_only();
    let sql = "SELECT id1, sum(v1), max(id4) FROM h2o_g1(300000, 100) GROUP BY id1";
    check_resident(&session, sql, &answer(&host, sql).await).await;
    // Another seed is another table.
    let other = "SELECT id1, sum(v1), max(id4) FROM h2o_g1(300000, 100, 0, 7) GROUP BY id1";
    assert_eq!(answer(&session, other).await, answer(&host, other).await);
    assert!(bytes_moved(&session) > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_does_not_fit_leaves_nothing() {
    let session = simulated("40KB", &["placement = 'device'"]).await;
    session.register_batch("t", rows(0, 6_000)).unwrap();
    let (kind, message) = error(&session, "CACHE TABLE t ON DEVICE").await;
    assert_eq!(kind, ErrorKind::ResourcesExhausted, "{message}");
    for part in [
        "does not fit on device 0",
        "wanted",
        "limit of 40960",
        "UNCACHE",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(device_used(&session).await, 0);
    assert!(answer(&session, "SELECT * FROM system.cache").await.len() <= 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_launch_of_a_cached_table_changes_no_row() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy().to_string();
    write_parquet(folder.path(), 2, 12_000, 1_000);
    let host = host_only();
    host.register_parquet("t", &path).await.unwrap();
    let expected = answer(&host, SQL).await;
    let placements: [&[&str]; 4] = [
        &["replay_placement = 'HD'"],
        &["replay_placement = 'D'"],
        &["regions = 'additive'", "placement = 'device'"],
        &["placement = 'device'"],
    ];
    for settings in placements {
        for fault in ["fail", "lost"] {
            for launch in 1..=6 {
                let spec = format!("1GB,faults=launch:{launch}={fault}");
                let session = simulated(&spec, settings).await;
                session.register_parquet("t", &path).await.unwrap();
                session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
                assert_eq!(answer(&session, SQL).await, expected, "{settings:?} {spec}");
                // Of an atomic region that fell back only the reason is booked.
                let ((_, host), (_, device)) = sides(&session);
                let fell_back = settings.len() == 1 && !settings[0].starts_with("replay");
                assert!(fell_back || host + device == 12_000, "{settings:?} {spec}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resident_table_goes_to_a_fast_device_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy().to_string();
    write_parquet(folder.path(), 2, 200_000, 10_000);
    // A device so fast that its launch alone counts.
    let session = simulated("1GB,launch=1us,rows=1e12/s", &[]).await;
    session.register_parquet("t", &path).await.unwrap();
    let host = host_only();
    host.register_parquet("t", &path).await.unwrap();
    let expected = answer(&host, SQL).await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    check_resident(&session, SQL, &expected).await;
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("resident in the column cache"), "{report}");
    let analyzed = answer(&session, &format!("EXPLAIN ANALYZE {SQL}")).await;
    let copied = analyzed.join("\n").contains("device_bytes=");
    assert!(!copied, "{analyzed:?}");

    let slow = simulated("1GB,rows=1000/s", &[]).await;
    slow.register_parquet("t", &path).await.unwrap();
    slow.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(answer(&slow, SQL).await, expected);
    assert_eq!(sides(&slow).1, (0, 0), "{}", slow.last_report().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_with_special_floats_are_resident_for_grouped_min() {
    let value = |row| match row {
        500 => f64::NAN,
        1_400 => -0.0,
        1_700 => -f64::NAN,
        2_500 => f64::INFINITY,
        row => f64::from(row),
    };
    let values = (0..3_000).map(value);
    let batch = RecordBatch::try_from_iter([(
        "f",
        std::sync::Arc::new(values.collect::<Float64Array>()) as _,
    )])
    .unwrap();
    let session = simulated("1GB", &["replay_placement = 'D'", "morsel_rows = 1000"]).await;
    session.register_batch("t", batch.clone()).unwrap();
    let host = host_only();
    host.register_batch("t", batch).unwrap();
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let grouped = "SELECT f > 1500 AS big, min(f), max(f), count(f) FROM t GROUP BY big";
    check_resident(&session, grouped, &answer(&host, grouped).await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_runtime_share_what_is_cached() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_string_lossy().to_string();
    write_parquet(folder.path(), 1, 4_000, 1_000);
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_parquet("t", &path).await.unwrap();
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let expected = answer(&session, SQL).await;
    let runtime = std::sync::Arc::clone(session.runtime());
    drop(session);
    let other = Session::builder()
        .runtime(runtime)
        .target_partitions(4)
        .build()
        .unwrap();
    other
        .collect("SET tidegate.placement = 'device'")
        .await
        .unwrap();
    other.register_parquet("t", &path).await.unwrap();
    check_resident(&other, SQL, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_cached_says_why() {
    let (host, session) = (host_only(), simulated("1GB", &[]).await);
    for session in [&host, &session] {
        session.register_batch("trips", rows(0, 10)).unwrap();
        session
            .collect("CREATE VIEW odd AS SELECT * FROM trips WHERE v % 2 = 1")
            .await
            .unwrap();
    }
    let check = async |session: &Session, sql: &str, expected: ErrorKind, parts: &[&str]| {
        let (kind, message) = error(session, sql).await;
        assert_eq!(kind, expected, "{sql}: {message}");
        for part in parts {
            assert!(message.contains(part), "{sql}: {message}");
        }
    };
    let looked_for = ["CACHE TABLE trips ON DEVICE", "looked for"];
    check(
        &host,
        "CACHE TABLE trips ON DEVICE",
        ErrorKind::Device,
        &looked_for,
    )
    .await;
    let cases: [(&str, ErrorKind, &[&str]); 7] = [
        (
            "CACHE TABLE trips ON HOST",
            ErrorKind::NotSupported,
            &["it does not read Parquet files"],
        ),
        (
            "CACHE TABLE trip ON DEVICE",
            ErrorKind::NotFound,
            &["did you mean 'trips'?"],
        ),
        (
            "CACHE TABLE trips (w) ON DEVICE",
            ErrorKind::Sql,
            &["w", "v"],
        ),
        (
            "CACHE TABLE trips (v, V) ON DEVICE",
            ErrorKind::Sql,
            &["named twice"],
        ),
        (
            "CACHE TABLE odd ON DEVICE",
            ErrorKind::NotSupported,
            &["computed", "CREATE TABLE"],
        ),
        (
            "CACHE TABLE trips DEVICE",
            ErrorKind::Sql,
            &["expected ON DEVICE"],
        ),
        (
            "UNCACHE TABLE trips",
            ErrorKind::Sql,
            &["'trips' is not cached: nothing is"],
        ),
    ];
    for (sql, kind, parts) in &cases {
        check(&session, sql, *kind, parts).await;
    }
    session
        .collect("CACHE TABLE trips (v) ON DEVICE")
        .await
        .unwrap();
    let meant = ["did you mean 'trips'?"];
    check(&session, "UNCACHE TABLE trip", ErrorKind::Sql, &meant).await;
    let forbidden = datafusion::prelude::SQLOptions::new().with_allow_statements(false);
    let refused = session
        .sql_with_options("UNCACHE TABLE trips", forbidden)
        .await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotSupported);
    session.collect("UNCACHE TABLE public.trips").await.unwrap();
}
