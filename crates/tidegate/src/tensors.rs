//! Tensor columns: a value of a row is an array itself, all of one shape.
//!
//! They are fixed-size lists, nested ones of several dimensions, or Arrow's canonical extension
//! `arrow.fixed_shape_tensor`, a fixed-size list with the shape in its field's metadata.
//! [`elements`] takes them apart into a row for each element with its indices, as arrays are tables
//! here; [`tensor`] puts values together again. In SQL both have the same names.

mod elements;
mod shape;
mod tensor;

use std::sync::Arc;

use datafusion::logical_expr::{Expr, ScalarUDF, lit};

/// Returns the functions.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let elements = ScalarUDF::new_from_impl(elements::Elements::new());
    let tensor = ScalarUDF::new_from_impl(tensor::Tensor::new());
    vec![Arc::new(elements), Arc::new(tensor)]
}

/// Returns the elements of a list or tensor column as a list of structs, with a field for the index in
/// each dimension, called i, j, k and so on, and the value, called x. NULL has no elements.
pub fn elements(column: Expr) -> Expr {
    ScalarUDF::new_from_impl(elements::Elements::new()).call(vec![column])
}

/// Returns lists of values, in row-major order, as tensors of a shape. A list of another length is an
/// error when it is met; NULL is NULL.
pub fn tensor(values: Expr, shape: &[u64]) -> Expr {
    let mut args = vec![values];
    args.extend(shape.iter().map(|len| lit(*len)));
    ScalarUDF::new_from_impl(tensor::Tensor::new()).call(args)
}
