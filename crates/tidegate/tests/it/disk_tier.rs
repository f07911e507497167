//! What finds no room in host memory is read from files of our own, which are never believed blindly.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tidegate::{ErrorKind, Session};

use crate::store::CountingStore;
use crate::support::{answer, host_only, write_parquet};

const SQL: &str = "SELECT k, sum(v), count(*), max(s) FROM t WHERE v % 5 <> 0 GROUP BY k";

/// Makes a session whose memory has room for little of the table `t`, and whose files have for all.
async fn over(data: &Path, spill: &Path) -> (Session, Arc<CountingStore>) {
    let session = Session::builder()
        .target_partitions(4)
        .temp_dir(spill)
        .build()
        .unwrap();
    let store = CountingStore::under(&session);
    for setting in ["host_cache_limit = '16KB'", "disk_cache_limit = '1GB'"] {
        let sql = format!("SET tidegate.{setting}");
        session.collect(&sql).await.unwrap();
    }
    let path = data.to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    (session, store)
}

async fn expected(data: &Path) -> Vec<String> {
    let session = host_only();
    session.collect("SET tidegate.cache = 'off'").await.unwrap();
    let path = data.to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    answer(&session, SQL).await
}

/// Asks until no file of the table is opened any more.
async fn until_kept(session: &Session, store: &CountingStore, want: &[String]) {
    for _ in 0..500 {
        store.reads();
        assert_eq!(answer(session, SQL).await, want);
        if store.reads() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the table's files are read again and again");
}

fn files(spill: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(spill).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_larger_than_the_memory_is_read_from_files_of_its_columns() {
    let (data, spill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_parquet(data.path(), 3, 30_000, 1_000);
    let want = expected(data.path()).await;
    let (session, store) = over(data.path(), spill.path()).await;
    // What is read once is not written.
    assert_eq!(answer(&session, SQL).await, want);
    assert_eq!(files(spill.path()), Vec::<PathBuf>::new());
    until_kept(&session, &store, &want).await;
    let cached = "SELECT DISTINCT tier, disk_bytes > 0, hits > 0 FROM system.cache ORDER BY tier";
    let cached = answer(&session, cached).await.join("\n").replace(' ', "");
    assert!(cached.contains("|disk|true|true|"), "{cached}");
    let memory = "SELECT used_bytes BETWEEN 1 AND limit_bytes AS fits FROM system.memory \
                  WHERE consumer = 'column cache' AND tier IN ('host', 'disk')";
    let memory = answer(&session, memory).await.join("");
    assert!(
        memory.contains("true") && !memory.contains("false"),
        "{memory}"
    );
    let explained = format!("EXPLAIN ANALYZE {SQL}");
    let explained = answer(&session, &explained).await.join("\n");
    assert!(explained.contains("disk_tier_row_groups="), "{explained}");

    // What is lost or damaged is read from the table.
    for (number, file) in files(spill.path()).into_iter().enumerate() {
        if number % 2 == 0 {
            std::fs::remove_file(file).unwrap();
        } else {
            std::fs::write(file, [0; 100]).unwrap();
        }
    }
    assert_eq!(answer(&session, SQL).await, want);
    assert!(store.reads() > 0);
    until_kept(&session, &store, &want).await;

    // A table that has changed is not answered from what it was.
    write_parquet(data.path(), 3, 24_000, 800);
    let changed = expected(data.path()).await;
    assert_ne!(changed, want);
    assert_eq!(answer(&session, SQL).await, changed);
    until_kept(&session, &store, &changed).await;

    session
        .collect("SET tidegate.disk_cache_limit = 0")
        .await
        .unwrap();
    assert_eq!(files(spill.path()), Vec::<PathBuf>::new());
    assert_eq!(answer(&session, SQL).await, changed);
    assert!(store.reads() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_written_is_told_when_the_limit_is_set() {
    let spill = tempfile::tempdir().unwrap();
    let folder = spill.path().join("spill");
    let session = Session::builder().temp_dir(&folder).build().unwrap();
    std::fs::write(&folder, "a file").unwrap();
    let refused = session
        .collect("SET tidegate.disk_cache_limit = '1GB'")
        .await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    assert!(
        error.to_string().contains("choose another spill folder"),
        "{error}"
    );
}
