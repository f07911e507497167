//! Keys of joins that are dictionaries of integers.
//!
//! DataFusion finds rows of a small side by an array over the range of its keys. It takes dictionaries of integers for
//! integers there, and fails. Such keys are joined by the integers that they stand for.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, cast};

/// Joins by integers where a key is a dictionary of them.
pub(super) fn decode_join_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) => decoded(join),
        plan => Ok(Transformed::no(plan)),
    }
}

fn decoded(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut has_changed = false;
    for (left, right) in &mut join.on {
        for (key, input) in [(left, &join.left), (right, &join.right)] {
            if let Some(decoded) = decoded_key(key, input.schema())? {
                *key = decoded;
                has_changed = true;
            }
        }
    }
    let join = LogicalPlan::Join(join);
    Ok(Transformed::new_transformed(join, has_changed))
}

/// Returns the integers that a key stands for; `None` if it is no dictionary of integers.
fn decoded_key(key: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let integers = match key.get_type(schema)? {
        DataType::Dictionary(_, values) if values.is_integer() => *values,
        _ => return Ok(None),
    };
    // Integers that were made a dictionary to be compared with one. Keys have one cast at the most, by which DataFusion
    // finds the columns of USING.
    if let Expr::Cast(made) = key {
        let of = made.expr.get_type(schema)?;
        if of == integers {
            return Ok(Some(made.expr.as_ref().clone()));
        }
        let values = match &of {
            DataType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        if values.is_integer() {
            return Ok(Some(cast(made.expr.as_ref().clone(), integers)));
        }
    }
    Ok(Some(cast(key.clone(), integers)))
}
