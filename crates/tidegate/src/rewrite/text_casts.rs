//! Casts of text to bytes, lists, structs and maps, and of bytes to text, which Arrow computes otherwise than SQL says, or
//! refuses ([`read_texts`]).
//!
//! What is cast to a number, a boolean, a date or the like and is the call of a function that gives JSON is cast as text:
//! null is NULL, and a string has no quotes.
//!
//! They are changed before types are coerced: a cast that DataFusion puts around an argument or an operand hands on the
//! bytes of a text as they are.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, TryCast};

use super::walk::{any_expression, change_parts};
use crate::functions::{json, read_texts};

/// Puts functions in the place of such casts; comes before types are coerced.
pub(super) fn read_cast_texts(plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
    match any_expression(&plan, |part| cast_of(part).is_some())? {
        true => change_parts(plan, in_part),
        false => Ok(plan),
    }
}

/// Returns what is cast, to which type, and whether what cannot be cast is an error, of a cast that may be such.
fn cast_of(part: &Expr) -> Option<(&Expr, &DataType, bool)> {
    let (of, to, is_strict) = match part {
        Expr::Cast(Cast { expr, field }) => (expr.as_ref(), field.data_type(), true),
        Expr::TryCast(TryCast { expr, field }) => (expr.as_ref(), field.data_type(), false),
        _ => return None,
    };
    let is_such = read_texts::is_read(to) || to.is_string() || (is_plain(to) && json::is_call(of));
    is_such.then_some((of, to, is_strict))
}

/// Tells whether a type is one of numbers, booleans, dates and the like.
fn is_plain(to: &DataType) -> bool {
    to.is_numeric() || to.is_temporal() || *to == DataType::Boolean
}

/// Has a cast be of a text.
fn of_text(cast: Expr, text: Expr) -> Expr {
    let expr = Box::new(text);
    match cast {
        Expr::Cast(Cast { field, .. }) => Expr::Cast(Cast { expr, field }),
        Expr::TryCast(TryCast { field, .. }) => Expr::TryCast(TryCast { expr, field }),
        other => other,
    }
}

fn in_part(part: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Some((of, to, is_strict)) = cast_of(&part) else {
        return Ok(Transformed::no(part));
    };
    if is_plain(to)
        && let Some(text) = json::text_of_call(of)
    {
        return Ok(Transformed::yes(of_text(part, text)));
    }
    // Columns of an outer query are of no schema that is known here, but know their type.
    let Ok(from) = of.get_type(schema) else {
        return Ok(Transformed::no(part));
    };
    if from.is_string() && read_texts::is_read(to) {
        let call = read_texts::call(of.clone(), to, is_strict)?;
        return Ok(Transformed::yes(call));
    }
    if from.is_binary() && to.is_string() {
        let text = read_texts::text_of_bytes().call(vec![of.clone()]);
        let cast = Cast::new(Box::new(text), to.clone());
        return Ok(Transformed::yes(Expr::Cast(cast)));
    }
    Ok(Transformed::no(part))
}
