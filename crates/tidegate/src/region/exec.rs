//! The plan node that stands for a region.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, config::ConfigOptions};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, reset_plan_states};
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use tidegate_kernels::program::Generated;
use tidegate_scheduler::MixedRun;

use super::chain::{Exchanges, node_below, with_leaf};
use super::fold::ArrayFoldExec;
use super::host::HostFoldExec;
use super::report::{RegionReport, metrics};
use super::{Form, Program, Region, atomic, mixed};
use crate::leaf::morsels::array_below;
use crate::leaf::{Leaf, Slot};

/// Stands for a region: the original DataFusion subtree, and the program that means the same.
///
/// Its child is the host's half, with the region's leaf gated where devices take part, so that plans,
/// metrics and rules see what they would see without it. It changes no property of the subtree.
#[derive(Debug)]
pub struct PipelineExec {
    /// The host's half; in an additive region its leaf is gated.
    host: Arc<dyn ExecutionPlan>,
    region: Arc<Region>,
    shared: Option<Shared>,
}

/// What a region with a device half shares with it.
#[derive(Debug)]
struct Shared {
    leaf: Arc<dyn Leaf>,
    /// The node at the bottom of `host`.
    gated: Arc<dyn ExecutionPlan>,
    slot: Arc<Slot>,
    answer: Arc<atomic::Answer>,
}

impl Shared {
    fn handle(&self) -> Self {
        Self {
            leaf: Arc::clone(&self.leaf),
            gated: Arc::clone(&self.gated),
            slot: Arc::clone(&self.slot),
            answer: Arc::clone(&self.answer),
        }
    }
}

impl PipelineExec {
    /// Stands for a subtree that runs on the host, and says why.
    pub(crate) fn on_host(host: Arc<dyn ExecutionPlan>, region: Region) -> Result<Self> {
        Ok(Self {
            host: host_half(host, &region)?,
            region: Arc::new(region),
            shared: None,
        })
    }

    /// Stands for a region that host and devices share; `planned` is the leaf of `chain`.
    pub(crate) fn additive(
        chain: &Arc<dyn ExecutionPlan>,
        planned: &Arc<dyn ExecutionPlan>,
        leaf: Arc<dyn Leaf>,
        region: Region,
    ) -> Result<Self> {
        let slot = Arc::new(Slot::default());
        let gated = leaf.gated(&slot)?;
        let is_planned = |node: &dyn ExecutionPlan| std::ptr::addr_eq(node, Arc::as_ptr(planned));
        let host = with_leaf(chain, &is_planned, &gated, Exchanges::Keep)?;
        let host = host_half(host, &region)?;
        let shared = Shared {
            leaf,
            gated,
            slot,
            answer: Arc::default(),
        };
        Ok(Self {
            host,
            region: Arc::new(region),
            shared: Some(shared),
        })
    }

    /// Stands for a region of which a device answers all or nothing; the host's half is untouched.
    pub(crate) fn atomic(
        host: Arc<dyn ExecutionPlan>,
        planned: Arc<dyn ExecutionPlan>,
        leaf: Arc<dyn Leaf>,
        region: Region,
    ) -> Self {
        let (slot, answer) = (Arc::default(), Arc::default());
        let shared = Shared {
            leaf,
            gated: planned,
            slot,
            answer,
        };
        Self {
            host,
            region: Arc::new(region),
            shared: Some(shared),
        }
    }

    /// Reports what the region is and what it has done so far.
    pub fn report(&self) -> RegionReport {
        RegionReport::of(&self.region, Some(&self.host))
    }

    /// Returns an atomic region and what it reads; `None` of any other.
    pub(crate) fn atomic_region(&self) -> Option<(&Arc<Region>, &Arc<dyn Leaf>)> {
        let shared = self.shared.as_ref()?;
        (self.region.form == Form::Atomic).then_some((&self.region, &shared.leaf))
    }

    /// Returns whether the float sums of the region have the same bits on every run.
    pub(crate) fn has_ordered_sums(&self) -> bool {
        self.region.ordered
    }

    /// Returns the host engine's node if it runs all of the region, and nobody else takes part.
    pub(crate) fn host_fold(&self) -> Option<&HostFoldExec> {
        match self.shared {
            None => self.host.downcast_ref(),
            Some(_) => None,
        }
    }

    /// Stands for the same region in another execution, with books of its own.
    pub(crate) fn again(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let region = Arc::new(Region {
            counters: Arc::default(),
            ..Region::clone(&self.region)
        });
        let again: Arc<dyn ExecutionPlan> = Arc::new(Self {
            host: Arc::clone(&self.host),
            region,
            shared: self.shared.as_ref().map(Shared::handle),
        });
        reset_plan_states(again)
    }

    /// Returns the program that means the same as the subtree, if there is one.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.region.program.as_ref()
    }

    /// Returns the array that the region reads, if a device makes it.
    pub(crate) fn array(&self) -> Option<Arc<Generated>> {
        array_below(&self.host)
    }

    /// Stands for the same region over another instance of its host's half. A run belongs to one
    /// execution of one plan, so this one gets a new slot, and a gated leaf that looks there.
    fn over(&self, host: Arc<dyn ExecutionPlan>) -> Result<Self> {
        let region = Arc::clone(&self.region);
        let Some(shared) = &self.shared else {
            return Ok(Self {
                host,
                region,
                shared: None,
            });
        };
        let slot = Arc::new(Slot::default());
        let (host, leaf, gated) = match self.region.form {
            Form::Additive => {
                let Some(found) = node_below(&host, shared.gated.name()) else {
                    return internal_err!("a region lost its leaf: {}", shared.gated.name());
                };
                let leaf = shared.leaf.behind(found);
                let leaf = leaf.unwrap_or_else(|| Arc::clone(&shared.leaf));
                let gated = leaf.gated(&slot)?;
                let is_found =
                    |node: &dyn ExecutionPlan| std::ptr::addr_eq(node, Arc::as_ptr(found));
                let host = with_leaf(&host, &is_found, &gated, Exchanges::Keep)?;
                (host, leaf, gated)
            }
            _ => {
                let (leaf, gated) = (Arc::clone(&shared.leaf), Arc::clone(&shared.gated));
                (host, leaf, gated)
            }
        };
        let shared = Some(Shared {
            leaf,
            gated,
            slot,
            answer: Arc::default(),
        });
        Ok(Self {
            host,
            region,
            shared,
        })
    }

    fn begin(&self, shared: &Shared, ctx: &Arc<TaskContext>) -> Result<Arc<MixedRun>> {
        let begin = || {
            Ok(MixedRun::new(
                self.region.run_spec(shared.leaf.as_ref(), ctx)?,
            ))
        };
        shared.slot.begin(begin).map(Arc::clone)
    }
}

/// Returns the chain with what the host has for its operators: for those over an array that it makes, or
/// for any that the host engine runs.
fn host_half(chain: Arc<dyn ExecutionPlan>, region: &Region) -> Result<Arc<dyn ExecutionPlan>> {
    let folded = ArrayFoldExec::instead_of(chain, region.program.as_ref());
    if folded.is::<ArrayFoldExec>() {
        return Ok(folded);
    }
    HostFoldExec::instead_of(folded, &region.host_engine)
}

impl DisplayAs for PipelineExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.report();
        write!(f, "PipelineExec: {}", report.summary())
    }
}

impl ExecutionPlan for PipelineExec {
    fn name(&self) -> &str {
        "PipelineExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.host.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.host]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // An additive region is refused where an order is claimed, so there is none to lose.
        vec![true]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        let Ok([host]) = <[_; 1]>::try_from(children) else {
            return internal_err!("PipelineExec has one input");
        };
        Ok(Arc::new(self.over(host)?))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(Arc::clone(&self.host))?))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(shared) = &self.shared else {
            return self.host.execute(partition, ctx);
        };
        match self.region.form {
            Form::Host => self.host.execute(partition, ctx),
            Form::Additive => {
                let run = self.begin(shared, &ctx)?;
                let host = self.host.execute(partition, Arc::clone(&ctx))?;
                let replay = mixed::Replay {
                    chain: Arc::clone(&self.host),
                    gated: Arc::clone(&shared.gated),
                    leaf: Arc::clone(&shared.leaf),
                    ctx,
                    promotes: self.region.promotes,
                };
                Ok(mixed::stream(run, host, replay))
            }
            Form::Atomic => {
                let spec = self.region.run_spec(shared.leaf.as_ref(), &ctx)?;
                let if_not = match (spec.strict, self.region.ordered) {
                    (true, _) => atomic::IfNot::Strict,
                    (false, true) => atomic::IfNot::Unordered,
                    (false, false) => atomic::IfNot::Host,
                };
                let question = atomic::Question {
                    host: Arc::clone(&self.host),
                    answer: Arc::clone(&shared.answer),
                    spec,
                    if_not,
                    leaf: Arc::clone(&shared.leaf),
                    promotes: self.region.promotes,
                };
                Ok(question.stream(partition, ctx))
            }
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(metrics(&self.report()))
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [host] = input_stats else {
            return internal_err!("a region has one input, its host's subtree");
        };
        Ok(Arc::clone(host))
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.host.cardinality_effect()
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // The rule runs last: whatever could be pushed has been.
        Ok(FilterDescription::all_unsupported(
            &parent_filters,
            &self.children(),
        ))
    }
}
