//! Correlated subqueries that DataFusion does not make joins of, because they compare with more than `=`, compute
//! with columns of the query around them, take the first rows for each of them, or are scalar and have no aggregate.
//!
//! Such a subquery, in an expression or behind LATERAL, is computed at once for all that the rows outside ask of it (T.
//! Neumann and A. Kemper, "Unnesting Arbitrary Queries", BTW 2015):
//!
//! ```sql
//! SELECT (SELECT count(*) FROM u WHERE u.b > t.a) FROM t
//! -- becomes
//! SELECT coalesce(s.value, 0) FROM t LEFT JOIN (
//!   SELECT d.a, count(*) AS value FROM (SELECT DISTINCT a FROM t) AS d, u WHERE u.b > d.a GROUP BY d.a
//! ) AS s ON t.a IS NOT DISTINCT FROM s.a
//! ```
//!
//! The query outside is read more than once, so that nothing is done where its values may differ from one reading to the
//! next. What has no such form stays as it is, and DataFusion refuses it.

mod domain;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    Distinct, Expr, FetchType, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
};

use super::walk::{any_node, change_computed};
use domain::Domain;

/// Joins subqueries with what the rows around them ask.
pub(super) fn join_dependent_subqueries(
    plan: LogicalPlan,
    _: &ConfigOptions,
) -> Result<LogicalPlan> {
    if !any_node(&plan, holds_dependent)? {
        return Ok(plan);
    }
    let joined = Cell::new(0);
    plan.transform_up_with_subqueries(|node| rewritten(node, &joined))
        .data()
}

/// Returns whether a node's own expressions hold a subquery that has to be joined, or it is such a LATERAL join.
fn holds_dependent(node: &LogicalPlan) -> Result<bool> {
    if let LogicalPlan::Join(join) = node
        && let Some(subquery) = lateral(&join.right)
    {
        return is_dependent(subquery);
    }
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            if let Expr::ScalarSubquery(subquery) = part {
                found |= is_joined(subquery, &node.inputs())?;
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(found)
}

/// Returns whether a scalar subquery of a node with these inputs has to be joined: DataFusion wants an aggregate in it
/// besides, and no columns from further out.
fn is_joined(subquery: &Subquery, inputs: &[&LogicalPlan]) -> Result<bool> {
    let outer = columns_outside(subquery)?;
    let is_near = |column: &Column| inputs.iter().any(|input| input.schema().has_column(column));
    if !outer.iter().all(is_near) {
        return Ok(true);
    }
    let has_groups = is_grouped(&subquery.subquery);
    Ok(match has_one_row(&subquery.subquery) {
        true => is_dependent(subquery)?,
        false => !outer.is_empty() && !has_groups,
    })
}

fn is_grouped(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_) => is_grouped(plan.inputs()[0]),
        _ => false,
    }
}

fn lateral(plan: &LogicalPlan) -> Option<&Subquery> {
    match plan {
        LogicalPlan::Subquery(subquery) => Some(subquery),
        LogicalPlan::SubqueryAlias(alias) => lateral(&alias.input),
        _ => None,
    }
}

/// Returns whether a subquery uses columns outside in another way than by conditions of equality.
fn is_dependent(subquery: &Subquery) -> Result<bool> {
    let outer = columns_outside(subquery)?;
    if outer.is_empty() {
        return Ok(false);
    }
    let mut found = false;
    subquery.subquery.apply(|node| {
        found = match node {
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate)
                .into_iter()
                .any(|part| uses_any(part, &outer) && !is_equality(part, &outer)),
            // DataFusion loses the columns of conditions there.
            LogicalPlan::Limit(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_) => {
                is_used_within(node, &outer)?
            }
            node => node.expressions().iter().any(|expr| uses_any(expr, &outer)),
        };
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Lists the columns of queries further out that a subquery uses, with those that came into it from subqueries of its own.
fn columns_outside(subquery: &Subquery) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    let mut add = |expr: &Expr| {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && !columns.contains(column)
        {
            columns.push(column.clone());
        }
    };
    subquery.outer_ref_columns.iter().for_each(&mut add);
    subquery.subquery.apply(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                add(part);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// Returns whether an expression uses any of these columns of the query outside, its own subqueries left out.
fn uses_any(expr: &Expr, outer: &[Column]) -> bool {
    let is_any = |part: &Expr| matches!(part, Expr::OuterReferenceColumn(_, column) if outer.contains(column));
    expr.exists(|part| Ok(is_any(part))).unwrap_or(false)
}

/// Returns whether a condition compares a value outside with a column of the subquery.
fn is_equality(condition: &Expr, outer: &[Column]) -> bool {
    let Expr::BinaryExpr(binary) = condition else {
        return false;
    };
    let (left, right) = (&binary.left, &binary.right);
    let is_side = |one: &Expr, other: &Expr| {
        uses_any(one, outer) && one.column_refs().is_empty() && matches!(other, Expr::Column(_))
    };
    binary.op == Operator::Eq && (is_side(left, right) || is_side(right, left))
}

/// Returns whether a plan, or a subquery of its expressions, uses any of these columns of the query outside.
fn is_used_within(plan: &LogicalPlan, outer: &[Column]) -> Result<bool> {
    any_node(plan, |node| {
        Ok(node.expressions().iter().any(|expr| uses_any(expr, outer)))
    })
}

fn rewritten(node: LogicalPlan, joined: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    if !holds_dependent(&node)? {
        return Ok(Transformed::no(node));
    }
    match node {
        LogicalPlan::Join(join) => joined_lateral(join, joined),
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::Aggregate(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Sort(_) => joined_input(node, joined),
        node => Ok(Transformed::no(node)),
    }
}

/// Joins a node's input with the subqueries of its expressions.
fn joined_input(node: LogicalPlan, joined: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let output = node.schema().columns();
    let outside = node.inputs()[0].clone();
    let mut input = outside.clone();
    let replace = |expr: Expr| {
        expr.transform_down(|part| {
            let Expr::ScalarSubquery(subquery) = &part else {
                return Ok(Transformed::no(part));
            };
            if !is_joined(subquery, &[&outside])? {
                return Ok(Transformed::no(part));
            }
            let Some(domain) = Domain::of(subquery, &outside, joined)? else {
                return Ok(Transformed::no(part));
            };
            let Some(values) = domain.lifted(&subquery.subquery)? else {
                return Ok(Transformed::no(part));
            };
            let value = subquery.subquery.schema().columns().swap_remove(0);
            let column = format!("__value_{}", domain.id);
            let is_single = has_one_row(&subquery.subquery) && !domain.keys.is_empty();
            let values = match is_single {
                true => LogicalPlanBuilder::from(values)
                    .project(domain.keys_and([Expr::Column(value).alias(&column)]))?
                    .build()?,
                false => domain.checked(values, value, &column)?,
            };
            input = domain.joined(input.clone(), values, JoinType::Left, None)?;
            let column = Expr::Column(Column::new_unqualified(column));
            Ok(Transformed::new(column, true, TreeNodeRecursion::Jump))
        })
    };
    let replaced = change_computed(node, replace)?;
    if !replaced.transformed {
        return Ok(replaced);
    }
    let exprs = replaced.data.expressions();
    let node = replaced.data.with_new_exprs(exprs, vec![input])?;
    if node.schema().fields().len() == output.len() {
        return Ok(Transformed::yes(node));
    }
    let columns = output.into_iter().map(Expr::Column);
    let node = LogicalPlanBuilder::from(node).project(columns)?.build()?;
    Ok(Transformed::yes(node))
}

/// Joins the right side of a LATERAL join with what the left side asks of it.
fn joined_lateral(join: Join, joined: &Cell<usize>) -> Result<Transformed<LogicalPlan>> {
    let is_known = matches!(join.join_type, JoinType::Inner | JoinType::Left);
    let domain = match lateral(&join.right) {
        Some(subquery) if is_known => Domain::of(subquery, &join.left, joined)?,
        _ => None,
    };
    let Some(domain) = domain.filter(|domain| !domain.keys.is_empty()) else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let Some(right) = domain.lifted(&join.right)? else {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    };
    let keys = join.on.into_iter().map(|(left, right)| left.eq(right));
    let filter = conjunction(keys.chain(join.filter));
    let left = Arc::unwrap_or_clone(join.left);
    let node = domain.joined(left, right, join.join_type, filter)?;
    let columns = join.schema.columns().into_iter().map(Expr::Column);
    let node = LogicalPlanBuilder::from(node).project(columns)?.build()?;
    Ok(Transformed::yes(node))
}

/// Returns whether a plan has one row at most, whatever is in its tables.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0 | 1))))
                || has_one_row(&limit.input)
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Distinct(Distinct::All(_)) => has_one_row(plan.inputs()[0]),
        _ => false,
    }
}
