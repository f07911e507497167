//! DISTINCT of aggregates that DataFusion's accumulators do not obey: statistics of pairs, and digests.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::error::{Error, ErrorKind};

/// The functions that take every row, DISTINCT or not, beside those of regressions.
const TAKE_ALL: [&str; 7] = [
    "approx_median",
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "corr",
    "covar",
    "covar_pop",
    "covar_samp",
];

/// Refuses such a call.
///
/// # Errors
/// [`ErrorKind::NotSupported`] names the function.
pub(crate) fn refuse_distinct_pairs(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| match part {
                Expr::AggregateFunction(call)
                    if call.params.distinct && takes_all(call.func.name()) =>
                {
                    Err(refused(call.func.name()))
                }
                _ => Ok(TreeNodeRecursion::Continue),
            })
        })
    })?;
    Ok(())
}

fn takes_all(name: &str) -> bool {
    TAKE_ALL.contains(&name) || name.starts_with("regr_")
}

fn refused(name: &str) -> DataFusionError {
    let message = format!(
        "{name}(DISTINCT …) is not there: make the rows distinct first: SELECT {name}(…) FROM (SELECT DISTINCT … \
         FROM t)"
    );
    Error::new(ErrorKind::NotSupported, message).into()
}
