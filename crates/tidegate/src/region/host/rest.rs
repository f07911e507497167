//! Rows that the engine declined, run by DataFusion's own operators.
//!
//! The operators of the region stand above a leaf of one partition that yields what is pushed to it. They
//! are polled after each push until they have taken the rows, so that none wait in between, and raise what
//! they raise at the row at which they would without the engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedSender, unbounded};

use super::split::Split;
use super::streams::leaf_of;
use crate::region::chain::{Exchanges, with_leaf};

/// DataFusion's operators over the rows that one partition's run has declined.
pub(super) struct Rest {
    pushed: UnboundedSender<RecordBatch>,
    /// Batches that were pushed and not taken yet.
    waiting: Arc<AtomicUsize>,
    output: SendableRecordBatchStream,
}

impl Rest {
    /// Puts the operators of a chain above a leaf of their own.
    pub(super) fn begin(split: &Split, ctx: Arc<TaskContext>) -> Result<Self> {
        let (pushed, batches) = unbounded();
        let waiting = Arc::new(AtomicUsize::new(0));
        let taken = Arc::clone(&waiting);
        let batches = batches.map(move |batch| {
            taken.fetch_sub(1, Ordering::Relaxed);
            Ok(batch)
        });
        let schema = split.source.schema();
        let batches = RecordBatchStreamAdapter::new(Arc::clone(&schema), batches);
        let leaf = leaf_of(schema, vec![Box::pin(batches)])?;
        let source = Arc::as_ptr(&split.source);
        let is_source = |node: &dyn ExecutionPlan| std::ptr::addr_eq(node, source);
        let operators = with_leaf(&split.operators, &is_source, &leaf, Exchanges::Keep)?;
        Ok(Self {
            pushed,
            waiting,
            output: operators.execute(0, ctx)?,
        })
    }

    /// Runs a batch of the source's rows; what leaves at once goes to `ready`.
    pub(super) async fn push(
        &mut self,
        batch: RecordBatch,
        ready: &mut impl Extend<RecordBatch>,
    ) -> Result<()> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if self.pushed.unbounded_send(batch).is_err() {
            return internal_err!("declined rows were pushed to operators that have ended");
        }
        futures::future::poll_fn(|ctx| {
            loop {
                match self.output.poll_next_unpin(ctx) {
                    Poll::Ready(Some(Ok(batch))) => ready.extend([batch]),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) => return Poll::Ready(Ok(())),
                    Poll::Pending if self.waiting.load(Ordering::Relaxed) == 0 => {
                        return Poll::Ready(Ok(()));
                    }
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    /// Says that there are no more rows, and returns what is left to leave.
    pub(super) fn end(self) -> SendableRecordBatchStream {
        self.output
    }
}
