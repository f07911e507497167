//! Values from Python. The package has turned dates, times and decimals into whole numbers before.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, i256};
use datafusion::common::ScalarValue;
use pyo3::types::{PyAnyMethods, PyBytes, PyDict, PyDictMethods, PyList, PyTuple};
use pyo3::{Bound, PyAny, PyResult};
use tidegate::{Error, ErrorKind, Planned};

use crate::error::{raise, wrong_type};

/// Reads a value: a pair of its kind and what that kind is made of.
pub(crate) fn scalar(kind: &str, value: &Bound<'_, PyAny>) -> PyResult<ScalarValue> {
    Ok(match kind {
        "null" => ScalarValue::Null,
        "bool" => ScalarValue::from(value.extract::<bool>()?),
        "int" => ScalarValue::from(value.extract::<i64>()?),
        "uint" => ScalarValue::from(value.extract::<u64>()?),
        "float" => ScalarValue::from(value.extract::<f64>()?),
        "str" => ScalarValue::from(value.extract::<String>()?),
        "bytes" => ScalarValue::Binary(Some(value.cast::<PyBytes>()?.extract()?)),
        "date" => ScalarValue::Date32(Some(value.extract()?)),
        "time" => ScalarValue::Time64Microsecond(Some(value.extract()?)),
        "duration" => ScalarValue::IntervalMonthDayNano(Some(interval(value.extract()?))),
        "timestamp" => {
            let (micros, zone): (i64, Option<String>) = value.extract()?;
            ScalarValue::TimestampMicrosecond(Some(micros), zone.map(Into::into))
        }
        "decimal" => {
            let (digits, precision, scale): (String, u8, i8) = value.extract()?;
            decimal(&digits, precision, scale)?
        }
        "list" => {
            let mut values = Vec::new();
            for value in value.try_iter()? {
                let (kind, value): (String, Bound<'_, PyAny>) = value?.extract()?;
                values.push(scalar(&kind, &value)?);
            }
            list(&values)?
        }
        other => return Err(wrong_type(format!("no literal is of the kind '{other}'"))),
    })
}

fn interval(micros: i64) -> arrow::datatypes::IntervalMonthDayNano {
    let (days, rest) = (
        micros.div_euclid(86_400_000_000),
        micros.rem_euclid(86_400_000_000),
    );
    let days = i32::try_from(days).unwrap_or(if days < 0 { i32::MIN } else { i32::MAX });
    arrow::datatypes::IntervalMonthDayNano::new(0, days, rest * 1_000)
}

fn decimal(digits: &str, precision: u8, scale: i8) -> PyResult<ScalarValue> {
    let too_long = || wrong_type(format!("a decimal of {precision} digits has more than 76"));
    match precision {
        0..=38 => {
            let value = digits.parse().map_err(|_| too_long())?;
            Ok(ScalarValue::Decimal128(Some(value), precision, scale))
        }
        39..=76 => {
            let value = i256::from_string(digits).ok_or_else(too_long)?;
            Ok(ScalarValue::Decimal256(Some(value), precision, scale))
        }
        _ => Err(too_long()),
    }
}

fn list(values: &[ScalarValue]) -> PyResult<ScalarValue> {
    let known = values.iter().find(|value| !value.is_null());
    let of = known.map_or(DataType::Null, ScalarValue::data_type);
    if let Some(other) = values
        .iter()
        .find(|value| !value.is_null() && value.data_type() != of)
    {
        let message = format!("a list has values of {of} and of {}", other.data_type());
        return Err(wrong_type(message));
    }
    let missing = ScalarValue::try_from(&of).map_err(|error| raise(&error.into()))?;
    let typed = values.iter().map(|value| {
        if value.is_null() {
            missing.clone()
        } else {
            value.clone()
        }
    });
    let typed: Vec<ScalarValue> = typed.collect();
    Ok(ScalarValue::List(ScalarValue::new_list(&typed, &of, true)))
}

/// Makes the row of a statement's parameters: by place from a list, by name from a dict.
pub(crate) fn parameters(planned: &Planned, given: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let wanted = planned.parameters().map_err(|error| raise(&error))?;
    let mut pairs = Vec::new();
    if let Ok(named) = given.cast::<PyDict>() {
        for field in &wanted {
            let name = field.name().trim_start_matches('$');
            let Some(value) = named.get_item(name)? else {
                let message = format!("parameter ${name} has no value");
                return Err(raise(&Error::new(ErrorKind::Sql, message)));
            };
            pairs.push(value);
        }
        if named.len() > wanted.len() {
            let message = format!(
                "the statement has {} parameters, and {} values were given",
                wanted.len(),
                named.len()
            );
            return Err(raise(&Error::new(ErrorKind::Sql, message)));
        }
    } else {
        pairs = given
            .cast::<PyList>()?
            .try_iter()?
            .collect::<PyResult<_>>()?;
    }
    row_of(pairs)
}

/// Makes the row of a list of values, for parameters that somebody else knows.
pub(crate) fn row(given: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let Ok(list) = given.cast::<PyList>() else {
        let message = "a server's parameters are given by place, as a list";
        return Err(raise(&Error::new(ErrorKind::NotSupported, message)));
    };
    row_of(list.try_iter()?.collect::<PyResult<_>>()?)
}

fn row_of(pairs: Vec<Bound<'_, PyAny>>) -> PyResult<RecordBatch> {
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (index, pair) in pairs.into_iter().enumerate() {
        let (kind, value): (String, Bound<'_, PyAny>) = pair.cast::<PyTuple>()?.extract()?;
        let array = scalar(&kind, &value)?.to_array();
        let array = array.map_err(|error| raise(&error.into()))?;
        fields.push(Field::new(
            format!("${}", index + 1),
            array.data_type().clone(),
            true,
        ));
        columns.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options);
    batch.map_err(|error| raise(&Error::new(ErrorKind::Sql, error.to_string())))
}
