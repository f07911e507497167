//! Operators that cannot spill, replaced by others that can.
//!
//! DataFusion's hash joins hold one side in memory, and its top-k holds all rows of its limit.
//! [`joins_that_spill`] makes sort-merge joins of hash joins whose held side may be large: it belongs to the
//! second try of a query that lacked memory, before sorts and exchanges are added. [`top_k_that_spills`] makes
//! a sort and a limit of each top-k that would take much of the memory limit, or is by values that hold others.

mod compact;
mod folders;
mod repeated;
mod windows;

use std::sync::Arc;

use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Fields, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, internal_err};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

use crate::functions::nested_text::is_nested;
use crate::node_rule::{NodeRule, Replaced};
use crate::options::TidegateOptions;
use crate::region::PipelineExec;
use crate::runtime::Runtime;

pub(crate) use compact::{compact_sorted, compact_written, compacted, compacted_column};
pub(crate) use folders::write_folders_in_turn;
pub(crate) use repeated::{LongRows, count_repeated};
pub(crate) use windows::count_windows;

/// The part of the memory limit that the held side of a hash join may take by what is known of it.
const HELD_SHARE: u64 = 32;

/// The part of the memory limit that the rows of a top-k may take.
const TOP_K_SHARE: u64 = 8;

/// Rows up to which a top-k stays one, whatever it may take.
const TOP_K_ROWS: usize = 100_000;

/// Bytes that a value without a fixed width is taken to need.
const VALUE_BYTES: u64 = 32;

/// Makes sort-merge joins of hash joins whose held side may be large; a statement may hold so many bytes.
pub(crate) fn joins_that_spill(memory_limit: u64) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let held_max = memory_limit / HELD_SHARE;
    let replace = move |node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions| -> Replaced {
        match node.downcast_ref::<HashJoinExec>() {
            Some(join) if bytes_of(join.left()).is_none_or(|bytes| bytes > held_max) => {
                merged(join)
            }
            _ => Ok(None),
        }
    };
    Arc::new(NodeRule("joins_that_spill", replace))
}

/// Makes the sort-merge join that gives the rows of a hash join; `None` if there is none.
fn merged(join: &HashJoinExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let sorts = |expr: &Arc<dyn PhysicalExpr>, schema: &Schema| {
        expr.data_type(schema).is_ok_and(|kind| is_ordered(&kind))
    };
    let (left, right) = (join.left(), join.right());
    let keys_sort = join.on().iter().all(|(on_left, on_right)| {
        sorts(on_left, &left.schema()) && sorts(on_right, &right.schema())
    });
    // What a null means to NOT IN only a hash join knows.
    if join.null_aware || !keys_sort {
        return Ok(None);
    }
    let merged: Arc<dyn ExecutionPlan> = Arc::new(SortMergeJoinExec::try_new(
        Arc::clone(left),
        Arc::clone(right),
        join.on().to_vec(),
        join.filter().map(in_order).transpose()?,
        *join.join_type(),
        vec![SortOptions::default(); join.on().len()],
        join.null_equality(),
    )?);
    let Some(projection) = &join.projection else {
        return Ok(Some(merged));
    };
    let schema = merged.schema();
    let columns = projection.iter().map(|index| {
        let name = schema.field(*index).name();
        ProjectionExpr {
            expr: Arc::new(Column::new(name, *index)),
            alias: name.clone(),
        }
    });
    let columns: Vec<ProjectionExpr> = columns.collect();
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, merged)?)))
}

/// Returns a condition as DataFusion 55.2 computes it in a sort-merge join: on columns of the left side before those of
/// the right one, whatever order they are declared in, and, of an outer join, on NULLs for rows without a match, whether
/// the columns are nullable or not.
fn in_order(filter: &JoinFilter) -> Result<JoinFilter> {
    let declared = filter.column_indices();
    let mut order: Vec<usize> = (0..declared.len()).collect();
    order.sort_by_key(|place| declared[*place].side == JoinSide::Right);
    let fields = order.iter().map(|place| {
        let field = filter.schema().field(*place);
        field.clone().with_nullable(true)
    });
    let schema = Schema::new(fields.collect::<Fields>());
    let expr = Arc::clone(filter.expression()).transform(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else {
            return Ok(Transformed::no(expr));
        };
        let place = order.iter().position(|place| *place == column.index());
        let Some(place) = place else {
            return internal_err!("the condition of a join has no column {column}");
        };
        Ok(Transformed::yes(
            Arc::new(Column::new(column.name(), place)) as _,
        ))
    })?;
    let columns = order.iter().map(|place| declared[*place].clone());
    Ok(JoinFilter::new(
        expr.data,
        columns.collect(),
        Arc::new(schema),
    ))
}

/// Returns whether values that a hash join takes for equal are those that a sort puts beside each other.
fn is_ordered(kind: &DataType) -> bool {
    kind.is_integer()
        || kind.is_decimal()
        || kind.is_temporal()
        || kind.is_string()
        || kind.is_binary()
        || matches!(kind, DataType::Boolean)
}

/// Estimates what the rows of a plan take; `None` if their number is not known.
///
/// What joins are estimated to give may be far too little, so that is never taken for less than what
/// their inputs give.
pub(crate) fn bytes_of(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let rows = rows_of(plan)?;
    Some((rows as u64).saturating_mul(row_bytes(&plan.schema())))
}

fn rows_of(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if !has_join(plan) {
        return told_rows(plan);
    }
    let inputs = plan.children().into_iter().map(rows_of);
    let most = inputs.collect::<Option<Vec<usize>>>()?.into_iter().max()?;
    Some(told_rows(plan).map_or(most, |told| told.max(most)))
}

fn told_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    known.ok()?.num_rows.get_value().copied()
}

fn has_join(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.children().len() > 1 || plan.children().into_iter().any(has_join)
}

/// Estimates what a row takes.
pub(crate) fn row_bytes(schema: &Schema) -> u64 {
    let width = |kind: &DataType| {
        kind.primitive_width()
            .map_or(VALUE_BYTES, |width| width as u64)
    };
    schema
        .fields()
        .iter()
        .map(|field| width(field.data_type()))
        .sum()
}

/// Makes a sort and a limit of each top-k whose rows would take much of the memory limit, which is at most that
/// of a process.
pub(crate) fn top_k_that_spills(
    runtime: &Arc<Runtime>,
) -> Arc<dyn PhysicalOptimizerRule + Send + Sync> {
    let runtime = Arc::clone(runtime);
    let replace = move |node: &Arc<dyn ExecutionPlan>, config: &ConfigOptions| -> Replaced {
        let of_process = runtime.admission().limits().expected_bytes_max;
        let limit = statement_limit(&TidegateOptions::of(config), of_process);
        Ok(sorted_and_cut(node, limit))
    };
    Arc::new(NodeRule("top_k_that_spills", replace))
}

/// Returns the bytes that one statement may hold.
pub(crate) fn statement_limit(options: &TidegateOptions, of_process: u64) -> u64 {
    let of_all = options.memory_limit.unwrap_or(of_process);
    options
        .query_memory_limit
        .map_or(of_all, |own| own.min(of_all))
}

/// Makes a sort and a limit of a top-k that would hold too much, and of one by lists or structs: it leaves rows out by
/// comparisons, to which NULL within them is less than any value, and keeps what is left in the order of the sort.
fn sorted_and_cut(plan: &Arc<dyn ExecutionPlan>, limit: u64) -> Option<Arc<dyn ExecutionPlan>> {
    let sort = plan.downcast_ref::<SortExec>()?;
    let fetch = sort.fetch()?;
    if !is_by_nested(sort) && !holds_too_much(sort, fetch, limit) {
        return None;
    }
    let whole = Arc::new(sort.with_fetch(None));
    Some(if sort.preserve_partitioning() {
        Arc::new(LocalLimitExec::new(whole, fetch))
    } else {
        Arc::new(GlobalLimitExec::new(whole, 0, Some(fetch)))
    })
}

fn holds_too_much(sort: &SortExec, fetch: usize, limit: u64) -> bool {
    // A device that sorts has memory of its own.
    if fetch <= TOP_K_ROWS || sort.input().is::<PipelineExec>() {
        return false;
    }
    let rows = told_rows(sort.input()).map_or(fetch, |told| told.min(fetch)) as u64;
    rows.saturating_mul(row_bytes(&sort.schema())) > limit / TOP_K_SHARE
}

fn is_by_nested(sort: &SortExec) -> bool {
    let schema = sort.input().schema();
    sort.expr().iter().any(|key| {
        let of = key.expr.data_type(&schema);
        of.is_ok_and(|of| is_nested(&of))
    })
}

#[cfg(test)]
mod tests;
