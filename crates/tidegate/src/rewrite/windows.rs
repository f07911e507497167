//! Keys of windows and of ordered aggregates, where DataFusion takes them to be other than they are.
//!
//! A window's function that partitions or orders by an expression is refused where the expression's range is not
//! known, as that of `x < 0` over floats; and functions of one node must share their keys, of which one may have been
//! folded, or become a column, alone. So keys are computed below the window, and are columns, and a window is one for
//! each set of keys ([`compute_window_keys`]). Keys of ordered aggregates and of `DISTINCT ON` must differ from each other; a
//! key that repeats one before it orders nothing, and is dropped ([`drop_repeated_keys`]).

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::logical_plan::{Distinct, Window};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};

use super::walk::change_named;
use crate::floats::canonical::is_canonical;

/// Computes the keys of windows below them.
pub(super) fn compute_window_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Window(window) => compute_keys(window),
        plan => Ok(Transformed::no(plan)),
    }
}

fn compute_keys(window: Window) -> Result<Transformed<LogicalPlan>> {
    let mut keys: Vec<Expr> = Vec::new();
    let mut groups: Vec<Vec<Expr>> = Vec::new();
    for expr in &window.window_expr {
        let expr = over_columns(expr.clone(), &mut keys);
        let same = groups.iter_mut().find(|group| {
            group
                .first()
                .is_some_and(|first| have_same_keys(first, &expr))
        });
        match same {
            Some(group) => group.push(expr),
            None => groups.push(vec![expr]),
        }
    }
    if keys.is_empty() && groups.len() <= 1 {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut plan = Arc::unwrap_or_clone(window.input);
    if !keys.is_empty() {
        let columns = plan.schema().columns().into_iter().map(Expr::Column);
        let keys = keys.into_iter().enumerate();
        let keys = keys.map(|(number, key)| key.alias(key_name(number)));
        let all: Vec<Expr> = columns.chain(keys).collect();
        plan = LogicalPlanBuilder::from(plan).project(all)?.build()?;
    }
    for group in groups {
        plan = LogicalPlan::Window(Window::try_new(group, Arc::new(plan))?);
    }
    let columns = window.schema.columns().into_iter().map(Expr::Column);
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(Transformed::yes(plan))
}

fn key_name(number: usize) -> String {
    format!("__window_key_{number}")
}

/// Has a window's function read computed keys from columns. It keeps its name.
fn over_columns(expr: Expr, keys: &mut Vec<Expr>) -> Expr {
    let call = match expr {
        Expr::Alias(mut alias) => {
            *alias.expr = over_columns(*alias.expr, keys).unalias();
            return Expr::Alias(alias);
        }
        Expr::WindowFunction(call) => call,
        other => return other,
    };
    let before = Expr::WindowFunction(call.clone());
    let WindowFunction { fun, mut params } = *call;
    let mut has_changed = false;
    let order = params.order_by.iter_mut().map(|sort| &mut sort.expr);
    for key in params.partition_by.iter_mut().chain(order) {
        if is_plain(key) {
            continue;
        }
        let known = keys.iter().position(|known| known == key);
        let number = known.unwrap_or(keys.len());
        let column = Expr::Column(Column::from_name(key_name(number)));
        let computed = std::mem::replace(key, column);
        if known.is_none() {
            keys.push(computed);
        }
        has_changed = true;
    }
    let after = Expr::WindowFunction(Box::new(WindowFunction { fun, params }));
    match has_changed {
        true => after.alias(before.schema_name().to_string()),
        false => before,
    }
}

/// Returns whether a key is a column, perhaps with one NaN and one zero, or a constant.
fn is_plain(key: &Expr) -> bool {
    match key {
        Expr::Column(_) | Expr::Literal(..) => true,
        Expr::ScalarFunction(call) => {
            is_canonical(key) && matches!(call.args.as_slice(), [Expr::Column(_)])
        }
        _ => false,
    }
}

fn have_same_keys(one: &Expr, other: &Expr) -> bool {
    fn keys(expr: &Expr) -> Option<(&[Expr], &[SortExpr])> {
        match expr {
            Expr::Alias(alias) => keys(&alias.expr),
            Expr::WindowFunction(function) => {
                let WindowFunctionParams {
                    partition_by,
                    order_by,
                    ..
                } = &function.params;
                Some((partition_by, order_by))
            }
            _ => None,
        }
    }
    keys(one) == keys(other)
}

/// Drops sort keys that repeat one before them.
pub(super) fn drop_repeated_keys(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(without_repeated).data()
}

fn without_repeated(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let has_changed = on.sort_expr.as_mut().is_some_and(drop_repeated);
            let node = LogicalPlan::Distinct(Distinct::On(on));
            Ok(Transformed::new_transformed(node, has_changed))
        }
        node @ (LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) => {
            let change = |expr: Expr| expr.transform_up(|part| Ok(rewrite(part)));
            let rewritten = change_named(node, change)?;
            match rewritten.transformed {
                true => rewritten.data.recompute_schema().map(Transformed::yes),
                false => Ok(rewritten),
            }
        }
        node => Ok(Transformed::no(node)),
    }
}

fn rewrite(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call) => {
            let has_changed = drop_repeated(&mut call.params.order_by);
            Transformed::new_transformed(Expr::AggregateFunction(call), has_changed)
        }
        Expr::WindowFunction(call) => {
            let WindowFunction { fun, mut params } = *call;
            let has_changed = drop_repeated(&mut params.order_by);
            let call = Expr::WindowFunction(Box::new(WindowFunction { fun, params }));
            Transformed::new_transformed(call, has_changed)
        }
        expr => Transformed::no(expr),
    }
}

/// Returns whether a key was dropped.
fn drop_repeated(keys: &mut Vec<SortExpr>) -> bool {
    let before = keys.len();
    let mut kept: Vec<SortExpr> = Vec::with_capacity(before);
    for key in keys.drain(..) {
        if !kept.iter().any(|other| other.expr == key.expr) {
            kept.push(key);
        }
    }
    *keys = kept;
    keys.len() < before
}
