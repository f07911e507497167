//! Tasks of a session, mapped frames, and frames that choose where they run.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema};
use datafusion::arrow::error::ArrowError;
use datafusion::datasource::MemTable;
use datafusion::functions_aggregate::expr_fn::sum;
use datafusion::prelude::{col, lit};
use tidegate::{
    Backend, ErrorKind, FrameExt, MapOptions, Phase, Query, Session, Task, TaskError, TaskGraph,
};

use crate::support::{answer, host_only, lines, rows, sides, simulated};

fn total(rows: &[RecordBatch]) -> i64 {
    let columns = rows
        .iter()
        .map(|rows| rows.column(0).as_primitive::<Int64Type>());
    columns
        .flat_map(|column| column.iter().flatten().collect::<Vec<_>>())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_are_tasks_and_read_the_rows_of_others() {
    let session = host_only();
    session.register_batch("t", rows(0, 1000)).unwrap();
    let all = session.submit("SELECT v FROM t WHERE v >= 10").unwrap();
    let even = Query::new("SELECT a.v FROM temp.all_rows a JOIN t ON a.v = t.v WHERE a.v % 2 = 0");
    let even = session.submit(even.table("all_rows", &all)).unwrap();
    let frame = session.sql("SELECT count(*) FROM t").await.unwrap();
    let counted = session.submit(frame).unwrap();
    assert_eq!(
        total(&even.clone().await.unwrap()),
        (10..1000).step_by(2).sum::<i64>()
    );
    assert_eq!(total(&counted.await.unwrap()), 1000);
    let progress = all.progress();
    assert_eq!((progress.phase, progress.done), (Phase::Done, 990));
    // The table was the query's own.
    assert!(
        session
            .collect("SELECT * FROM temp.all_rows")
            .await
            .is_err()
    );
    // No rows still have columns.
    let none = session.submit("SELECT v FROM t WHERE v < 0").unwrap();
    let empty = Query::new("SELECT count(*) FROM temp.none").table("none", &none);
    assert_eq!(total(&session.submit(empty).unwrap().await.unwrap()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_fails_fails_what_reads_it() {
    let session = host_only();
    let bad = session.submit("SELECT 1 / 0").unwrap();
    let next = session
        .submit(Query::new("SELECT * FROM temp.bad").table("bad", &bad))
        .unwrap();
    let error = tidegate::Error::from(bad.await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Sql);
    let error = tidegate::Error::from(next.await.unwrap_err());
    assert!(error.to_string().contains("was not run"), "{error}");
    let unknown = session
        .submit("SELECT * FROM nowhere")
        .unwrap()
        .await
        .unwrap_err();
    assert!(unknown.to_string().contains("nowhere"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_query_ends_it() {
    let session = host_only();
    let long = "SELECT count(*) FROM generate_series(1, 100000000) a JOIN generate_series(1, 100000000) b ON a.value % 7 = b.value % 7";
    let long = session.submit(long).unwrap();
    while long.progress().phase != Phase::Running {
        tokio::task::yield_now().await;
    }
    long.cancel();
    let error = tidegate::Error::from(long.await.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_of_tasks_is_taken_from_that_of_statements() {
    let session = Session::builder().memory_limit(100 << 20).build().unwrap();
    let pool = Arc::clone(&session.context().runtime_env().memory_pool);
    let task = Task::call(move |_| Ok::<usize, TaskError>(pool.reserved()));
    let reserved = session
        .submit(task.memory(60 << 20))
        .unwrap()
        .await
        .unwrap();
    assert!(*reserved >= 60 << 20, "{reserved}");
    assert_eq!(session.context().runtime_env().memory_pool.reserved(), 0);
    let huge = Task::call(|_| Ok::<(), TaskError>(())).memory(200 << 20);
    let error = session.submit(huge).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted);
    assert!(
        error.to_string().contains("tidegate.memory_limit"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn slots_are_those_of_the_machine_and_the_builder() {
    let session = Session::builder().task_slots("licence", 3).build().unwrap();
    let slots = session.task_slots();
    assert_eq!(slots["licence"], 3);
    assert_eq!(slots["device"] as usize, session.runtime().devices().len());
    assert!(slots["cpu"] >= 1);
    let mut graph = TaskGraph::new();
    graph.add("a", ["b"], |_| Ok::<(), TaskError>(()));
    graph.add("b", ["a"], |_| Ok::<(), TaskError>(()));
    let error = session.submit_graph(graph).unwrap_err();
    assert!(
        error.kind() == ErrorKind::Sql && error.to_string().contains("a → b → a"),
        "{error}"
    );
}

fn doubled(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let v = batch
        .column_by_name("v")
        .ok_or_else(|| ArrowError::SchemaError("no v".into()))?;
    let v = v.as_primitive::<Int64Type>();
    let w: Int64Array = v.iter().map(|v| v.map(|v| v * 2)).collect();
    RecordBatch::try_from_iter([("anything", Arc::new(w) as _)])
}

fn declared(nullable: bool) -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new(
        "w",
        DataType::Int64,
        nullable,
    )]))
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_are_mapped_by_batch_and_go_on_as_frames() {
    let session = simulated("1GB", &["placement = 'device'"]).await;
    let partitions = (0..4)
        .map(|part| vec![rows(part * 100, part * 100 + 100)])
        .collect();
    let table = MemTable::try_new(rows(0, 0).schema(), partitions).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    let options = MapOptions {
        name: Some("doubled".into()),
        memory_bytes: 1 << 20,
        concurrency: Some(2),
        ..MapOptions::default()
    };
    let frame = session
        .sql("SELECT k, v FROM t WHERE v >= 200")
        .await
        .unwrap();
    let mapped = frame
        .map_partitions(declared(true), options, doubled)
        .unwrap();
    assert_eq!(mapped.schema().field(0).name(), "w");
    let plan = mapped.clone().create_physical_plan().await.unwrap();
    let shown = datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string();
    assert!(shown.contains("MapExec: doubled"), "{shown}");
    let big = mapped.clone().filter(col("w").gt(lit(500_i64))).unwrap();
    let summed = big.aggregate(vec![], vec![sum(col("w"))]).unwrap();
    let expected: i64 = (200..400).map(|v| v * 2).filter(|w| *w > 500).sum();
    assert_eq!(total(&summed.collect().await.unwrap()), expected);
    assert_eq!(mapped.count().await.unwrap(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mapping_that_fails_says_what_it_did() {
    let session = host_only();
    session.register_batch("t", rows(0, 10)).unwrap();
    type Body = fn(RecordBatch) -> Result<RecordBatch, ArrowError>;
    let bodies: [(Body, bool, &str); 4] = [
        (
            |_| Err(ArrowError::ComputeError("no luck".into())),
            true,
            "no luck",
        ),
        (|_| panic!("oh dear"), true, "the closure panicked: oh dear"),
        (Ok, true, "was declared"),
        (
            |batch| RecordBatch::try_from_iter([("w", batch.column(0).slice(0, 10))]),
            false,
            "null",
        ),
    ];
    for (body, nullable, wanted) in bodies {
        let frame = session.sql("SELECT k, v FROM t").await.unwrap();
        let mapped = frame
            .map_partitions(declared(nullable), MapOptions::default(), body)
            .unwrap();
        let error = tidegate::Error::from(mapped.collect().await.unwrap_err());
        assert_eq!(error.kind(), ErrorKind::Sql, "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let greedy = MapOptions {
        memory_bytes: 1 << 60,
        ..MapOptions::default()
    };
    let frame = session.sql("SELECT v FROM t").await.unwrap();
    let error = frame
        .map_partitions(declared(true), greedy, doubled)
        .unwrap()
        .collect()
        .await;
    let error = tidegate::Error::from(error.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::ResourcesExhausted, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_frame_runs_where_it_is_told() {
    let session = simulated("1GB", &["placement = 'auto'"]).await;
    session.register_batch("t", rows(0, 3000)).unwrap();
    let sql = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k";
    let frame = session.sql(sql).await.unwrap();
    let on_host = frame
        .clone()
        .to_backend(Backend::Host)
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(sides(&session).1, (0, 0));
    let on_device = frame
        .clone()
        .to_backend(Backend::Device)
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(sides(&session).1.1, 3000);
    assert_eq!(lines(&on_host), lines(&on_device));
    assert_eq!(answer(&session, sql).await, lines(&on_host));
    assert!(
        "gpu"
            .parse::<Backend>()
            .unwrap_err()
            .to_string()
            .contains("'host', 'device'")
    );
    assert_eq!("strict".parse::<Backend>().unwrap(), Backend::Strict);
    // Without a device strict fails, and only for that frame.
    let session = host_only();
    session.register_batch("t", rows(0, 10)).unwrap();
    let frame = session.sql(sql).await.unwrap();
    let strict = frame
        .clone()
        .to_backend(Backend::Strict)
        .unwrap()
        .collect()
        .await;
    assert!(strict.is_err());
    assert_eq!(lines(&frame.collect().await.unwrap()).len(), 8 + 1);
}
