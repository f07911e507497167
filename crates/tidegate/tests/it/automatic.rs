//! What is read often comes to a device by itself, and goes again for queries that need the memory.

use std::path::Path;
use std::time::Duration;

use tidegate::Session;

use crate::support::{answer, host_only, on_device, rows, simulated, write_parquet};

/// Enough to be worth a place.
const ROWS: i64 = 100_000;

const SQL: &str = "SELECT k, sum(v), count(*) FROM t WHERE v > 7 GROUP BY k";

/// A kernel so fast that the device is always first once it holds the rows, and a link so slow that it
/// never is before: it does not learn how slow it really is.
const FAST: &str = "1GB,rows=1e12/s,launch=1us,copy=10MB/s";

async fn over(folder: &Path, session: &Session) {
    let path = folder.to_string_lossy().to_string();
    session.register_parquet("t", &path).await.unwrap();
}

/// Waits for the device to hold something by itself, for some seconds.
async fn wait_for_automatic(session: &Session) -> Vec<String> {
    let sql = "SELECT column, kept, tier FROM system.cache WHERE tier = 'device'";
    for _ in 0..200 {
        let found = answer(session, sql).await;
        if found.len() > 1 {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let kept = answer(session, "SELECT * FROM system.cache").await;
    answer(session, SQL).await;
    let ran = session.last_report().map(|report| report.to_string());
    panic!("nothing came to the device: {ran:?}, {kept:#?}");
}

async fn ends_resident(session: &Session, expected: &[String]) {
    for _ in 0..2 {
        assert_eq!(answer(session, SQL).await, expected);
    }
    let found = wait_for_automatic(session).await.join("\n");
    assert!(found.contains("| k ") && found.contains("| v "), "{found}");
    assert!(!found.contains("| s "), "only what is read: {found}");
    assert!(found.contains("automatic"), "{found}");
    assert_eq!(answer(session, SQL).await, expected);
    assert_eq!(on_device(session), (ROWS as u64, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_run_over_files_moves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, ROWS, 20_000);
    let host = host_only();
    over(folder.path(), &host).await;
    let expected = answer(&host, SQL).await;
    let session = simulated(FAST, &[]).await;
    over(folder.path(), &session).await;
    ends_resident(&session, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_run_over_a_memory_table_moves_nothing_until_it_is_dropped() {
    let host = host_only();
    host.register_batch("t", rows(0, ROWS)).unwrap();
    let expected = answer(&host, SQL).await;
    let session = simulated(FAST, &[]).await;
    session.register_batch("t", rows(0, ROWS)).unwrap();
    ends_resident(&session, &expected).await;
    session.collect("DROP TABLE t").await.unwrap();
    // What is on its way to another tier at this moment goes when it is there.
    let mut left = Vec::new();
    for _ in 0..500 {
        left = answer(&session, "SELECT * FROM system.cache").await;
        if left.len() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left.len(), 1, "{left:?}");
    let used = "SELECT max(memory_used) FROM system.devices";
    assert!(answer(&session, used).await.join("").contains("| 0 "));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_by_itself_unless_it_may() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, ROWS, 20_000);
    let mut refusing = Vec::new();
    for settings in [
        &["cache = 'manual'"][..],
        &["cache = 'off'"],
        &["placement = 'host'"],
    ] {
        let session = simulated(FAST, settings).await;
        over(folder.path(), &session).await;
        for _ in 0..4 {
            answer(&session, SQL).await;
        }
        refusing.push((settings, session));
    }
    // By the time that the rows are there for one that asked last, they would be for those that asked before.
    let session = simulated(FAST, &[]).await;
    over(folder.path(), &session).await;
    for _ in 0..4 {
        answer(&session, SQL).await;
    }
    wait_for_automatic(&session).await;
    for (settings, session) in refusing {
        let sql = "SELECT * FROM system.cache WHERE tier = 'device'";
        assert_eq!(
            answer(&session, sql).await,
            Vec::<String>::new(),
            "{settings:?}"
        );
    }
}

/// What came by itself leaves for a query that needs the memory; what `CACHE TABLE` named stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_needs_memory_gets_it() {
    let folder = tempfile::tempdir().unwrap();
    let wide = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, ROWS, 20_000);
    write_parquet(wide.path(), 1, ROWS, ROWS as usize);
    let host = host_only();
    over(wide.path(), &host).await;
    let needy = "SELECT s, count(*), sum(v), min(k) FROM w GROUP BY s";
    host.register_parquet("w", &wide.path().to_string_lossy())
        .await
        .unwrap();
    let expected = answer(&host, needy).await;
    // Room for the two columns that come, or for a morsel of the other table.
    let session = simulated("4MB,rows=1e12/s,launch=1us,copy=10MB/s", &[]).await;
    over(folder.path(), &session).await;
    session
        .register_parquet("w", &wide.path().to_string_lossy())
        .await
        .unwrap();
    for _ in 0..2 {
        answer(&session, SQL).await;
    }
    wait_for_automatic(&session).await;
    for setting in ["placement = 'device'", "regions = 'additive'"] {
        let set = format!("SET tidegate.{setting}");
        session.collect(&set).await.unwrap();
    }
    assert_eq!(answer(&session, needy).await, expected);
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let evicted: u64 = places.map(|place| place.setbacks.evicted_bytes).sum();
    assert!(evicted > 0, "{report}");
    assert_eq!(on_device(&session).0, ROWS as u64, "{report}");

    let session = simulated("3300kB,rows=1e12/s,launch=1us,copy=10MB/s", &[]).await;
    over(folder.path(), &session).await;
    session
        .register_parquet("w", &wide.path().to_string_lossy())
        .await
        .unwrap();
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    for setting in ["placement = 'device'", "regions = 'additive'"] {
        let set = format!("SET tidegate.{setting}");
        session.collect(&set).await.unwrap();
    }
    assert_eq!(answer(&session, needy).await, expected);
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("UNCACHE one"), "{report}");
    let cached = answer(
        &session,
        "SELECT sum(rows) FROM system.cache WHERE tier = 'device'",
    )
    .await;
    assert!(
        cached.join("").contains(&(3 * ROWS).to_string()),
        "{cached:?}"
    );
}
