//! Which chunks must stay on the host because of their values.
//!
//! A grouped MIN or MAX over floats has, in DataFusion, an answer that depends on the order of the
//! rows once a NaN or a −0.0 is among them, and the largest finite float for a group of infinities.
//! So that there is one answer, such a chunk is left to the host. The check is conservative: any such
//! value in a float input column that the aggregate's argument refers to, through projections,
//! whatever the filters would drop and whatever is computed of it.

use std::collections::BTreeSet;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, Expr, ExprKind, Pipeline, Step,
};

/// Returns why a device may not fold this batch (columns are `pipeline.input`, in order), or `None`.
pub fn refuse_chunk(pipeline: &Pipeline, batch: &RecordBatch) -> Option<String> {
    let column = order_dependent_columns(pipeline)
        .into_iter()
        .find(|column| {
            batch
                .columns()
                .get(*column)
                .is_some_and(|array| holds_special(array.as_ref()))
        })?;
    let name = pipeline
        .input
        .fields()
        .get(column)
        .map_or("?", |field| field.name().as_str());
    Some(format!(
        "min/max over column {name}: the chunk holds NaN, an infinity or -0.0"
    ))
}

/// Returns the input columns of which grouped float MIN and MAX arguments are made.
pub fn order_dependent_columns(pipeline: &Pipeline) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    for (position, step) in pipeline.steps.iter().enumerate() {
        let Step::Aggregate(aggregate) = step else {
            continue;
        };
        for argument in order_dependent_arguments(aggregate) {
            columns.extend(input_columns(argument, &pipeline.steps[..position]));
        }
    }
    columns
}

fn order_dependent_arguments(aggregate: &Aggregate) -> impl Iterator<Item = &Expr> {
    // Over one group DataFusion orders floats totally, NaN included.
    let calls = if aggregate.keys.is_empty() {
        &[]
    } else {
        aggregate.calls.as_slice()
    };
    let picks_a_float = |call: &&AggregateCall| {
        matches!(
            call.function,
            AggregateFunction::Min | AggregateFunction::Max
        ) && call.data_type.is_floating()
    };
    calls
        .iter()
        .filter(picks_a_float)
        .filter_map(|call| call.argument.as_ref())
}

/// Follows the columns of an expression back through `before`, the steps ahead of its own.
fn input_columns(expr: &Expr, before: &[Step]) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    collect_columns(expr, &mut columns);
    for step in before.iter().rev() {
        columns = match step {
            Step::Filter(_) | Step::Sort(_) => columns,
            Step::Project(exprs) => columns_of(
                columns
                    .iter()
                    .filter_map(|i| exprs.get(*i))
                    .map(|named| &named.expr),
            ),
            Step::Aggregate(aggregate) => columns_of(all_arguments(aggregate)),
        };
    }
    columns
}

/// An aggregate mixes its inputs: every key and argument may be behind a column of its output.
fn all_arguments(aggregate: &Aggregate) -> impl Iterator<Item = &Expr> {
    let keys = aggregate.keys.iter().map(|named| &named.expr);
    let arguments = aggregate
        .calls
        .iter()
        .filter_map(|call| call.argument.as_ref());
    keys.chain(arguments)
}

fn columns_of<'a>(exprs: impl Iterator<Item = &'a Expr>) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    for expr in exprs {
        collect_columns(expr, &mut columns);
    }
    columns
}

fn collect_columns(expr: &Expr, columns: &mut BTreeSet<usize>) {
    if let ExprKind::Column(index) = expr.kind {
        columns.insert(index);
    }
    for child in expr.children() {
        collect_columns(child, columns);
    }
}

/// Returns whether a value of the array, NULL aside, is NaN, infinite or −0.0; only floats have any.
pub(crate) fn holds_special(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::Float32 => any_value::<Float32Type>(array, |v| {
            !v.is_finite() || (v == 0.0 && v.is_sign_negative())
        }),
        DataType::Float64 => any_value::<Float64Type>(array, |v| {
            !v.is_finite() || (v == 0.0 && v.is_sign_negative())
        }),
        _ => false,
    }
}

fn any_value<T: ArrowPrimitiveType>(array: &dyn Array, test: fn(T::Native) -> bool) -> bool {
    let Some(array) = array.as_primitive_opt::<T>() else {
        return false;
    };
    if array.null_count() == 0 {
        return array.values().iter().any(|value| test(*value));
    }
    array.iter().flatten().any(test)
}

#[cfg(test)]
mod tests;
