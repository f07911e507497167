//! `select`, `with_columns` and `group_by().agg()`: where aggregates stand among other expressions.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::dataframe::DataFrame;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{expr_as_column_expr, find_aggregate_exprs};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use crate::expr::window_of;

/// Selects expressions. If all of them are aggregates there is one row; an aggregate beside other columns is
/// the same for every row.
pub(crate) fn select(frame: DataFrame, exprs: Vec<Expr>) -> Result<DataFrame> {
    let exprs = exprs.into_iter().map(named).collect::<Vec<_>>();
    let has_aggregate = exprs.iter().map(stands_free).collect::<Result<Vec<_>>>()?;
    if !has_aggregate.contains(&true) {
        return frame.select(exprs);
    }
    let is_one_row = exprs.iter().zip(has_aggregate).all(|(expr, has)| {
        has && !has_column_outside(expr) || expr.column_refs().is_empty() && !has
    });
    match is_one_row {
        true => aggregate(frame, Vec::new(), exprs),
        false => {
            let exprs = exprs
                .into_iter()
                .map(over_all)
                .collect::<Result<Vec<_>>>()?;
            frame.select(exprs)
        }
    }
}

/// Makes aggregates of each group; the groups' columns come first.
pub(crate) fn aggregate(
    frame: DataFrame,
    groups: Vec<Expr>,
    exprs: Vec<Expr>,
) -> Result<DataFrame> {
    let (state, plan) = frame.into_parts();
    let groups: Vec<Expr> = groups.into_iter().map(named).collect();
    let bare: Vec<Expr> = groups.iter().map(|group| group.clone().unalias()).collect();
    let aggregates = find_aggregate_exprs(&exprs);
    let plan = LogicalPlanBuilder::from(plan)
        .aggregate(bare.clone(), aggregates.clone())?
        .build()?;
    let below: Vec<Expr> = bare.into_iter().chain(aggregates).collect();
    let columns = groups.into_iter().chain(exprs.into_iter().map(named));
    let columns = columns
        .map(|expr| above(expr, &below, &plan))
        .collect::<Result<Vec<_>>>()?;
    DataFrame::new(state, plan).select(columns)
}

/// Makes an expression over what a plan has computed already.
fn above(expr: Expr, computed: &[Expr], plan: &LogicalPlan) -> Result<Expr> {
    let rewritten = expr.transform_down(|expr| match computed.contains(&expr) {
        true => Ok(Transformed::new(
            expr_as_column_expr(&expr, plan)?,
            true,
            TreeNodeRecursion::Jump,
        )),
        false => Ok(Transformed::no(expr)),
    });
    Ok(rewritten?.data)
}

/// Makes every aggregate in an expression one over all rows.
pub(crate) fn over_all(expr: Expr) -> Result<Expr> {
    let rewritten = expr.transform_down(|expr| match expr {
        Expr::WindowFunction(_) => Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump)),
        Expr::AggregateFunction(aggregate) => Ok(Transformed::new(
            window_of(aggregate).into(),
            true,
            TreeNodeRecursion::Jump,
        )),
        other => Ok(Transformed::no(other)),
    });
    Ok(rewritten?.data)
}

/// Tells whether an expression has an aggregate that is not over a window.
pub(crate) fn stands_free(expr: &Expr) -> Result<bool> {
    let mut found = false;
    expr.apply(|expr| {
        match expr {
            Expr::WindowFunction(_) => return Ok(TreeNodeRecursion::Jump),
            Expr::AggregateFunction(_) => found = true,
            _ => return Ok(TreeNodeRecursion::Continue),
        }
        Ok(TreeNodeRecursion::Stop)
    })?;
    Ok(found)
}

/// Tells whether an expression has a column, or a window, outside its aggregates.
fn has_column_outside(expr: &Expr) -> bool {
    let mut found = false;
    let walked = expr.apply(|expr| match expr {
        Expr::AggregateFunction(_) => Ok(TreeNodeRecursion::Jump),
        Expr::Column(_) | Expr::WindowFunction(_) => {
            found = true;
            Ok(TreeNodeRecursion::Stop)
        }
        _ => Ok(TreeNodeRecursion::Continue),
    });
    found || walked.is_err()
}

/// Gives an expression its own name, so that what is made of it below does not show.
fn named(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(_) => expr,
        Expr::Column(column) => {
            let name = column.name.clone();
            match column.relation {
                None => Expr::Column(column),
                Some(_) => Expr::Column(column).alias(name),
            }
        }
        other => {
            let name = other.schema_name().to_string();
            other.alias(name)
        }
    }
}
