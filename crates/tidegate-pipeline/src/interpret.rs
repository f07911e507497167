//! The reference interpreter: a pipeline run a row at a time.
//!
//! Its rules are DataFusion's, written once more in the plainest way, so that every other way to
//! run a pipeline can be held against it. In reading order: `value` is one cell, `column` and
//! `builder` take cells out of arrays and put them in, `evaluate` walks an expression with the
//! rules of `arithmetic`, `compare`, `cast`, `temporal` and `like`; `groups`, `aggregate` and
//! `sort` gather rows; a `stage` runs steps up to one that needs all rows.

mod aggregate;
pub(crate) mod arithmetic;
pub(crate) mod block;
pub(crate) mod builder;
pub(crate) mod cast;
pub(crate) mod column;
pub(crate) mod compare;
pub(crate) mod custom;
mod evaluate;
pub(crate) mod groups;
pub(crate) mod like;
mod sort;
mod stage;
pub(crate) mod temporal;
pub(crate) mod value;

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::ArrowError;

use crate::check::Unsupported;
use crate::expr::Expr;
use crate::pipeline::Pipeline;
use crate::scalar::Scalar;
use builder::ColumnBuilder;
use column::Column;
use evaluate::{Node, Row};
use stage::Stage;

/// Says why a pipeline could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub enum EvalError {
    /// An integer or decimal was divided by zero.
    #[error("division by zero")]
    DivideByZero,
    /// A checked operation left the range of its type.
    #[error("arithmetic overflow: {operation}")]
    Overflow {
        /// The operation and the types.
        operation: String,
    },
    /// A function has no value for its arguments.
    #[error("{what}")]
    Domain {
        /// Which function, and of what.
        what: &'static str,
    },
    /// A value has no image under CAST.
    #[error("cannot cast {value} to {to}: out of range")]
    CastFailed {
        /// The value.
        value: String,
        /// The type that does not hold it.
        to: String,
    },
    /// A function of a user failed.
    #[error("function {name}: {why}")]
    Function {
        /// The function.
        name: String,
        /// What its body said.
        why: String,
    },
    /// A batch is not of the pipeline's input.
    #[error("shape mismatch: {what}")]
    ShapeMismatch {
        /// What differs.
        what: String,
    },
    /// The pipeline breaks an invariant.
    #[error("not a valid pipeline: {0}")]
    Invalid(#[from] Unsupported),
    /// Arrow refused to build an array or a batch, as for a NULL in a column declared without.
    #[error("cannot build the result: {0}")]
    Arrow(#[from] ArrowError),
    /// A value and its type disagree, which the checks rule out.
    #[error("internal: {what}")]
    Internal {
        /// What was met.
        what: String,
    },
}

impl EvalError {
    /// Returns whether the query itself raises over these rows: a division by zero, an overflow, a
    /// failed cast, a function of a user. Everything else is a fault of the caller or of this crate.
    pub fn is_arithmetic(&self) -> bool {
        matches!(
            self,
            Self::DivideByZero
                | Self::Overflow { .. }
                | Self::Domain { .. }
                | Self::CastFailed { .. }
                | Self::Function { .. }
        )
    }

    pub(crate) fn internal(what: impl Into<String>) -> Self {
        Self::Internal { what: what.into() }
    }
}

/// A pipeline being run: batches are folded in, and the result is taken at the end.
pub struct Interpreter {
    /// The first stage takes the input; each further one what the one before it gives.
    first: Stage,
    rest: Vec<Stage>,
    rows_in: u64,
}

impl Interpreter {
    /// Prepares to run a pipeline, which has to pass [`Pipeline::validate`].
    pub fn new(pipeline: Arc<Pipeline>) -> Result<Self, EvalError> {
        pipeline.validate()?;
        let parameters = &pipeline.parameters;
        let input = Arc::clone(&pipeline.input);
        let (first, mut done) = Stage::new(&pipeline.steps, input, parameters, &pipeline.output)?;
        let mut rest: Vec<Stage> = Vec::new();
        while let Some(steps) = pipeline.steps.get(done..).filter(|steps| !steps.is_empty()) {
            let input = Arc::clone(rest.last().unwrap_or(&first).output());
            let (stage, taken) = Stage::new(steps, input, parameters, &pipeline.output)?;
            rest.push(stage);
            done += taken;
        }
        Ok(Self {
            first,
            rest,
            rows_in: 0,
        })
    }

    /// Runs a batch, whose columns are the pipeline's input in order. After an error nothing is
    /// promised of the state.
    pub fn fold(&mut self, batch: &RecordBatch) -> Result<(), EvalError> {
        self.first.fold(batch)?;
        self.rows_in += batch.num_rows() as u64;
        Ok(())
    }

    /// Runs what is left and returns the result under the pipeline's own output schema, in batches
    /// of at most 8192 rows; none if there are no rows. Groups are in order of first appearance.
    pub fn finish(self) -> Result<Vec<RecordBatch>, EvalError> {
        let mut batches = self.first.finish()?;
        for mut stage in self.rest {
            for batch in &batches {
                stage.fold(batch)?;
            }
            batches = stage.finish()?;
        }
        Ok(batches)
    }

    /// Returns how many rows were folded.
    pub fn rows_in(&self) -> u64 {
        self.rows_in
    }

    /// Returns how many groups the first aggregate has, if no sort comes before it; else 0.
    pub fn num_groups(&self) -> usize {
        self.first.num_groups()
    }

    /// Returns about how many bytes the gathered state holds.
    pub fn state_bytes(&self) -> usize {
        self.first.memory_bytes()
    }
}

impl fmt::Debug for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interpreter")
            .field("rows_in", &self.rows_in)
            .finish_non_exhaustive()
    }
}

/// Evaluates one expression over every row of a batch.
pub fn evaluate(
    expr: &Expr,
    parameters: &[Scalar],
    batch: &RecordBatch,
) -> Result<ArrayRef, EvalError> {
    let node = Node::new(expr, parameters)?;
    let arrays = batch.columns().iter();
    let columns: Vec<Column<'_>> = arrays
        .map(|array| Column::new(array.as_ref()))
        .collect::<Result<_, _>>()?;
    let mut result = ColumnBuilder::new(&expr.data_type)?;
    for index in 0..batch.num_rows() {
        let row = Row::Cells {
            columns: &columns,
            index,
        };
        result.push(node.evaluate(row)?)?;
    }
    result.finish()
}

#[cfg(test)]
mod tests;
