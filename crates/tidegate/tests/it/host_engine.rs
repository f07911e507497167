//! The host engine inside plans: the same rows as DataFusion's operators, each counted once, whatever is
//! declined, refused or raised on the way.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::StreamExt;
use tidegate::Session;

use crate::support::{answer, host_only, simulated, write_parquet};

/// Queries over `t(k, v, d, x, b, s, day)`.
const QUERIES: [&str; 16] = [
    "SELECT count(*), sum(v), min(v), max(v) FROM t",
    "SELECT count(v), count(*) FROM t WHERE v > 1000000",
    "SELECT k, count(*), sum(v), avg(v) FROM t GROUP BY k",
    "SELECT k, s, sum(d), min(d), max(d), avg(d) FROM t GROUP BY k, s",
    "SELECT s, min(day), max(day), count(x) FROM t WHERE v % 3 = 1 GROUP BY s",
    "SELECT s, sum(v) FROM t WHERE s IN ('s1', 's2') AND k IS NOT NULL GROUP BY s",
    "SELECT sum(v * 2 - k), sum(d * d), sum(d * (1 - d)) FROM t WHERE b",
    "SELECT b, k, count(*) FROM t WHERE v BETWEEN 100 AND 9000 GROUP BY b, k",
    "SELECT v, count(*), sum(k) FROM t GROUP BY v",
    "SELECT day, s, count(*) FROM t WHERE day < DATE '1970-03-01' GROUP BY day, s",
    "SELECT CASE WHEN v > 50 THEN k ELSE -k END AS g, sum(v) FROM t GROUP BY g",
    "SELECT sum(v) FILTER (WHERE k = 1), count(*) FILTER (WHERE s = 's0') FROM t",
    "SELECT k, sum(v) FROM t WHERE v > (SELECT avg(v) FROM t) GROUP BY k",
    "SELECT DISTINCT k, s FROM t",
    "SELECT x, count(*) FROM t GROUP BY x",
    "SELECT v + 1, s FROM t WHERE k = 3 AND v < 500",
];

const ROWS: &str = "SELECT CASE WHEN value % 11 = 0 THEN NULL ELSE value % 7 END AS k, value AS v, \
    CAST(value % 1000 AS DECIMAL(12, 2)) / 4 AS d, \
    CASE WHEN value % 5000 = 4999 THEN CAST('NaN' AS DOUBLE) WHEN value % 13 = 0 THEN NULL \
    ELSE CAST(value % 17 AS DOUBLE) / 2 END AS x, \
    CASE WHEN value % 19 = 0 THEN NULL ELSE value % 2 = 0 END AS b, \
    CASE WHEN value % 23 = 0 THEN NULL ELSE 's' || (value % 5) END AS s, \
    CAST(CAST(value % 100 AS INT) AS DATE) AS day FROM generate_series(1, 20000)";

async fn create(session: &Session) {
    set(session, "host_engine = 'auto'").await;
    let sql = format!("CREATE TABLE t AS {ROWS}");
    session.collect(&sql).await.unwrap();
}

pub(crate) async fn set(session: &Session, setting: &str) {
    let sql = format!("SET tidegate.{setting}");
    session.collect(&sql).await.unwrap();
}

/// Returns the text of a plan after it has run.
pub(crate) async fn analyzed(session: &Session, sql: &str) -> String {
    let sql = format!("EXPLAIN ANALYZE {sql}");
    answer(session, &sql).await.join("\n")
}

/// Sums a counter over the host engine's nodes of a plan that has run.
pub(crate) fn counted(plan: &str, name: &str) -> u64 {
    let name = format!("{name}=");
    let lines = plan.lines().filter(|line| line.contains("HostFoldExec"));
    let values = lines.flat_map(|line| line.split(name.as_str()).skip(1));
    let number = |text: &str| -> f64 {
        let end = text.find([',', ']']).unwrap_or(text.len());
        let (digits, unit) = match text[..end].trim().split_once(' ') {
            Some((digits, unit)) => (digits, unit),
            None => (text[..end].trim(), ""),
        };
        let scale = match unit {
            "" => 1.0,
            "K" => 1e3,
            "M" => 1e6,
            unit => panic!("{text}: unit {unit}"),
        };
        digits.parse::<f64>().unwrap() * scale
    };
    values.map(|text| number(text) as u64).sum()
}

/// Compares the answers of a query without and with the engine, which is on from then; returns them.
pub(crate) async fn same_without(session: &Session, sql: &str, what: &str) -> Vec<String> {
    set(session, "host_engine = 'off'").await;
    let wanted = answer(session, sql).await;
    set(session, "host_engine = 'auto'").await;
    assert_eq!(answer(session, sql).await, wanted, "{what} {sql}");
    wanted
}

/// Compares the answers with and without the engine, and returns how many of the queries it ran.
async fn compare(session: &Session, what: &str) -> usize {
    let mut ran = 0;
    for sql in QUERIES {
        set(session, "host_engine = 'off'").await;
        let wanted = answer(session, sql).await;
        let plan = answer(session, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(!plan.contains("HostFoldExec"), "{what}: {plan}");
        set(session, "host_engine = 'auto'").await;
        let given = answer(session, sql).await;
        assert_eq!(given, wanted, "{what}: {sql}");
        let plan = answer(session, &format!("EXPLAIN {sql}")).await.join("\n");
        ran += usize::from(plan.contains("HostFoldExec"));
    }
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_tables_have_the_same_answers() {
    for partitions in [1, 3] {
        let builder = Session::builder().target_partitions(partitions);
        let session = builder.build().unwrap();
        create(&session).await;
        let ran = compare(&session, &format!("{partitions} partitions")).await;
        assert!(ran >= 10, "{ran} queries ran on the engine");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_files_have_the_same_answers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.parquet");
    let file = file.to_str().unwrap();
    let session = host_only();
    let sql = format!("COPY ({ROWS}) TO '{file}' OPTIONS (max_row_group_size 6000)");
    session.collect(&sql).await.unwrap();
    session.register_parquet("t", file).await.unwrap();
    let ran = compare(&session, "parquet").await;
    assert!(ran >= 10, "{ran} queries ran on the engine");
}

/// Morsels that a device ran, and those that it gave back, add up with what the engine folded.
#[tokio::test(flavor = "multi_thread")]
async fn host_and_device_share_a_region() {
    let mixed = ["replay_placement = 'HD'", "morsel_rows = 700"];
    let session = simulated("1GB", &mixed).await;
    create(&session).await;
    let ran = compare(&session, "mixed").await;
    assert!(ran >= 10, "{ran} queries ran on the engine");
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 3, 9_000, 500);
    let path = folder.path().to_str().unwrap();
    session.register_parquet("p", path).await.unwrap();
    for sql in [
        "SELECT k, count(*), sum(v) FROM p GROUP BY k",
        "SELECT s, max(v) FROM p WHERE v % 2 = 0 GROUP BY s",
    ] {
        same_without(&session, sql, "").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_why_the_engine_does_not_run() {
    let session = host_only();
    create(&session).await;
    for (setting, sql, reason) in [
        (
            "float_sums = 'any'",
            "SELECT k, median(v) FROM t GROUP BY k",
            "not lowered: function median",
        ),
        (
            "float_sums = 'any'",
            "SELECT DISTINCT k FROM t LIMIT 3",
            "no_host_engine=[LIMIT over groups]",
        ),
        (
            "float_sums = 'ordered'",
            "SELECT k, sum(x) FROM t GROUP BY k",
            "not lowered: function exact_sum",
        ),
    ] {
        set(&session, setting).await;
        let plan = answer(&session, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(!plan.contains("HostFoldExec"), "{sql}: {plan}");
        assert!(plan.contains(reason), "{sql}: {plan}");
    }
    // What does not round runs there.
    let plan = answer(&session, "EXPLAIN SELECT k, sum(v) FROM t GROUP BY k").await;
    assert!(plan.join("\n").contains("HostFoldExec"), "{plan:?}");
}

/// Rows that the engine declines are run by DataFusion's operators from that block on, and what raises
/// raises there.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_those_of_the_operators() {
    let session = host_only();
    create(&session).await;
    for (sql, raises) in [
        ("SELECT k, sum(10 / (v - 15000)) FROM t GROUP BY k", true),
        ("SELECT sum(CAST(v AS TINYINT)) FROM t WHERE v < 200", true),
        ("SELECT count(*) FROM t WHERE 1 / (v - 777) > 0", true),
        (
            "SELECT sum(10 / (v - 15000)) FROM t WHERE v <> 15000",
            false,
        ),
    ] {
        let mut told = Vec::new();
        for mode in ["off", "auto"] {
            set(&session, &format!("host_engine = '{mode}'")).await;
            told.push(match session.collect(sql).await {
                Ok(rows) => (false, crate::support::lines(&rows).join("\n")),
                Err(error) => (true, format!("{:?}: {error}", error.kind())),
            });
        }
        assert_eq!(told[0], told[1], "{sql}");
        assert_eq!(told[0].0, raises, "{sql}: {}", told[0].1);
    }
}

/// Statistics of which the later rows keep nothing: those are folded by a program that assumes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn statistics_that_are_wrong_change_no_answer() {
    let session = host_only();
    let batch = |from: i64, to: i64, scale: i64| {
        let keys = Int64Array::from_iter_values((from..to).map(|row| row % 5 * scale));
        let values = Int64Array::from_iter((from..to).map(|row| (row % 9 != 0).then_some(row)));
        let columns: [(&str, ArrayRef, bool); 2] =
            [("k", Arc::new(keys), false), ("v", Arc::new(values), true)];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    };
    let batches = vec![batch(0, 5_000, 1), batch(5_000, 10_000, 1 << 40)];
    let table = Lying::new(batches, (0, 4), (0, 4_999));
    session.register_table("t", Arc::new(table)).unwrap();
    let sql = "SELECT k, count(*), sum(v), sum(v * k), max(v) FROM t GROUP BY k";
    same_without(&session, sql, "").await;
    let plan = analyzed(&session, sql).await;
    assert_eq!(counted(&plan, "folded_rows"), 10_000, "{plan}");
    assert_eq!(counted(&plan, "declined_rows"), 0, "{plan}");
}

/// One NaN key among many: its block goes to the operators, all others stay with the engine.
#[tokio::test(flavor = "multi_thread")]
async fn declined_blocks_are_counted_once() {
    let session = Session::builder().target_partitions(1).build().unwrap();
    let keys = (0..100_000).map(|row| match row {
        70_000 => f64::NAN,
        70_001 => -0.0,
        row => f64::from(row % 10),
    });
    let keys: ArrayRef = Arc::new(Float64Array::from_iter_values(keys));
    let batch = RecordBatch::try_from_iter([("x", keys)]).unwrap();
    session.register_batch("t", batch).unwrap();
    let sql = "SELECT x, count(*) FROM t GROUP BY x";
    same_without(&session, sql, "").await;
    let plan = analyzed(&session, sql).await;
    let (folded, declined) = (
        counted(&plan, "folded_rows"),
        counted(&plan, "declined_rows"),
    );
    assert!(plan.contains("HostFoldExec"), "{plan}");
    assert!(folded + declined > 99_000, "{plan}");
}

/// A state that finds no memory leaves as rows, and the query goes on.
#[tokio::test(flavor = "multi_thread")]
async fn little_memory_changes_no_answer() {
    let build = |bytes: Option<u64>| {
        let builder = Session::builder().target_partitions(2);
        match bytes {
            Some(bytes) => builder.memory_limit(bytes).build().unwrap(),
            None => builder.build().unwrap(),
        }
    };
    let source = "(SELECT value % 200000 AS k, value AS v FROM generate_series(1, 600000))";
    let sql = format!(
        "SELECT count(*), sum(c), sum(s) FROM (SELECT k, count(*) AS c, sum(v) AS s FROM {source} GROUP BY k)"
    );
    let wanted = answer(&build(None), &sql).await;
    let session = build(Some(24 << 20));
    set(&session, "host_engine = 'auto'").await;
    assert_eq!(answer(&session, &sql).await, wanted);
}

/// Groups that are about as many as rows leave early, if they cannot be records: extremes of strings cannot.
#[tokio::test(flavor = "multi_thread")]
async fn states_that_save_little_leave_early() {
    let session = Session::builder().target_partitions(1).build().unwrap();
    let sql = "CREATE TABLE t AS SELECT value AS k, value % 3 AS v, 'w' || (value % 3) AS w \
        FROM generate_series(1, 500000)";
    session.collect(sql).await.unwrap();
    let grouped = "SELECT k, sum(v) AS s, max(w) AS w FROM t GROUP BY k";
    let sql = format!("SELECT count(*), sum(k), sum(s), min(w) FROM ({grouped})");
    same_without(&session, &sql, "").await;
    let plan = analyzed(&session, grouped).await;
    assert_eq!(counted(&plan, "early_states"), 1, "{plan}");
    assert!(plan.contains("about as many groups as rows"), "{plan}");
}

/// A stream that is dropped lets its state go at once.
#[tokio::test(flavor = "multi_thread")]
async fn dropping_a_stream_ends_its_work() {
    let session = host_only();
    set(&session, "host_engine = 'auto'").await;
    let sql = "SELECT value % 1000003 AS k, sum(value) FROM generate_series(1, 400000000) \
        GROUP BY value % 1000003";
    let mut rows = session.execute(sql).await.unwrap();
    let polled = tokio::time::timeout(Duration::from_millis(400), rows.next()).await;
    assert!(polled.is_err(), "it ended sooner than expected");
    let began = Instant::now();
    drop(rows);
    let reserved = || session.context().runtime_env().memory_pool.reserved();
    while reserved() > 0 {
        assert!(began.elapsed() < Duration::from_secs(5), "{}", reserved());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A table of two columns whose statistics are not those of its rows.
#[derive(Debug)]
struct Lying {
    batches: Vec<RecordBatch>,
    ranges: [(i64, i64); 2],
}

impl Lying {
    fn new(batches: Vec<RecordBatch>, keys: (i64, i64), values: (i64, i64)) -> Self {
        Self {
            batches,
            ranges: [keys, values],
        }
    }
}

#[async_trait]
impl TableProvider for Lying {
    fn schema(&self) -> SchemaRef {
        self.batches[0].schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| vec![0, 1]);
        let project = |batch: &RecordBatch| Ok(batch.project(&columns)?);
        let batches = self
            .batches
            .iter()
            .map(project)
            .collect::<Result<Vec<_>>>()?;
        let column = |&index: &usize| {
            let (low, high) = self.ranges[index];
            let exact = |value| Precision::Exact(ScalarValue::Int64(Some(value)));
            ColumnStatistics {
                null_count: Precision::Exact(0),
                min_value: exact(low),
                max_value: exact(high),
                ..ColumnStatistics::new_unknown()
            }
        };
        let statistics = Statistics {
            num_rows: Precision::Absent,
            total_byte_size: Precision::Absent,
            column_statistics: columns.iter().map(column).collect(),
        };
        let schema = batches[0].schema();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(Arc::new(LyingExec {
            batches,
            statistics: Arc::new(statistics),
            properties: Arc::new(properties),
        }))
    }
}

#[derive(Debug)]
struct LyingExec {
    batches: Vec<RecordBatch>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

impl DisplayAs for LyingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LyingExec")
    }
}

impl ExecutionPlan for LyingExec {
    fn name(&self) -> &str {
        "LyingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = self.batches[0].schema();
        let stream = MemoryStream::try_new(self.batches.clone(), schema, None)?;
        Ok(Box::pin(stream))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&self.statistics))
    }
}

/// DataFusion looks values up in a set; comparing each row with each item would be slow, and deep.
#[tokio::test(flavor = "multi_thread")]
async fn long_lists_are_left_to_the_operators() {
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, 9_000, 3_000);
    let path = folder.path().to_string_lossy();
    let device = simulated("1GB", &["placement = 'device'"]).await;
    let host = host_only();
    for session in [&host, &device] {
        session.register_parquet("t", &path).await.unwrap();
    }
    for (items, runs, reason) in [
        (100, true, "HostFoldExec"),
        (300, false, "300 comparisons for each row, on the host"),
        (20_000, false, "an IN list of 20000 items"),
    ] {
        let list: Vec<String> = (0..items).map(|item| (item * 3).to_string()).collect();
        let list = list.join(", ");
        let sql = format!("SELECT count(*), sum(v) FROM t WHERE v IN ({list})");
        set(&host, "host_engine = 'off'").await;
        let wanted = answer(&host, &sql).await;
        set(&host, "host_engine = 'auto'").await;
        for session in [&host, &device] {
            assert_eq!(answer(session, &sql).await, wanted, "{items} items");
        }
        let plan = answer(&host, &format!("EXPLAIN {sql}")).await.join("\n");
        assert_eq!(plan.contains("HostFoldExec"), runs, "{items} items");
        assert!(plan.contains(reason), "{items} items: no {reason}");
    }
}
