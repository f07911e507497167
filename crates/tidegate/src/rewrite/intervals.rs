//! Filters whose bounds DataFusion computes wrong.
//!
//! A filter bounds the columns that it reads by interval arithmetic, and a column whose bounds are equal counts as a constant,
//! by which nothing is sorted. Of `a / 2 = 1` that arithmetic concludes `a = 2`, though 3 fulfils it as well; it ignores sums that
//! wrap and casts that round. Such a filter gets the condition `true`, of which DataFusion computes no bounds.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal, lit};
use datafusion::physical_expr::intervals::utils::check_support;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};

use crate::node_rule::Replaced;

/// Keeps DataFusion from bounds of columns that are not true. It must come before the rules that read them.
pub(super) fn distrust_intervals(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    distrusted(node)
}

/// Returns a filter with a mark if DataFusion's bounds of its columns may be wrong.
pub(super) fn distrusted(node: &Arc<dyn ExecutionPlan>) -> Replaced {
    let Some(filter) = node.downcast_ref::<FilterExec>() else {
        return Ok(None);
    };
    let (predicate, schema) = (filter.predicate(), filter.input().schema());
    if !check_support(predicate, &schema) || !has_other_inverse(predicate, &schema)? {
        return Ok(None);
    }
    let marked = BinaryExpr::new(Arc::clone(predicate), Operator::And, lit(true));
    let filter = FilterExecBuilder::from(filter).with_predicate(Arc::new(marked));
    Ok(Some(Arc::new(filter.build()?)))
}

/// Returns a predicate without the conditions that are `true`.
pub(crate) fn without_marks(predicate: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    let is_mark = |condition: &Arc<dyn PhysicalExpr>| {
        let literal = condition.downcast_ref::<Literal>();
        literal.is_some_and(|literal| *literal.value() == ScalarValue::from(true))
    };
    let conditions = split_conjunction(predicate);
    if !conditions.iter().any(|condition| is_mark(condition)) {
        return Arc::clone(predicate);
    }
    conjunction(
        conditions
            .into_iter()
            .filter(|condition| !is_mark(condition))
            .cloned(),
    )
}

/// Tells whether a predicate has arithmetic or a cast that its inverse does not undo for all values.
fn has_other_inverse(predicate: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<bool> {
    let mut found = false;
    predicate.apply(|expr| {
        found |= if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            binary.op().is_numerical_operators() && expr.data_type(schema)?.is_integer()
        } else if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            !keeps_all(&cast.expr().data_type(schema)?, cast.cast_type())
        } else {
            false
        };
        Ok(match found {
            true => TreeNodeRecursion::Stop,
            false => TreeNodeRecursion::Continue,
        })
    })?;
    Ok(found)
}

/// Tells whether a cast keeps values apart that differ.
fn keeps_all(from: &DataType, to: &DataType) -> bool {
    let width = |of: &DataType| of.primitive_width().unwrap_or(0);
    match (from, to) {
        (from, to) if from == to => true,
        (DataType::Float32, DataType::Float64) => true,
        (DataType::Date32, DataType::Date64 | DataType::Timestamp(..)) => true,
        (from, DataType::Float64) => from.is_integer() && width(from) < 8,
        (from, to) => {
            from.is_integer()
                && to.is_integer()
                && width(from) < width(to)
                && (from.is_unsigned_integer() || to.is_signed_integer())
        }
    }
}
