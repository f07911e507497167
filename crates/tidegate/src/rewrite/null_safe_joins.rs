//! Keeps joins in which NULLs are equal from those in which they are not.
//!
//! DataFusion orders inner joins anew by their keys, of which some may stand in WHERE, and gives all of them the NULL
//! rule of the outermost one: beside `a.k IS NOT DISTINCT FROM b.k` the keys of `a.x = c.x` match where both are NULL.
//! A plan with such a join keeps the order that it has ([`has_null_safe_join`]). It makes keys of `a.x = b.x` in the
//! filter of such a join as well; there the filter stays one ([`is_null_safe_join`]).

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::walk::any_node;

/// A rule of DataFusion's, kept from some plans.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) rule: Arc<dyn OptimizerRule + Send + Sync>,
    pub(super) from: fn(&LogicalPlan) -> Result<bool>,
}

impl OptimizerRule for Kept {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match (self.from)(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// Returns whether a node is a join in which NULLs are equal.
pub(super) fn is_null_safe_join(node: &LogicalPlan) -> Result<bool> {
    Ok(matches!(
        node,
        LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull
    ))
}

/// Returns whether a plan has an inner join in which NULLs are equal.
pub(super) fn has_null_safe_join(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        Ok(matches!(
            node,
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner
                && join.null_equality == NullEquality::NullEqualsNull
        ))
    })
}
