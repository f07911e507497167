//! Rows that the engine declined, run by DataFusion's own operators.
//!
//! The operators of the region stand above a leaf of one partition that yields what is pushed to it. They
//! are polled after each push until they have taken the rows, so that none wait in between, and raise what
//! they raise at the row at which they would without the engine.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use parking_lot::Mutex;

use super::split::Split;
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
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(DeclinedRowsExec::new(
            &split.source,
            batches,
            Arc::clone(&waiting),
        ));
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

/// The leaf below the operators.
struct DeclinedRowsExec {
    properties: Arc<PlanProperties>,
    batches: Mutex<Option<UnboundedReceiver<RecordBatch>>>,
    waiting: Arc<AtomicUsize>,
}

impl DeclinedRowsExec {
    fn new(
        source: &Arc<dyn ExecutionPlan>,
        batches: UnboundedReceiver<RecordBatch>,
        waiting: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(source.schema()),
                Partitioning::UnknownPartitioning(1),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )),
            batches: Mutex::new(Some(batches)),
            waiting,
        }
    }
}

impl fmt::Debug for DeclinedRowsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeclinedRowsExec").finish_non_exhaustive()
    }
}

impl DisplayAs for DeclinedRowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeclinedRowsExec")
    }
}

impl ExecutionPlan for DeclinedRowsExec {
    fn name(&self) -> &str {
        "DeclinedRowsExec"
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
        let Some(batches) = self.batches.lock().take() else {
            return internal_err!("declined rows are read once");
        };
        let waiting = Arc::clone(&self.waiting);
        let batches = batches.map(move |batch| {
            waiting.fetch_sub(1, Ordering::Relaxed);
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.properties.equivalence_properties().schema().clone(),
            batches,
        )))
    }
}
