//! Recursive queries that read themselves in a scalar subquery.
//!
//! DataFusion computes such a subquery before the rows of the last step are there, and fails. PostgreSQL refuses any
//! recursive reference in a subquery.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::error::{Error, ErrorKind};

/// Refuses scalar subqueries over a recursive query's own rows.
///
/// # Errors
/// [`ErrorKind::NotSupported`] names the query.
pub(crate) fn refuse_recursive_scalars(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(query) = node {
            query.recursive_term.apply_with_subqueries(|step| {
                step.apply_expressions(|expr| {
                    expr.apply(|part| match part {
                        Expr::ScalarSubquery(scalar) if reads(&scalar.subquery, &query.name)? => {
                            Err(refused(&query.name))
                        }
                        _ => Ok(TreeNodeRecursion::Continue),
                    })
                })
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn reads(plan: &LogicalPlan, name: &str) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|node| {
        reads |= matches!(node, LogicalPlan::TableScan(scan) if scan.table_name.table() == name);
        Ok(match reads {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(reads)
}

fn refused(name: &str) -> DataFusionError {
    let message = format!(
        "the recursive query {name} reads itself in a scalar subquery, which is not supported: join {name}, or compute \
         the value in a column that each step passes on"
    );
    Error::new(ErrorKind::NotSupported, message).into()
}
