//! The host's half of a region that folds an array it makes: no rows are made, only what is folded of
//! them.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};
use tidegate_kernels::generated::ArrayFold;
use tidegate_scheduler::ArrayScan;

use super::Program;
use crate::leaf::morsels::{array_scan_of, whole_morsels};
use crate::sources::Counter;

/// Values that are folded before others may run: about half a millisecond.
const VALUES_AT_ONCE: u64 = 1 << 18;

/// Stands for a partial aggregate over an array, and gives the same row of states for each partition.
#[derive(Debug)]
pub(super) struct ArrayFoldExec {
    /// The aggregate over the scan; it runs where the scan has become something else.
    aggregate: Arc<dyn ExecutionPlan>,
    fold: Arc<ArrayFold>,
    /// What the partitions have taken of the scan.
    taken: Counter,
    metrics: ExecutionPlanMetricsSet,
}

impl ArrayFoldExec {
    /// Returns the chain of a region, with this node in the place of a partial aggregate that can be
    /// folded without rows.
    pub(super) fn instead_of(
        chain: Arc<dyn ExecutionPlan>,
        program: Option<&Program>,
    ) -> Arc<dyn ExecutionPlan> {
        match program.and_then(|program| Self::of(&chain, program)) {
            Some(fold) => Arc::new(fold),
            None => chain,
        }
    }

    fn of(chain: &Arc<dyn ExecutionPlan>, program: &Program) -> Option<Self> {
        let aggregate = chain.downcast_ref::<AggregateExec>()?;
        if *aggregate.mode() != AggregateMode::Partial || !program.bindings.is_empty() {
            return None;
        }
        let scan = array_scan_of(scan_below(chain)?)?;
        let fold = ArrayFold::of(&program.pipeline, &scan.source, &chain.schema())?;
        Some(Self::over(Arc::clone(chain), Arc::new(fold)))
    }

    fn over(aggregate: Arc<dyn ExecutionPlan>, fold: Arc<ArrayFold>) -> Self {
        Self {
            aggregate,
            fold,
            taken: Counter::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }
}

/// Returns whether the host folds a partial aggregate over an array without making rows.
pub(crate) fn folds_without_rows(chain: &Arc<dyn ExecutionPlan>, program: &Program) -> bool {
    ArrayFoldExec::of(chain, program).is_some()
}

/// Returns the scan below an aggregate, with nothing but projections between.
fn scan_below(aggregate: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let mut node = aggregate;
    loop {
        node = node.children().first().copied()?;
        if !node.is::<ProjectionExec>() {
            return Some(node);
        }
    }
}

impl DisplayAs for ArrayFoldExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArrayFoldExec: ")?;
        match self.aggregate.downcast_ref::<AggregateExec>() {
            Some(aggregate) => aggregate.fmt_as(format, f),
            None => f.write_str(self.aggregate.name()),
        }
    }
}

impl ExecutionPlan for ArrayFoldExec {
    fn name(&self) -> &str {
        "ArrayFoldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.aggregate.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.aggregate.children()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.aggregate.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = Arc::clone(&self.aggregate).replace_children(children, options)?;
        Ok(Arc::new(Self::over(aggregate, Arc::clone(&self.fold))))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = Arc::clone(&self.aggregate).reset_state()?;
        Ok(Arc::new(Self::over(aggregate, Arc::clone(&self.fold))))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let scan = scan_below(&self.aggregate);
        let morsels = |scan| whole_morsels(scan, partition, Arc::clone(&self.taken));
        let (Some(array), Some(mut morsels)) =
            (scan.and_then(array_scan_of), scan.and_then(morsels))
        else {
            return self.aggregate.execute(partition, ctx);
        };
        let fold = Arc::clone(&self.fold);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let folded = async move {
            let mut states = fold.begin();
            while let Some(morsel) = morsels.next().await {
                let ArrayScan { parts, .. } = array.as_ref();
                let Some(part) = parts.get(morsel.part) else {
                    return internal_err!("an array has no part {}", morsel.part);
                };
                let num_rows = part.num_values();
                for from in (0..num_rows).step_by(VALUES_AT_ONCE as usize) {
                    let timer = metrics.elapsed_compute().timer();
                    states.add(part, from..num_rows.min(from + VALUES_AT_ONCE));
                    timer.done();
                    tokio::task::yield_now().await;
                }
                morsel.end();
            }
            metrics.record_output(1);
            Ok(states.row()?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.aggregate.schema(),
            stream::once(folded),
        )))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
