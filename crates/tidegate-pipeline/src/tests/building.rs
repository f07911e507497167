//! What the tests of this crate are written with.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use crate::check::Unsupported;
use crate::expr::Expr;
use crate::interpret::{EvalError, Interpreter, evaluate};
use crate::pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, NamedExpr, Pipeline, Step,
};
use crate::scalar::{Scalar, ScalarValue};

/// A batch of columns `a`, `b`, `c`, ….
pub(crate) fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = ('a'..='z').map(String::from);
    let fields: Vec<Field> = columns
        .iter()
        .zip(names)
        .map(|(column, name)| Field::new(name, column.data_type().clone(), true))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// A string column.
pub(crate) fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// A reference to a column.
pub(crate) fn col(index: usize, data_type: &DataType) -> Expr {
    Expr::column(index, data_type.clone()).unwrap()
}

/// A reference to a parameter.
pub(crate) fn param(index: usize, data_type: &DataType) -> Expr {
    Expr::parameter(index, data_type.clone()).unwrap()
}

/// A constant.
pub(crate) fn scalar(data_type: DataType, value: ScalarValue) -> Scalar {
    Scalar { data_type, value }
}

/// A string constant.
pub(crate) fn text(value: &str) -> Scalar {
    scalar(DataType::Utf8, ScalarValue::Utf8(value.into()))
}

/// Evaluates without parameters.
pub(crate) fn eval(expr: &Expr, columns: Vec<ArrayRef>) -> Result<ArrayRef, EvalError> {
    evaluate(expr, &[], &batch(columns))
}

/// An expression and its column name.
pub(crate) fn named(expr: Expr, name: &str) -> NamedExpr {
    NamedExpr {
        expr,
        name: name.to_owned(),
    }
}

/// A pipeline over the columns of a batch, whose output is what its steps give.
pub(crate) fn pipeline(input: &SchemaRef, parameters: Vec<Scalar>, steps: Vec<Step>) -> Pipeline {
    let output = steps.iter().fold(input.as_ref().clone(), |schema, step| {
        step.output_schema(&schema)
    });
    Pipeline {
        input: Arc::clone(input),
        parameters,
        steps,
        output: Arc::new(output),
    }
}

/// Runs a pipeline over batches.
pub(crate) fn run(
    pipeline: &Pipeline,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, EvalError> {
    let mut interpreter = Interpreter::new(Arc::new(pipeline.clone()))?;
    for batch in batches {
        interpreter.fold(batch)?;
    }
    interpreter.finish()
}

/// Runs a pipeline over one batch.
pub(crate) fn run_one(
    pipeline: &Pipeline,
    batch: &RecordBatch,
) -> Result<Vec<RecordBatch>, EvalError> {
    run(pipeline, std::slice::from_ref(batch))
}

/// A call without a filter, of this value type and these state types.
pub(crate) fn call(
    function: AggregateFunction,
    argument: Option<Expr>,
    value: DataType,
    state: &[DataType],
) -> Result<AggregateCall, Unsupported> {
    let state = state
        .iter()
        .enumerate()
        .map(|(index, data_type)| Field::new(format!("s{index}"), data_type.clone(), true))
        .collect();
    AggregateCall::new(function, argument, None, value, state, "v")
}

/// A grouping step.
pub(crate) fn group_by(
    keys: Vec<NamedExpr>,
    calls: Vec<AggregateCall>,
    output: AggregateOutput,
) -> Step {
    Step::Aggregate(Aggregate {
        keys,
        calls,
        output,
    })
}
