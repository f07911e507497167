//! Parquet tables that a device holds as a whole: answered directly, while their files are what they
//! were.

use std::path::Path;

use tidegate::{Prepared, Session};

use crate::support::{answer, host_only, lines, sides, simulated, write_parquet};

const SQL: &str = "SELECT k, s, sum(v), count(*) FROM t WHERE v >= $1 GROUP BY k, s";

fn written(low: i64) -> String {
    SQL.replace("$1", &low.to_string())
}

/// Makes a session with a table of these files on its device.
async fn cached(path: &str) -> Session {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    session.register_parquet("t", path).await.unwrap();
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    session
}

async fn expected(path: &str, low: i64) -> Vec<String> {
    let host = host_only();
    host.register_parquet("t", path).await.unwrap();
    answer(&host, &written(low)).await
}

async fn given(prepared: &Prepared, low: i64) -> Vec<String> {
    lines(&prepared.collect(&[low.into()]).await.unwrap())
}

/// Tells whether the last query was planned; what takes the fast path was not.
fn was_planned(session: &Session) -> bool {
    session.last_report().unwrap().plan_seconds > 0.0
}

/// Replaces a file by one of as many rows, other ones.
fn replace(folder: &Path, name: &str) {
    let other = tempfile::tempdir().unwrap();
    write_parquet(other.path(), 2, 12_000, 1_000);
    std::fs::rename(other.path().join("1.parquet"), folder.join(name)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_over_cached_files_runs_without_a_plan() {
    // Files large enough are cut into ranges of bytes, for the host's partitions.
    for num_files in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        write_parquet(folder.path(), num_files, 6_000, 1_000);
        let path = folder.path().to_string_lossy().to_string();
        let session = cached(&path).await;
        let cut = "SET datafusion.optimizer.repartition_file_min_size = 1";
        session.collect(cut).await.unwrap();
        let prepared = session.prepare(SQL).await.unwrap();
        for low in [10, 10, 4_000, 7_000] {
            assert_eq!(given(&prepared, low).await, expected(&path, low).await);
            let report = session.last_report().unwrap();
            assert!(!was_planned(&session), "{report}");
            assert_eq!(sides(&session), ((0, 0), (6, 6_000)), "{report}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_text_is_planned_once() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 6_000, 1_000);
    let path = folder.path().to_string_lossy().to_string();
    let session = cached(&path).await;
    for _ in 0..3 {
        let text = written(17);
        assert_eq!(answer(&session, &text).await, expected(&path, 17).await);
    }
    assert!(!was_planned(&session), "{}", session.last_report().unwrap());
    assert_eq!(sides(&session), ((0, 0), (6, 6_000)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_is_noticed_when_the_statement_runs() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 6_000, 1_000);
    let file = folder.path().join("0.parquet");
    let path = file.to_string_lossy().to_string();
    let session = cached(&path).await;
    let prepared = session.prepare(SQL).await.unwrap();
    let before = expected(&path, 10).await;
    assert_eq!(given(&prepared, 10).await, before);
    assert!(!was_planned(&session));
    assert_eq!(answer(&session, &written(10)).await, before);
    assert_eq!(answer(&session, &written(10)).await, before);

    replace(folder.path(), "0.parquet");
    let after = expected(&path, 10).await;
    assert_ne!(before, after);
    assert_eq!(given(&prepared, 10).await, after);
    assert_eq!(answer(&session, &written(10)).await, after);
    // What is cached anew is found again.
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(given(&prepared, 10).await, after);
    assert!(!was_planned(&session), "{}", session.last_report().unwrap());
}

/// A folder's listing is remembered by DataFusion: the statement is planned by it, and never answered
/// from rows that are no more.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_replaced_in_a_folder_is_noticed_too() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 6_000, 1_000);
    let path = folder.path().to_string_lossy().to_string();
    let session = cached(&path).await;
    let prepared = session.prepare(SQL).await.unwrap();
    let before = given(&prepared, 10).await;
    replace(folder.path(), "1.parquet");
    if let Ok(rows) = prepared.collect(&[10_i64.into()]).await {
        assert_ne!(lines(&rows), before);
    }
    assert!(was_planned(&session) || session.last_report().is_none());
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    assert_eq!(given(&prepared, 10).await, expected(&path, 10).await);
    assert!(!was_planned(&session));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_added_is_read() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 6_000, 1_000);
    let path = folder.path().to_string_lossy().to_string();
    let session = cached(&path).await;
    let prepared = session.prepare(SQL).await.unwrap();
    let before = given(&prepared, 4_711).await;
    assert_eq!(before, expected(&path, 4_711).await);
    assert!(!was_planned(&session));
    let insert = "INSERT INTO t VALUES (3, 4711, 'new')";
    session.collect(insert).await.unwrap();
    let found = given(&prepared, 4_711).await;
    let added = found.iter().filter(|line| line.contains("new")).count();
    assert_eq!(added, 1, "{found:?}");
    assert_eq!(found.len(), before.len() + 1);
}

/// Some of a table's files are not the table.
#[tokio::test(flavor = "multi_thread")]
async fn another_table_over_the_same_files_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 6_000, 1_000);
    let path = folder.path().to_string_lossy().to_string();
    let session = cached(&path).await;
    let one = folder.path().join("1.parquet");
    session
        .register_parquet("one", &one.to_string_lossy())
        .await
        .unwrap();
    let sql = "SELECT count(*), sum(v) FROM one";
    let host = host_only();
    host.register_parquet("one", &one.to_string_lossy())
        .await
        .unwrap();
    assert_eq!(answer(&session, sql).await, answer(&host, sql).await);
    // The same files in another order of columns.
    let other = format!(
        "CREATE EXTERNAL TABLE turned (s VARCHAR, v BIGINT, k BIGINT) STORED AS PARQUET \
         LOCATION '{path}'"
    );
    for session in [&session, &host] {
        session.collect(&other).await.unwrap();
    }
    let sql = "SELECT s, sum(v), max(k) FROM turned GROUP BY s";
    for _ in 0..3 {
        assert_eq!(answer(&session, sql).await, answer(&host, sql).await);
    }
}
