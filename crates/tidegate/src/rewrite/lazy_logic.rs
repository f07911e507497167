//! AND and OR that compute their right side only where the left one leaves the result open.
//!
//! DataFusion's compute both sides over a batch, so that `b <> 0 AND 10 / b > 1` raises for rows that
//! the left side drops; so does `CASE WHEN b <> 0 THEN 10 / b > 1 ELSE false END`, which its optimizer
//! writes as AND, in any order. Programs of devices go from left to right. [`make_logic_lazy`] makes the host do the
//! same where the right side may raise; elsewhere nothing changes.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{and_kleene, or_kleene};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::BinaryExpr;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ColumnarValue, ExecutionPlan};

use super::intervals::{distrusted, without_marks};
use super::raising::may_raise_at_run_time;
use crate::node_rule::Replaced;

type Expr = Arc<dyn PhysicalExpr>;

/// `left AND right` or `left OR right`; the right side is computed only for rows that need it.
#[derive(Clone, Debug, Eq)]
pub(crate) struct LazyLogic {
    /// AND or OR.
    op: Operator,
    left: Expr,
    right: Expr,
}

impl LazyLogic {
    /// Makes `left AND right`.
    pub(crate) fn and(left: Expr, right: Expr) -> Expr {
        let op = Operator::And;
        Arc::new(Self { op, left, right })
    }

    /// Returns AND or OR.
    pub(crate) fn op(&self) -> &Operator {
        &self.op
    }

    /// Returns the side that is computed first.
    pub(crate) fn left(&self) -> &Expr {
        &self.left
    }

    /// Returns the side that is computed where it is needed.
    pub(crate) fn right(&self) -> &Expr {
        &self.right
    }

    /// Returns the value of the left side that decides without the right one.
    fn decides(&self) -> bool {
        self.op == Operator::Or
    }
}

// Derived, both would ask for `Arc<dyn PhysicalExpr>: PartialEq`, which moves out of the field.
impl PartialEq for LazyLogic {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for LazyLogic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.op.hash(state);
        self.left.hash(state);
        self.right.hash(state);
    }
}

impl fmt::Display for LazyLogic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = (Arc::clone(&self.left), Arc::clone(&self.right));
        write!(f, "{}", BinaryExpr::new(sides.0, self.op, sides.1))
    }
}

impl PhysicalExpr for LazyLogic {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        Ok(self.left.nullable(input)? || self.right.nullable(input)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let num_rows = batch.num_rows();
        let left = self.left.evaluate(batch)?.into_array(num_rows)?;
        let left = left.as_boolean();
        let open = rows_other_than(left, self.decides());
        if !open.has_true() {
            return Ok(ColumnarValue::Array(Arc::new(left.clone())));
        }
        let right = self.right.evaluate_selection(batch, &open)?;
        let right = right.into_array(num_rows)?;
        let right = right.as_boolean();
        let both = match self.op {
            Operator::Or => or_kleene(left, right)?,
            _ => and_kleene(left, right)?,
        };
        Ok(ColumnarValue::Array(Arc::new(both) as ArrayRef))
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Expr>) -> Result<Expr> {
        let Ok([left, right]) = <[_; 2]>::try_from(children) else {
            return internal_err!("{} has two sides", self.op);
        };
        let op = self.op;
        Ok(Arc::new(Self { op, left, right }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Selects the rows where a value is not this one; NULL is another.
fn rows_other_than(values: &BooleanArray, value: bool) -> BooleanArray {
    let same = match value {
        true => values.values().clone(),
        false => !values.values(),
    };
    let known: Option<&BooleanBuffer> = values.nulls().map(|nulls| nulls.inner());
    let same = known.map_or(same.clone(), |known| &same & known);
    BooleanArray::new(!&same, None)
}

/// Replaces AND and OR whose right side may raise by [`LazyLogic`] in projections: before the rules that have
/// scans compute them.
pub(super) fn make_projections_lazy(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => lazy_projection(projection),
        None => Ok(None),
    }
}

/// Does so in filters and aggregates, too, and in filters behind what cannot raise: after the rules that look
/// into predicates, and before regions are lowered.
pub(super) fn make_logic_lazy(node: &Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Replaced {
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        lazy_filter(filter)
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        lazy_aggregate(aggregate)
    } else {
        make_projections_lazy(node, config)
    }
}

/// Filters by each condition that may raise behind the others, whose order the optimizer has left open. They
/// are filters of their own, and no [`LazyLogic`], in which DataFusion would not find the columns that a
/// condition makes constant and that it has left out of orders.
fn lazy_filter(filter: &FilterExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = filter.input().schema();
    let predicate = without_marks(filter.predicate());
    let all = split_conjunction(&predicate);
    let may_raise = |condition: &&Expr| may_raise_at_run_time(condition, &schema);
    let (raising, others): (Vec<&Expr>, Vec<&Expr>) = all.into_iter().partition(may_raise);
    let mut conditions = Vec::with_capacity(1 + raising.len());
    if !others.is_empty() {
        conditions.push(conjunction(others.into_iter().map(Arc::clone)));
    }
    let mut any = !conditions.is_empty() && !raising.is_empty() || raising.len() > 1;
    for condition in raising {
        let condition = lazy(condition, &schema)?;
        any |= condition.transformed;
        conditions.push(condition.data);
    }
    let Some(last) = conditions.pop().filter(|_| any) else {
        return Ok(None);
    };
    let mut input = Arc::clone(filter.input());
    for condition in conditions {
        input = marked(FilterExecBuilder::new(condition, input).build()?)?;
    }
    let last = FilterExecBuilder::from(filter).with_predicate(last);
    Ok(Some(marked(last.with_input(input).build()?)?))
}

/// Marks a filter if DataFusion computes bounds of its columns that may be wrong.
fn marked(filter: FilterExec) -> Result<Arc<dyn ExecutionPlan>> {
    let filter: Arc<dyn ExecutionPlan> = Arc::new(filter);
    Ok(distrusted(&filter)?.unwrap_or(filter))
}

fn lazy_projection(projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let schema = projection.input().schema();
    let mut any = false;
    let mut exprs = Vec::with_capacity(projection.expr().len());
    for named in projection.expr() {
        let expr = lazy(&named.expr, &schema)?;
        any |= expr.transformed;
        exprs.push(ProjectionExpr {
            expr: expr.data,
            alias: named.alias.clone(),
        });
    }
    if !any {
        return Ok(None);
    }
    let input = Arc::clone(projection.input());
    let lazy = ProjectionExec::try_new_with_schema_metadata(exprs, input, &projection.schema())?;
    Ok(Some(Arc::new(lazy)))
}

/// Makes keys, arguments and filters of an aggregate lazy that reads rows; the other halves read states.
fn lazy_aggregate(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let reads_rows = matches!(
        aggregate.mode(),
        AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned
    );
    if !reads_rows {
        return Ok(None);
    }
    let schema = aggregate.input().schema();
    let mut any = false;
    let group_by = aggregate.group_expr();
    let mut keys = Vec::with_capacity(group_by.expr().len());
    for (key, name) in group_by.expr() {
        let key = lazy(key, &schema)?;
        any |= key.transformed;
        keys.push((key.data, name.clone()));
    }
    let mut calls = Vec::with_capacity(aggregate.aggr_expr().len());
    for call in aggregate.aggr_expr() {
        let mut args = Vec::new();
        let mut changed = false;
        for arg in call.expressions() {
            let arg = lazy(&arg, &schema)?;
            changed |= arg.transformed;
            args.push(arg.data);
        }
        let order_by = call.all_expressions().order_by_exprs;
        let rewritten = match changed && !call.is_reversed() {
            true => call.with_new_expressions(args, order_by),
            false => None,
        };
        any |= rewritten.is_some();
        calls.push(rewritten.map_or_else(|| Arc::clone(call), Arc::new));
    }
    let mut filters = Vec::with_capacity(calls.len());
    for filter in aggregate.filter_expr() {
        let filter = match filter {
            Some(filter) => Some(lazy(filter, &schema)?),
            None => None,
        };
        any |= filter.as_ref().is_some_and(|filter| filter.transformed);
        filters.push(filter.map(|filter| filter.data));
    }
    if !any {
        return Ok(None);
    }
    let lazy = AggregateExec::try_new(
        *aggregate.mode(),
        PhysicalGroupBy::new(
            keys,
            group_by.null_expr().to_vec(),
            group_by.groups().to_vec(),
            group_by.has_grouping_set(),
        ),
        calls,
        filters,
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    let lazy = lazy.with_limit_options(aggregate.limit_options());
    Ok(Some(Arc::new(lazy)))
}

fn lazy(expr: &Expr, schema: &Schema) -> Result<Transformed<Expr>> {
    Arc::clone(expr).transform_up(|part| {
        let Some(binary) = part.downcast_ref::<BinaryExpr>() else {
            return Ok(Transformed::no(part));
        };
        let is_logic = matches!(binary.op(), Operator::And | Operator::Or);
        if !is_logic || !may_raise_at_run_time(binary.right(), schema) {
            return Ok(Transformed::no(part));
        }
        let lazy: Expr = Arc::new(LazyLogic {
            op: *binary.op(),
            left: Arc::clone(binary.left()),
            right: Arc::clone(binary.right()),
        });
        Ok(Transformed::yes(lazy))
    })
}

#[cfg(test)]
mod tests;
