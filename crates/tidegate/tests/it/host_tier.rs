//! What was read once comes from host memory, opens no file, and is never answered from old bytes.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::UInt64Type;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use tidegate::{ErrorKind, Session};

use crate::store::CountingStore;
use crate::support::{answer, host_only, lines, simulated, write_parquet};

const SUMS: &str = "SELECT k, sum(v), count(*) FROM t WHERE v % 5 <> 0 GROUP BY k";
const TEXTS: &str = "SELECT s, max(k), min(v) FROM t WHERE v > 100 GROUP BY s";

async fn over(folder: &Path) -> (Session, Arc<CountingStore>) {
    let session = host_only();
    let store = CountingStore::under(&session);
    register(&session, folder).await;
    (session, store)
}

async fn register(session: &Session, path: &Path) {
    let path = path.to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
}

/// Answers without the cache.
async fn expected(folder: &Path, sql: &str) -> Vec<String> {
    let session = host_only();
    session.collect("SET tidegate.cache = 'off'").await.unwrap();
    register(&session, folder).await;
    answer(&session, sql).await
}

async fn number(session: &Session, sql: &str) -> u64 {
    let batches = session.collect(sql).await.unwrap();
    batches[0].column(0).as_primitive::<UInt64Type>().value(0)
}

async fn cached_bytes(session: &Session) -> u64 {
    let sql =
        "SELECT used_bytes FROM system.memory WHERE consumer = 'column cache' AND tier = 'host'";
    number(session, sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_run_opens_no_file() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 3, 9_000, 700);
    let (session, store) = over(folder.path()).await;
    let want = expected(folder.path(), SUMS).await;
    assert_eq!(answer(&session, SUMS).await, want);
    assert!(store.reads() > 0);
    for _ in 0..3 {
        assert_eq!(answer(&session, SUMS).await, want);
        assert_eq!(store.reads(), 0);
    }
    // Of another query the files are read for what is missing, once.
    let want = expected(folder.path(), TEXTS).await;
    assert_eq!(answer(&session, TEXTS).await, want);
    assert!(store.reads() > 0);
    assert_eq!(answer(&session, TEXTS).await, want);
    let all = "SELECT count(*), sum(k), sum(v), min(s) FROM t";
    assert_eq!(
        answer(&session, all).await,
        expected(folder.path(), all).await
    );
    assert_eq!(store.reads(), 0);

    let columns = session
        .collect(
            "SELECT \"column\", tier, sum(chunks), sum(rows), min(hits) > 0, sum(host_bytes) > 0 \
             FROM system.cache GROUP BY \"column\", tier",
        )
        .await
        .unwrap();
    let columns = lines(&columns).join("\n");
    for (column, chunks) in [("k", 15), ("v", 15), ("s", 15)] {
        let line = format!("| {column}      | host | {chunks} ");
        assert!(columns.contains(&line), "{line}\n{columns}");
    }
    let explained = session
        .collect(&format!("EXPLAIN ANALYZE {SUMS}"))
        .await
        .unwrap();
    let explained = lines(&explained).join("\n");
    assert!(explained.contains("host_tier_rows=9.00 K"), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_reads_the_host_tier_too() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 6_000, 500);
    for settings in [
        "placement = 'device'",
        "replay_placement = 'HD'",
        "regions = 'atomic'",
    ] {
        let session = simulated("1GB", &[settings]).await;
        let store = CountingStore::under(&session);
        register(&session, folder.path()).await;
        let want = expected(folder.path(), SUMS).await;
        assert_eq!(answer(&session, SUMS).await, want, "{settings}");
        assert!(store.reads() > 0);
        // Host and device share morsels anew: what one of them read is there for the other.
        assert_eq!(answer(&session, SUMS).await, want, "{settings}");
        assert_eq!(store.reads(), 0, "{settings}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_is_read_again() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    write_parquet(folder.path(), 1, 8_000, 1_000);
    // The same number of rows, in row groups of the same size.
    write_parquet(other.path(), 2, 16_000, 1_000);
    let path = folder.path().join("0.parquet");
    let (session, _) = over(&path).await;
    let before = answer(&session, SUMS).await;
    assert_eq!(answer(&session, SUMS).await, before);
    let bytes = cached_bytes(&session).await;
    assert!(bytes > 0);
    std::fs::rename(other.path().join("1.parquet"), &path).unwrap();
    let after = answer(&session, SUMS).await;
    assert_eq!(after, expected(&path, SUMS).await);
    assert_ne!(after, before);
    assert_eq!(answer(&session, SUMS).await, after);
    // The old chunks are gone.
    assert!(cached_bytes(&session).await < 2 * bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_file_is_gone_as_without_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 8_000, 1_000);
    let (session, _) = over(folder.path()).await;
    let (plain, _) = over(folder.path()).await;
    plain.collect("SET tidegate.cache = 'off'").await.unwrap();
    let before = answer(&session, SUMS).await;
    assert_eq!(before, answer(&plain, SUMS).await);
    // The folder is listed anew, so the file's rows are gone.
    std::fs::remove_file(folder.path().join("1.parquet")).unwrap();
    let after = answer(&session, SUMS).await;
    assert_ne!(before, after);
    assert_eq!(after, answer(&plain, SUMS).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_modes_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 20_000, 1_000);
    let want = expected(folder.path(), SUMS).await;
    for (setting, caches) in [
        ("host_cache_limit = '0'", false),
        ("host_cache_limit = '1KB'", false),
        ("host_cache_limit = '40KB'", true),
        ("cache = 'off'", false),
        ("cache = 'manual'", false),
    ] {
        let (session, store) = over(folder.path()).await;
        session
            .collect(&format!("SET tidegate.{setting}"))
            .await
            .unwrap();
        for _ in 0..3 {
            assert_eq!(answer(&session, SUMS).await, want, "{setting}");
            assert!(store.reads() > 0, "{setting}");
        }
        let bytes = cached_bytes(&session).await;
        assert!(
            bytes <= 40 << 10 && (bytes > 0) == caches,
            "{setting}: {bytes}"
        );
    }
    let (session, store) = over(folder.path()).await;
    answer(&session, SUMS).await;
    assert!(store.reads() > 0 && cached_bytes(&session).await > 0);
    // What is kept is passed by, and goes when its limit does.
    session.collect("SET tidegate.cache = 'off'").await.unwrap();
    assert_eq!(answer(&session, SUMS).await, want);
    assert!(store.reads() > 0);
    session
        .collect("SET tidegate.host_cache_limit = '1KB'")
        .await
        .unwrap();
    assert!(cached_bytes(&session).await <= 1 << 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_scan_does_beside_is_answered_as_without_the_cache() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write_parquet(path, 2, 12_000, 500);
    // A file with other columns, in another order, of another type.
    let fewer: Vec<(&str, ArrayRef)> = vec![
        (
            "s",
            Arc::new(StringArray::from_iter_values(
                (0..900).map(|row| format!("s{row}")),
            )),
        ),
        ("v", Arc::new(Int64Array::from_iter_values(50_000..50_900))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(
        fewer.into_iter().map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let target = std::fs::File::create(path.join("7.parquet")).unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(400))
        .set_data_page_row_count_limit(50)
        .set_write_batch_size(50)
        .build();
    let mut writer = ArrowWriter::try_new(target, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();

    let queries = [
        SUMS,
        TEXTS,
        "SELECT count(*) FROM t",
        "SELECT v + k FROM t WHERE k = 3",
        "SELECT v, v AS w, s FROM t WHERE v BETWEEN 1999 AND 2003",
        "SELECT s, v FROM t WHERE v BETWEEN 50420 AND 50431",
        "SELECT count(*), sum(v) FROM t WHERE v > 11900",
        "SELECT k, v FROM t ORDER BY v DESC LIMIT 7",
        "SELECT v FROM t WHERE k = 2 ORDER BY v LIMIT 3",
        "SELECT count(*) FROM (SELECT v FROM t LIMIT 1300)",
        "SELECT a.k, count(*) FROM t a JOIN t b ON a.v = b.v AND b.v < 700 GROUP BY a.k",
        "SELECT * FROM t WHERE k IS NULL AND v < 300",
    ];
    for setting in [
        "tidegate.cache = 'auto'",
        "datafusion.execution.parquet.pushdown_filters = true",
        "datafusion.execution.batch_size = 100",
        "datafusion.execution.parquet.pruning = false",
        "datafusion.execution.target_partitions = 1",
        "datafusion.execution.enable_file_stream_work_stealing = false",
    ] {
        let (session, plain) = (host_only(), host_only());
        plain.collect("SET tidegate.cache = 'off'").await.unwrap();
        session.collect(&format!("SET {setting}")).await.unwrap();
        for session in [&session, &plain] {
            register(session, path).await;
        }
        for round in 0..3 {
            for sql in queries {
                let want = answer(&plain, sql).await;
                assert_eq!(
                    answer(&session, sql).await,
                    want,
                    "{setting}, {round}: {sql}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_are_ruled_out_as_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 10_000, 1_000);
    let (session, store) = over(folder.path()).await;
    answer(&session, "SELECT sum(v), min(k) FROM t").await;
    store.reads();
    let sql = "SELECT sum(k) FROM t WHERE v BETWEEN 3500 AND 3600";
    assert_eq!(
        answer(&session, sql).await,
        expected(folder.path(), sql).await
    );
    assert_eq!(store.reads(), 0);
    let explained = session
        .collect(&format!("EXPLAIN ANALYZE {sql}"))
        .await
        .unwrap();
    let explained = lines(&explained).join("\n");
    assert!(explained.contains("host_tier_rows=1.00 K"), "{explained}");
    assert!(
        explained.contains("row_groups_pruned_statistics=10 total → 1 matched"),
        "{explained}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_tables_stay_until_they_are_let_go_of() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 2, 9_000, 700);
    let (session, store) = over(folder.path()).await;
    session
        .collect("SET tidegate.cache = 'manual'")
        .await
        .unwrap();
    let told = session
        .collect("CACHE TABLE t (v, k) ON HOST")
        .await
        .unwrap();
    let told = lines(&told).join("\n");
    assert!(told.contains("v, k") && told.contains("9000"), "{told}");
    store.reads();
    assert_eq!(
        answer(&session, SUMS).await,
        expected(folder.path(), SUMS).await
    );
    assert_eq!(store.reads(), 0);
    assert_eq!(
        answer(&session, TEXTS).await,
        expected(folder.path(), TEXTS).await
    );
    assert!(store.reads() > 0);
    let tables = session
        .collect("SELECT DISTINCT \"table\" FROM system.cache")
        .await
        .unwrap();
    assert!(lines(&tables).join("").contains("| t "), "{tables:?}");

    let error = session
        .collect("UNCACHE TABLE tt")
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("did you mean 't'"), "{error}");
    session.collect("UNCACHE TABLE t").await.unwrap();
    assert_eq!(cached_bytes(&session).await, 0);
    answer(&session, SUMS).await;
    assert!(store.reads() > 0);

    session
        .collect("SET tidegate.host_cache_limit = '20KB'")
        .await
        .unwrap();
    let error = session.collect("CACHE TABLE t ON HOST").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted);
    let error = error.to_string();
    assert!(
        error.contains("does not fit in host memory") && error.contains("20480"),
        "{error}"
    );
    assert_eq!(cached_bytes(&session).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_get_the_memory_that_they_need() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 4, 400_000, 20_000);
    let session = Session::builder()
        .memory_limit(24 << 20)
        .target_partitions(2)
        .build()
        .unwrap();
    register(&session, folder.path()).await;
    session
        .collect("SET tidegate.host_cache_limit = '16MB'")
        .await
        .unwrap();
    session
        .collect("SELECT sum(v), min(s), max(k) FROM t")
        .await
        .unwrap();
    let before = cached_bytes(&session).await;
    assert!(before > 1 << 20, "{before}");
    let sql = "SELECT count(*), max(n) FROM (SELECT v, count(*) AS n FROM t GROUP BY v)";
    assert_eq!(
        answer(&session, sql).await,
        expected(folder.path(), sql).await
    );
    let sql = "SELECT max(r) FROM (SELECT row_number() OVER (ORDER BY s, v) AS r FROM t)";
    assert_eq!(
        answer(&session, sql).await,
        expected(folder.path(), sql).await
    );

    session.collect("CACHE TABLE t (v) ON HOST").await.unwrap();
    session
        .collect("SET tidegate.memory_limit = '200KB'")
        .await
        .unwrap();
    let error = session.collect(sql).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_at_once_share_what_they_read() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 3, 60_000, 2_000);
    let (sums, texts) = (
        expected(folder.path(), SUMS).await,
        expected(folder.path(), TEXTS).await,
    );
    for limit in ["1GB", "200KB", "30KB"] {
        let (session, _) = over(folder.path()).await;
        session
            .collect(&format!("SET tidegate.host_cache_limit = '{limit}'"))
            .await
            .unwrap();
        let tasks = (0..8).map(|task| {
            let (session, sums, texts) = (session.clone(), sums.clone(), texts.clone());
            tokio::spawn(async move {
                for round in 0..6 {
                    let (sql, want) = if (task + round) % 2 == 0 {
                        (SUMS, &sums)
                    } else {
                        (TEXTS, &texts)
                    };
                    assert_eq!(&answer(&session, sql).await, want, "{sql}");
                }
            })
        });
        for done in futures::future::join_all(tasks).await {
            done.unwrap();
        }
        // Nothing is taken twice, and nothing that was in the making stays.
        let limit = tidegate::options::parse_bytes(limit).unwrap();
        assert!(cached_bytes(&session).await <= limit);
        session
            .collect("SET tidegate.host_cache_limit = '0'")
            .await
            .unwrap();
        assert_eq!(cached_bytes(&session).await, 0);
    }
}
