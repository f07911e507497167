//! Where statements spill is used by those that spill alone, and its limits are named as options.

use tidegate::{ErrorKind, Session};

use crate::host_engine::set;

/// Sorts more than fits in memory.
const SORT: &str = "SELECT max(n) FROM (SELECT row_number() OVER (ORDER BY value * 7919 % 1000003) AS n \
                    FROM generate_series(1, 1000000))";

async fn fails(session: &Session, kind: ErrorKind, parts: &[&str]) {
    let error = session.collect(SORT).await.unwrap_err();
    for part in parts {
        assert!(error.to_string().contains(part), "{error}");
    }
    assert_eq!(error.kind(), kind, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_cannot_be_used_fails_only_what_spills() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let session = Session::builder()
        .memory_limit(8 << 20)
        .temp_dir(file.join("spill"))
        .build()
        .unwrap();
    session.collect("SELECT 1").await.unwrap();
    fails(
        &session,
        ErrorKind::Io,
        &["must spill", "file/spill", "--temp-dir"],
    )
    .await;
    session.collect("SELECT 1").await.unwrap();
    // The setting of DataFusion's is ours.
    let good = folder.path().join("good");
    let set = format!(
        "SET datafusion.runtime.temp_directory = '{}'",
        good.display()
    );
    session.collect(&set).await.unwrap();
    session.collect(SORT).await.unwrap();
    assert_eq!(std::fs::read_dir(&good).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_what_is_spilled_names_its_option_the_folder_and_the_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let session = Session::builder()
        .memory_limit(8 << 20)
        .temp_dir(folder.path())
        .temp_limit(1 << 20)
        .build()
        .unwrap();
    let path = folder.path().display().to_string();
    let parts = ["--temp-limit", "at most 1048576", &path];
    fails(&session, ErrorKind::ResourcesExhausted, &parts).await;
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let set = "SET datafusion.runtime.max_temp_directory_size = '1G'";
    session.collect(set).await.unwrap();
    session.collect(SORT).await.unwrap();
}

/// A window that holds all of its rows cannot spill: it is refused, where it was not counted.
#[tokio::test(flavor = "multi_thread")]
async fn windows_that_hold_all_rows_ask_for_memory() {
    let session = Session::builder()
        .memory_limit(32 << 20)
        .target_partitions(2)
        .build()
        .unwrap();
    let of_rows = |rows: usize, window: &str| {
        format!("SELECT max(s) FROM (SELECT sum(value) OVER ({window}) AS s FROM range(0, {rows}))")
    };
    for (engine, window, operator) in [
        ("off", "ORDER BY -value", "WindowAggExec"),
        ("off", "PARTITION BY value % 3", "WindowAggExec"),
        ("auto", "", "HostWindowExec"),
    ] {
        set(&session, &format!("host_engine = '{engine}'")).await;
        let refused = session.collect(&of_rows(3_000_000, window)).await;
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{error}");
        assert!(error.to_string().contains(operator), "{error}");
        session.collect(&of_rows(50_000, window)).await.unwrap();
    }
    // One that goes on with the rows holds few of them.
    session
        .collect(&of_rows(3_000_000, "ORDER BY value"))
        .await
        .unwrap();
}
