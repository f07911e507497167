//! Logical expressions that DataFusion computes or plans otherwise than SQL says.
//!
//! SQL applies an aggregate's FILTER before it computes the arguments; DataFusion computes them for all
//! rows, so that rows which the filter drops may raise. Where arguments may raise, `f(x) FILTER (WHERE
//! p)` becomes `f(CASE WHEN p THEN x END) FILTER (WHERE p)`, the same for every aggregate.
//!
//! `x IS TRUE` is never NULL, but becomes a physical expression that claims to be nullable, and an
//! aggregate over it is refused. It becomes `x IS NOT DISTINCT FROM true`, which is the same and claims
//! the same in both plans.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Expr, GroupingSet, LogicalPlan, Operator, SortExpr, binary_expr, lit, when,
};
use datafusion::optimizer::AnalyzerRule;

use super::raising::may_raise;

/// Rewrites filtered aggregates and IS TRUE and its kin; comes after types are coerced.
#[derive(Debug)]
pub(super) struct RewriteExpressions;

impl AnalyzerRule for RewriteExpressions {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        if !has_any(&plan)? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(rewrite_node).data()
    }

    fn name(&self) -> &str {
        "rewrite_expressions"
    }
}

/// Returns whether a plan has anything to rewrite, as most have not.
fn has_any(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if !shows_its_expressions(node) {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(|expr| {
            found = expr.exists(|part| Ok(is_truth_test(part) || is_filtered(part)))?;
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })
    })?;
    Ok(found)
}

/// Returns whether a node's expressions are columns of its output. In the others IS TRUE harms nothing,
/// and tells the optimizer more as it is.
fn shows_its_expressions(node: &LogicalPlan) -> bool {
    !matches!(
        node,
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::TableScan(_)
    )
}

fn rewrite_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !shows_its_expressions(&node) {
        // What is below may have become nullable.
        return node.recompute_schema().map(Transformed::yes);
    }
    let schema = merge_schema(&node.inputs());
    let names = NamePreserver::new(&node);
    let rewrite_named = |expr: Expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|part| rewrite(part, &schema))?;
        Ok(rewritten.update_data(|expr| name.restore(expr)))
    };
    let rewritten = node.map_expressions(|expr| match expr {
        // Its keys have names, the set has none.
        Expr::GroupingSet(set) => map_keys(set, rewrite_named),
        expr => rewrite_named(expr),
    })?;
    rewritten.data.recompute_schema().map(Transformed::yes)
}

fn map_keys(
    set: GroupingSet,
    mut rewrite: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    let mut all = |keys: Vec<Expr>| -> Result<Vec<Expr>> {
        keys.into_iter().map(|key| rewrite(key).data()).collect()
    };
    let set = match set {
        GroupingSet::Rollup(keys) => GroupingSet::Rollup(all(keys)?),
        GroupingSet::Cube(keys) => GroupingSet::Cube(all(keys)?),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.into_iter().map(all).collect::<Result<_>>()?)
        }
    };
    Ok(Transformed::yes(Expr::GroupingSet(set)))
}

fn rewrite(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        expr if is_truth_test(&expr) => Ok(Transformed::yes(compared(expr))),
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

fn is_truth_test(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
    )
}

/// Writes a truth test as a comparison, or as a test for NULL.
fn compared(expr: Expr) -> Expr {
    let (is, is_not) = (Operator::IsNotDistinctFrom, Operator::IsDistinctFrom);
    match expr {
        Expr::IsTrue(inner) => binary_expr(*inner, is, lit(true)),
        Expr::IsFalse(inner) => binary_expr(*inner, is, lit(false)),
        Expr::IsNotTrue(inner) => binary_expr(*inner, is_not, lit(true)),
        Expr::IsNotFalse(inner) => binary_expr(*inner, is_not, lit(false)),
        Expr::IsUnknown(inner) => Expr::IsNull(inner),
        Expr::IsNotUnknown(inner) => Expr::IsNotNull(inner),
        other => other,
    }
}
