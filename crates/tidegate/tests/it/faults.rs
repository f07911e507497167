//! What becomes of rows that a device fails to fold. That no answer changes, whatever fails, is
//! tested in `sql-tests`.

use tempfile::TempDir;

use crate::support::{answer, host_only, sides, simulated, write_parquet};

const SQL: &str = "SELECT k, s, sum(v), count(*), avg(v), min(v), max(s) FROM t WHERE v % 5 <> 0 \
                   GROUP BY k, s";

/// Writes a folder of ten morsels, and has the host answer over it.
async fn ten_morsels() -> (TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let host = host_only();
    let path = folder.path().to_string_lossy().to_string();
    host.register_parquet("t", &path).await.unwrap();
    let expected = answer(&host, SQL).await;
    (folder, expected)
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
async fn all_that_a_lost_device_had_runs_in_any_number_of_chains() {
    let (folder, expected) = ten_morsels().await;
    let path = folder.path().to_string_lossy().to_string();
    for partitions in [1, 3, 10, 64] {
        let settings = ["replay_placement = 'D'", "regions = 'additive'"];
        let session = simulated("1GB,faults=launch:3=lost", &settings).await;
        session.register_parquet("t", &path).await.unwrap();
        let number = partitions.to_string();
        let name = "datafusion.execution.target_partitions";
        session.set(name, &number).await.unwrap();
        assert_eq!(answer(&session, SQL).await, expected, "{partitions} chains");
        assert_eq!(sides(&session), ((10, 10_000), (0, 0)), "{partitions}");
    }
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
    let (folder, expected) = ten_morsels().await;
    let path = folder.path().to_string_lossy().to_string();
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
