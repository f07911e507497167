//! Where statements spill is used by those that spill alone, and its limits are named as options.

use std::path::Path;

use tidegate::{Error, ErrorKind, Session};

use crate::host_engine::set;
use crate::support::lines;

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

/// Copies 400,000 rows into 300 folders, where a part of them fits in memory.
async fn copied_into_folders(folder: &Path, format: &str, value: &str) -> Result<(), Error> {
    let session = Session::builder()
        .memory_limit(24 << 20)
        .temp_dir(folder.join("spill"))
        .build()?;
    let copy = format!(
        "COPY (SELECT value % 300 AS k, value AS v, {value} AS w, repeat('x', 80) || value AS s \
         FROM generate_series(1, 400000)) TO '{}' (FORMAT {format}, PARTITION_BY k)",
        folder.join("out").display()
    );
    session.collect(&copy).await.map(drop)
}

fn files_in(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    let counts = entries.map(|entry| match entry.unwrap().path() {
        path if path.is_dir() => files_in(&path),
        _ => 1,
    });
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_folders_are_written_with_little_memory() {
    for format in ["parquet", "csv", "json"] {
        let folder = tempfile::tempdir().unwrap();
        copied_into_folders(folder.path(), format, "value")
            .await
            .unwrap();
        let out = folder.path().join("out");
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), 300, "{format}");
        assert!(
            files_in(&out) > 300,
            "{format}: some are written before the last row"
        );
        let read = format!(
            "SELECT concat_ws(' ', count(*), sum(v), sum(w), count(DISTINCT k), bool_and(v % 300 = k AND s LIKE '%x' || v)) AS found \
             FROM read_{format}('{}/*/*.{format}', hive_partitioning => true)",
            out.display()
        );
        let session = Session::builder().file_urls().build().unwrap();
        let rows = lines(&session.collect(&read).await.unwrap());
        let sum = 400_000_i64 * 400_001 / 2;
        let want = format!("| 400000 {sum} {sum} 300 true |");
        assert!(rows.contains(&want), "{format}: {rows:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_of_a_copy_that_fails_have_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let late = "1 / (value - 390000)";
    let error = copied_into_folders(folder.path(), "parquet", late).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Sql);
    assert_eq!(files_in(&folder.path().join("out")), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_over_windows_reserve_memory_before_they_are_made() {
    let session = Session::builder().memory_limit(64 << 20).build().unwrap();
    for over in [
        "",
        "ORDER BY value",
        "PARTITION BY value % 2",
        "ORDER BY value ROWS BETWEEN 20000 PRECEDING AND CURRENT ROW",
    ] {
        for list in ["array_agg(value)", "string_agg(value::varchar, ',')"] {
            let sql = format!(
                "SELECT count(s) FROM (SELECT {list} OVER ({over}) AS s FROM generate_series(1, 100000))"
            );
            let error = session.collect(&sql).await.unwrap_err();
            assert_eq!(
                error.kind(),
                ErrorKind::ResourcesExhausted,
                "{sql}: {error}"
            );
        }
    }
    for (over, longest) in [
        ("PARTITION BY value / 10", 10),
        ("ORDER BY value ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", 3),
    ] {
        let sql = format!(
            "SELECT max(cardinality(s)) AS n FROM (SELECT array_agg(value) OVER ({over}) AS s \
             FROM generate_series(1, 20000))"
        );
        let rows = lines(&session.collect(&sql).await.unwrap());
        assert!(
            rows.contains(&format!("| {longest}  |")) || rows.contains(&format!("| {longest} |")),
            "{rows:?}"
        );
    }
}
