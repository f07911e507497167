//! Sort keys of windows and of ordered aggregates, where DataFusion takes them to be other than they are.
//!
//! A window over partitions of a negated key is refused by a check of its plan; it is one over those of the key.
//! A window node's functions must share their keys. DataFusion's common subexpressions may become a column in the
//! keys of one of them alone; such a node is split ([`split_window`]). Keys of ordered aggregates and of
//! `DISTINCT ON` must differ from each other; a key that repeats one before it orders nothing, and is dropped
//! ([`DropRepeatedKeys`]).

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Distinct, Window};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};

/// Splits windows whose functions have different sort keys.
#[derive(Debug)]
pub(super) struct SplitWindows;

impl OptimizerRule for SplitWindows {
    fn name(&self) -> &str {
        "split_windows"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Window(window) => split_window(window),
            plan => Ok(Transformed::no(plan)),
        }
    }
}

fn split_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let mut groups: Vec<Vec<Expr>> = Vec::new();
    for expr in &window.window_expr {
        let same = groups.iter_mut().find(|group| {
            group
                .first()
                .is_some_and(|first| have_same_keys(first, expr))
        });
        match same {
            Some(group) => group.push(expr.clone()),
            None => groups.push(vec![expr.clone()]),
        }
    }
    if groups.len() <= 1 {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let mut plan = Arc::unwrap_or_clone(window.input);
    for group in groups {
        plan = LogicalPlan::Window(Window::try_new(group, Arc::new(plan))?);
    }
    let columns = window.schema.columns().into_iter().map(Expr::Column);
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    Ok(Transformed::yes(plan))
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
#[derive(Debug)]
pub(super) struct DropRepeatedKeys;

impl AnalyzerRule for DropRepeatedKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(drop_repeated_keys).data()
    }

    fn name(&self) -> &str {
        "drop_repeated_keys"
    }
}

fn drop_repeated_keys(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let has_changed = on.sort_expr.as_mut().is_some_and(drop_repeated);
            let node = LogicalPlan::Distinct(Distinct::On(on));
            Ok(Transformed::new_transformed(node, has_changed))
        }
        node @ (LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) => {
            let names = NamePreserver::new(&node);
            let rewritten = node.map_expressions(|expr| {
                let name = names.save(&expr);
                let rewritten = expr.transform_up(|part| Ok(rewrite(part)))?;
                Ok(rewritten.update_data(|expr| name.restore(expr)))
            })?;
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
            let has_changed =
                drop_repeated(&mut params.order_by) | drop_signs(&mut params.partition_by);
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

/// Makes keys of negated keys: the partitions are the same. Returns whether there was one.
fn drop_signs(keys: &mut [Expr]) -> bool {
    let mut has_changed = false;
    for key in keys {
        while let Expr::Negative(negated) = key {
            *key = std::mem::take(negated);
            has_changed = true;
        }
    }
    has_changed
}
