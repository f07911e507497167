//! Scalar subqueries that may have no row, and are NULL then.
//!
//! DataFusion takes the value of an uncorrelated subquery for NOT NULL where its column is: `(SELECT 1 WHERE false) IS
//! NULL` is false, and `coalesce((SELECT 1 WHERE false), 0)` an error. The column goes through `or_null`, of which no
//! more is known than that. A correlated subquery becomes an outer join, whose columns may be NULL; of one with groups
//! or HAVING, a count is taken for never NULL all the same.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};

use super::walk::{any_expression, change_named, holds_any};
use crate::functions::kept;

/// Has subqueries that may have no row be NULL for all that a plan knows.
pub(super) fn null_of_no_row(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    if !any_expression(&plan, may_be_empty)? {
        return Ok(plan);
    }
    let changed = plan.transform_up_with_subqueries(|node| {
        if !holds_any(&node, may_be_empty)? {
            return Ok(Transformed::no(node));
        }
        let node = change_named(node, |expr| expr.transform_up(nullable))?;
        node.map_data(LogicalPlan::recompute_schema)
    });
    changed.data()
}

/// Returns whether an expression is a subquery that may have no row, and whose column is NOT NULL.
fn may_be_empty(expr: &Expr) -> bool {
    let Expr::ScalarSubquery(Subquery {
        subquery,
        outer_ref_columns,
        ..
    }) = expr
    else {
        return false;
    };
    let mut fields = subquery.schema().fields().iter();
    fields.any(|field| !field.is_nullable())
        && match outer_ref_columns.is_empty() {
            true => !has_one_row(subquery),
            false => drops_groups(subquery),
        }
}

/// Returns whether a plan has the rows of groups, of which there may be none, or HAVING may leave none.
fn drops_groups(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty(),
        LogicalPlan::Filter(filter) => matches!(*filter.input, LogicalPlan::Aggregate(_)),
        LogicalPlan::Projection(projection) => drops_groups(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => drops_groups(&alias.input),
        _ => false,
    }
}

/// Returns whether a plan is known to have one row.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        _ => false,
    }
}

fn nullable(expr: Expr) -> Result<Transformed<Expr>> {
    if !may_be_empty(&expr) {
        return Ok(Transformed::no(expr));
    }
    let Expr::ScalarSubquery(subquery) = expr else {
        return Ok(Transformed::no(expr));
    };
    let plan = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
    let function = kept::or_null();
    let columns = plan.schema().iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        let value = function.call(vec![column]);
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    let subquery = subquery.with_plan(Arc::new(plan));
    Ok(Transformed::yes(Expr::ScalarSubquery(subquery)))
}
