//! Calls of functions that users defined: their host body over arrays of one row.

use super::EvalError;
use super::builder::ColumnBuilder;
use super::column::Column;
use crate::custom::CustomFunction;
use crate::program::cell::Cell;

/// Calls a function with arguments that are there; `None` is NULL.
pub(crate) fn call(
    function: &CustomFunction,
    args: &[Cell<'_>],
) -> Result<Option<Cell<'static>>, EvalError> {
    let columns = args.iter().zip(&function.arguments);
    let columns = columns.map(|(arg, (_, data_type))| {
        let mut column = ColumnBuilder::new(data_type)?;
        column.push(Some(*arg))?;
        column.finish()
    });
    let result = function.call(&columns.collect::<Result<Vec<_>, _>>()?)?;
    if result.is_empty() {
        return Err(EvalError::internal(
            "a function without arguments gave no row",
        ));
    }
    match Column::new(&result)?.get(0) {
        None => Ok(None),
        Some(Cell::Int(value)) => Ok(Some(Cell::Int(value))),
        Some(Cell::Float(value)) => Ok(Some(Cell::Float(value))),
        other => Err(EvalError::internal(format!("a function gave {other:?}"))),
    }
}
