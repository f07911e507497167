//! The vocabulary of Tidegate: what a pipeline *means*, as pure data, and one slow,
//! obviously right way to run it.
//!
//! A [`Pipeline`] is a chain of [`Step`]s (filter, projection, aggregate, sort) over the rows of
//! one input, made of typed [`Expr`]essions. Literals are [`Scalar`] parameters, so two queries
//! that differ only in their constants share one shape. Whatever the IR cannot say is an
//! [`Unsupported`] value that names the construct; it is never an error of the query.
//!
//! The [`Interpreter`] runs a pipeline a row at a time. Its rules are DataFusion's, and every
//! device program is tested against it.
//!
//! This crate must not know: DataFusion, CUDA, tokio, Arrow compute kernels, or where a pipeline
//! runs.
//!
//! In reading order: [`scalar`], [`expr`], [`custom`], [`pipeline`] are the data; [`check`] holds the type
//! rules by which expressions are built; `display` prints a pipeline in one line; [`interpret`]
//! runs it. [`interval`] is what is known of numbers, [`program`] what a stage does to a row as operations
//! that every backend shares, and [`catalogue`] what functions and aggregates are made of.
//!
//! ```
//! # use arrow_schema::DataType;
//! # use tidegate_pipeline::{CompareOp, Expr, Unsupported};
//! let shipped = Expr::column(0, DataType::Date32)?;
//! let until = Expr::parameter(0, DataType::Date32)?;
//! let filter = Expr::compare(CompareOp::LtEq, shipped, until)?;
//! assert_eq!(filter.data_type, DataType::Boolean);
//! assert_eq!(Expr::column(1, DataType::Binary).unwrap_err().what, "type Binary");
//! # Ok::<(), Unsupported>(())
//! ```

pub mod catalogue;
pub mod check;
pub mod custom;
pub mod expr;
pub mod interpret;
pub mod interval;
pub mod pipeline;
pub mod program;
pub mod scalar;

pub mod types;

mod display;

#[cfg(test)]
mod tests;

pub use check::Unsupported;
pub use custom::{BodyFailed, CustomFunction, Host, HostBody};
pub use expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr, ExprKind};
pub use interpret::{EvalError, Interpreter};
pub use interval::{FloatRange, Interval};
pub use pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, NamedExpr, Pipeline, Sort,
    SortKey, Step,
};
pub use program::{Facts, RowProgram};
pub use scalar::{Scalar, ScalarValue};
