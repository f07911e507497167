//! An additive region's streams: the host's own, and after the last of them the tail.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::{RecordBatchReceiverStream, RecordBatchStreamAdapter};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use tidegate_scheduler::{MixedRun, Morsel, Place, RegionCounters, Tail};

use super::chain::{Exchanges, with_leaf};
use super::coalesce::coalesced;
use super::{failure, promote};
use crate::leaf::Leaf;

/// What it takes to run morsels again on the host.
pub(crate) struct Replay {
    pub(crate) chain: Arc<dyn ExecutionPlan>,
    pub(crate) gated: Arc<dyn ExecutionPlan>,
    pub(crate) leaf: Arc<dyn Leaf>,
    pub(crate) ctx: Arc<TaskContext>,
    /// What is read may come to a device to stay.
    pub(crate) promotes: bool,
}

impl Replay {
    /// Streams the devices' rows, then the rest through fresh chains of one partition each, side by side.
    fn tail(&self, run: &MixedRun, tail: Tail) -> Result<SendableRecordBatchStream> {
        let schema = self.chain.schema();
        let rows = stream::iter(tail.rows.into_iter().map(Ok)).boxed();
        if tail.rest.is_empty() {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)));
        }
        for morsel in &tail.rest {
            let (num_rows, num_bytes) = (morsel.size.num_rows, morsel.size.num_bytes);
            run.counters().morsel(Place::Host, num_rows, num_bytes);
        }
        let num_chains = self.ctx.session_config().target_partitions().max(1);
        let share = tail.rest.len().div_ceil(num_chains);
        let shares = tail.rest.chunks(share);
        let mut replayed = RecordBatchReceiverStream::builder(Arc::clone(&schema), num_chains);
        for morsels in shares {
            let mut share = self.replayed(run, morsels)?;
            let sender = replayed.tx();
            replayed.spawn(async move {
                while let Some(rows) = share.next().await {
                    // Nobody listens any more.
                    if sender.send(rows).await.is_err() {
                        break;
                    }
                }
                Ok(())
            });
        }
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema,
            rows.chain(replayed.build()),
        )))
    }

    /// Streams morsels through a fresh chain of one partition.
    fn replayed(&self, run: &MixedRun, morsels: &[Morsel]) -> Result<Timed> {
        let leaf = self.leaf.replay(run.loader(), morsels)?;
        let gated = Arc::as_ptr(&self.gated);
        let is_gated = |node: &dyn ExecutionPlan| std::ptr::addr_eq(node, gated);
        let chain = with_leaf(&self.chain, &is_gated, &leaf, Exchanges::Drop)?;
        let replayed = chain.execute(0, Arc::clone(&self.ctx))?;
        Ok(Timed::new(replayed, Arc::clone(run.counters())))
    }
}

/// Streams one partition of an additive region.
pub(crate) fn stream(
    run: Arc<MixedRun>,
    host: SendableRecordBatchStream,
    replay: Replay,
) -> SendableRecordBatchStream {
    let schema: SchemaRef = host.schema();
    let batch_size = replay.ctx.session_config().batch_size();
    // Nothing happens before the first poll.
    let begun = stream::once(async move {
        run.weigh_residency().await.map_err(failure)?;
        let visit = run.enter();
        let host = Timed::new(host, Arc::clone(run.counters()));
        let end = stream::once(async move {
            match visit.leave().await.map_err(failure)? {
                Some(tail) => {
                    let rows = replay.tail(&run, tail).map(StreamExt::boxed);
                    if replay.promotes {
                        promote::was_read(run.spec(), &replay.leaf);
                    }
                    rows
                }
                None => Ok(stream::empty().boxed()),
            }
        })
        .try_flatten();
        Ok::<_, datafusion::error::DataFusionError>(stop_at_error(host.chain(end)))
    })
    .try_flatten();
    let coalesced = coalesced(begun.boxed(), &schema, batch_size);
    Box::pin(RecordBatchStreamAdapter::new(schema, coalesced))
}

/// Ends a stream after its first error, so that a failed host never reaches the tail.
fn stop_at_error(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let state = Some(batches.boxed());
    stream::unfold(state, |state| async move {
        let mut batches = state?;
        let next = batches.next().await?;
        let state = next.is_ok().then_some(batches);
        Some((next, state))
    })
}

/// Books the time that the host's stream is busy.
struct Timed {
    inner: SendableRecordBatchStream,
    busy: Duration,
    counters: Arc<RegionCounters>,
}

impl Timed {
    fn new(inner: SendableRecordBatchStream, counters: Arc<RegionCounters>) -> Self {
        Self {
            inner,
            busy: Duration::ZERO,
            counters,
        }
    }
}

impl Stream for Timed {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let started = Instant::now();
        let polled = self.inner.poll_next_unpin(ctx);
        self.busy += started.elapsed();
        polled
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        self.counters.time(Place::Host, self.busy);
    }
}
