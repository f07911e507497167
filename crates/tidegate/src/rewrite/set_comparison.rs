//! Names the subqueries of `x < ALL (…)` and `x = ANY (…)`.
//!
//! DataFusion writes the comparison into the subquery and joins it with the outer query by column names.
//! Where both read the same table, a name is that of two columns, and the inner one is compared with
//! itself. Each such subquery therefore gets an alias that nothing else has.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Result, not_impl_err};
use datafusion::logical_expr::expr::SetComparison;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::walk::{any_expression, holds_any};

/// Gives the subqueries of set comparisons names of their own.
pub(super) fn name_set_comparisons(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    let is_comparison = |part: &Expr| matches!(part, Expr::SetComparison(_));
    if !any_expression(&plan, is_comparison)? {
        return Ok(plan);
    }
    let mut named = 0;
    plan.transform_up_with_subqueries(|node| {
        // The comparison would be written otherwise, and the output lose its name.
        let has_names = matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_));
        if has_names && holds_any(&node, is_comparison)? {
            return not_impl_err!(
                "ALL and ANY of a subquery in an aggregate, its FILTER, a key or a window: compare in \
                 WHERE or HAVING, or with the least or greatest value of the subquery"
            );
        }
        node.map_expressions(|expr| {
            expr.transform_up(|part| match part {
                Expr::SetComparison(comparison) => {
                    named += 1;
                    let comparison = with_alias(comparison, named)?;
                    Ok(Transformed::yes(Expr::SetComparison(comparison)))
                }
                part => Ok(Transformed::no(part)),
            })
        })
    })
    .data()
}

fn with_alias(mut comparison: SetComparison, number: usize) -> Result<SetComparison> {
    let plan = LogicalPlanBuilder::from(Arc::clone(&comparison.subquery.subquery))
        .alias(format!("__compared_{number}"))?
        .build()?;
    comparison.subquery.subquery = Arc::new(plan);
    Ok(comparison)
}
