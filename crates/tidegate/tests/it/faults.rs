//! A device that fails changes nothing but the counters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate::Session;
use tidegate_kernels::PipelineDevice;

use crate::support::{answer, host_only, sides, simulated, write_parquet};

const SQL: &str = "SELECT k, s, sum(v), count(*), avg(v), min(v), max(s) FROM t WHERE v % 5 <> 0 \
                   GROUP BY k, s";

/// The k-th operation of each kind fails, for every k that there is.
async fn every_fault(kind: &str, effect: &str) {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 12_000, 2_000);
    let path = folder.path().to_string_lossy().to_string();
    let host = host_only();
    host.register_parquet("t", &path).await.unwrap();
    let expected = answer(&host, SQL).await;
    let ways: [(&[&str], bool); 4] = [
        (&["replay_placement = 'HD'"], false),
        (&["regions = 'additive'", "placement = 'device'"], false),
        (&["placement = 'device'"], false),
        (&["placement = 'device'"], true),
    ];
    for (settings, cached) in ways {
        let mut num_met = 0;
        for count in 1.. {
            let spec = format!("1GB,faults={kind}:{count}={effect}");
            let at = format!("{settings:?} cached: {cached} {spec}");
            let session = simulated(&spec, settings).await;
            session.register_parquet("t", &path).await.unwrap();
            let device = Arc::clone(&session.runtime().devices()[0]);
            if cached {
                // It may meet the fault itself, and then leaves nothing.
                let kept = session.collect("CACHE TABLE t ON DEVICE").await;
                assert_eq!(kept.is_err(), device.planned_faults_met() > 0, "{at}");
                match kept {
                    Ok(_) => assert!(device.budget().used() > 0, "{at}"),
                    Err(_) => drained(&device, &at).await,
                }
            }
            let met_before = device.planned_faults_met();
            assert_eq!(answer(&session, SQL).await, expected, "{at}");
            if cached && met_before == 0 {
                session.collect("UNCACHE TABLE t").await.unwrap();
            }
            drained(&device, &at).await;
            let met = device.planned_faults_met();
            // A reservation that fails once is only asked for again.
            if met > met_before && kind != "alloc" {
                assert!(
                    retries(&session) > 0,
                    "{at}: {}",
                    session.last_report().unwrap()
                );
            }
            if met == 0 {
                break;
            }
            num_met += met;
        }
        assert!(
            num_met > 0,
            "no fault was met: {settings:?} {kind} {effect}"
        );
    }
}

/// Waits for the device to have all its memory back: work that was abandoned ends by itself.
async fn drained(device: &Arc<dyn PipelineDevice>, at: &str) {
    for _ in 0..400 {
        if device.budget().used() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{at}: {} bytes are still held", device.budget().used());
}

/// Counts the morsels of the last query with a region that had to run again.
fn retries(session: &Session) -> u64 {
    let reports = session.reports();
    let last = reports
        .iter()
        .rev()
        .find(|report| !report.regions.is_empty());
    let places = last.iter().flat_map(|report| &report.regions);
    places
        .flat_map(|region| &region.places)
        .map(|place| place.setbacks.retries)
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_launch_changes_no_row() {
    every_fault("launch", "fail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_lost_at_any_launch_changes_no_row() {
    every_fault("launch", "lost").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_reservation_changes_no_row() {
    every_fault("alloc", "oom").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_copy_changes_no_row() {
    every_fault("copy", "fail").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_event_changes_no_row() {
    every_fault("event", "fail").await;
}

/// Random faults under queries that run at once, for as many seconds as `TIDEGATE_FAULTS_SECONDS`
/// says: no hang, no wrong row, no leak.
#[tokio::test(flavor = "multi_thread")]
async fn random_faults_under_concurrent_queries_change_no_row() {
    let seconds = std::env::var("TIDEGATE_FAULTS_SECONDS");
    let seconds = seconds.map_or(3, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 12_000, 1_000);
    let path = folder.path().to_string_lossy().to_string();
    let host = host_only();
    host.register_parquet("t", &path).await.unwrap();
    let queries = [
        SQL,
        "SELECT count(*), sum(v) FROM t WHERE v > 100",
        "SELECT v, count(*) FROM t GROUP BY v",
        "SELECT s, max(v) AS m FROM t GROUP BY s HAVING max(v) > 3 ORDER BY m LIMIT 2",
    ];
    let mut expected = Vec::new();
    for sql in queries {
        expected.push(answer(&host, sql).await);
    }
    let expected = Arc::new(expected);
    let (began, first_seed) = (Instant::now(), rand::random::<u64>());
    let (mut num_met, mut rounds) = (0, 0);
    while began.elapsed() < Duration::from_secs(seconds) || rounds == 0 {
        let seed = first_seed.wrapping_add(rounds);
        rounds += 1;
        let mut random = StdRng::seed_from_u64(seed);
        let mut faults: Vec<String> = (0..random.random_range(1..12))
            .map(|_| {
                let kinds = ["launch", "alloc", "copy", "event"];
                let kind = kinds[random.random_range(0..kinds.len())];
                let effect = if kind == "alloc" { "oom" } else { "fail" };
                format!("{kind}:{}={effect}", random.random_range(1..60))
            })
            .collect();
        if random.random_bool(0.2) {
            faults.push(format!("launch:{}=lost", random.random_range(20..90)));
        }
        let memory = ["1GB", "300kB"][random.random_range(0..2)];
        let spec = format!("{memory},faults={}", faults.join("|"));
        let placement = ["auto", "device"][random.random_range(0..2)];
        let session = simulated(&spec, &[&format!("placement = '{placement}'")]).await;
        session.register_parquet("t", &path).await.unwrap();
        let device = Arc::clone(&session.runtime().devices()[0]);
        let at = format!("seed {seed}: {placement} {spec}");
        let tasks = (0..4).map(|number| {
            let (session, expected, at) = (session.clone(), Arc::clone(&expected), at.clone());
            tokio::spawn(async move {
                for turn in 0..3 {
                    let index = (number + turn) % queries.len();
                    let found = answer(&session, queries[index]).await;
                    assert_eq!(found, expected[index], "{at}: {}", queries[index]);
                }
            })
        });
        let all = futures::future::join_all(tasks);
        let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
        for task in ended.unwrap_or_else(|_| panic!("{at}: it hangs")) {
            task.unwrap();
        }
        drained(&device, &at).await;
        num_met += device.planned_faults_met();
    }
    assert!(num_met > 0, "no fault was met from seed {first_seed} on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_is_named_and_its_morsels_run_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let session = simulated("1GB,faults=launch:3=lost", &["replay_placement = 'HD'"]).await;
    session
        .register_parquet("t", &folder.path().to_string_lossy())
        .await
        .unwrap();
    answer(&session, SQL).await;
    assert_eq!(sides(&session), ((10, 10_000), (0, 0)));
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("device fault: device lost"), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_fails_where_device_would_fall_back() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let session = simulated("1GB,faults=launch:3=fail", &["placement = 'strict'"]).await;
    session
        .register_parquet("t", &folder.path().to_string_lossy())
        .await
        .unwrap();
    let error = session.collect(SQL).await.unwrap_err();
    assert_eq!(error.kind(), tidegate::ErrorKind::Device, "{error}");
    assert!(error.to_string().contains("launch failed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_too_small_for_a_morsel_leaves_it_to_the_host() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let host = host_only();
    let path = folder.path().to_string_lossy().to_string();
    host.register_parquet("t", &path).await.unwrap();
    let expected = answer(&host, SQL).await;
    let session = simulated("1KB", &["replay_placement = 'HD'"]).await;
    session.register_parquet("t", &path).await.unwrap();
    assert_eq!(answer(&session, SQL).await, expected);
    let report = session.last_report().unwrap().to_string();
    assert!(report.contains("device memory limit reached"), "{report}");
}

/// State of 8,000 groups does not fit beside the input: it leaves as partial rows, in parts.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_too_large_for_the_device_leaves_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 8_000, 1_000);
    let host = host_only();
    let path = folder.path().to_string_lossy().to_string();
    host.register_parquet("t", &path).await.unwrap();
    let sql = "SELECT v, count(*), sum(v) FROM t GROUP BY v";
    let expected = answer(&host, sql).await;
    for memory in ["64KB", "128KB", "256KB"] {
        let session = simulated(memory, &["replay_placement = 'D'", "regions = 'additive'"]).await;
        session.register_parquet("t", &path).await.unwrap();
        assert_eq!(answer(&session, sql).await, expected, "{memory}");
    }
}
