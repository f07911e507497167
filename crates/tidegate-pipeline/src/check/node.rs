//! One rule for every kind of node, given that its children are right: that of the function it calls.

use arrow_schema::DataType;

use super::{Unsupported, supported_type};
use crate::catalogue::Signature;
use crate::expr::{Expr, ExprKind};

/// Checks one node against the types of its children.
pub(super) fn check_node(expr: &Expr) -> Result<(), Unsupported> {
    supported_type(&expr.data_type)?;
    if let ExprKind::Column(_) | ExprKind::Parameter(_) = expr.kind {
        return Ok(());
    }
    let (entry, signature) = Signature::of(expr)?;
    if let ExprKind::Call {
        function,
        arguments,
        constants,
    } = &expr.kind
    {
        // Of an entry with syntax of its own a call says nothing.
        let (least, most) = function.entry().arity;
        let has_syntax = function.entry().datafusion.is_empty();
        if has_syntax || !(least..=most).contains(&arguments.len()) {
            let num = arguments.len();
            return Err(Unsupported::new(format!("{function} of {num} arguments")));
        }
        constants.iter().try_for_each(super::check_scalar)?;
    }
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
