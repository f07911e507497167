//! Aggregates with FILTER over frames whose first row moves.
//!
//! A plan's operators do not tell their filters, so that these aggregates are given frames that merge states before there
//! are operators ([`sliding`]); the others when there are.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};

use super::walk::change_named;
use crate::functions::sliding::{is_sliding, sliding};

/// Gives filtered aggregates frames that merge states.
pub(super) fn merge_filtered_frames(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Window(_) => change_named(plan, |expr| expr.transform_up(replaced)),
        plan => Ok(Transformed::no(plan)),
    }
}

fn replaced(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let slides = call.params.filter.is_some() && !call.params.window_frame.is_ever_expanding();
    let merging = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(function) if slides && !is_sliding(function) => {
            Some(sliding(function))
        }
        _ => None,
    };
    let has_changed = merging.is_some();
    if let Some(merging) = merging {
        call.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(merging));
    }
    let call = Expr::WindowFunction(call);
    Ok(Transformed::new_transformed(call, has_changed))
}
