//! Panics and cancelled tasks under a guard.

use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::StreamExt;
use tidegate::ErrorKind;
use tokio_util::sync::CancellationToken;

use super::{GuardedTask, guarded};
use crate::told::Told;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]))
}

/// Some batches, and then a panic, or nothing for ever.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    batches: usize,
    panics: bool,
}

impl PartitionStream for Rows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let column = Arc::new(Int64Array::from(vec![1]));
        let batch = RecordBatch::try_new(schema(), vec![column]).unwrap();
        let batches = futures::stream::iter(vec![batch; self.batches]).map(Ok);
        let panics = self.panics;
        let end = futures::stream::once(async move {
            match panics {
                true => panic!("a defect"),
                false => std::future::pending().await,
            }
        });
        Box::pin(RecordBatchStreamAdapter::new(schema(), batches.chain(end)))
    }
}

/// Two partitions under an operator that reads them in tasks of its own.
fn stage(panics: bool) -> Arc<dyn ExecutionPlan> {
    let rows = || -> Arc<dyn PartitionStream> {
        Arc::new(Rows {
            schema: schema(),
            batches: 3,
            panics,
        })
    };
    let leaf =
        StreamingTableExec::try_new(schema(), vec![rows(), rows()], None, [], false, None).unwrap();
    Arc::new(CoalescePartitionsExec::new(Arc::new(leaf)))
}

fn task() -> GuardedTask {
    GuardedTask {
        executor: "e1".into(),
        token: CancellationToken::new(),
    }
}

#[tokio::test]
async fn a_panic_is_an_error_and_no_end() {
    let (plan, _) = guarded(stage(true), &task(), None).unwrap();
    let rows = plan.execute(0, Arc::default()).unwrap();
    let came: Vec<_> = rows.collect().await;
    let error = came.into_iter().find_map(Result::err).unwrap();
    let told = Told::find(&error).unwrap();
    assert_eq!(told.kind(), ErrorKind::Internal);
    assert!(told.message.contains("a defect"), "{told:?}");
    assert_eq!(told.executor, "e1");
}

#[tokio::test]
async fn a_cancelled_task_ends_with_an_error() {
    let task = task();
    let (plan, clock) = guarded(stage(false), &task, Some(7)).unwrap();
    let clock = clock.unwrap();
    let mut rows = plan.execute(0, Arc::default()).unwrap();
    for _ in 0..6 {
        assert!(rows.next().await.unwrap().is_ok());
    }
    task.token.cancel();
    let error = rows.next().await.unwrap().unwrap_err();
    assert_eq!(Told::find(&error).unwrap().kind(), ErrorKind::Cancelled);
    assert!(rows.next().await.is_none());
    assert!(plan.execute(0, Arc::default()).is_err());
    assert_eq!(clock.seconds(), None);
}

#[tokio::test]
async fn a_stage_took_as_long_as_all_of_its_partitions() {
    let empty = EmptyExec::new(schema()).with_partitions(2);
    let (plan, clock) = guarded(Arc::new(empty), &task(), Some(7)).unwrap();
    let clock = clock.unwrap();
    assert_eq!(clock.share, 7);
    let mut rows = plan.execute(1, Arc::default()).unwrap();
    while rows.next().await.is_some() {}
    assert_eq!(clock.seconds(), None);
    let mut rows = plan.execute(0, Arc::default()).unwrap();
    while rows.next().await.is_some() {}
    assert!(clock.seconds().is_some());
}
