//! A statement that does not yield delays no other.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use futures::{StreamExt, stream};
use tidegate::CancelHandle;
use tonic::{Code, Status};

use super::{Executors, RUNTIMES_MAX, Rows};

fn empty() -> RecordBatch {
    RecordBatch::new_empty(Arc::new(Schema::empty()))
}

async fn begun(rows: Rows) -> Result<(Arc<Schema>, Rows), Status> {
    Ok((Arc::new(Schema::empty()), rows))
}

/// Returns how many runtimes are not free.
fn lent(executors: &Executors) -> usize {
    let slots = executors.slots.lock();
    slots.iter().filter(|slot| !slot.is_free()).count()
}

#[tokio::test]
async fn a_statement_that_does_not_yield_delays_no_other() {
    let executors = Arc::new(Executors::new(1));
    let (release, released) = channel::<()>();
    let stuck = stream::once(async move {
        let _ = released.recv_timeout(Duration::from_secs(60));
        Ok(empty())
    });
    let (_, mut stuck) = executors
        .lend()
        .unwrap()
        .run(CancelHandle::new(), begun(stuck.boxed()))
        .await
        .unwrap();
    for _ in 0..3 {
        let rows = stream::iter((0..5).map(|_| Ok(empty()))).boxed();
        let (_, rows) = executors
            .lend()
            .unwrap()
            .run(CancelHandle::new(), begun(rows))
            .await
            .unwrap();
        let rows = tokio::time::timeout(Duration::from_secs(30), rows.collect::<Vec<_>>());
        assert_eq!(rows.await.unwrap().len(), 5);
        // A runtime is free a moment after its last row was read.
        while lent(&executors) > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(executors.slots.lock().len(), 2);
    release.send(()).unwrap();
    assert!(stuck.next().await.unwrap().is_ok());
    assert!(stuck.next().await.is_none());
}

#[tokio::test]
async fn what_was_left_behind_keeps_its_runtime() {
    let executors = Arc::new(Executors::new(1));
    let (release, released) = channel::<()>();
    let (enter, mut entered) = tokio::sync::mpsc::unbounded_channel();
    let stuck = stream::once(async move {
        enter.send(()).unwrap();
        let _ = released.recv_timeout(Duration::from_secs(60));
        Ok(empty())
    });
    let (_, stuck) = executors
        .lend()
        .unwrap()
        .run(CancelHandle::new(), begun(stuck.boxed()))
        .await
        .unwrap();
    entered.recv().await.unwrap();
    drop(stuck);
    let next = executors.lend().unwrap();
    assert_eq!(next.slot, 1);
    release.send(()).unwrap();
}

#[tokio::test]
async fn a_panic_is_no_end() {
    let executors = Arc::new(Executors::new(1));
    let rows = stream::iter(0..2).map(|row| match row {
        0 => Ok(empty()),
        _ => panic!("a defect"),
    });
    let (_, mut rows) = executors
        .lend()
        .unwrap()
        .run(CancelHandle::new(), begun(rows.boxed()))
        .await
        .unwrap();
    assert!(rows.next().await.unwrap().is_ok());
    let status = rows.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status}");
    assert!(rows.next().await.is_none());
    let refused = executors
        .lend()
        .unwrap()
        .run(CancelHandle::new(), async { panic!("another") });
    assert_eq!(refused.await.err().unwrap().code(), Code::Internal);
}

#[tokio::test]
async fn many_statements_share_the_runtimes() {
    let executors = Arc::new(Executors::new(1));
    let lent: Vec<_> = (0..3 * RUNTIMES_MAX)
        .map(|_| executors.lend().unwrap())
        .collect();
    let slots = executors.slots.lock();
    assert_eq!(slots.len(), RUNTIMES_MAX);
    assert!(slots.iter().all(|slot| slot.statements == 3));
    drop(slots);
    drop(lent);
    assert!(
        executors
            .slots
            .lock()
            .iter()
            .all(|slot| slot.statements == 0)
    );
}
