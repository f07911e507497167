//! DataFusion's rules, each of which can be stopped: between two nodes of a plan, or between two rules.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use super::planning::in_rule;

/// Lets each rule of a state be stopped, and tells functions that are called in one that they fold.
pub(crate) fn with_stops(state: SessionState) -> SessionState {
    let mut builder = SessionStateBuilder::from(state);
    if let Some(analyzer) = builder.analyzer() {
        for rule in &mut analyzer.rules {
            *rule = Arc::new(Stopping(Arc::clone(rule)));
        }
    }
    if let Some(optimizer) = builder.optimizer() {
        for rule in &mut optimizer.rules {
            *rule = Arc::new(Stopping(Arc::clone(rule)));
        }
    }
    if let Some(optimizer) = builder.physical_optimizers() {
        for rule in &mut optimizer.rules {
            *rule = Arc::new(Stopping(Arc::clone(rule)));
        }
    }
    builder.build()
}

/// A rule that does nothing more once nobody waits for the plan.
#[derive(Debug)]
struct Stopping<R>(R);

impl AnalyzerRule for Stopping<Arc<dyn AnalyzerRule + Send + Sync>> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        in_rule(|| self.0.analyze(plan, config))
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl OptimizerRule for Stopping<Arc<dyn OptimizerRule + Send + Sync>> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        in_rule(|| self.0.rewrite(plan, config))
    }
}

impl PhysicalOptimizerRule for Stopping<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        in_rule(|| self.0.optimize(plan, config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        in_rule(|| self.0.optimize_with_context(plan, context))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
