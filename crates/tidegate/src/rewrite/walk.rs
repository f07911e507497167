//! What rewrites of plans have in common: looking for nodes and expressions, and changing expressions by name.

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Returns whether a node of a plan, or of one of its subqueries, is such.
pub(super) fn any_node(
    plan: &LogicalPlan,
    is_such: impl Fn(&LogicalPlan) -> Result<bool>,
) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = is_such(node)?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Returns whether one of a node's own expressions, or a part of one, is such.
pub(crate) fn holds_any(node: &LogicalPlan, is_such: impl Fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = expr.exists(|part| Ok(is_such(part)))?;
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Returns whether an expression of a plan, or a part of one, is such; most plans have nothing to rewrite.
pub(crate) fn any_expression(plan: &LogicalPlan, is_such: impl Fn(&Expr) -> bool) -> Result<bool> {
    any_node(plan, |node| holds_any(node, &is_such))
}

/// Changes a node's own expressions, which keep their names.
pub(crate) fn change_named(
    node: LogicalPlan,
    mut change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(change(expr)?.update_data(|expr| name.restore(expr)))
    })
}

/// Changes a node's own expressions, which keep their names; the keys of a sort have none.
pub(super) fn change_computed(
    node: LogicalPlan,
    change: impl FnMut(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Sort(_) => node.map_expressions(change),
        node => change_named(node, change),
    }
}

/// Changes parts of the expressions of a plan, its subqueries included, from the leaves up; `change` is also given the
/// columns that an expression reads. Expressions keep their names.
pub(super) fn change_parts(
    plan: LogicalPlan,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    let change_node = |node: LogicalPlan| {
        let schema = merge_schema(&node.inputs());
        let changed = change_named(node, |expr| match expr {
            // Its members are read by their names, which they cannot keep within it.
            Expr::GroupingSet(_) => Ok(Transformed::no(expr)),
            expr => expr.transform_up(|part| change(part, &schema)),
        })?;
        changed.data.recompute_schema().map(Transformed::yes)
    };
    plan.transform_up_with_subqueries(change_node).data()
}
