//! Semi-join reduction: the keys of a small side filter the other side before it is sent between executors.
//!
//! A join that gives rows of its smaller side that have no match cannot have that side whole in every executor: each
//! would give them. But every executor may know the keys of that side. Then only rows of the other side with such a key
//! are aggregated, where the groups are by the keys, and sent.

use std::sync::Arc;

use datafusion::common::{JoinSide, JoinType};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

use crate::node_rule::over;
use crate::spread::{Extent, is_local};

/// Returns the larger side of a join without rows that cannot match. `None` if the join gives such rows, if a key is an
/// expression, or if the keys of the smaller side are not those of filtered tables that executors can read again.
pub(super) fn reduced(
    join: &HashJoinExec,
    larger: JoinSide,
    extent: &Extent,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (is_reduced, smaller, side) = match larger {
        JoinSide::Left => (lacks_left(*join.join_type()), join.right(), join.left()),
        JoinSide::Right | JoinSide::None => {
            let swapped = join.join_type().swap();
            (lacks_left(swapped), join.left(), join.right())
        }
    };
    let pair = |(left, right): &(_, _)| index_of(left).zip(index_of(right));
    let columns: Option<Vec<(usize, usize)>> = join.on().iter().map(pair).collect();
    let (true, Some(columns)) = (is_reduced, columns) else {
        return Ok(None);
    };
    let (left, right): (Vec<usize>, Vec<usize>) = columns.into_iter().unzip();
    let (of_smaller, of_side) = match larger {
        JoinSide::Left => (right, left),
        JoinSide::Right | JoinSide::None => (left, right),
    };
    let Some(keys) = keys_of(smaller, of_smaller, extent)? else {
        return Ok(None);
    };
    with_keys(join, &keys, side, &of_side).map(Some)
}

/// Returns whether a join gives rows of its right side that have no match, and none of its left side.
fn lacks_left(join_type: JoinType) -> bool {
    matches!(
        join_type,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
    )
}

/// Returns the number of a column; `None` for another expression.
fn index_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Returns the keys of a side, or more than them.
fn keys_of(
    side: &Arc<dyn ExecutionPlan>,
    columns: Vec<usize>,
    extent: &Extent,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // What another join leaves of a side has no other keys.
    if let Some(join) = side.downcast_ref::<HashJoinExec>()
        && matches!(join.join_type(), JoinType::LeftSemi | JoinType::LeftAnti)
    {
        let columns = within(join.projection.as_deref(), columns);
        return keys_of(join.left(), columns, extent);
    }
    if let Some(projection) = side.downcast_ref::<ProjectionExec>()
        && let Some(inner) = projected(projection, &columns)
    {
        return keys_of(projection.input(), inner, extent);
    }
    // The keys of a whole table are those of most others that refer to it.
    if !is_filtered(side) || !is_local(side, extent) {
        return Ok(None);
    }
    let schema = side.schema();
    let key = |column: usize| {
        let name = schema.field(column).name();
        ProjectionExpr::new(Arc::new(Column::new(name, column)), name)
    };
    let keys = columns.into_iter().map(key);
    let keys = ProjectionExec::try_new(keys, copied(side)?)?;
    Ok(Some(Arc::new(keys)))
}

/// Copies a plan: the engine of stages knows nodes by their addresses.
fn copied(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(leaf) = plan.downcast_ref::<DataSourceExec>() {
        return Ok(Arc::new(leaf.clone()));
    }
    let inputs = plan.children().into_iter().map(copied);
    over(plan, inputs.collect::<Result<_>>()?)
}

fn is_filtered(side: &Arc<dyn ExecutionPlan>) -> bool {
    side.is::<FilterExec>() || side.children().into_iter().any(is_filtered)
}

/// Filters a side by keys, as far down as its columns come from.
fn with_keys(
    join: &HashJoinExec,
    keys: &Arc<dyn ExecutionPlan>,
    side: &Arc<dyn ExecutionPlan>,
    columns: &[usize],
) -> Result<Arc<dyn ExecutionPlan>> {
    let below = below(side, columns);
    if let (Some(columns), [input]) = (below, side.children().as_slice()) {
        return over(side, vec![with_keys(join, keys, input, &columns)?]);
    }
    let column = |plan: &Arc<dyn ExecutionPlan>, index: usize| -> Arc<dyn PhysicalExpr> {
        Arc::new(Column::new(plan.schema().field(index).name(), index))
    };
    let on = columns.iter().enumerate();
    let on = on.map(|(key, index)| (column(keys, key), column(side, *index)));
    let found = HashJoinExec::try_new(
        Arc::clone(keys),
        Arc::clone(side),
        on.collect(),
        None,
        &JoinType::RightSemi,
        None,
        PartitionMode::CollectLeft,
        join.null_equality(),
        false,
    )?;
    Ok(Arc::new(found))
}

/// Returns which columns of a node's input its columns are; `None` if they are none, or if a row of the input also
/// decides about rows with other values of these columns, as below a limit.
fn below(node: &Arc<dyn ExecutionPlan>, columns: &[usize]) -> Option<Vec<usize>> {
    if node.fetch().is_some() {
        return None;
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        return Some(within(filter.projection().as_deref(), columns.to_vec()));
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        return projected(projection, columns);
    }
    let aggregate = node.downcast_ref::<AggregateExec>()?;
    let groups = aggregate.group_expr();
    if !groups.is_single() || aggregate.limit_options().is_some() {
        return None;
    }
    let inner = columns
        .iter()
        .map(|column| index_of(&groups.expr().get(*column)?.0));
    inner.collect()
}

fn projected(projection: &ProjectionExec, columns: &[usize]) -> Option<Vec<usize>> {
    let exprs = projection.expr();
    let inner = columns
        .iter()
        .map(|column| index_of(&exprs.get(*column)?.expr));
    inner.collect()
}

fn within(projection: Option<&[usize]>, columns: Vec<usize>) -> Vec<usize> {
    match projection {
        Some(projection) => columns
            .into_iter()
            .map(|column| projection[column])
            .collect(),
        None => columns,
    }
}
