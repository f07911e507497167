//! A statement that fails while it writes leaves no file with the rows that came before.

use std::fs;
use std::path::Path;
use std::time::Duration;

use datafusion::arrow::util::pretty::pretty_format_batches;
use tidegate::Session;

/// A million rows, of which one in the middle raises.
const ROWS: &str = "SELECT 10 / (value - 500000) AS q FROM range(1000000)";

fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Unfinished files are removed on a thread of their own.
async fn is_empty_soon(folder: &Path) -> bool {
    for _ in 0..100 {
        if files(folder).is_empty() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

fn session() -> Session {
    let builder = Session::builder().visible_devices(Some(String::new()));
    builder.file_urls().target_partitions(2).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_fails_leaves_no_file() {
    let session = session();
    for ending in ["parquet", "csv", "json", "arrow"] {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join(format!("x.{ending}"));
        let sql = format!("COPY ({ROWS}) TO '{}'", target.display());
        let error = session.collect(&sql).await.unwrap_err();
        assert!(error.to_string().contains("division by zero"), "{error}");
        let left = files(folder.path());
        assert!(is_empty_soon(folder.path()).await, "{ending}: {left:?}");
        // The same file can be written afterwards.
        let sql = sql.replace("500000", "5000000");
        session.collect(&sql).await.unwrap();
        let count = format!("SELECT count(*) FROM '{}'", target.display());
        let rows = session.collect(&count).await.unwrap();
        let rows = pretty_format_batches(&rows).unwrap();
        assert!(rows.to_string().contains("| 1000000"), "{rows}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_that_fails_adds_nothing() {
    let session = session();
    let folder = tempfile::tempdir().unwrap();
    let made = format!(
        "CREATE EXTERNAL TABLE t(q BIGINT) STORED AS PARQUET LOCATION '{}/'",
        folder.path().display()
    );
    session.collect(&made).await.unwrap();
    session.collect("INSERT INTO t VALUES (1)").await.unwrap();
    let before = files(folder.path());
    let error = session.collect(&format!("INSERT INTO t {ROWS}")).await;
    assert!(error.unwrap_err().to_string().contains("division by zero"));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(files(folder.path()), before);
}
