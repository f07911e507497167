//! A query that lacks memory is planned again with operators that spill: its rows come once, whoever reads
//! its partitions in whatever order, its history says so.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::physical_plan::ExecutionPlanProperties;
use futures::TryStreamExt;
use futures::future::join_all;
use tidegate::{QueryState, Session};

/// Joins more than fits in memory. Its rows come in several partitions, none before all joins are done.
const JOIN: &str = "SELECT abs(x) AS x, max(y) AS y FROM generate_series(1, 300000) a(x) \
                    JOIN generate_series(100001, 400000) b(y) ON a.x = b.y GROUP BY abs(x)";

const ROWS: usize = 200_000;

fn session() -> Session {
    let builder = Session::builder().target_partitions(4);
    builder.memory_limit(6 << 20).build().unwrap()
}

fn note_of_last(session: &Session) -> String {
    let report = session.last_report().unwrap();
    assert_eq!(report.state, QueryState::Finished, "{report:?}");
    assert_eq!(report.rows, ROWS as u64);
    report.note.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_lacks_memory_gives_each_row_once_and_is_noted() {
    let session = session();
    let batches = session.collect(JOIN).await.unwrap();
    let mut found: Vec<i64> = batches
        .iter()
        .flat_map(|batch| {
            batch
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    found.sort_unstable();
    assert!(found.iter().copied().eq(100_001..=300_000));
    let note = note_of_last(&session);
    assert!(
        note.contains("planned again") && note.contains("HashJoinInput"),
        "{note}"
    );
    let told = "SELECT note FROM system.queries WHERE note LIKE 'planned again%' AND rows > 0";
    let told = session.collect(told).await.unwrap();
    assert_eq!(told.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    // Where it fits nothing is noted.
    session
        .collect("SELECT count(*) FROM generate_series(1, 10)")
        .await
        .unwrap();
    assert_eq!(session.last_report().unwrap().note, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_may_be_read_in_turn_or_at_once() {
    for at_once in [false, true] {
        let session = session();
        let frame = session.sql(JOIN).await.unwrap();
        let task = std::sync::Arc::new(frame.task_ctx());
        let plan = frame.create_physical_plan().await.unwrap();
        let partitions = plan.output_partitioning().partition_count();
        assert!(partitions > 1);
        let read = |partition: usize| {
            let rows = plan
                .execute(partition, std::sync::Arc::clone(&task))
                .unwrap();
            async move {
                let batches: Vec<_> = rows.try_collect().await.unwrap();
                batches.iter().map(|batch| batch.num_rows()).sum::<usize>()
            }
        };
        let rows: usize = if at_once {
            let reads: Vec<_> = (0..partitions).map(read).collect();
            join_all(reads).await.into_iter().sum()
        } else {
            let mut rows = 0;
            for partition in 0..partitions {
                rows += read(partition).await;
            }
            rows
        };
        assert_eq!(rows, ROWS, "at once: {at_once}");
        note_of_last(&session);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_shows_the_plan_that_ran() {
    let session = session();
    let explained = session
        .collect(&format!("EXPLAIN ANALYZE {JOIN}"))
        .await
        .unwrap();
    let text = explained[0].column(1).as_string::<i32>().value(0);
    assert!(text.contains("SortMergeJoinExec"), "{text}");
    assert!(!text.contains("HashJoinExec"), "{text}");
}
