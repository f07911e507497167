//! Joins that each executor runs on its own, over its share of the largest table and the whole of the others.
//!
//! Reading a small table again is cheaper than an exchange. And within one stage the keys of one table filter the scan
//! of another, as in one process.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};

use super::Extent;
use super::leaves::{leaf_bytes, leaf_name};
use crate::unary::{UnaryExec, UnaryOperator};

/// The bytes of tables that every executor reads whole, as they are in files.
const WHOLE_MAX: u64 = 128 << 20;
/// They take at most one part in so many of an executor's memory limit: in memory they are a few times as large.
const MEMORY_PART: u64 = 16;

/// Marks joins that each executor runs on its own.
pub type LocalExec = UnaryExec<Local>;

/// What a [`LocalExec`] is.
#[derive(Debug)]
pub struct Local {
    joins: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl Local {
    fn new(joins: Arc<dyn ExecutionPlan>) -> Self {
        // Rows with equal keys may be on several executors.
        let count = joins.output_partitioning().partition_count();
        let properties = PlanProperties::clone(joins.properties());
        let properties = properties.with_partitioning(Partitioning::UnknownPartitioning(count));
        Self {
            joins,
            properties: Arc::new(properties),
        }
    }
}

impl LocalExec {
    /// Marks joins.
    pub fn of(joins: &Arc<dyn ExecutionPlan>) -> Self {
        Self(Local::new(Arc::clone(joins)))
    }
}

impl UnaryOperator for Local {
    const NAME: &'static str = "LocalExec";
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.joins
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input)
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }
}

/// Marks joins if each executor can run them on its own, and reads little more for it.
pub(crate) fn local(joins: &Arc<dyn ExecutionPlan>, extent: &Extent) -> Option<LocalExec> {
    is_local(joins, extent).then(|| LocalExec::of(joins))
}

/// Returns whether each executor can run joins on its own, or scan a table, and reads little more for it.
pub(crate) fn is_local(joins: &Arc<dyn ExecutionPlan>, extent: &Extent) -> bool {
    let leaves = leaves_of(joins);
    let Some((leaves, shared)) = leaves
        .as_deref()
        .and_then(|leaves| Some((leaves, shared_of(leaves)?)))
    else {
        return false;
    };
    let all: u64 = leaves.iter().map(|leaf| leaf.bytes).sum();
    let whole = all - shared.bytes;
    let again = whole.saturating_mul((extent.executors as u64).saturating_sub(1));
    whole <= WHOLE_MAX.min(extent.memory / MEMORY_PART) && again <= shared.bytes
}

/// Returns the table of local joins of which each executor reads its share.
pub fn shared_leaf(joins: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let leaves = leaves_of(joins)?;
    Some(Arc::clone(&shared_of(&leaves)?.plan))
}

/// Writes which tables are joined how, and which of them is shared.
pub fn joined_tables(joins: &Arc<dyn ExecutionPlan>) -> String {
    let shared = shared_leaf(joins);
    written(joins, shared.as_ref())
}

fn written(joins: &Arc<dyn ExecutionPlan>, shared: Option<&Arc<dyn ExecutionPlan>>) -> String {
    let inputs = joins.children();
    match (joins.downcast_ref::<HashJoinExec>(), inputs.as_slice()) {
        (Some(join), [left, right]) => {
            let (left, right) = (written(left, shared), written(right, shared));
            format!("{}({left}, {right})", join.join_type())
        }
        (_, [input]) => written(input, shared),
        _ if shared.is_some_and(|shared| Arc::ptr_eq(shared, joins)) => {
            format!("share of {}", leaf_name(joins))
        }
        _ => leaf_name(joins),
    }
}

/// A table that is joined.
struct Leaf {
    plan: Arc<dyn ExecutionPlan>,
    bytes: u64,
    /// Whether the rows of the joins are those of its shares together.
    is_divisible: bool,
}

/// Returns the largest leaf that can be divided.
fn shared_of(leaves: &[Leaf]) -> Option<&Leaf> {
    let divisible = leaves.iter().filter(|leaf| leaf.is_divisible);
    divisible.max_by_key(|leaf| leaf.bytes)
}

/// Returns the leaves of joins; `None` if executors might read or compute different rows of a whole table.
fn leaves_of(joins: &Arc<dyn ExecutionPlan>) -> Option<Vec<Leaf>> {
    let mut leaves = Vec::new();
    add_leaves(joins, true, &mut leaves)?;
    Some(leaves)
}

fn add_leaves(
    node: &Arc<dyn ExecutionPlan>,
    is_divisible: bool,
    leaves: &mut Vec<Leaf>,
) -> Option<()> {
    // Which rows a limit takes may differ.
    if node.fetch().is_some() || is_volatile(node) {
        return None;
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        if join.null_aware {
            return None;
        }
        let (left, right) = divisible_sides(*join.join_type());
        add_leaves(join.left(), is_divisible && left, leaves)?;
        return add_leaves(join.right(), is_divisible && right, leaves);
    }
    let keeps_rows = node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>();
    match node.children().as_slice() {
        [] => {
            // A share is put in the place of one leaf.
            if leaves.iter().any(|leaf| Arc::ptr_eq(&leaf.plan, node)) {
                return None;
            }
            leaves.push(Leaf {
                plan: Arc::clone(node),
                bytes: leaf_bytes(node)?,
                is_divisible,
            });
        }
        [input] if keeps_rows => add_leaves(input, is_divisible, leaves)?,
        _ => return None,
    }
    Some(())
}

/// Returns whether the rows of a join are those of its shares together, for shares of its left and of its right side.
fn divisible_sides(join_type: JoinType) -> (bool, bool) {
    match join_type {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
            (true, false)
        }
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
            (false, true)
        }
        JoinType::Full => (false, false),
    }
}

fn is_volatile(node: &Arc<dyn ExecutionPlan>) -> bool {
    let mut is_volatile = false;
    let looked = node.apply_expressions(&mut |expr| {
        expr.apply(|expr| {
            is_volatile |= expr.is_volatile_node();
            Ok(TreeNodeRecursion::Continue)
        })
    });
    is_volatile || looked.is_err()
}
