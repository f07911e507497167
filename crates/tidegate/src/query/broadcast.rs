//! Joins whose smaller side each executor reads whole.
//!
//! DataFusion divides both sides of a join by its keys unless one is smaller than a fixed size. Between executors that
//! sends every row of both over the network, and the keys of one side cannot filter the scan of the other, which is in
//! another stage. [`broadcast_sides`] compares what either way costs.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use crate::node_rule::{NodeRule, Replaced};
use crate::spilling::bytes_of;

/// The estimated bytes of a side that every executor holds.
const SIDE_MAX: u64 = 128 << 20;

/// Collects the left side of a hash join in each of so many executors where that moves fewer bytes than dividing both
/// sides; belongs before exchanges are added.
pub(super) fn broadcast_sides(executors: usize) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let others = (executors as u64).saturating_sub(1);
    let replace = move |node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions| -> Replaced {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else {
            return Ok(None);
        };
        let is_divided = *join.partition_mode() == PartitionMode::Partitioned;
        if !is_divided || join.null_aware || emits_left(*join.join_type()) {
            return Ok(None);
        }
        let (Some(left), Some(right)) = (bytes_of(join.left()), bytes_of(join.right())) else {
            return Ok(None);
        };
        // A row that is sent to one more executor is sent, and put into one more table.
        if left > SIDE_MAX || left.saturating_mul(2 * others) > right {
            return Ok(None);
        }
        let collected = join
            .builder()
            .with_partition_mode(PartitionMode::CollectLeft);
        collected.build_exec().map(Some)
    };
    Arc::new(NodeRule("broadcast_sides", replace))
}

/// Returns whether a join gives rows of its left side that have no match: several executors would all give them.
fn emits_left(join_type: JoinType) -> bool {
    match join_type {
        JoinType::Inner
        | JoinType::Right
        | JoinType::RightSemi
        | JoinType::RightAnti
        | JoinType::RightMark => false,
        JoinType::Left
        | JoinType::Full
        | JoinType::LeftSemi
        | JoinType::LeftAnti
        | JoinType::LeftMark => true,
    }
}
