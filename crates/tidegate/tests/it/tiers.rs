//! What leaves a device, or finds no room there, lies below it in pinned memory: it is neither read nor
//! encoded again, and comes back when there is room.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::UInt64Array;
use tidegate::Session;

use crate::store::CountingStore;
use crate::support::{answer, host_only, on_device, rows, simulated, write_parquet};

/// Enough to be worth a place.
const ROWS: i64 = 80_000;

const SQL: &str = "SELECT k, sum(v) AS total, count(*) AS n, count(k) AS m FROM t WHERE v % 3 <> 1 \
                   GROUP BY k";

const STRINGS: &str = "SELECT s, k, max(v), count(*) FROM t GROUP BY s, k";

/// Nothing else keeps what was read, and devices take all that they can.
const SETTINGS: [&str; 3] = [
    "host_cache_limit = '0'",
    "placement = 'device'",
    "regions = 'additive'",
];

/// Room for a part of the table.
const SMALL: &str = "1400kB,rows=1e12/s,launch=1us";

async fn over(data: &Path, spec: &str) -> (Session, Arc<CountingStore>) {
    let session = simulated(spec, &SETTINGS).await;
    let store = CountingStore::under(&session);
    let path = data.to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    (session, store)
}

async fn expected(data: &Path, sql: &str) -> Vec<String> {
    let session = host_only();
    let path = data.to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    answer(&session, sql).await
}

/// Sums a column of `system.cache` in a tier.
async fn in_tier(session: &Session, column: &str, tier: &str) -> u64 {
    let sql = format!("SELECT sum({column}) FROM system.cache WHERE tier = '{tier}'");
    let found = session.collect(&sql).await.unwrap();
    let sums = found[0].column(0).as_any().downcast_ref::<UInt64Array>();
    sums.unwrap().iter().next().flatten().unwrap_or(0)
}

/// Waits until so many chunks' rows lie in pinned memory. What was given up, because queries that had just
/// ended still held memory, is tried again after some reads.
async fn until_pinned(session: &Session, sql: &str, rows: i64) {
    for attempt in 0..600 {
        if in_tier(session, "rows", "pinned").await == rows as u64 {
            return;
        }
        if attempt > 100 {
            answer(session, sql).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let found = answer(session, "SELECT * FROM system.cache").await;
    panic!("{} rows are not there: {found:#?}", rows);
}

/// Waits until devices hold no more than so many bytes: what a query had goes shortly after it.
async fn until_used(session: &Session, bytes: u64) {
    for _ in 0..400 {
        let devices = session.runtime().devices().iter();
        if devices.map(|device| device.budget().used()).sum::<u64>() <= bytes {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("more than {bytes} bytes are still held");
}

/// Asks until nothing moves any more, and makes sure that it stays so.
async fn until_resident(session: &Session, want: &[String]) {
    let mut num_resident = 0;
    for _ in 0..200 {
        assert_eq!(answer(session, SQL).await, want);
        let is_resident = on_device(session) == (ROWS as u64, 0);
        num_resident = if is_resident { num_resident + 1 } else { 0 };
        if num_resident == 4 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("some of it still moves: {}", session.last_report().unwrap());
}

/// A table larger than the device's memory is read again without a file, and moved as it is encoded.
async fn is_read_from_below(sql: &str, num_columns: i64) {
    let data = tempfile::tempdir().unwrap();
    write_parquet(data.path(), 2, ROWS, 5_000);
    let want = expected(data.path(), sql).await;
    let (session, store) = over(data.path(), SMALL).await;
    for _ in 0..2 {
        assert_eq!(answer(&session, sql).await, want);
    }
    until_pinned(&session, sql, num_columns * ROWS).await;
    // What is encoded may be smaller than estimated, and some of it comes back in the background; in
    // the end the rest is moved as it is, and no file is opened.
    let (mut below, mut num_as_wanted) = (0, 0);
    for run in 1.. {
        assert!(run < 200, "the rest is not read from below");
        store.reads();
        assert_eq!(answer(&session, sql).await, want);
        let (moved, reads) = (on_device(&session), store.reads());
        let resident = in_tier(&session, "device_bytes", "device").await;
        below = in_tier(&session, "host_bytes", "pinned").await;
        assert!(0 < resident && resident < below, "{resident} {below}");
        // It stays so.
        let is_as_wanted = moved == (ROWS as u64, below - resident) && reads == 0;
        num_as_wanted = if is_as_wanted { num_as_wanted + 1 } else { 0 };
        if num_as_wanted == 4 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let activity = session.cache_activity();
    assert!(
        activity.pinned_demotions > 0 && activity.pinned_hits > 0,
        "{activity:?}"
    );
    let memory = "SELECT used_bytes FROM system.memory WHERE tier = 'pinned'";
    let used = answer(&session, memory).await.join("");
    assert!(used.contains(&below.to_string()), "{used} {below}");
    session
        .collect("SET tidegate.pinned_cache_limit = '0'")
        .await
        .unwrap();
    // What the background brings back at this moment goes at a later read.
    for _ in 0..200 {
        assert_eq!(answer(&session, sql).await, want);
        if in_tier(&session, "rows", "pinned").await == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("some of it is still pinned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_larger_than_the_device_is_read_from_below_it() {
    is_read_from_below(SQL, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_are_read_from_below_a_device() {
    is_read_from_below(STRINGS, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_gave_way_comes_back_when_there_is_room() {
    let (data, wide) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_parquet(data.path(), 1, ROWS, 10_000);
    write_parquet(wide.path(), 1, 120_000, 120_000);
    let want = expected(data.path(), SQL).await;
    let needy = "SELECT s, count(*), sum(v), min(k) FROM w GROUP BY s";
    let (session, store) = over(data.path(), "4880kB,rows=1e12/s,launch=1us").await;
    let path = wide.path().to_string_lossy().to_string();
    session.register_parquet("w", &path).await.unwrap();
    for _ in 0..2 {
        assert_eq!(answer(&session, SQL).await, want);
    }
    until_pinned(&session, SQL, 2 * ROWS).await;
    until_resident(&session, &want).await;
    let before = session.cache_activity();
    // What is needed is there at once: the copies were made before.
    answer(&session, needy).await;
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let evicted: u64 = places.map(|place| place.setbacks.evicted_bytes).sum();
    assert!(evicted > 0, "{report}");
    let demoted = session.cache_activity().pinned_demotions;
    assert!(demoted > before.pinned_demotions);
    until_used(&session, 1_500_000).await;
    store.reads();
    assert_eq!(answer(&session, SQL).await, want);
    let (rows, bytes) = on_device(&session);
    assert_eq!(rows, ROWS as u64);
    assert!(bytes > 0, "from below");
    // Of its eight morsels one may find no room at that moment, and is read instead.
    let reads = store.reads();
    assert!(reads < 4, "{reads} of it are read");
    until_resident(&session, &want).await;
    assert!(session.cache_activity().pinned_promotions > before.pinned_promotions);
}

/// The k-th copy fails, for every k that there is: on the way to the device, down, or up again.
#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_copy_changes_no_row() {
    let data = tempfile::tempdir().unwrap();
    write_parquet(data.path(), 1, ROWS, 30_000);
    let want = expected(data.path(), SQL).await;
    for count in 1.. {
        let (session, _) = over(data.path(), &format!("{SMALL},faults=copy:{count}=fail")).await;
        let device = Arc::clone(&session.runtime().devices()[0]);
        for _ in 0..2 {
            assert_eq!(answer(&session, SQL).await, want);
        }
        for _ in 0..200 {
            let rows = in_tier(&session, "rows", "pinned").await;
            if rows == 2 * ROWS as u64 || device.planned_faults_met() > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for _ in 0..2 {
            assert_eq!(answer(&session, SQL).await, want, "copy {count}");
        }
        // On a busy machine what was to be copied may not have been by then.
        if device.planned_faults_met() == 0 && session.cache_activity().pinned_hits > 0 {
            assert!(count > 12, "{count}");
            return;
        }
        assert!(count < 500, "no copy is ever made");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_leaves_what_lies_below_it_to_another() {
    let data = tempfile::tempdir().unwrap();
    write_parquet(data.path(), 1, ROWS, 10_000);
    let want = expected(data.path(), SQL).await;
    let session = Session::builder()
        .simulate_device(
            "1GB,rows=1e12/s,launch=1us,faults=launch:60=lost"
                .parse()
                .unwrap(),
        )
        .simulate_device("1GB,rows=1e12/s,launch=1us".parse().unwrap())
        .target_partitions(4)
        .build()
        .unwrap();
    for setting in SETTINGS {
        session
            .collect(&format!("SET tidegate.{setting}"))
            .await
            .unwrap();
    }
    let store = CountingStore::under(&session);
    let path = data.path().to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    for _ in 0..2 {
        assert_eq!(answer(&session, SQL).await, want);
    }
    until_pinned(&session, SQL, 2 * ROWS).await;
    let device = Arc::clone(&session.runtime().devices()[0]);
    let moved_up = || {
        let activity = session.cache_activity();
        activity.pinned_hits + activity.pinned_promotions
    };
    let before = moved_up();
    for _ in 0..60 {
        assert_eq!(answer(&session, SQL).await, want);
        if device.is_lost() {
            break;
        }
    }
    assert!(device.is_lost());
    store.reads();
    assert_eq!(answer(&session, SQL).await, want);
    assert_eq!(on_device(&session).0, ROWS as u64);
    // For one fold each, or to stay if the background came first.
    assert!(moved_up() > before);
    assert_eq!(store.reads(), 0, "no file is opened");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cached_by_name_or_gone_keeps_nothing_below() {
    let data = tempfile::tempdir().unwrap();
    write_parquet(data.path(), 1, ROWS, 20_000);
    let want = expected(data.path(), SQL).await;
    let (session, _) = over(data.path(), "1GB,rows=1e12/s,launch=1us").await;
    for _ in 0..2 {
        assert_eq!(answer(&session, SQL).await, want);
    }
    until_pinned(&session, SQL, 2 * ROWS).await;
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(in_tier(&session, "rows", "pinned").await, 0);
    assert_eq!(answer(&session, SQL).await, want);
    session.collect("UNCACHE TABLE t").await.unwrap();
    assert_eq!(in_tier(&session, "rows", "pinned").await, 0);
    until_used(&session, 0).await;

    session.register_batch("m", rows(0, ROWS)).unwrap();
    let memory = SQL.replace("FROM t", "FROM m");
    for _ in 0..2 {
        assert_eq!(answer(&session, &memory).await, want);
    }
    until_pinned(&session, &memory, 2 * ROWS).await;
    session.collect("DROP TABLE m").await.unwrap();
    assert_eq!(answer(&session, SQL).await, want);
    assert_eq!(in_tier(&session, "rows", "pinned").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_is_not_answered_from_below() {
    let data = tempfile::tempdir().unwrap();
    write_parquet(data.path(), 1, ROWS, 10_000);
    let (session, _) = over(data.path(), SMALL).await;
    for _ in 0..2 {
        answer(&session, SQL).await;
    }
    until_pinned(&session, SQL, 2 * ROWS).await;
    // More rows, so that the file is another one to whatever clock.
    write_parquet(data.path(), 1, ROWS + 5, 10_000);
    let want = expected(data.path(), SQL).await;
    assert_eq!(answer(&session, SQL).await, want);
    assert_eq!(on_device(&session).0, ROWS as u64 + 5);
}
