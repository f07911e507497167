//! Filters that joins and top-k feed while a scan runs: they leave rows out that the operators above would drop,
//! and no others.

use std::path::Path;

use datafusion::parquet::file::properties::WriterPropertiesBuilder;
use tidegate::Session;

use crate::host_engine::{analyzed, counted, same_without};
use crate::host_pages::{over, small_pages, write};
use crate::support::answer;

/// Joins of `b`, a few rows, with `t(id, k, d, x, s, day)`, and top-k of `t`.
const QUERIES: [&str; 16] = [
    "SELECT t.id, t.s, b.v FROM t JOIN b ON t.id = b.id",
    "SELECT t.id, b.v FROM t JOIN b ON t.k = b.k AND t.id = b.id",
    "SELECT count(*), sum(t.id) FROM t JOIN b ON t.k = b.k",
    "SELECT t.id FROM t WHERE t.id IN (SELECT id FROM b WHERE v > 3)",
    "SELECT t.id FROM t WHERE t.id > 100 AND t.s IN (SELECT s FROM b)",
    "SELECT count(*), sum(t.id) FROM t WHERE t.k NOT IN (SELECT k FROM b WHERE k IS NOT NULL)",
    "SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = t.id)",
    "SELECT count(*), sum(b.v) FROM b LEFT JOIN t ON t.id = b.id",
    "SELECT count(*), sum(b.v) FROM t LEFT JOIN b ON t.id = b.id",
    "SELECT count(*), sum(b.v) FROM t FULL JOIN b ON t.id = b.id",
    "SELECT t.id, b.v FROM t JOIN b ON t.day = b.day AND t.d = b.d",
    "SELECT t.id FROM t JOIN b ON t.id = b.id WHERE b.v < 0",
    "SELECT count(*) FROM t JOIN b ON t.k IS NOT DISTINCT FROM b.k",
    "SELECT t.id, t.d FROM t ORDER BY t.d DESC NULLS LAST, t.id LIMIT 7",
    "SELECT t.id, t.x, t.s FROM t ORDER BY t.x, t.id DESC LIMIT 5",
    "SELECT t.id FROM t JOIN b ON t.x = b.x AND t.s = b.s ORDER BY t.id LIMIT 3",
];

const ROWS: i64 = 20_000;

async fn session(folder: &Path, partitions: usize) -> Session {
    let session = over(folder, partitions).await;
    let few = "CREATE TABLE b AS SELECT id, k, d, x, s, day, id % 7 AS v FROM t \
               WHERE id % 997 = 3 OR id IN (0, 1, 19999) \
               UNION ALL SELECT -5, NULL, NULL, NULL, 'nowhere', NULL, 1";
    session.collect(few).await.unwrap();
    session
}

/// Compares the answers with and without the engine; returns in how many queries rows were left out.
async fn compare(session: &Session, what: &str) -> usize {
    let mut filtered = 0;
    for sql in QUERIES {
        same_without(session, sql, what).await;
        let plan = analyzed(session, sql).await;
        filtered += usize::from(counted(&plan, "runtime_filtered_rows") > 0);
    }
    filtered
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_left_out_are_those_of_no_answer() {
    let plain = || small_pages().set_dictionary_enabled(false);
    let files: [(&str, WriterPropertiesBuilder); 3] = [
        ("dictionaries", small_pages()),
        ("plain", plain()),
        (
            "dictionaries that overflow",
            small_pages().set_dictionary_page_size_limit(600),
        ),
    ];
    for (what, properties) in files {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("t.parquet"), 0, ROWS, properties);
        // With more partitions than are looked up one after the other, too.
        for partitions in [1, 3, 6] {
            let session = session(folder.path(), partitions).await;
            for collect_left in ["0", "1048576"] {
                let threshold = "datafusion.optimizer.hash_join_single_partition_threshold";
                let sql = format!("SET {threshold} = {collect_left}");
                session.collect(&sql).await.unwrap();
                let what = format!("{what}, {partitions} partitions, {collect_left}");
                let filtered = compare(&session, &what).await;
                assert!(
                    filtered >= 5,
                    "{what}: rows were left out in {filtered} queries"
                );
            }
        }
    }
}

/// A filter that leaves nothing out is dropped, one without a row ends the scan.
#[tokio::test(flavor = "multi_thread")]
async fn filters_of_all_and_of_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    let session = session(folder.path(), 2).await;
    let all = "SELECT count(*), sum(t.id) FROM t JOIN (SELECT DISTINCT id FROM t) b ON t.id = b.id";
    let plan = analyzed(&session, all).await;
    assert_eq!(counted(&plan, "runtime_filtered_rows"), 0, "{plan}");
    let none =
        "SELECT count(*), sum(t.id) FROM t JOIN (SELECT id FROM b WHERE v > 99) b ON t.id = b.id";
    assert_eq!(answer(&session, none).await.len(), 2);
    let plan = analyzed(&session, none).await;
    assert_eq!(counted(&plan, "output_rows"), 0, "{plan}");
}
