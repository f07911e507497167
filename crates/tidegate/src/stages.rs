//! Regions of the stages that another process planned, or that this one planned for others.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_plan::ExecutionPlan;

use crate::node_rule::NodeRule;
use crate::query::{regions, yield_at_joins};
use crate::region::report::RegionReport;
use crate::rewrite::by_unique_names;
use crate::rule::PlacePipelines;
use crate::runtime::Runtime;
use crate::spilling::top_k_that_spills;

/// Reports the regions of a stage, from its head down, as far as they have run.
pub fn stage_regions(stage: &Arc<dyn ExecutionPlan>) -> Vec<RegionReport> {
    regions(stage)
}

/// Makes regions of a plan that was meant to be spread and runs in this process after all.
///
/// # Errors
/// Those of the rules.
pub fn place_here(
    plan: Arc<dyn ExecutionPlan>,
    runtime: &Arc<Runtime>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    place_stage(plan, runtime, config)
}

/// Makes regions of a stage that this process runs as an executor: dynamic filters first, which did not
/// travel, then the rules that a whole statement ends with.
///
/// # Errors
/// Those of the rules.
pub fn place_stage(
    plan: Arc<dyn ExecutionPlan>,
    runtime: &Arc<Runtime>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let rules: [Arc<dyn PhysicalOptimizerRule>; 4] = [
        by_unique_names(Arc::new(FilterPushdown::new_post_optimization())),
        Arc::new(NodeRule("yield_at_joins", yield_at_joins)),
        top_k_that_spills(runtime),
        Arc::new(PlacePipelines::new(Arc::clone(runtime))),
    ];
    rules
        .iter()
        .try_fold(plan, |plan, rule| rule.optimize(plan, config))
}
