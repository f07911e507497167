//! Operators over one input: what all of their plan nodes have in common.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::Stream;

/// What an operator over one input has of its own. It owns no expressions.
pub trait UnaryOperator: fmt::Debug + Send + Sync + Sized + 'static {
    /// The name of its node.
    const NAME: &'static str;
    /// Whether rows leave in the order in which they come.
    const KEEPS_ORDER: bool = true;
    /// Whether it gains by an input of more partitions.
    const GAINS_BY_PARTITIONS: bool = true;

    /// Returns the input.
    fn input(&self) -> &Arc<dyn ExecutionPlan>;

    /// Makes the same operator over another input.
    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self;

    /// Streams the rows of a partition.
    ///
    /// # Errors
    /// Those of the input, and of the operator.
    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input().execute(partition, ctx)
    }

    /// Returns what holds of the rows that leave.
    fn properties(&self) -> &Arc<PlanProperties> {
        self.input().properties()
    }

    /// Returns what it has counted.
    fn metrics(&self) -> Option<MetricsSet> {
        None
    }

    /// Writes what EXPLAIN shows behind the name.
    ///
    /// # Errors
    /// Those of the formatter.
    fn detail(&self, _: DisplayFormatType, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// What an operator does to the rows of each partition, where it keeps their columns, order and partitions.
pub(crate) trait StreamOperator: Clone + fmt::Debug + Send + Sync + 'static {
    /// The name of its node.
    const NAME: &'static str;
    /// Whether it gains by an input of more partitions.
    const GAINS_BY_PARTITIONS: bool = false;

    /// Returns the rows that leave a partition.
    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        partition: usize,
        ctx: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static;
}

/// Puts a [`StreamOperator`] above an input.
pub(crate) fn streamed<O: StreamOperator>(
    input: &Arc<dyn ExecutionPlan>,
    operator: O,
) -> Arc<dyn ExecutionPlan> {
    Arc::new(UnaryExec(Streamed {
        input: Arc::clone(input),
        operator,
    }))
}

#[derive(Clone, Debug)]
struct Streamed<O> {
    input: Arc<dyn ExecutionPlan>,
    operator: O,
}

impl<O: StreamOperator> UnaryOperator for Streamed<O> {
    const NAME: &'static str = O::NAME;
    const GAINS_BY_PARTITIONS: bool = O::GAINS_BY_PARTITIONS;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            operator: self.operator.clone(),
        }
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, Arc::clone(&ctx))?;
        let rows = self.operator.stream(rows, partition, &ctx);
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The plan node of an operator.
#[derive(Debug)]
pub struct UnaryExec<O>(pub O);

impl<O: UnaryOperator> DisplayAs for UnaryExec<O> {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(O::NAME)?;
        self.0.detail(format, f)
    }
}

impl<O: UnaryOperator> ExecutionPlan for UnaryExec<O> {
    fn name(&self) -> &str {
        O::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.0.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.0.input()]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![O::KEEPS_ORDER]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![O::GAINS_BY_PARTITIONS]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([input]) => Ok(Arc::new(Self(self.0.over(input)))),
            Err(_) => internal_err!("{} has one input", O::NAME),
        }
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.0.rows(partition, ctx)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.0.metrics()
    }
}
