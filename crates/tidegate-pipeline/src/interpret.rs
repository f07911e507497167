//! The reference interpreter: the row programs of a pipeline, run operation by operation.
//!
//! In reading order: `column` and `builder` take cells out of arrays and put them in,
//! `block` gathers rows, and `groups` finds those of one key; what operations mean is with
//! [`program::interpret`](crate::program::interpret).

pub(crate) mod block;
pub(crate) mod builder;
pub(crate) mod column;
pub(crate) mod custom;
pub(crate) mod groups;
pub(crate) mod like;

use std::fmt;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use crate::check::Unsupported;
use crate::expr::Expr;
use crate::pipeline::{NamedExpr, Pipeline, Step};
use crate::program::interpret::{Run, column};
use crate::program::{Facts, RowProgram, lower};
use crate::scalar::Scalar;

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
    input: SchemaRef,
    programs: Vec<RowProgram>,
    run: Run,
    rows_in: u64,
}

impl Interpreter {
    /// Prepares to run a pipeline, which has to pass [`Pipeline::validate`].
    pub fn new(pipeline: Arc<Pipeline>) -> Result<Self, EvalError> {
        pipeline.validate()?;
        let fields = pipeline.input.fields();
        let programs = lower(&pipeline, &|column| {
            Facts::declared(fields[column].data_type())
        })?;
        Ok(Self {
            input: Arc::clone(&pipeline.input),
            run: Run::new(&programs, &pipeline.output)?,
            programs,
            rows_in: 0,
        })
    }

    /// Runs a batch, whose columns are the pipeline's input in order. After an error nothing is
    /// promised of the state.
    pub fn fold(&mut self, batch: &RecordBatch) -> Result<(), EvalError> {
        self.check_shape(batch)?;
        self.run.fold(&self.programs, batch)?;
        self.rows_in += batch.num_rows() as u64;
        Ok(())
    }

    /// Runs what is left and returns the result under the pipeline's own output schema, in batches
    /// of at most 8192 rows; none if there are no rows. Groups are in order of first appearance.
    pub fn finish(self) -> Result<Vec<RecordBatch>, EvalError> {
        self.run.finish(&self.programs)
    }

    /// Returns how many rows were folded.
    pub fn rows_in(&self) -> u64 {
        self.rows_in
    }

    /// Returns how many groups the first aggregate has, if no sort comes before it; else 0.
    pub fn num_groups(&self) -> usize {
        self.run.num_groups()
    }

    /// Returns about how many bytes the gathered state holds.
    pub fn state_bytes(&self) -> usize {
        self.run.memory_bytes()
    }

    fn check_shape(&self, batch: &RecordBatch) -> Result<(), EvalError> {
        let expected = self.input.fields();
        if batch.num_columns() != expected.len() {
            return Err(EvalError::ShapeMismatch {
                what: format!(
                    "{} columns where {} are read",
                    batch.num_columns(),
                    expected.len()
                ),
            });
        }
        for (field, array) in expected.iter().zip(batch.columns()) {
            if field.data_type() != array.data_type() {
                return Err(EvalError::ShapeMismatch {
                    what: format!(
                        "column {} is {}, not {}",
                        field.name(),
                        array.data_type(),
                        field.data_type()
                    ),
                });
            }
        }
        Ok(())
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
    let field = Field::new("value", expr.data_type.clone(), true);
    let named = NamedExpr {
        expr: expr.clone(),
        name: field.name().clone(),
    };
    let pipeline = Pipeline {
        input: batch.schema(),
        parameters: parameters.to_vec(),
        steps: vec![Step::Project(vec![named])],
        output: Arc::new(Schema::new(vec![field])),
    };
    let program = lower(&pipeline, &|column| {
        Facts::declared(batch.column(column).data_type())
    })?;
    match program.first() {
        Some(program) => column(program, batch),
        None => Err(EvalError::internal("an expression without a program")),
    }
}

#[cfg(test)]
mod tests;
