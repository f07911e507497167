//! Row-wise pipelines by the oracles of the catalogue: a walk over the tree for each row, in which only what
//! the result depends on is evaluated.

use std::sync::Arc;

use arrow_array::RecordBatch;

use crate::catalogue::Signature;
use crate::expr::{Expr, ExprKind};
use crate::interpret::block::BlockBuilder;
use crate::interpret::column::Column;
use crate::interpret::value::Value;
use crate::interpret::{EvalError, compare};
use crate::pipeline::{Pipeline, Step};

/// Runs a pipeline of filters and projections; `None` for other steps.
pub(crate) fn run(
    pipeline: &Pipeline,
    batches: &[RecordBatch],
) -> Option<Result<Vec<RecordBatch>, EvalError>> {
    let is_row_wise = |step: &Step| matches!(step, Step::Filter(_) | Step::Project(_));
    let all = pipeline.steps.iter().all(is_row_wise);
    all.then(|| run_rows(pipeline, batches))
}

fn run_rows(pipeline: &Pipeline, batches: &[RecordBatch]) -> Result<Vec<RecordBatch>, EvalError> {
    let fields = pipeline.output.fields();
    let mut rows = BlockBuilder::new(fields.iter().map(|field| field.data_type()))?;
    for batch in batches {
        let columns = batch.columns().iter();
        let columns: Vec<Column<'_>> = columns
            .map(|array| Column::new(array.as_ref()))
            .collect::<Result<_, _>>()?;
        for index in 0..batch.num_rows() {
            let row = columns.iter().map(|column| column.get(index)).collect();
            if let Some(row) = through(pipeline, row)? {
                rows.push(row)?;
            }
        }
    }
    let blocks = rows.finish()?.into_iter();
    blocks
        .map(|block| block.into_batch(Arc::clone(&pipeline.output)))
        .collect()
}

fn through<'a>(
    pipeline: &'a Pipeline,
    mut row: Vec<Value<'a>>,
) -> Result<Option<Vec<Value<'a>>>, EvalError> {
    for step in &pipeline.steps {
        match step {
            Step::Filter(predicate) => {
                if !evaluate(predicate, pipeline, &row)?.is_true() {
                    return Ok(None);
                }
            }
            Step::Project(columns) => {
                let columns = columns.iter();
                row = columns
                    .map(|column| evaluate(&column.expr, pipeline, &row))
                    .collect::<Result<_, _>>()?;
            }
            Step::Aggregate(_) | Step::Sort(_) => {}
        }
    }
    Ok(Some(row))
}

fn evaluate<'a>(
    expr: &'a Expr,
    pipeline: &'a Pipeline,
    row: &[Value<'a>],
) -> Result<Value<'a>, EvalError> {
    let value = |expr: &'a Expr| evaluate(expr, pipeline, row);
    match &expr.kind {
        ExprKind::Column(index) => Ok(row[*index]),
        ExprKind::Parameter(index) => Ok(Value::of_scalar(&pipeline.parameters[*index])),
        ExprKind::And(left, right) | ExprKind::Or(left, right) => {
            let wins = Value::Boolean(matches!(expr.kind, ExprKind::Or(..)));
            let left = value(left)?;
            if left == wins {
                return Ok(wins);
            }
            let right = value(right)?;
            Ok(match left {
                Value::Null if right != wins => Value::Null,
                _ => right,
            })
        }
        ExprKind::Case {
            branches,
            otherwise,
        } => {
            for (when, then) in branches {
                if value(when)?.is_true() {
                    return value(then);
                }
            }
            otherwise.as_deref().map_or(Ok(Value::Null), value)
        }
        ExprKind::InList {
            expr,
            list,
            negated,
        } => {
            let needle = value(expr)?;
            if needle.is_null() {
                return Ok(Value::Null);
            }
            let mut otherwise = Value::Boolean(*negated);
            for item in list {
                match value(item)? {
                    Value::Null => otherwise = Value::Null,
                    item if compare::order(needle, item).is_eq() => {
                        return Ok(Value::Boolean(!negated));
                    }
                    _ => {}
                }
            }
            Ok(otherwise)
        }
        ExprKind::Like { expr: text, .. } if value(text)?.is_null() => Ok(Value::Null),
        _ => {
            let (entry, signature) = Signature::of(expr)?;
            let mut args = Vec::new();
            for child in expr.children() {
                args.push(value(child)?);
                if entry.name == "coalesce" && args.last().is_some_and(|arg| !arg.is_null()) {
                    break;
                }
            }
            (entry.oracle)(&signature, &args)
        }
    }
}
