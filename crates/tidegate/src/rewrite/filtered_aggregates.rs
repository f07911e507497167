//! Aggregates that DataFusion computes otherwise than SQL says.
//!
//! SQL applies an aggregate's FILTER before it computes the arguments; DataFusion computes them for all
//! rows, so that rows which the filter drops may raise. Where arguments may raise, `f(x) FILTER (WHERE
//! p)` becomes `f(CASE WHEN p THEN x END) FILTER (WHERE p)`, the same for every aggregate.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, SortExpr, when};

use super::raising::may_raise;
use super::walk::{any_expression, change_parts};

/// Guards the arguments of filtered aggregates; comes after types are coerced.
pub(super) fn guard_filtered_aggregates(
    plan: LogicalPlan,
    _: &ConfigOptions,
) -> Result<LogicalPlan> {
    if !any_expression(&plan, is_filtered)? {
        return Ok(plan);
    }
    change_parts(plan, rewrite)
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::AggregateFunction(mut call) => {
            let params = &mut call.params;
            let Some(filter) = params.filter.as_deref() else {
                return Ok(Transformed::no(Expr::AggregateFunction(call)));
            };
            let guards = guard_all(filter, &mut params.args, &mut params.order_by, schema)?;
            let call = Expr::AggregateFunction(call);
            Ok(Transformed::new_transformed(call, guards))
        }
        Expr::WindowFunction(mut call) => {
            let params = &mut call.params;
            let Some(filter) = params.filter.as_deref() else {
                return Ok(Transformed::no(Expr::WindowFunction(call)));
            };
            // The window's order counts for the rows that the filter drops, too.
            let guards = guard_all(filter, &mut params.args, &mut [], schema)?;
            let call = Expr::WindowFunction(call);
            Ok(Transformed::new_transformed(call, guards))
        }
        expr => Ok(Transformed::no(expr)),
    }
}

fn is_filtered(expr: &Expr) -> bool {
    match expr {
        Expr::AggregateFunction(call) => call.params.filter.is_some(),
        Expr::WindowFunction(call) => call.params.filter.is_some(),
        _ => false,
    }
}

/// Guards those of an aggregate's arguments and sort keys that may raise; returns whether any does.
fn guard_all(
    filter: &Expr,
    args: &mut [Expr],
    order_by: &mut [SortExpr],
    schema: &DFSchema,
) -> Result<bool> {
    // Computed twice it would not be the same filter.
    if filter.is_volatile() || has_subquery(filter)? {
        return Ok(false);
    }
    let keys = order_by.iter_mut().map(|key| &mut key.expr);
    let mut guards = false;
    for expr in args.iter_mut().chain(keys) {
        if may_raise(expr, schema) {
            let guarded = std::mem::take(expr);
            *expr = when(filter.clone(), guarded).end()?;
            guards = true;
        }
    }
    Ok(guards)
}

fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
        ))
    })
}
