//! Names the subqueries of `x < ALL (…)` and `x = ANY (…)`.
//!
//! DataFusion writes the comparison into the subquery and joins it with the outer query by column names.
//! Where both read the same table, a name is that of two columns, and the inner one is compared with
//! itself. Each such subquery therefore gets an alias that nothing else has.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::SetComparison;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

/// Gives the subqueries of set comparisons names of their own.
#[derive(Debug)]
pub(super) struct NameSetComparisons;

impl AnalyzerRule for NameSetComparisons {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_any(&plan)? {
            return Ok(plan);
        }
        let mut named = 0;
        plan.transform_up_with_subqueries(|node| {
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

    fn name(&self) -> &str {
        "name_set_comparisons"
    }
}

fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found = expr.exists(|part| Ok(matches!(part, Expr::SetComparison(_))))?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })
    })?;
    Ok(found)
}

fn with_alias(mut comparison: SetComparison, number: usize) -> Result<SetComparison> {
    let plan = LogicalPlanBuilder::from(Arc::clone(&comparison.subquery.subquery))
        .alias(format!("__compared_{number}"))?
        .build()?;
    comparison.subquery.subquery = Arc::new(plan);
    Ok(comparison)
}
