//! Scalar subqueries of statements that are planned over executors.
//!
//! A plan for one process runs them beside itself, and fails if one has more than one row. Stages are cut
//! in one plan: there they are joins, which would give the rows of all. So a statement is planned with
//! joins if none of its subqueries can have a second row, and stays otherwise.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::Optimizer;
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::scalar_subquery_to_join::ScalarSubqueryToJoin;

/// The setting without which scalar subqueries become joins.
pub(super) const BESIDE: &str = "datafusion.optimizer.enable_physical_uncorrelated_scalar_subquery";

/// What becomes of a statement's subqueries.
#[derive(Debug)]
pub(super) enum Subqueries {
    /// The statement without any.
    Joined(Box<LogicalPlan>),
    /// Why it stays in one process.
    Stay(&'static str),
}

/// Makes joins of an optimized statement's scalar subqueries; `state` has [`BESIDE`] turned off.
///
/// # Errors
/// Those of looking through the plan.
pub(super) fn joined(logical: &LogicalPlan, state: &SessionState) -> Result<Subqueries> {
    let subqueries = scalar_subqueries(logical)?;
    if subqueries.is_empty() {
        return Ok(Subqueries::Joined(Box::new(logical.clone())));
    }
    let is_scalar = |plan: &Arc<LogicalPlan>| plan.max_rows().is_some_and(|rows| rows <= 1);
    if !subqueries.iter().all(is_scalar) {
        let why =
            "one of its scalar subqueries may have more than one row, which one process finds";
        return Ok(Subqueries::Stay(why));
    }
    let optimizer = Optimizer::with_rules(vec![
        Arc::new(ScalarSubqueryToJoin::new()),
        Arc::new(PushDownFilter::new()),
        Arc::new(OptimizeProjections::new()),
    ]);
    let joined = optimizer.optimize(logical.clone(), state, |_, _| {});
    Ok(match joined {
        Ok(joined) if scalar_subqueries(&joined)?.is_empty() => {
            Subqueries::Joined(Box::new(joined))
        }
        _ => Subqueries::Stay("one of its scalar subqueries cannot be made a join"),
    })
}

/// Lists the scalar subqueries of a plan, those within others too.
fn scalar_subqueries(plan: &LogicalPlan) -> Result<Vec<Arc<LogicalPlan>>> {
    let mut found = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::ScalarSubquery(subquery) = expr {
                    found.push(Arc::clone(&subquery.subquery));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(found)
}
