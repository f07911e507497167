//! Counts duplicates in `INTERSECT ALL` and `EXCEPT ALL`.
//!
//! DataFusion joins the two sides by all of their columns, which keeps every copy of a row or none. SQL keeps as
//! many copies as both sides have, or as the left one has more. So the copies of a row are numbered on either
//! side, and the number is a key of the join as well.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::logical_plan::{Distinct, Join};
use datafusion::logical_expr::{Expr, ExprFunctionExt as _, LogicalPlan, LogicalPlanBuilder};

/// Numbers the copies of rows.
pub(super) fn number_copies(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if counts_copies(&join) => numbered(join).map(Transformed::yes),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// Returns whether a join is one of these set operations: NULLs are equal, and all columns are keys. Without ALL
/// its left side is distinct.
fn counts_copies(join: &Join) -> bool {
    let columns = join.on.len();
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && columns == join.left.schema().fields().len()
        && columns == join.right.schema().fields().len()
        && !matches!(&*join.left, LogicalPlan::Distinct(Distinct::All(_)))
}

fn numbered(join: Join) -> Result<LogicalPlan> {
    let columns = join.left.schema().columns();
    let (left, of_left) = with_number(join.left)?;
    let (right, of_right) = with_number(join.right)?;
    let mut on = join.on;
    on.push((of_left, of_right));
    let join = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        join.filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let columns = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(join))
        .project(columns)?
        .build()
}

/// Adds a column that counts equal rows from 1; returns it as well.
pub(crate) fn with_number(input: Arc<LogicalPlan>) -> Result<(LogicalPlan, Expr)> {
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let number = row_number().partition_by(columns.collect()).build()?;
    let column = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).window([number])?;
    Ok((plan.build()?, column))
}
