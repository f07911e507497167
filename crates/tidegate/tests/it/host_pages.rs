//! The host engine over pages of Parquet files: the same rows as DataFusion's source gives, row group by row
//! group, whoever reads them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use datafusion::arrow::datatypes::Schema;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::{Compression, Encoding};
use datafusion::parquet::file::properties::{
    WriterProperties, WriterPropertiesBuilder, WriterVersion,
};
use futures::StreamExt;
use tidegate::Session;

use crate::host_engine::{analyzed, counted, same_without, set};
use crate::store::CountingStore;
use crate::support::{answer, host_only, lines, simulated};

/// Queries over `t(id, k, d, x, s, day)`.
const QUERIES: [&str; 11] = [
    "SELECT count(*), sum(id), min(id), max(id), sum(d), min(day), max(s) FROM t",
    "SELECT k, count(*), sum(id), sum(d), count(x) FROM t GROUP BY k",
    "SELECT s, k, sum(d * d), max(day) FROM t WHERE id % 3 = 0 GROUP BY s, k",
    "SELECT s, count(*) FROM t WHERE s < 's20' AND k IS NOT NULL GROUP BY s",
    "SELECT k, sum(id) FROM t WHERE id BETWEEN 4000 AND 4100 GROUP BY k",
    "SELECT k, sum(id) FROM t WHERE id > 19000 OR id < 10 GROUP BY k",
    "SELECT id, count(*) FROM t WHERE s = 's7' GROUP BY id",
    "SELECT day, sum(x * 2) FROM t WHERE x > 1.0 GROUP BY day",
    "SELECT s, count(*) FROM t WHERE s = 'nowhere' GROUP BY s",
    // DataFusion would have the scan compute these expressions.
    "SELECT max(x), min(x), count(*) FROM t",
    "SELECT g, sum(y), count(*) FROM (SELECT id % 5 AS g, d * 2 AS y FROM t) GROUP BY g",
];

const ROWS: i64 = 20_000;

pub(crate) fn rows(from: i64, to: i64) -> RecordBatch {
    let some = |row: i64, every: i64| row % every != 0;
    let ids = Int64Array::from_iter_values(from..to);
    let keys = Int64Array::from_iter((from..to).map(|row| some(row, 11).then_some(row % 7)));
    let amounts = Decimal128Array::from_iter((from..to).map(|row| {
        let cents = i128::from(row * 37 % 9_999);
        some(row, 29).then_some(cents)
    }));
    let amounts = amounts.with_precision_and_scale(12, 2).unwrap();
    // Halves: their sums are exact in any order.
    let floats = Float64Array::from_iter(
        (from..to).map(|row| some(row, 13).then_some((row % 17) as f64 / 2.0)),
    );
    let texts = StringArray::from_iter(
        (from..to).map(|row| some(row, 23).then(|| format!("s{}", row % 41))),
    );
    let days = Date32Array::from_iter((from..to).map(|row| Some((row / 100) as i32)));
    let columns: [(&str, ArrayRef, bool); 6] = [
        ("id", Arc::new(ids), false),
        ("k", Arc::new(keys), true),
        ("d", Arc::new(amounts), true),
        ("x", Arc::new(floats), true),
        ("s", Arc::new(texts), true),
        ("day", Arc::new(days), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    // Files of other writers number their columns.
    let fields = batch.schema();
    let fields = fields.fields().iter().enumerate();
    let numbered = fields.map(|(number, field)| {
        let number = ("PARQUET:field_id".to_owned(), number.to_string());
        field.as_ref().clone().with_metadata([number].into())
    });
    let schema = Arc::new(Schema::new(numbered.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, batch.columns().to_vec()).unwrap()
}

pub(crate) fn write(path: &Path, from: i64, to: i64, properties: WriterPropertiesBuilder) {
    let batch = rows(from, to);
    let target = std::fs::File::create(path).unwrap();
    let properties = properties.build();
    let mut writer = ArrowWriter::try_new(target, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

pub(crate) fn small_pages() -> WriterPropertiesBuilder {
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(6_000))
        .set_data_page_row_count_limit(700)
        .set_write_batch_size(100)
}

/// Compares the answers with and without the engine; returns for how many queries it read pages.
async fn compare(session: &Session, what: &str) -> usize {
    let mut with_pages = 0;
    for sql in QUERIES {
        same_without(session, sql, what).await;
        with_pages +=
            usize::from(counted(&analyzed(session, sql).await, "row_groups_as_pages") > 0);
    }
    with_pages
}

pub(crate) async fn over(folder: &Path, partitions: usize) -> Session {
    let builder = Session::builder().target_partitions(partitions);
    let session = builder.build().unwrap();
    set(&session, "cache = 'off'").await;
    let path = folder.to_str().unwrap();
    session.register_parquet("t", path).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn encodings_and_codecs_have_the_same_answers() {
    let plain = || small_pages().set_dictionary_enabled(false);
    let files: [(&str, WriterPropertiesBuilder); 6] = [
        ("dictionaries", small_pages()),
        ("plain", plain()),
        ("snappy", small_pages().set_compression(Compression::SNAPPY)),
        (
            "version 2",
            small_pages()
                .set_compression(Compression::ZSTD(Default::default()))
                .set_writer_version(WriterVersion::PARQUET_2_0),
        ),
        (
            "delta",
            plain().set_column_encoding("id".into(), Encoding::DELTA_BINARY_PACKED),
        ),
        (
            "dictionaries that overflow",
            small_pages().set_dictionary_page_size_limit(600),
        ),
    ];
    for (what, properties) in files {
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("t.parquet"), 0, ROWS, properties);
        for partitions in [1, 3] {
            let session = over(folder.path(), partitions).await;
            let what = format!("{what}, {partitions} partitions");
            let with_pages = compare(&session, &what).await;
            assert!(with_pages >= 9, "{what}: {with_pages} queries read pages");
        }
    }
}

/// Morsels that go to a device are not read as pages, and each row counts once.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_shares_row_groups_out() {
    let folder = tempfile::tempdir().unwrap();
    let properties = || small_pages().set_max_row_group_row_count(Some(500));
    for file in 0..3 {
        let path = folder.path().join(format!("{file}.parquet"));
        write(&path, file * 7_000, (file + 1) * 7_000, properties());
    }
    for pattern in ["HD", "HHHD", "DH"] {
        let replay = format!("replay_placement = '{pattern}'");
        let session = simulated("1GB", &[&replay, "cache = 'off'"]).await;
        let path = folder.path().to_str().unwrap();
        session.register_parquet("t", path).await.unwrap();
        let with_pages = compare(&session, pattern).await;
        assert!(
            with_pages >= 7,
            "{pattern}: {with_pages} queries read pages"
        );
    }
}

/// What a row raises is raised by DataFusion's operators, with their words, wherever the row is.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_those_of_the_operators() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    let session = over(folder.path(), 1).await;
    for row in [0, 2_047, 2_048, 5_999, 6_000, 19_999] {
        let sql = format!("SELECT k, sum(10 / (id - {row})) FROM t GROUP BY k");
        let mut told = Vec::new();
        for mode in ["off", "auto"] {
            set(&session, &format!("host_engine = '{mode}'")).await;
            told.push(session.collect(&sql).await.unwrap_err().to_string());
        }
        assert_eq!(told[0], told[1], "{sql}");
        let sql = sql.replace("FROM t", &format!("FROM t WHERE id <> {row}"));
        same_without(&session, &sql, "").await;
    }
}

/// A folder whose files have other columns: those are adapted by DataFusion's source, and the plan says so.
#[tokio::test(flavor = "multi_thread")]
async fn adapted_files_are_read_by_the_source() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("a.parquet"), 0, 5_000, small_pages());
    let session = over(folder.path(), 2).await;
    let other = folder.path().join("b.parquet");
    let other = other.to_str().unwrap();
    let sql =
        format!("COPY (SELECT CAST(id AS INT) AS id, k, s FROM t WHERE id < 100) TO '{other}'");
    session.collect(&sql).await.unwrap();
    let schema = "id BIGINT, k BIGINT, s VARCHAR, x DOUBLE";
    let path = folder.path().to_str().unwrap();
    let sql = format!("CREATE EXTERNAL TABLE u({schema}) STORED AS PARQUET LOCATION '{path}/'");
    session.collect(&sql).await.unwrap();
    let sql = "SELECT k, count(*), sum(id), count(x), max(s) FROM u GROUP BY k";
    same_without(&session, sql, "").await;
    let plan = analyzed(&session, sql).await;
    assert!(plan.contains("not_as_pages=["), "{plan}");
}

/// What is read as pages is kept as they have it, and folded as it lies there: dictionaries, values, NULLs.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_as_pages_is_kept() {
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
        let session = host_only();
        let path = folder.path().to_str().unwrap();
        session.register_parquet("t", path).await.unwrap();
        let all = "SELECT count(id), count(k), sum(d), max(x), max(s), max(day) FROM t";
        let plan = analyzed(&session, all).await;
        assert_eq!(counted(&plan, "row_groups_as_pages"), 4, "{plan}");
        let plan = analyzed(&session, all).await;
        assert!(plan.contains("host_tier_row_groups=4"), "{plan}");
        assert_eq!(counted(&plan, "folded_rows"), 20_000, "{plan}");
        // From here on the engine and DataFusion's operators both read what was kept.
        let without = over(folder.path(), 1).await;
        set(&without, "host_engine = 'off'").await;
        for sql in QUERIES.iter().chain(&["SELECT * FROM t"]) {
            let wanted = answer(&without, sql).await;
            for mode in ["auto", "off"] {
                set(&session, &format!("host_engine = '{mode}'")).await;
                assert_eq!(answer(&session, sql).await, wanted, "{what}, {mode}: {sql}");
            }
            let plan = analyzed(&session, sql).await;
            assert!(!plan.contains("row_groups_as_pages=4"), "{plan}");
        }
    }
}

/// Columns whose blocks were left out are not kept, and a row group that has no more than they is read again.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_read_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    let session = host_only();
    let path = folder.path().to_str().unwrap();
    session.register_parquet("t", path).await.unwrap();
    // The rows of one block of the second row group.
    let sql = "SELECT max(s), sum(id) FROM t WHERE id % 20000 BETWEEN 7000 AND 7010";
    for _ in 0..2 {
        let plan = analyzed(&session, sql).await;
        assert_eq!(counted(&plan, "row_groups_as_pages"), 4, "{plan}");
    }
    let of_ids = "SELECT sum(id) FROM t";
    let plan = analyzed(&session, of_ids).await;
    assert!(plan.contains("host_tier_row_groups=4"), "{plan}");
}

/// Filters that joins feed leave rows out of what is kept, too.
#[tokio::test(flavor = "multi_thread")]
async fn joins_filter_what_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    let session = host_only();
    let path = folder.path().to_str().unwrap();
    session.register_parquet("t", path).await.unwrap();
    let few = "CREATE TABLE b AS SELECT value * 997 AS id FROM range(20)";
    session.collect(few).await.unwrap();
    session
        .collect("SELECT sum(id), max(s) FROM t")
        .await
        .unwrap();
    let sql = "SELECT t.id, t.s FROM t JOIN b ON t.id = b.id";
    let plan = analyzed(&session, sql).await;
    assert!(plan.contains("host_tier_row_groups=4"), "{plan}");
    assert!(counted(&plan, "runtime_filtered_rows") > 15_000, "{plan}");
    let found = answer(&session, sql).await;
    set(&session, "cache = 'off'").await;
    set(&session, "host_engine = 'off'").await;
    assert_eq!(answer(&session, sql).await, found);
    assert!(found.len() > 10);
}

/// A table that is kept in host memory has the same answers, on the host alone and beside a device.
#[tokio::test(flavor = "multi_thread")]
async fn kept_tables_have_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..2 {
        let path = folder.path().join(format!("{file}.parquet"));
        write(&path, file * 12_000, (file + 1) * 12_000, small_pages());
    }
    let beside = simulated("1GB", &["replay_placement = 'HD'"]).await;
    for session in [host_only(), beside] {
        let path = folder.path().to_str().unwrap();
        session.register_parquet("t", path).await.unwrap();
        session.collect("CACHE TABLE t ON HOST").await.unwrap();
        let with_pages = compare(&session, "kept").await;
        assert_eq!(with_pages, 0);
        let plan = analyzed(&session, QUERIES[1]).await;
        assert!(plan.contains("host_tier_row_groups="), "{plan}");
        assert!(counted(&plan, "folded_rows") > 0, "{plan}");
        for row in [0, 8_191, 8_192, 23_999] {
            let sql = format!("SELECT k, sum(10 / (id - {row})) FROM t GROUP BY k");
            let mut told = Vec::new();
            for mode in ["off", "auto"] {
                set(&session, &format!("host_engine = '{mode}'")).await;
                told.push(session.collect(&sql).await.unwrap_err().to_string());
            }
            assert_eq!(told[0], told[1], "{sql}");
        }
    }
}

/// A file that is damaged, or goes, fails with the words of DataFusion's source.
#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_fail_as_without_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, 0, ROWS, small_pages());
    let whole = std::fs::read(&path).unwrap();
    let sql = "SELECT k, s, sum(d), count(x) FROM t GROUP BY k, s";
    for (at, length) in [(5_000, 400), (30_000, 30), (9, 1)] {
        let mut bytes = whole.clone();
        for byte in &mut bytes[at..at + length] {
            *byte ^= 0x5a;
        }
        std::fs::write(&path, bytes).unwrap();
        let mut told = Vec::new();
        for mode in ["off", "auto"] {
            let session = over(folder.path(), 1).await;
            set(&session, &format!("host_engine = '{mode}'")).await;
            told.push(match session.collect(sql).await {
                Ok(rows) => lines(&rows).join("\n"),
                Err(error) => format!("{:?}", error.kind()),
            });
        }
        assert_eq!(told[0], told[1], "at {at}");
    }
}

/// Row groups of which no entry passes, and blocks without a row that does, leave other columns unread.
#[tokio::test(flavor = "multi_thread")]
async fn filters_come_first() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    let session = over(folder.path(), 1).await;
    set(&session, "host_engine = 'auto'").await;
    let all = analyzed(
        &session,
        "SELECT k, sum(id), sum(d), max(day), max(s) FROM t GROUP BY k",
    )
    .await;
    let all = counted(&all, "bytes_read");
    for (filter, ruled_out) in [
        // Between the least and the greatest, so that statistics rule nothing out.
        ("s = 's20x'", 4),
        ("s LIKE '%x%'", 4),
        ("x = 3.25", 4),
        ("id % 7 = 9", 0),
    ] {
        let sql =
            format!("SELECT k, sum(id), sum(d), max(day), max(s) FROM t WHERE {filter} GROUP BY k");
        let plan = analyzed(&session, &sql).await;
        assert_eq!(answer(&session, &sql).await, Vec::<String>::new(), "{sql}");
        assert_eq!(counted(&plan, "row_groups_as_pages"), 4, "{plan}");
        assert_eq!(counted(&plan, "row_groups_ruled_out"), ruled_out, "{plan}");
        let read = counted(&plan, "bytes_read");
        assert!(
            read > 0 && read * 3 < all * 2,
            "{filter}: {read} of {all} bytes"
        );
    }
}

/// The page index selects rows of a row group, Bloom filters and statistics whole ones.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_ruled_out_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let properties = small_pages()
        .set_column_bloom_filter_enabled("s".into(), true)
        .set_column_bloom_filter_enabled("id".into(), true);
    write(&folder.path().join("t.parquet"), 0, ROWS, properties);
    let session = over(folder.path(), 2).await;
    for (filter, row_groups, rows) in [
        ("id BETWEEN 4000 AND 4100", 1, 1_400),
        ("id IN (3, 19999)", 2, 1_400),
        ("id > 12500", 2, 8_000),
        ("s = 's20x'", 0, 0),
        ("s IN ('s20x', 's3')", 4, 20_000),
        ("id = 30000", 0, 0),
    ] {
        let sql = format!("SELECT k, count(*), sum(d), max(s) FROM t WHERE {filter} GROUP BY k");
        same_without(&session, &sql, "").await;
        let plan = analyzed(&session, &sql).await;
        assert_eq!(counted(&plan, "row_groups_as_pages"), row_groups, "{plan}");
        assert!(counted(&plan, "folded_rows") <= rows, "{plan}");
    }
}

/// Once a state has left because it saves little, row groups are not begun as pages, of which dictionaries
/// would be read and kept for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_begins_no_row_group() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    let session = over(folder.path(), 1).await;
    let threshold = "SET datafusion.execution.skip_partial_aggregation_probe_rows_threshold = 4000";
    session.collect(threshold).await.unwrap();
    let grouped = "SELECT id, max(s) AS s FROM t GROUP BY id";
    let sql = format!("SELECT count(*), sum(id), min(s), max(s) FROM ({grouped})");
    same_without(&session, &sql, "").await;
    let plan = analyzed(&session, grouped).await;
    assert!(plan.contains("about as many groups as rows"), "{plan}");
    assert_eq!(counted(&plan, "row_groups_as_pages"), 1, "{plan}");
}

/// A top-k has its bound raised by the row groups with the greatest values, and others are not read.
#[tokio::test(flavor = "multi_thread")]
async fn a_top_k_reads_few_row_groups() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("t.parquet"), 0, ROWS, small_pages());
    for (order, row_groups) in [
        ("id DESC", Some(2)),
        ("id", Some(1)),
        ("day DESC NULLS LAST, id", Some(2)),
        // NULL comes first, and there are enough in the first row group.
        ("s NULLS FIRST, id", Some(1)),
        ("id + 1 DESC", None),
        ("x DESC, id", None),
        ("k DESC NULLS LAST, d, id", Some(4)),
    ] {
        let sql = format!("SELECT id, k, d, s FROM t ORDER BY {order} LIMIT 7");
        let session = over(folder.path(), 1).await;
        // The bound is known when a batch has left, which may have rows of several row groups.
        let batches = "SET datafusion.execution.batch_size = 1000";
        session.collect(batches).await.unwrap();
        let wanted = same_without(&session, &sql, "").await;
        let plan = analyzed(&session, &sql).await;
        let read = counted(&plan, "row_groups_as_pages");
        assert!(
            row_groups.is_none_or(|wanted| read == wanted),
            "{order}: {plan}"
        );
        // Rows that are too few for a batch leave at the end of a row group, once there is a bound.
        if order == "id DESC" {
            let plan = analyzed(&over(folder.path(), 1).await, &sql).await;
            assert_eq!(counted(&plan, "row_groups_as_pages"), 3, "{plan}");
        }
        // The same with row groups in the host tier, and partitions that share a bound.
        let session = host_only();
        let path = folder.path().to_str().unwrap();
        session.register_parquet("t", path).await.unwrap();
        answer(
            &session,
            "SELECT max(id), max(k), max(d), max(s), max(x), max(day) FROM t",
        )
        .await;
        assert_eq!(answer(&session, &sql).await, wanted, "{sql}");
        assert_eq!(
            answer(&over(folder.path(), 3).await, &sql).await,
            wanted,
            "{sql}"
        );
    }
}

/// Files of other machines are fetched, those of filters first.
#[tokio::test(flavor = "multi_thread")]
async fn other_stores_are_asked_for_column_chunks() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let path = folder.path().join(format!("{file}.parquet"));
        write(&path, file * 7_000, (file + 1) * 7_000, small_pages());
    }
    let builder = Session::builder().target_partitions(2);
    let session = builder.build().unwrap();
    let store = CountingStore::streaming_under(&session);
    set(&session, "cache = 'off'").await;
    let path = folder.path().to_str().unwrap();
    session.register_parquet("t", path).await.unwrap();
    let with_pages = compare(&session, "another store").await;
    assert!(with_pages >= 9, "{with_pages} queries read pages");
    assert!(store.reads() > 0);
}

/// Row groups of one row and of many, and files without rows.
#[tokio::test(flavor = "multi_thread")]
async fn row_groups_of_all_sizes_have_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let sizes = [
        (0, 0, 10),
        (0, 60, 1),
        (60, 3_000, 2_047),
        (3_000, 9_000, 2_049),
        (9_000, ROWS, 1 << 20),
    ];
    for (from, to, size) in sizes {
        let path = folder.path().join(format!("{from}-{to}.parquet"));
        let properties = WriterProperties::builder().set_max_row_group_row_count(Some(size));
        write(&path, from, to, properties);
    }
    for partitions in [1, 5] {
        let session = over(folder.path(), partitions).await;
        let what = format!("{partitions} partitions");
        let with_pages = compare(&session, &what).await;
        assert!(with_pages >= 9, "{what}: {with_pages} queries read pages");
    }
}

/// Many groups of long strings under a small limit: states leave, and pages go to the source if they must.
#[tokio::test(flavor = "multi_thread")]
async fn little_memory_changes_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let path = path.to_str().unwrap();
    let source = "SELECT value AS v, 'a string that is long: ' || (value % 90000) AS s, \
        'another one, ' || (value * 7919 % 300000) AS u FROM generate_series(1, 300000)";
    let maker = host_only();
    maker
        .collect(&format!("COPY ({source}) TO '{path}'"))
        .await
        .unwrap();
    let sql = "SELECT count(*), sum(c), max(m) FROM \
        (SELECT s, count(*) AS c, max(u) AS m FROM t GROUP BY s)";
    maker.register_parquet("t", path).await.unwrap();
    let wanted = answer(&maker, sql).await;
    for megabytes in [10_u64, 12, 16, 40, 60] {
        let limit = megabytes << 20;
        let builder = Session::builder().target_partitions(2).memory_limit(limit);
        let session = builder.build().unwrap();
        set(&session, "host_engine = 'auto'").await;
        session.register_parquet("t", path).await.unwrap();
        assert_eq!(answer(&session, sql).await, wanted, "{limit} bytes");
        let plan = analyzed(&session, sql).await;
        assert_eq!(counted(&plan, "row_groups_as_pages"), 1, "{plan}");
        // Somewhere in the row group memory is refused, and the source reads the rest of it.
        let is_left = plan.contains("not_as_pages=[no memory for ");
        assert_eq!(is_left, megabytes < 20, "{limit} bytes: {plan}");
        let reserved = session.context().runtime_env().memory_pool.reserved();
        assert_eq!(reserved, 0, "{limit} bytes");
    }
}

/// A stream that is dropped lets its state, its pages and its files go at once.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_stream_ends_its_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let path = path.to_str().unwrap();
    let maker = host_only();
    let sql = format!(
        "COPY (SELECT value AS v, value % 1000 AS k FROM generate_series(1, 2000000)) TO '{path}'"
    );
    maker.collect(&sql).await.unwrap();
    let session = host_only();
    set(&session, "host_engine = 'auto'").await;
    set(&session, "cache = 'off'").await;
    session.register_parquet("t", path).await.unwrap();
    let sql = "SELECT v % 1000003 AS g, sum(v * k), max(v), min(k) FROM t GROUP BY v % 1000003";
    let mut rows = session.execute(sql).await.unwrap();
    let polled = tokio::time::timeout(Duration::from_millis(100), rows.next()).await;
    assert!(polled.is_err(), "it ended sooner than expected");
    let began = Instant::now();
    drop(rows);
    let reserved = || session.context().runtime_env().memory_pool.reserved();
    while reserved() > 0 {
        assert!(began.elapsed() < Duration::from_secs(1), "{}", reserved());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
