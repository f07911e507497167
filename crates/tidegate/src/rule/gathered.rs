//! Puts [`HostGroupsExec`] in the place of grouped aggregates whose first half the host engine runs.
//!
//! A group then leaves one of the outputs, but no certain one. Where a node above relies on the
//! partitioning by value that the aggregate had, its rows are routed by DataFusion's exchange, directly below
//! that node: filters between them have left rows out by then.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::InterleaveExec;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    ReplaceChildrenOptions,
};

use crate::region::HostGroupsExec;
use crate::region::atomic::can_be_claimed;

/// A plan, and whether its rows are no longer where the partitioning that it had puts them.
struct Gathered {
    plan: Arc<dyn ExecutionPlan>,
    is_moved: bool,
}

/// Returns the plan with the aggregates gathered of which that is possible.
pub(super) fn gathered_groups(
    plan: &Arc<dyn ExecutionPlan>,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(gathered(plan, config)?.plan)
}

fn gathered(plan: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Gathered> {
    if let Some(groups) = HostGroupsExec::instead_of(plan, config) {
        let is_moved = plan.output_partitioning().partition_count() > 1;
        return Ok(Gathered {
            plan: groups,
            is_moved,
        });
    }
    let (mut inputs, mut is_changed, mut is_moved) = (Vec::new(), false, false);
    let needs = plan.input_distribution_requirements();
    for (place, before) in plan.children().into_iter().enumerate() {
        let mut input = gathered(before, config)?;
        let is_needed = plan.is::<InterleaveExec>()
            || !matches!(
                needs.child_distribution(place),
                Some(Distribution::UnspecifiedDistribution | Distribution::SinglePartition)
            );
        if input.is_moved && is_needed {
            input = Gathered {
                plan: routed(input.plan, before.output_partitioning())?,
                is_moved: false,
            };
        }
        is_changed |= !Arc::ptr_eq(&input.plan, before);
        is_moved |= input.is_moved;
        inputs.push(input.plan);
    }
    if !is_changed {
        return Ok(Gathered {
            plan: Arc::clone(plan),
            is_moved: false,
        });
    }
    let moves_rows_itself = plan.is::<RepartitionExec>()
        || plan.is::<CoalescePartitionsExec>()
        || plan.is::<SortPreservingMergeExec>();
    let is_moved = is_moved && !moves_rows_itself;
    let properties = match is_moved {
        true => ChildrenPropertiesMode::Recompute,
        false => ChildrenPropertiesMode::Keep,
    };
    let options = ReplaceChildrenOptions::new(properties);
    Ok(Gathered {
        plan: Arc::clone(plan).replace_children(inputs, options)?,
        is_moved,
    })
}

/// Routes rows as a partitioning has them that somebody relies on.
fn routed(
    plan: Arc<dyn ExecutionPlan>,
    partitioning: &Partitioning,
) -> Result<Arc<dyn ExecutionPlan>> {
    match partitioning {
        Partitioning::Hash(exprs, _) if can_be_claimed(exprs) => {
            let routed = RepartitionExec::try_new(plan, partitioning.clone())?;
            Ok(Arc::new(routed))
        }
        // Nobody can rely on any other.
        _ => Ok(plan),
    }
}
