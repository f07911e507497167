//! Calls of functions that users defined: their host body over arrays of one row.

use std::sync::Arc;

use super::EvalError;
use super::builder::ColumnBuilder;
use super::column::Column;
use super::value::Value;
use crate::custom::CustomFunction;

/// A call of one function.
pub(crate) struct Call(Arc<CustomFunction>);

impl Call {
    pub(crate) fn new(function: &Arc<CustomFunction>) -> Self {
        Self(Arc::clone(function))
    }

    /// Calls the function, unless an argument is NULL.
    pub(crate) fn apply(&self, args: &[Value<'_>]) -> Result<Value<'static>, EvalError> {
        if args.iter().any(|arg| arg.is_null()) {
            return Ok(Value::Null);
        }
        let columns = args.iter().zip(&self.0.arguments);
        let columns = columns.map(|(arg, (_, data_type))| {
            let mut column = ColumnBuilder::new(data_type)?;
            column.push(*arg)?;
            column.finish()
        });
        let result = self.0.call(&columns.collect::<Result<Vec<_>, _>>()?)?;
        if result.is_empty() {
            return Err(EvalError::internal(
                "a function without arguments gave no row",
            ));
        }
        match Column::new(&result)?.get(0) {
            Value::Null => Ok(Value::Null),
            Value::Boolean(value) => Ok(Value::Boolean(value)),
            Value::Int(value) => Ok(Value::Int(value)),
            Value::UInt(value) => Ok(Value::UInt(value)),
            Value::Float32(value) => Ok(Value::Float32(value)),
            Value::Float64(value) => Ok(Value::Float64(value)),
            other => Err(EvalError::internal(format!("a function gave {other:?}"))),
        }
    }
}
