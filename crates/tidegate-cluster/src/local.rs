//! Joins that each executor runs on its own, as the engine of stages sees them: one leaf, shared as its largest table is.

use std::fmt;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use tidegate::spread::{
    LeafShare, LocalExec, Reader, joined_tables, leaf_bytes, leaf_shares, leaf_table, shared_leaf,
};

/// See the module. The executor takes it away before anything runs.
#[derive(Debug)]
pub(crate) struct LocalLeaf {
    /// The joins, and a [`LocalExec`] above them.
    pub(crate) marked: Arc<dyn ExecutionPlan>,
}

impl LocalLeaf {
    /// Hides marked joins from what cuts a plan into stages.
    ///
    /// # Errors
    /// None for plans that were made.
    pub(crate) fn hide(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            if !node.is::<LocalExec>() {
                return Ok(Transformed::no(node));
            }
            let hidden: Arc<dyn ExecutionPlan> = Arc::new(Self { marked: node });
            Ok(Transformed::new(hidden, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    /// Returns the joins.
    pub(crate) fn joins(&self) -> &Arc<dyn ExecutionPlan> {
        match self.marked.children().as_slice() {
            [joins] => joins,
            _ => &self.marked,
        }
    }

    /// Returns the table of which each executor reads its share.
    fn shared(&self) -> Option<Arc<dyn ExecutionPlan>> {
        shared_leaf(self.joins())
    }

    fn with_share(&self, shared: &Arc<dyn ExecutionPlan>, share: LeafShare) -> Result<LeafShare> {
        let marked = Arc::clone(&self.marked).transform_up(|node| {
            Ok(match Arc::ptr_eq(&node, shared) {
                true => Transformed::yes(Arc::clone(&share.plan)),
                false => Transformed::no(node),
            })
        });
        let marked = marked.data()?;
        Ok(LeafShare {
            plan: Arc::new(Self { marked }),
            size: share.size,
        })
    }
}

impl DisplayAs for LocalLeaf {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalExec: joins={}", joined_tables(self.joins()))
    }
}

impl ExecutionPlan for LocalLeaf {
    fn name(&self) -> &str {
        "LocalExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.marked.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("LocalExec is a leaf"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.marked.execute(partition, ctx)
    }
}

/// Returns about how many bytes of a leaf executors share; `None` if they do not.
pub(crate) fn shared_bytes(leaf: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    match leaf.downcast_ref::<LocalLeaf>() {
        Some(local) => leaf_bytes(&local.shared()?),
        None => leaf_bytes(leaf),
    }
}

/// Names the table of a leaf that executors share.
pub(crate) fn shared_table(leaf: &Arc<dyn ExecutionPlan>) -> String {
    let local = leaf.downcast_ref::<LocalLeaf>();
    let shared = local.and_then(LocalLeaf::shared);
    leaf_table(shared.as_ref().unwrap_or(leaf))
}

/// Cuts a leaf into shares as [`leaf_shares`] does.
///
/// # Errors
/// None for leaves that the planner made.
pub(crate) fn shares(
    leaf: &Arc<dyn ExecutionPlan>,
    readers: &[Reader],
    partitions: usize,
    environment: &RuntimeEnv,
) -> Result<Option<Vec<LeafShare>>> {
    let Some(local) = leaf.downcast_ref::<LocalLeaf>() else {
        return leaf_shares(leaf, readers, partitions, environment);
    };
    let shared = local.shared();
    let shares = shared.map(|shared| {
        let shares = leaf_shares(&shared, readers, partitions, environment)?;
        let with_share = |share| local.with_share(&shared, share);
        let shares = shares.map(|shares| shares.into_iter().map(with_share).collect());
        shares.transpose()
    });
    match shares.transpose()?.flatten() {
        Some(shares) => Ok(Some(shares)),
        // Each executor would give all rows.
        None => internal_err!("local joins share no table"),
    }
}
