//! The host engine in plans: a region's chain as one row program over blocks of encoded columns.
//!
//! [`HostEngine`] decides about a region when the plan is made. Where it runs, a [`HostFoldExec`] stands in
//! the place of the chain's operators and reads the same leaf, with one run of the program for each
//! partition ([`fold`]). What a run declines, from some block on, goes through the operators that the node
//! stands for ([`rest`]); each row counts once, and all states have the layout of DataFusion's.
//!
//! Above it a [`HostGroupsExec`] stands for the other half of a grouped aggregate: many groups do not leave as
//! states, but become values at once ([`groups`]).

mod block;
mod chunks;
mod declines;
mod engine;
mod facts;
mod fold;
mod gather;
mod groups;
mod merged;
mod paged;
mod rest;
mod runtime_filter;
mod runtime_keys;
mod split;
mod streams;

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use tidegate_kernels::host::HostProgram;

use declines::Declines;
pub(crate) use engine::HostEngine;
use engine::{Engine, Programs};
use fold::{Fold, Input, PartitionFold};
use gather::Gather;
pub(crate) use groups::HostGroupsExec;
use paged::Pages;
use runtime_filter::RuntimeFilter;
use split::Split;
pub(crate) use streams::leaf_of;

use super::chain::{Exchanges, with_leaf};
use crate::leaf::parquet::pages::PageScan;

/// Stands for the operators of a region's chain, and gives the same rows or partial states.
#[derive(Debug)]
pub(crate) struct HostFoldExec {
    split: Split,
    engine: Arc<Engine>,
    /// The programs of this execution, or why there are none.
    programs: OnceLock<std::result::Result<Arc<Programs>, String>>,
    /// How the leaf is read as pages, if it is.
    pages: Option<Arc<PageScan>>,
    /// What is known of the rows of pages only while they are read.
    filters: Vec<Arc<RuntimeFilter>>,
    declines: Arc<Declines>,
    metrics: ExecutionPlanMetricsSet,
}

impl HostFoldExec {
    /// Returns a scan with this node above it, if the scan has filters that are known only while it runs and
    /// the engine reads it: they leave rows out of it.
    pub(crate) fn over_filtered_scan(
        scan: &Arc<dyn ExecutionPlan>,
        engine: &HostEngine,
    ) -> Option<Arc<dyn ExecutionPlan>> {
        let HostEngine::Runs(engine) = engine else {
            return None;
        };
        let node = Self::over(Split::of(scan).ok()?, Arc::clone(engine));
        (!node.filters.is_empty()).then(|| Arc::new(node) as _)
    }

    /// Returns the chain of a region with this node in the place of its operators, if the engine runs it.
    pub(super) fn instead_of(
        chain: Arc<dyn ExecutionPlan>,
        engine: &HostEngine,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match engine {
            HostEngine::Runs(engine) => {
                let split = Split::of(&chain)?;
                Ok(Arc::new(Self::over(split, Arc::clone(engine))))
            }
            HostEngine::Off | HostEngine::Refused(_) => Ok(chain),
        }
    }

    fn over(split: Split, engine: Arc<Engine>) -> Self {
        let declines = Arc::<Declines>::default();
        let pages = match split.page_scan() {
            Some(Ok(pages)) => Some(Arc::new(pages)),
            Some(Err(reason)) => {
                declines.not_as_pages(&reason);
                None
            }
            None => None,
        };
        let filters = pages.as_ref().map_or_else(Vec::new, |pages| {
            let schema = split.source.schema();
            let filters = pages.runtime_filters().iter();
            let filters = filters
                .filter_map(|filter| RuntimeFilter::new(filter, &schema, engine.join_keys()));
            filters.map(Arc::new).collect()
        });
        Self {
            split,
            engine,
            programs: OnceLock::new(),
            pages,
            filters,
            declines,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the program for rows that are as the statistics say, if it is known before the node runs.
    fn known_program(&self) -> Option<&Arc<HostProgram>> {
        self.engine.known().map(|programs| programs.assumed())
    }

    /// Returns the program of this execution; `None` if the node does not run one.
    fn program(&self) -> Result<Option<Arc<HostProgram>>> {
        let programs = self.programs()?.as_ref().ok();
        Ok(programs.map(|programs| Arc::clone(programs.assumed())))
    }

    /// Returns a partition whose groups are gathered with those of the others.
    fn gathered(
        &self,
        partition: usize,
        ctx: &Arc<TaskContext>,
        gather: &Arc<Gather>,
    ) -> Result<PartitionFold> {
        let Ok(programs) = self.programs()? else {
            return internal_err!("a region without a program is not gathered");
        };
        let input = self.input(partition, ctx)?;
        let fold = self.fold(programs, ctx).gathered(gather);
        Ok(PartitionFold::new(fold, partition, input, &self.metrics))
    }

    fn fold(&self, programs: &Arc<Programs>, ctx: &Arc<TaskContext>) -> Fold {
        let (declines, ctx) = (Arc::clone(&self.declines), Arc::clone(ctx));
        Fold::new(Arc::clone(programs), self.split.clone(), declines, ctx)
    }

    /// Returns where the rows of a partition come from.
    fn input(&self, partition: usize, ctx: &Arc<TaskContext>) -> Result<Input> {
        match &self.pages {
            Some(scan) => {
                let pages = Pages::new(scan, partition, ctx, &self.filters, &self.metrics);
                Ok(Input::Pages(Box::new(pages)))
            }
            None => {
                let batches = self.split.source.execute(partition, Arc::clone(ctx))?;
                Ok(Input::Batches(batches))
            }
        }
    }

    fn programs(&self) -> Result<&std::result::Result<Arc<Programs>, String>> {
        match self.programs.get() {
            Some(programs) => Ok(programs),
            None => {
                let programs = self.engine.programs()?;
                Ok(self.programs.get_or_init(|| programs))
            }
        }
    }
}

impl DisplayAs for HostFoldExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostFoldExec: {}", self.engine.pipeline())?;
        if let Some(Err(reason)) = self.programs.get() {
            write!(f, ", not used: {reason}")?;
        }
        write!(f, "{}", self.declines)
    }
}

impl ExecutionPlan for HostFoldExec {
    fn name(&self) -> &str {
        "HostFoldExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.split.operators.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.split.source]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let mut node = &self.split.operators;
        while !Arc::ptr_eq(node, &self.split.source) {
            if node.apply_expressions(visit)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
            node = node.children()[0];
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([source]) = <[_; 1]>::try_from(children) else {
            return internal_err!("HostFoldExec has one input");
        };
        let before = Arc::as_ptr(&self.split.source);
        let is_source = |node: &dyn ExecutionPlan| std::ptr::addr_eq(node, before);
        let operators = with_leaf(&self.split.operators, &is_source, &source, Exchanges::Keep)?;
        let split = Split { operators, source };
        Ok(Arc::new(Self::over(split, Arc::clone(&self.engine))))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let (split, engine) = (self.split.clone(), Arc::clone(&self.engine));
        // Whoever fed the filters feeds others then.
        Ok(Arc::new(Self {
            filters: Vec::new(),
            ..Self::over(split, engine)
        }))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Ok(programs) = self.programs()? else {
            return self.split.operators.execute(partition, ctx);
        };
        let input = self.input(partition, &ctx)?;
        let fold = self.fold(programs, &ctx);
        Ok(fold.stream(partition, input, &self.metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let [source] = input_stats else {
            return internal_err!("HostFoldExec has one input");
        };
        let mut nodes = Vec::new();
        let mut node = &self.split.operators;
        while !Arc::ptr_eq(node, &self.split.source) {
            nodes.push(node);
            node = node.children()[0];
        }
        let operators = nodes.into_iter().rev();
        operators
            .into_iter()
            .try_fold(Arc::clone(source), |below, node| {
                node.statistics_from_inputs(&[below], args)
            })
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        self.split.operators.cardinality_effect()
    }
}
