//! In-memory sort: radix partitioning of key prefixes, then one gather of the rows.
//!
//! [`HostSort`] replaces DataFusion's `SortExec` where all rows are sorted, and the merge of sorted partitions above
//! it. DataFusion sorts each batch and merges all of them by row comparisons, the partitions on one thread. Here the
//! batches stay as they arrived, and only 24-byte entries are sorted: a 16-byte key prefix and the position of the
//! row ([`entries`]). Entries are split into ranges of keys ([`ranges`]), which tasks sort and gather side by side.
//! If the memory pool refuses, the rows gathered so far and the rest of the inputs go to DataFusion's `SortExec`,
//! which spills ([`gathering`]).

mod entries;
mod gathering;
mod ranges;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
};
use futures::future::try_join_all;
use futures::{TryStreamExt as _, stream};

use crate::node_rule::Replaced;
use crate::unary::{UnaryExec, UnaryOperator};
use gathering::Sort;

/// Replaces a sort of all rows by a [`HostSort`], and a merge of such sorts by one that sorts all of its input;
/// top-k sorts stay DataFusion's.
pub(crate) fn host_sorts(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let fields = fields_of(sort.expr(), &sort.input().schema());
        let is_sorted_here = fields.is_ok_and(|fields| RowConverter::supports_fields(&fields));
        return match sort.fetch().is_none() && is_sorted_here {
            true => host_sort(
                node,
                sort.input(),
                sort.expr(),
                sort.input().output_partitioning().partition_count() == 1,
            ),
            false => Ok(None),
        };
    }
    let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else {
        return Ok(None);
    };
    match merge.input().downcast_ref::<UnaryExec<HostSort>>() {
        Some(UnaryExec(sort)) if merge.fetch().is_none() && sort.order == *merge.expr() => {
            host_sort(node, &sort.input, &sort.order, true)
        }
        _ => Ok(None),
    }
}

fn host_sort(
    node: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
    order: &LexOrdering,
    sorts_all: bool,
) -> Replaced {
    Ok(Some(Arc::new(UnaryExec(HostSort {
        input: Arc::clone(input),
        order: order.clone(),
        sorts_all,
        properties: Arc::clone(node.properties()),
        metrics: ExecutionPlanMetricsSet::new(),
    }))))
}

/// Returns whether a node is a [`HostSort`].
pub(crate) fn is_host_sort(node: &dyn ExecutionPlan) -> bool {
    node.is::<UnaryExec<HostSort>>()
}

fn fields_of(order: &LexOrdering, schema: &Schema) -> Result<Vec<SortField>> {
    let fields = order.iter().map(|sorted| {
        let data_type = sorted.expr.data_type(schema)?;
        Ok(SortField::new_with_options(data_type, sorted.options))
    });
    fields.collect()
}

/// Runs work side by side and returns the results in order; work of one input stays in the task that asks.
async fn side_by_side<T, F>(work: Vec<F>) -> Result<Vec<T>>
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    match <[F; 1]>::try_from(work) {
        Ok([alone]) => Ok(vec![alone.await?]),
        Err(work) => {
            let tasks = work
                .into_iter()
                .map(|work| joined(SpawnedTask::spawn(work)));
            try_join_all(tasks.collect::<Vec<_>>()).await
        }
    }
}

/// Waits for a task; a panic there is one here.
async fn joined<T: Send + 'static>(task: SpawnedTask<Result<T>>) -> Result<T> {
    let ended = task.join_unwind().await;
    ended.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}

/// Sorts the rows of its input.
#[derive(Clone, Debug)]
struct HostSort {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    /// Whether all partitions are sorted into one; if not, each is sorted alone.
    sorts_all: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl UnaryOperator for HostSort {
    const NAME: &'static str = "HostSortExec";
    const KEEPS_ORDER: bool = false;
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn detail(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": expr=[{}]", self.order)
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = match self.sorts_all {
            true => 0..self.input.output_partitioning().partition_count(),
            false => partition..partition + 1,
        };
        let inputs = partitions.map(|partition| self.input.execute(partition, Arc::clone(&ctx)));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let schema = self.input.schema();
        let sort = Sort::new(&self.order, &schema, (&self.metrics, partition), ctx)?;
        let rows = stream::once(Arc::new(sort).run(inputs)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
