//! Work of a user takes turns with other queries.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::datasource::MemTable;
use tidegate_device::DeviceId;
use tidegate_scheduler::admission::turns::TURNS_OUT;

use crate::{FrameExt, MapOptions, Session};

const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn work_with_a_stream_waits_for_its_turn() {
    let builder = Session::builder().simulate_device("1MB".parse().unwrap());
    let session = builder.target_partitions(2).build().unwrap();
    let values: Int64Array = (0..100).collect();
    let batch = RecordBatch::try_from_iter([("v", Arc::new(values) as _)]).unwrap();
    let partitions = vec![vec![batch.clone(), batch.clone()], vec![batch.clone()]];
    let table = MemTable::try_new(batch.schema(), partitions).unwrap();
    session.register_table("t", Arc::new(table)).unwrap();
    let dispatch = session.runtime().dispatch();
    let (turns, other) = (dispatch.turns(DeviceId(0)), dispatch.new_query());
    let held: Vec<_> = (0..TURNS_OUT)
        .map(|_| turns.try_take(other, TURNS_OUT, 0.01).unwrap())
        .collect();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let frame = session.sql("SELECT v FROM t").await.unwrap();
    let mapped = frame
        .map_partitions_on_device(&session, batch.schema(), MapOptions::default(), {
            move |_, batch| {
                counted.fetch_add(1, Ordering::Relaxed);
                Ok(batch)
            }
        })
        .unwrap();
    let mapped = tokio::spawn(mapped.collect());
    let began = Instant::now();
    // It stands in the device's line, behind the turns of the other query.
    while turns.seconds_of_others(other) == 0.0 {
        assert!(began.elapsed() < LONG && !mapped.is_finished());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    drop(held);
    let batches = mapped.await.unwrap().unwrap();
    let num_rows = batches.iter().map(RecordBatch::num_rows);
    assert_eq!(
        (num_rows.sum::<usize>(), calls.load(Ordering::Relaxed)),
        (300, 3)
    );
    // Once its rows have come it is nobody's rival any more.
    turns.leave(other);
    while turns.others_are_known(other) {
        assert!(began.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
