//! A grouped aggregate of the host engine as a whole, for the case that there are many groups.
//!
//! [`HostGroupsExec`] stands for a final aggregate, the exchange below it, and the partial aggregate below
//! that, which a [`HostFoldExec`](super::HostFoldExec) runs. It decides while rows are folded: where the partitions have few groups,
//! or where states had to leave, these go through exchange and final aggregate as without it. Many groups
//! are merged from records ([`super::gather`]), each in one of the outputs, but in no certain one.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricValue, MetricsSet,
};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
    Partitioning, PlanProperties,
};
use futures::{TryStreamExt, stream};
use parking_lot::Mutex;
use tidegate_kernels::host::{GroupValues, HostProgram};
use tokio::sync::mpsc;

use super::HostFoldExec;
use super::fold::PartitionFold;
use super::gather::{Gather, run_input};
use super::merged::MergedGroups;
use super::streams::leaf_of;
use crate::region::PipelineExec;
use crate::region::chain::{Exchanges, with_leaf};

/// Batches of states of an input that may wait for the final aggregate.
const WAITING_STATES: usize = 2;

/// Stands for both halves of a grouped aggregate.
#[derive(Debug)]
pub(crate) struct HostGroupsExec {
    /// The final aggregate, and the exchange, if there is one, over `input`.
    finals: Arc<dyn ExecutionPlan>,
    /// The region of the partial aggregate.
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    /// Begun by the first partition; there is none inside where the region's program does not run.
    execution: Mutex<Option<Option<Arc<Execution>>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl HostGroupsExec {
    /// Returns this node in the place of a final aggregate, if the host engine runs all of the partial one below
    /// it, and there may be many groups.
    pub(crate) fn instead_of(
        plan: &Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let finals = plan.downcast_ref::<AggregateExec>()?;
        let group = finals.group_expr();
        let is_plain = finals.limit_options().is_none()
            && *finals.input_order_mode() == InputOrderMode::Linear
            && !group.expr().is_empty()
            && !group.has_grouping_set();
        let input = match finals.mode() {
            _ if !is_plain => return None,
            AggregateMode::FinalPartitioned => {
                let exchange = finals.input().downcast_ref::<RepartitionExec>()?;
                let is_hash = matches!(exchange.partitioning(), Partitioning::Hash(..));
                if exchange.preserve_order() || !is_hash {
                    return None;
                }
                exchange.input()
            }
            AggregateMode::Final if finals.input().output_partitioning().partition_count() == 1 => {
                finals.input()
            }
            _ => return None,
        };
        let fold = fold_of(input)?;
        let rows_min = config
            .execution
            .skip_partial_aggregation_probe_rows_threshold;
        if rows_of(fold.children().first()?).is_some_and(|rows| rows < rows_min) {
            return None;
        }
        if let Some(program) = fold.known_program() {
            GroupValues::new(program, plan.schema()).ok()?;
        }
        Some(Arc::new(Self::over(Arc::clone(plan), Arc::clone(input))))
    }

    fn over(finals: Arc<dyn ExecutionPlan>, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = finals.properties();
        let outputs = Partitioning::UnknownPartitioning(properties.partitioning.partition_count());
        Self {
            properties: Arc::new(PlanProperties::new(
                properties.equivalence_properties().clone(),
                outputs,
                properties.emission_type,
                properties.boundedness,
            )),
            finals,
            input,
            execution: Mutex::new(None),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the final aggregate over another input.
    fn finals_over(&self, input: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        finals_over(&self.finals, &self.input, &input, Exchanges::Keep)
    }

    /// Returns the execution of all partitions; `None` if the region's program does not run.
    fn execution(&self, ctx: &Arc<TaskContext>) -> Result<Option<Arc<Execution>>> {
        let mut execution = self.execution.lock();
        if let Some(begun) = &*execution {
            return Ok(begun.clone());
        }
        let begun = Execution::begin(self, ctx)?.map(Arc::new);
        *execution = Some(begun.clone());
        Ok(begun)
    }
}

/// Returns the host engine's node that runs all of a region.
fn fold_of(region: &Arc<dyn ExecutionPlan>) -> Option<&HostFoldExec> {
    region.downcast_ref::<PipelineExec>()?.host_fold()
}

/// Returns how many rows a plan gives at most, if that is known.
fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let computed = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    match computed.ok()?.num_rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => Some(rows),
        Precision::Absent => None,
    }
}

fn finals_over(
    finals: &Arc<dyn ExecutionPlan>,
    before: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
    exchanges: Exchanges,
) -> Result<Arc<dyn ExecutionPlan>> {
    let before = Arc::as_ptr(before);
    let is_input = |node: &dyn ExecutionPlan| std::ptr::addr_eq(node, before);
    with_leaf(finals, &is_input, input, exchanges)
}

/// What the partitions of an execution share.
pub(super) struct Execution {
    pub(super) gather: Arc<Gather>,
    pub(super) program: Arc<HostProgram>,
    pub(super) values: GroupValues,
    finals: Arc<dyn ExecutionPlan>,
    input: Arc<dyn ExecutionPlan>,
    /// The final aggregate, over the states that leave.
    over_states: Arc<dyn ExecutionPlan>,
    work: Mutex<Work>,
    /// Outputs that are read.
    open: AtomicUsize,
}

type States = mpsc::Sender<Result<RecordBatch>>;

/// The inputs' work.
enum Work {
    NotBegun(Vec<(PartitionFold, States)>),
    Begun(#[expect(dead_code, reason = "tasks end when they are dropped")] Vec<SpawnedTask<()>>),
    /// Nobody read the outputs any more, before there were any rows.
    Ended,
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution").finish_non_exhaustive()
    }
}

impl Execution {
    fn begin(node: &HostGroupsExec, ctx: &Arc<TaskContext>) -> Result<Option<Self>> {
        let Some(fold) = fold_of(&node.input) else {
            return Ok(None);
        };
        let Some(program) = fold.program()? else {
            return Ok(None);
        };
        let Ok(values) = GroupValues::new(&program, node.schema()) else {
            return Ok(None);
        };
        let num_inputs = node.input.output_partitioning().partition_count();
        let num_outputs = node.properties.partitioning.partition_count();
        let pool = ctx.memory_pool();
        let gather = Arc::new(Gather::new(&program, (num_inputs, num_outputs), pool));
        let (mut inputs, mut states) = (Vec::new(), Vec::new());
        for partition in 0..num_inputs {
            let (sender, receiver) = mpsc::channel(WAITING_STATES);
            inputs.push((fold.gathered(partition, ctx, &gather)?, sender));
            let batches = stream::unfold(receiver, |mut receiver| async move {
                let batch = receiver.recv().await?;
                Some((batch, receiver))
            });
            let schema = node.input.schema();
            states.push(Box::pin(RecordBatchStreamAdapter::new(schema, batches)) as _);
        }
        let states = leaf_of(node.input.schema(), states)?;
        Ok(Some(Self {
            over_states: node.finals_over(states)?,
            gather,
            program,
            values,
            finals: Arc::clone(&node.finals),
            input: Arc::clone(&node.input),
            work: Mutex::new(Work::NotBegun(inputs)),
            open: AtomicUsize::new(0),
        }))
    }

    /// Has the inputs work, if they do not yet.
    fn start(&self) -> Result<()> {
        let mut work = self.work.lock();
        match &mut *work {
            Work::NotBegun(inputs) => {
                let inputs = std::mem::take(inputs).into_iter();
                let tasks = inputs.map(|(folding, states)| {
                    let gather = Arc::clone(&self.gather);
                    SpawnedTask::spawn(run_or_say_why_not(gather, folding, states))
                });
                *work = Work::Begun(tasks.collect());
                Ok(())
            }
            Work::Begun(_) => Ok(()),
            Work::Ended => internal_err!("the inputs of HostGroupsExec were ended"),
        }
    }

    /// Runs states of whole groups through the final aggregate alone.
    pub(super) fn finish_states(
        &self,
        states: Vec<RecordBatch>,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let schema = self.input.schema();
        let batches = stream::iter(states.into_iter().map(Ok));
        let batches = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
        let leaf = leaf_of(schema, vec![batches])?;
        finals_over(&self.finals, &self.input, &leaf, Exchanges::Drop)?.execute(0, ctx)
    }
}

/// Runs an input; an error, also a panic, goes where its states would have gone.
async fn run_or_say_why_not(gather: Arc<Gather>, folding: PartitionFold, states: States) {
    let work = {
        let (gather, states) = (Arc::clone(&gather), states.clone());
        SpawnedTask::spawn(async move { run_input(&gather, folding, &states).await })
    };
    let error = match work.join().await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(error) => DataFusionError::ExecutionJoin(Box::new(error)),
    };
    gather.leave_as_states();
    // If nobody listens, nobody wants to know.
    states.send(Err(error)).await.ok();
}

/// An output that is read. When the last one is dropped before it is known how groups leave, the inputs end;
/// when all groups were merged, their memory is given back.
struct Open(Arc<Execution>);

impl Open {
    fn of(execution: &Arc<Execution>) -> Self {
        execution.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(execution))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let was_last = self.0.open.fetch_sub(1, Ordering::Relaxed) == 1;
        if was_last && self.0.gather.is_undecided() {
            *self.0.work.lock() = Work::Ended;
        } else if was_last {
            self.0.gather.free_if_merged();
        }
    }
}

impl DisplayAs for HostGroupsExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.finals.downcast_ref::<AggregateExec>() {
            Some(finals) => {
                f.write_str("HostGroupsExec: ")?;
                finals.fmt_as(format, f)
            }
            None => f.write_str("HostGroupsExec"),
        }
    }
}

impl ExecutionPlan for HostGroupsExec {
    fn name(&self) -> &str {
        "HostGroupsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.finals.apply_expressions(visit)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("HostGroupsExec has one input");
        };
        let finals = self.finals_over(Arc::clone(&input))?;
        Ok(Arc::new(Self::over(finals, input)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let finals = self.finals_over(Arc::clone(&self.input))?;
        Ok(Arc::new(Self::over(finals, Arc::clone(&self.input))))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(execution) = self.execution(&ctx)? else {
            return self.finals.execute(partition, ctx);
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let merged_groups = MetricBuilder::new(&self.metrics).counter("merged_groups", partition);
        let open = Open::of(&execution);
        let rows = stream::once(async move {
            execution.start()?;
            let rows = if execution.gather.merges().await {
                let elapsed = baseline.elapsed_compute().clone();
                MergedGroups::new(execution, ctx, merged_groups, elapsed)?.stream()
            } else {
                execution.over_states.execute(partition, ctx)?
            };
            Ok::<_, DataFusionError>(rows.inspect_ok(move |batch| {
                let _is_read = &open;
                baseline.record_output(batch.num_rows());
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            self.schema(),
            rows.try_flatten(),
        )))
    }

    /// Returns what it did, and what the final aggregate over states has spilled.
    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        let execution = self.execution.lock().clone().flatten();
        let mut node = execution.as_ref().map(|execution| &execution.over_states);
        while let Some(plan) = node {
            let of_plan = plan.metrics().unwrap_or_default();
            let spilled = of_plan.iter().filter(|metric| {
                matches!(
                    metric.value(),
                    MetricValue::SpillCount(_)
                        | MetricValue::SpilledBytes(_)
                        | MetricValue::SpilledRows(_)
                )
            });
            spilled.for_each(|metric| metrics.push(Arc::clone(metric)));
            node = plan.children().first().copied();
        }
        Some(metrics)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.finals.statistics_from_inputs(input_stats, args)
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.finals.cardinality_effect()
    }
}
