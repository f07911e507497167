//! How joins run over executors: which side is sent whole, which are partitioned by their keys.
//!
//! DataFusion divides both sides of a join by its keys unless one is smaller than a fixed size. Between executors that
//! sends every row of both over the network, and the keys of one side cannot filter the scan of the other, which is in
//! another stage. [`BroadcastSides`] compares what either way costs.
//!
//! Small tables are cheaper to read again than to send: each executor runs joins of those on its own ([`local`]).
//!
//! Estimates of filters, groups and joins are often far off. So executors count the rows of sides, and the next plan with
//! the same side is made for as many.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use super::semi_join_reduction::reduced;
use crate::spilling::{bytes_of, row_bytes};
use crate::spread::{Extent, SpreadPlanner, local};

/// The bytes of a side that every executor holds, if the rows of both sides were counted.
const SIDE_MAX: u64 = 128 << 20;
/// The same if one of them is estimated: what is partitioned is counted, and known for the next plan.
const UNCOUNTED_MAX: u64 = 16 << 20;
/// A side takes at most one part in so many of an executor's memory limit.
const MEMORY_PART: u64 = 8;

/// Decides how each hash join runs; belongs before exchanges are added.
#[derive(Debug)]
pub(super) struct BroadcastSides {
    pub(super) planner: Arc<dyn SpreadPlanner>,
    pub(super) extent: Extent,
}

impl PhysicalOptimizerRule for BroadcastSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // From the head down: a side is known by its plan, in which no join below has been changed yet.
        plan.transform_down(|node| {
            if !node.is::<HashJoinExec>() {
                return Ok(Transformed::no(node));
            }
            if let Some(local) = local(&node, &self.extent) {
                let local: Arc<dyn ExecutionPlan> = Arc::new(local);
                return Ok(Transformed::new(local, true, TreeNodeRecursion::Jump));
            }
            match self.replaced(&node)? {
                Some(join) => Ok(Transformed::yes(join)),
                None => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "broadcast_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl BroadcastSides {
    fn replaced(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = node.downcast_ref::<HashJoinExec>() else {
            return Ok(None);
        };
        // A join that gives rows of its left side is partitioned in any case.
        let is_divided =
            *join.partition_mode() == PartitionMode::Partitioned || emits_left(*join.join_type());
        if !is_divided || join.null_aware {
            return Ok(None);
        }
        let counted = |side| self.planner.counted(side);
        let (left, right) = (self.side(join.left()), self.side(join.right()));
        if !emits_left(*join.join_type()) && self.is_broadcast(&left, &right) {
            // The keys of the left side filter the right one, whose rows then tell nothing.
            let sides = vec![counted(join.left()), Arc::clone(join.right())];
            let collected = join
                .builder()
                .with_partition_mode(PartitionMode::CollectLeft);
            return collected.with_new_children(sides)?.build_exec().map(Some);
        }
        let swapped = join.join_type().swap();
        if !emits_left(swapped) && self.is_broadcast(&right, &left) {
            let sides = vec![Arc::clone(join.left()), counted(join.right())];
            let join = join.builder().with_new_children(sides)?.build()?;
            return join.swap_inputs(PartitionMode::CollectLeft).map(Some);
        }
        let reduced = |larger| reduced(join, larger, &self.extent);
        let (is_left_small, is_right_small) = (
            self.is_broadcast(&left, &right),
            self.is_broadcast(&right, &left),
        );
        let sides = if is_left_small && let Some(right) = reduced(JoinSide::Right)? {
            vec![counted(join.left()), right]
        } else if is_right_small && let Some(left) = reduced(JoinSide::Left)? {
            vec![left, counted(join.right())]
        } else {
            vec![counted(join.left()), counted(join.right())]
        };
        join.builder()
            .with_partition_mode(PartitionMode::Partitioned)
            .with_new_children(sides)?
            .build_exec()
            .map(Some)
    }

    /// Returns whether to send a side whole to each executor, rather than to partition both.
    fn is_broadcast(&self, side: &Side, other: &Side) -> bool {
        let (Some(bytes), Some(other_bytes)) = (side.bytes, other.bytes) else {
            return false;
        };
        let max = match side.is_counted && other.is_counted {
            true => SIDE_MAX,
            false => UNCOUNTED_MAX,
        };
        let max = max.min(self.extent.memory / MEMORY_PART);
        let others = (self.extent.executors as u64).saturating_sub(1);
        // A row that is sent to one more executor is sent, and put into one more table.
        bytes <= max && bytes.saturating_mul(2 * others) <= other_bytes
    }

    /// Returns what the rows of a side take.
    fn side(&self, side: &Arc<dyn ExecutionPlan>) -> Side {
        let counted = self.planner.rows_counted(side);
        Side {
            bytes: match counted {
                Some(rows) => Some(rows.saturating_mul(row_bytes(&side.schema()))),
                None => bytes_of(side),
            },
            is_counted: counted.is_some(),
        }
    }
}

/// What the rows of a side take, as they were counted, or as they are estimated.
struct Side {
    bytes: Option<u64>,
    is_counted: bool,
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
