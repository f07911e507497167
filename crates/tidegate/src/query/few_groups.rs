//! Groups that are few: they are ended where the statement's rows go, not in a stage of their own between executors.
//!
//! DataFusion sends groups to partitions by their keys, to be ended side by side. Between executors that is one stage
//! more, which costs more than it gains unless there are many groups. How many there are is not known before they were
//! counted once ([`SpreadPlanner::counted`]).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};

use crate::spread::SpreadPlanner;

/// The groups of all partitions together that one partition ends.
const GROUPS_MAX: u64 = 1 << 16;

/// Decides where the last groups of a statement are ended; belongs before exchanges are added.
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
    /// Replaces the last groups of a plan, if nothing above them gains from several partitions.
    fn replaced(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            return self.ended(aggregate);
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
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(node)
            .replace_children(vec![input], options)
            .map(Some)
    }

    /// Ends groups in one partition if they are few, and has them counted unless they are known to be many.
    fn ended(&self, aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
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
        let ended = AggregateExec::try_new(
            mode,
            Arc::new(aggregate.group_expr().clone()),
            aggregate.aggr_expr().to_vec(),
            aggregate.filter_expr().to_vec(),
            self.planner.counted(partial),
            aggregate.input_schema(),
        )?;
        let ended = ended.with_limit_options(aggregate.limit_options());
        Ok(Some(Arc::new(ended)))
    }
}
