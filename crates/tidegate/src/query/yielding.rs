//! Joins that yield, and can be stopped.
//!
//! DataFusion's sources give a thread back after some batches, and with them the operators above. A join
//! makes many batches of one: a cross join of two million rows goes on for an hour without asking its
//! sources, and whoever would stop the statement waits as long. [`yield_at_joins`] puts a
//! [`CooperativeExec`] above each operator that may make more rows than it reads, which yields after some
//! batches. A nested loop join may also compare for as long without a row that passes, inside one call; the
//! condition that it calls each time becomes a [`StoppableCondition`], which fails once its statement was
//! stopped. [`arm`] tells the conditions of a plan which statement that is.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::{FieldRef, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
    PiecewiseMergeJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ColumnarValue, ExecutionPlan};
use parking_lot::Mutex;

use super::admission::Admitted;
use super::exec::ran_too_long;
use super::{CancelHandle, cancelled};
use crate::node_rule::Replaced;

/// Lets a join yield and be stopped. Comes after the rules that look for joins.
pub(crate) fn yield_at_joins(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    if !makes_rows(node) {
        return Ok(None);
    }
    let stoppable = match node.downcast_ref::<NestedLoopJoinExec>() {
        Some(join) => stoppable(join)?,
        None => None,
    };
    if nested(node) >= NESTED_MAX {
        return Ok(stoppable);
    }
    let node = stoppable.unwrap_or_else(|| Arc::clone(node));
    Ok(Some(Arc::new(CooperativeExec::new(node))))
}

/// The most nodes that yield, one above the other. Each takes one of the 128 units that tokio gives a task for a poll,
/// before it asks the node below; were there more, no poll would reach the leaves.
const NESTED_MAX: usize = 64;

/// Returns how many nodes that yield there are at the most between a node and a leaf.
fn nested(node: &Arc<dyn ExecutionPlan>) -> usize {
    let below = node.children().into_iter().map(nested).max();
    below.unwrap_or(0) + usize::from(node.is::<CooperativeExec>())
}

/// Returns whether a node may make many batches of one.
fn makes_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CrossJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<PiecewiseMergeJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnnestExec>()
}

fn stoppable(join: &NestedLoopJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(filter) = join.filter() else {
        return Ok(None);
    };
    let condition = StoppableCondition {
        inner: Arc::clone(filter.expression()),
        stop: Arc::default(),
    };
    let filter = JoinFilter::new(
        Arc::new(condition),
        filter.column_indices().to_vec(),
        Arc::clone(filter.schema()),
    );
    let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter));
    Ok(Some(Arc::new(join.build()?)))
}

/// What stops a statement.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) cancel: CancelHandle,
    /// When its time is over, and how long that was.
    pub(super) deadline: Option<(Instant, Duration)>,
    /// Gone when nobody reads the statement's rows any more.
    pub(super) read: Weak<Admitted>,
}

impl Stop {
    fn check(&self) -> Result<()> {
        if self.cancel.is_cancelled() || self.read.strong_count() == 0 {
            return Err(cancelled().into());
        }
        match self.deadline {
            Some((at, timeout)) if at <= Instant::now() => Err(ran_too_long(timeout).into()),
            _ => Ok(()),
        }
    }
}

/// Tells the conditions of a plan that is about to run what stops them.
pub(super) fn arm(plan: &Arc<dyn ExecutionPlan>, stop: &Stop) -> Result<()> {
    plan.apply(|node| {
        let join = node.downcast_ref::<NestedLoopJoinExec>();
        let filter = join.and_then(NestedLoopJoinExec::filter);
        let condition =
            filter.and_then(|filter| filter.expression().downcast_ref::<StoppableCondition>());
        if let Some(condition) = condition {
            *condition.stop.lock() = Some(stop.clone());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// A condition that fails once its statement was stopped.
#[derive(Clone, Debug)]
struct StoppableCondition {
    inner: Arc<dyn PhysicalExpr>,
    /// `None` before the plan runs.
    stop: Arc<Mutex<Option<Stop>>>,
}

impl PartialEq for StoppableCondition {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner)
    }
}

impl Eq for StoppableCondition {}

impl Hash for StoppableCondition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for StoppableCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for StoppableCondition {
    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if let Some(stop) = self.stop.lock().as_ref() {
            stop.check()?;
        }
        self.inner.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let Ok([inner]) = <[_; 1]>::try_from(children) else {
            return internal_err!("a condition that can be stopped is one condition");
        };
        let stop = Arc::clone(&self.stop);
        Ok(Arc::new(Self { inner, stop }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}
