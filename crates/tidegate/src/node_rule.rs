//! Rules made of functions: those of the physical optimizer that replace nodes one by one, from the leaves up, those of
//! the logical one, and those of the analyzer.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

/// A rule of the physical optimizer, by its name, with what makes another node of one; `None` leaves the node as it is.
pub(crate) struct NodeRule<F>(pub(crate) &'static str, pub(crate) F);

/// What stands in the place of a node.
pub(crate) type Replaced = Result<Option<Arc<dyn ExecutionPlan>>>;

impl<F> fmt::Debug for NodeRule<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<F> PhysicalOptimizerRule for NodeRule<F>
where
    F: Fn(&Arc<dyn ExecutionPlan>, &ConfigOptions) -> Replaced + Send + Sync + 'static,
{
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match self.1(&node, config)? {
                Some(replaced) => Transformed::yes(replaced),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        self.0
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Puts a node over other inputs.
pub(crate) fn over(
    node: &Arc<dyn ExecutionPlan>,
    inputs: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node).replace_children(inputs, options)
}

/// Puts a node over what its inputs become, which has their properties; returns the node itself if none of them changes.
pub(crate) fn over_changed(
    node: &Arc<dyn ExecutionPlan>,
    change: impl FnMut(&Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let children = node.children();
    let changed = children.iter().copied().map(change);
    let inputs = changed.collect::<Result<Vec<_>>>()?;
    let mut pairs = inputs.iter().zip(children);
    if pairs.all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(Arc::clone(node));
    }
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Arc::clone(node).replace_children(inputs, options)
}

/// A rule of the logical optimizer, by its name, the order of nodes, and what rewrites one.
pub(crate) struct LogicalRule<F>(pub(crate) &'static str, pub(crate) ApplyOrder, pub(crate) F);

impl<F> fmt::Debug for LogicalRule<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<F> OptimizerRule for LogicalRule<F>
where
    F: Fn(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
{
    fn name(&self) -> &str {
        self.0
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(self.1)
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        self.2(node)
    }
}

/// A rule of the analyzer, by its name, with what rewrites a plan.
pub(crate) struct PlanRule<F>(pub(crate) &'static str, pub(crate) F);

impl<F> fmt::Debug for PlanRule<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<F> AnalyzerRule for PlanRule<F>
where
    F: Fn(LogicalPlan, &ConfigOptions) -> Result<LogicalPlan> + Send + Sync + 'static,
{
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        self.1(plan, config)
    }

    fn name(&self) -> &str {
        self.0
    }
}
