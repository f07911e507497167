//! Types of columns: from what Python calls them to Arrow's.

use std::str::FromStr;

use arrow::datatypes::{DataType, Field, Schema};
use pyo3::types::{PyAnyMethods, PyString};
use pyo3::{Bound, PyAny, PyResult};
use pyo3_arrow::{PyDataType, PySchema};

use crate::error::wrong_type;

/// Reads a type: Arrow's name for it, or an object that exports an Arrow type.
pub(crate) fn data_type(wanted: &Bound<'_, PyAny>) -> PyResult<DataType> {
    if let Ok(name) = wanted.cast::<PyString>() {
        let name = name.to_string();
        return DataType::from_str(&name).map_err(|_| {
            wrong_type(format!(
                "'{name}' is no type: write an Arrow type such as 'Int64', 'Float64', 'Utf8', 'Date32', \
                 'Timestamp(µs)' or 'List(Int64)'"
            ))
        });
    }
    let known = wanted.extract::<PyDataType>();
    known.map(PyDataType::into_inner).map_err(|_| {
        let what = wanted.get_type().to_string();
        wrong_type(format!("an Arrow type was expected, and not {what}"))
    })
}

/// Reads columns: pairs of a name and a type, or an object that exports an Arrow schema.
pub(crate) fn schema(wanted: &Bound<'_, PyAny>) -> PyResult<Schema> {
    if wanted.hasattr("__arrow_c_schema__")? {
        let schema: PySchema = wanted.extract()?;
        return Ok(schema.into_inner().as_ref().clone());
    }
    let mut fields = Vec::new();
    for pair in wanted.try_iter()? {
        let (name, wanted): (String, Bound<'_, PyAny>) = pair?.extract()?;
        fields.push(Field::new(name, data_type(&wanted)?, true));
    }
    Ok(Schema::new(fields))
}
