//! Windows of DataFusion's whose aggregates take what leaves a frame off as [`sliding`] does.
//!
//! What is not filtered is replaced here, where plans are read that another process sent; `rewrite::filtered_frames` has
//! what is.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::window::{SlidingAggregateWindowExpr, WindowExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};

use super::functions::NO_FILTER;
use crate::functions::sliding::{is_exact, is_sliding, sliding};
use crate::node_rule::Replaced;

/// Replaces aggregates of a window whose own accumulators are not exact.
pub(crate) fn merge_sliding(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        let input = window.input();
        if window.state_observer().is_none()
            && let Some(exprs) = replaced(window.window_expr(), &input.schema())?
        {
            let mode = window.input_order_mode.clone();
            let has_keys = !window.partition_keys().is_empty();
            let window = BoundedWindowAggExec::try_new(exprs, Arc::clone(input), mode, has_keys)?;
            return Ok(Some(Arc::new(window)));
        }
    } else if let Some(window) = node.downcast_ref::<WindowAggExec>()
        && let Some(exprs) = replaced(window.window_expr(), &window.input().schema())?
    {
        let has_keys = !window.partition_keys().is_empty();
        let window = WindowAggExec::try_new(exprs, Arc::clone(window.input()), has_keys)?;
        return Ok(Some(Arc::new(window)));
    }
    Ok(None)
}

/// Returns a window's functions if one of them is replaced.
fn replaced(
    exprs: &[Arc<dyn WindowExpr>],
    input: &SchemaRef,
) -> Result<Option<Vec<Arc<dyn WindowExpr>>>> {
    let mut has_changed = false;
    let mut all = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let merging = merging(expr, input)?;
        has_changed |= merging.is_some();
        all.push(merging.unwrap_or_else(|| Arc::clone(expr)));
    }
    Ok(has_changed.then_some(all))
}

/// Returns an aggregate over a sliding frame that merges states; `None` if its own accumulator is exact.
fn merging(expr: &Arc<dyn WindowExpr>, input: &SchemaRef) -> Result<Option<Arc<dyn WindowExpr>>> {
    let Some(window) = expr.as_any().downcast_ref::<SlidingAggregateWindowExpr>() else {
        return Ok(None);
    };
    let call = window.get_aggregate_expr();
    let is_kept = is_sliding(call.fun()) || is_exact(call);
    if is_kept || !format!("{window:?}").ends_with(NO_FILTER) {
        return Ok(None);
    }
    let aggregate = AggregateExprBuilder::new(Arc::new(sliding(call.fun())), call.expressions())
        .schema(Arc::clone(input))
        .alias(call.name())
        .with_ignore_nulls(call.ignore_nulls())
        .with_distinct(call.is_distinct())
        .with_reversed(call.is_reversed())
        .build()?;
    Ok(Some(Arc::new(SlidingAggregateWindowExpr::new(
        Arc::new(aggregate),
        expr.partition_by(),
        expr.order_by(),
        Arc::clone(expr.get_window_frame()),
        None,
    ))))
}
