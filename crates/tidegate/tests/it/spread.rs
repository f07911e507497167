//! Tables that are cached on several devices: each answers what it holds, nothing moves, and what one of them
//! cannot do is done elsewhere.

use std::time::Duration;

use tidegate::{ErrorKind, Session, SimulatedSpec};

use crate::support::{answer, host_only, rows, write_parquet};

const ROWS: i64 = 6_000;

/// Queries whose answers do not round: strings, NULLs, few groups, many, none.
const QUERIES: [&str; 5] = [
    "SELECT k, s, sum(v), count(*), max(s) FROM t WHERE v % 5 <> 0 GROUP BY k, s",
    "SELECT count(*), min(v), max(v), sum(k) FROM t",
    "SELECT v, count(k) FROM t GROUP BY v",
    "SELECT k, avg(v) AS mean FROM t GROUP BY k HAVING count(*) > 3 ORDER BY k LIMIT 4",
    "SELECT sum(v) FROM t WHERE v < 0",
];

/// Makes a session with these devices, and a table of [`ROWS`] rows.
async fn over(devices: &[&str], settings: &[&str]) -> Session {
    let mut builder = Session::builder().target_partitions(4);
    for device in devices {
        let spec: SimulatedSpec = device.parse().unwrap();
        builder = builder.simulate_device(spec);
    }
    let session = builder.build().unwrap();
    for setting in settings {
        let set = format!("SET tidegate.{setting}");
        session.collect(&set).await.unwrap();
    }
    session.register_batch("t", rows(0, ROWS)).unwrap();
    session
}

/// Returns the rows of the table's first column on each device, in order.
async fn held(session: &Session) -> Vec<String> {
    let sql = "SELECT device, rows FROM system.cache WHERE tier = 'device' AND column = 'v'";
    answer(session, sql).await.into_iter().skip(1).collect()
}

/// Returns the bytes that are taken on all devices.
async fn used(session: &Session) -> String {
    let lines = answer(
        session,
        "SELECT sum(memory_used) AS used FROM system.devices",
    )
    .await;
    lines.first().unwrap().replace(['|', ' '], "")
}

/// Returns the rows that each device folded for the last query, the host's, and the bytes moved.
fn folded(session: &Session) -> (Vec<u64>, u64, u64) {
    let report = session.last_report().unwrap();
    let (mut devices, mut host, mut bytes) = (Vec::new(), 0, 0);
    for place in report.regions.iter().flat_map(|region| &region.places) {
        if place.place == "host" {
            host += place.rows;
        } else if place.rows > 0 {
            devices.push(place.rows);
            bytes += place.bytes;
        }
    }
    (devices, host, bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn each_device_answers_its_share() {
    let host = host_only();
    host.register_batch("t", rows(0, ROWS)).unwrap();
    for placement in ["placement = 'device'", "placement = 'strict'"] {
        let settings = [placement, "morsel_rows = 500"];
        let session = over(&["1GB", "1GB"], &settings).await;
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        assert_eq!(
            held(&session).await,
            ["| device 0 | 3000 |", "| device 1 | 3000 |"]
        );
        for sql in QUERIES {
            let expected = answer(&host, sql).await;
            for _ in 0..2 {
                assert_eq!(answer(&session, sql).await, expected, "{placement}: {sql}");
                let report = session.last_report().unwrap();
                assert_eq!(folded(&session), (vec![3000, 3000], 0, 0), "{report}");
            }
        }
        session.collect("UNCACHE TABLE t").await.unwrap();
        assert!(held(&session).await.is_empty());
        assert_eq!(used(&session).await, "0");
        assert_eq!(
            answer(&session, QUERIES[0]).await,
            answer(&host, QUERIES[0]).await
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_that_are_faster_together_keep_a_scan_from_the_host() {
    let fast = "1GB,rows=1e12/s,launch=1ns";
    let session = over(&[fast, fast], &["morsel_rows = 500"]).await;
    // Not from this session: nothing is to be known of how fast its devices are.
    let expected = answer(&over(&[], &[]).await, QUERIES[0]).await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(answer(&session, QUERIES[0]).await, expected);
    let report = session.last_report().unwrap();
    assert_eq!(folded(&session), (vec![3000, 3000], 0, 0), "{report}");
    assert!(report.to_string().contains("resident"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_dealt_by_free_memory() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, ROWS, 500);
    let path = folder.path().to_string_lossy().to_string();
    let settings = ["placement = 'device'"];
    let session = over(&["300MB", "900MB"], &settings).await;
    session.register_parquet("f", &path).await.unwrap();
    session.collect("CACHE TABLE f ON DEVICE").await.unwrap();
    assert_eq!(
        held(&session).await,
        ["| device 0 | 1500 |", "| device 1 | 4500 |"]
    );
    let host = host_only();
    host.register_parquet("f", &path).await.unwrap();
    let sql = QUERIES[0].replace("FROM t", "FROM f");
    assert_eq!(answer(&session, &sql).await, answer(&host, &sql).await);
    let report = session.last_report().unwrap();
    assert_eq!(folded(&session), (vec![1500, 4500], 0, 0), "{report}");

    // Together they have room for a column, neither alone; and not for all of them.
    let wide = tempfile::tempdir().unwrap();
    write_parquet(wide.path(), 1, 40_000, 2_000);
    let path = wide.path().to_string_lossy().to_string();
    let session = over(&["130kB", "200kB"], &settings).await;
    session.register_parquet("w", &path).await.unwrap();
    session
        .collect("CACHE TABLE w (v) ON DEVICE")
        .await
        .unwrap();
    let held_here = held(&session).await;
    assert_eq!(held_here.len(), 2, "{held_here:?}");
    let error = session
        .collect("CACHE TABLE w ON DEVICE")
        .await
        .unwrap_err();
    if error.kind() == ErrorKind::ResourcesExhausted {
        assert!(error.to_string().contains("the 2 devices"), "{error}");
    } else {
        panic!("{error}");
    }
    assert!(held(&session).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_device_held_is_answered_elsewhere() {
    let host = host_only();
    host.register_batch("t", rows(0, ROWS)).unwrap();
    let expected = answer(&host, QUERIES[0]).await;
    for launch in 1..=3 {
        let faulty = format!("1GB,faults=launch:{launch}=lost");
        let settings = ["placement = 'device'", "morsel_rows = 500"];
        let session = over(&[&faulty, "1GB"], &settings).await;
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        for _ in 0..4 {
            assert_eq!(answer(&session, QUERIES[0]).await, expected, "{faulty}");
            let (devices, host, _) = folded(&session);
            let report = session.last_report().unwrap();
            assert_eq!(devices.iter().sum::<u64>() + host, 6000, "{report}");
        }
        // The other device answers, and keeps what comes from now on.
        assert_eq!(folded(&session).0, [6000], "{faulty}");
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        assert_eq!(held(&session).await, ["| device 1 | 6000 |"]);
        assert_eq!(answer(&session, QUERIES[0]).await, expected);
        assert_eq!(folded(&session), (vec![6000], 0, 0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_often_comes_to_all_devices_and_goes_from_each() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 100_000, 10_000);
    let path = folder.path().to_string_lossy().to_string();
    // A link so slow that no device is first before it holds the rows: none learns how slow it really is.
    let fast = "1GB,rows=1e12/s,launch=1us,copy=10MB/s";
    let session = over(&[fast, fast], &[]).await;
    session.register_parquet("f", &path).await.unwrap();
    let sql = "SELECT k, sum(v), count(*) FROM f WHERE v > 7 GROUP BY k";
    let expected = answer(&session, sql).await;
    answer(&session, sql).await;
    let mut held_here = Vec::new();
    for _ in 0..200 {
        held_here = held(&session).await;
        if held_here.len() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(held_here, ["| device 0 | 50000 |", "| device 1 | 50000 |"]);
    // Each answers what it holds, once both have shown that they are done before the host.
    for _ in 0..50 {
        assert_eq!(answer(&session, sql).await, expected);
        if folded(&session) == (vec![50_000, 50_000], 0, 0) {
            break;
        }
    }
    let report = session.last_report().unwrap();
    assert_eq!(folded(&session), (vec![50_000, 50_000], 0, 0), "{report}");
    // A table of a statement takes the place of what came by itself.
    session.collect("CACHE TABLE f ON DEVICE").await.unwrap();
    let kept = answer(
        &session,
        "SELECT DISTINCT kept FROM system.cache WHERE tier = 'device'",
    )
    .await;
    assert_eq!(kept.len(), 2, "{kept:?}");
    session.collect("UNCACHE TABLE f").await.unwrap();
    assert_eq!(used(&session).await, "0");
}
