//! The final aggregation of a statement with few groups, on the scheduler.
//!
//! DataFusion partitions groups by their keys, and each partition ends its own. Between executors that takes one more
//! stage, which pays for many groups alone. How many there are is known once executors have counted them
//! ([`SpreadPlanner::counted`]).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use crate::node_rule::over;
use crate::spread::SpreadPlanner;

/// The maximum number of groups, those of all partitions together, that the scheduler aggregates.
const GROUPS_MAX: u64 = 1 << 16;

/// Decides where the final aggregation runs; belongs before exchanges are added.
#[derive(Debug)]
pub(super) struct FewGroups {
    pub(super) planner: Arc<dyn SpreadPlanner>,
}

impl PhysicalOptimizerRule for FewGroups {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.replaced(&plan)?.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        "few_groups"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl FewGroups {
    /// Replaces the last aggregate of a plan, if nothing above it gains from several partitions.
    fn replaced(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            return self.aggregated(aggregate);
        }
        let is_plain = node.is::<OutputRequirementExec>()
            || node.is::<ProjectionExec>()
            || node.is::<FilterExec>()
            || node.is::<SortExec>()
            || node.is::<GlobalLimitExec>()
            || node.is::<LocalLimitExec>();
        let children = node.children();
        let (true, [input]) = (is_plain, children.as_slice()) else {
            return Ok(None);
        };
        let Some(input) = self.replaced(input)? else {
            return Ok(None);
        };
        over(node, vec![input]).map(Some)
    }

    /// Aggregates in one partition if there are few groups, and has them counted unless they are known to be many.
    fn aggregated(&self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let partial = aggregate.input();
        let of_partitions = partial
            .downcast_ref::<AggregateExec>()
            .is_some_and(|partial| *partial.mode() == AggregateMode::Partial);
        if *aggregate.mode() != AggregateMode::FinalPartitioned || !of_partitions {
            return Ok(None);
        }
        let mode = match self.planner.rows_counted(partial) {
            Some(groups) if groups > GROUPS_MAX => return Ok(None),
            Some(_) => AggregateMode::Final,
            None => AggregateMode::FinalPartitioned,
        };
        let last = AggregateExec::try_new(
            mode,
            Arc::new(aggregate.group_expr().clone()),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            self.planner.counted(partial),
            aggregate.input_schema(),
        )?;
        let last = last.with_limit_options(aggregate.limit_options());
        Ok(Some(Arc::new(last)))
    }
}
