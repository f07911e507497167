//! Keeps joins in which NULLs are equal from those in which they are not.
//!
//! DataFusion orders inner joins anew by their keys, of which some may stand in WHERE, and gives all of them the NULL
//! rule of the outermost one: beside `a.k IS NOT DISTINCT FROM b.k` the keys of `a.x = c.x` match where both are NULL.
//! A plan with such a join keeps the order that it has ([`KeepOrder`]). It makes keys of `a.x = b.x` in the filter of
//! such a join as well; there the filter stays one ([`KeepFilters`]).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{JoinType, NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// A rule that orders joins, kept from plans with a join in which NULLs are equal.
#[derive(Debug)]
pub(super) struct KeepOrder(pub(super) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeepOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match has_null_safe_join(&plan)? {
            true => Ok(Transformed::no(plan)),
            false => self.0.rewrite(plan, config),
        }
    }
}

/// A rule that makes keys of a join's filter, kept from joins in which NULLs are equal.
#[derive(Debug)]
pub(super) struct KeepFilters(pub(super) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeepFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull => {
                Ok(Transformed::no(plan))
            }
            _ => self.0.rewrite(plan, config),
        }
    }
}

fn has_null_safe_join(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = matches!(
            node,
            LogicalPlan::Join(join) if join.join_type == JoinType::Inner
                && join.null_equality == NullEquality::NullEqualsNull
        );
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}
