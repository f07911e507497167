//! One rule for every kind of node, given that its children are right: that of the function it calls.

use arrow_schema::DataType;

use super::{Unsupported, supported_type};
use crate::catalogue::{Options, Signature};
use crate::expr::{Expr, ExprKind};

/// Checks one node against the types of its children.
pub(crate) fn check_node(expr: &Expr) -> Result<(), Unsupported> {
    supported_type(&expr.data_type)?;
    let ExprKind::Call {
        function,
        options,
        arguments,
    } = &expr.kind
    else {
        return Ok(());
    };
    let (least, most) = function.entry().arity;
    if !(least..=most).contains(&arguments.len()) {
        let num = arguments.len();
        return Err(Unsupported::new(format!("{function} of {num} arguments")));
    }
    if let Options::Constants(constants) = options {
        constants.iter().try_for_each(super::check_scalar)?;
    }
    let (entry, signature) = Signature::of(expr)?;
    (entry.types)(&signature)
}

/// Refuses a type that is not `Boolean`.
pub(crate) fn boolean(what: &str, data_type: &DataType) -> Result<(), Unsupported> {
    if *data_type == DataType::Boolean {
        return Ok(());
    }
    Err(Unsupported::new(format!(
        "{what} of type {data_type}, not Boolean"
    )))
}
