//! From DataFusion's physical plans to the pipeline IR.
//!
//! [`expr`] lowers expressions, [`aggregate`] function calls, [`plan`] chains of plan nodes down to
//! the leaf they read from; [`parameter`] is about the parameters of prepared statements. Lowering never fails: what the IR cannot say comes back as [`Reasons`],
//! all of them, and the plan stays as it was.
//!
//! Functions and aggregates are found in `tidegate_pipeline::catalogue` by the name that DataFusion has for
//! them, and told from others of that name by their implementation.

pub(crate) mod aggregate;
pub(crate) mod expr;
pub(crate) mod parameter;
pub(crate) mod plan;

use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ColumnarValue;
use tidegate_pipeline::catalogue;
use tidegate_pipeline::{Aggregate, Pipeline, Scalar, Step, Unsupported};

pub(crate) use plan::{Lowered, lower_additive, lower_atomic};

/// Why something has no program: every reason, each once, in the order in which they were met.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reasons(Vec<String>);

impl Reasons {
    pub(crate) fn push(&mut self, reason: impl Into<String>) {
        let reason = reason.into();
        if !self.0.contains(&reason) {
            self.0.push(reason);
        }
    }

    /// Keeps what was lowered, or notes why it was not.
    pub(crate) fn keep<T>(&mut self, lowered: std::result::Result<T, Unsupported>) -> Option<T> {
        lowered
            .map_err(|unsupported| self.push(unsupported.what))
            .ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// A parameter whose value is known only when the plan runs, such as a scalar subquery's or one that
/// is computed of a prepared statement's parameters.
#[derive(Clone, Debug)]
pub(crate) struct Binding {
    /// The parameter's index.
    pub(crate) parameter: usize,
    /// What gives its value; it reads no column.
    pub(crate) expr: Arc<dyn PhysicalExpr>,
}

/// Gives every late parameter its value. Call it within `execute`, where subqueries have run.
pub(crate) fn bind(pipeline: &Arc<Pipeline>, bindings: &[Binding]) -> Result<Arc<Pipeline>> {
    if bindings.is_empty() {
        return Ok(Arc::clone(pipeline));
    }
    let mut bound = Pipeline::clone(pipeline);
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options)?;
    for binding in bindings {
        let value = match binding.expr.evaluate(&row)? {
            ColumnarValue::Scalar(value) => value,
            ColumnarValue::Array(array) => {
                datafusion::common::ScalarValue::try_from_array(&array, 0)?
            }
        };
        let Some(scalar) = expr::scalar(&value) else {
            return datafusion::common::internal_err!("a late parameter cannot hold {value}");
        };
        let declared = &mut bound.parameters[binding.parameter];
        *declared = Scalar {
            data_type: declared.data_type.clone(),
            value: scalar.value,
        };
    }
    Ok(Arc::new(bound))
}

/// Returns whether a pipeline adds floats up, so that the order of additions shows in the last bits.
pub(crate) fn rounds(pipeline: &Pipeline) -> bool {
    aggregates(pipeline).any(adds_floats)
}

/// Returns whether it does so over other groups, whose order is not that of any rows.
pub(crate) fn rounds_over_groups(pipeline: &Pipeline) -> bool {
    aggregates(pipeline).skip(1).any(adds_floats)
}

fn aggregates(pipeline: &Pipeline) -> impl Iterator<Item = &Aggregate> {
    pipeline.steps.iter().filter_map(|step| match step {
        Step::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    })
}

fn adds_floats(aggregate: &Aggregate) -> bool {
    let mut calls = aggregate.calls.iter();
    calls.any(|call| (catalogue::aggregate(call.function).rounds)(&call.data_type))
}
