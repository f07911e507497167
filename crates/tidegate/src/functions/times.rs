//! `try_strptime(s, format)`: reads a timestamp by a format, and gives NULL where the string is none; and the formats of `strptime` and `strftime`, which are Python's, with DuckDB's `%g` and `%n`.
//!
//! DataFusion's functions of the family of `to_timestamp` forget the session's zone where a column is read by a format
//! ([`Zoned`]).

use std::sync::Arc;

use chrono::format::{Item, StrftimeItems};
use datafusion::arrow::array::{Array, make_array};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

/// DataFusion's functions that read timestamps.
const PARSERS: [&str; 5] = [
    "to_timestamp",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_timestamp_nanos",
];

/// Returns the functions, made of those that are registered.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(crate) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let parsers = PARSERS.iter().map(|name| registry.udf(name));
    let parsers = parsers.collect::<Result<Vec<_>>>()?;
    let lenient = parsers.first().map(|parser| {
        ScalarUDF::from(TryStrptime {
            parser: Arc::clone(parser),
            signature: Signature::user_defined(Volatility::Immutable),
        })
    });
    let zoned = parsers.into_iter().map(|parser| Zoned(parser).into());
    Ok(zoned.chain(lenient).collect())
}

/// Returns DataFusion's function within one of these, and any other as it is.
pub(crate) fn within(function: &ScalarUDF) -> &ScalarUDF {
    match function.inner().downcast_ref::<Zoned>() {
        Some(Zoned(inner)) => inner,
        None => function,
    }
}

/// A function whose timestamps have the zone of its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Zoned(Arc<ScalarUDF>);

impl ScalarUDFImpl for Zoned {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.0.return_type(given)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let updated = self.0.inner().with_updated_config(config)?;
        Some(Self(Arc::new(updated)).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = match args.return_field.data_type() {
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        match self.0.inner().invoke_with_args(args)? {
            // They are instants already, and only not called so.
            ColumnarValue::Array(array) => match array.data_type() {
                DataType::Timestamp(unit, of) if *of != zone => {
                    let data_type = DataType::Timestamp(*unit, zone);
                    let zoned = array.to_data().into_builder().data_type(data_type);
                    Ok(ColumnarValue::Array(make_array(zoned.build()?)))
                }
                _ => Ok(ColumnarValue::Array(array)),
            },
            scalar => Ok(scalar),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// Reads a timestamp, and gives NULL where the parser fails.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TryStrptime {
    parser: Arc<ScalarUDF>,
    signature: Signature,
}

impl ScalarUDFImpl for TryStrptime {
    fn name(&self) -> &str {
        "try_to_timestamp"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match self.parser.return_type(given)? {
            DataType::Timestamp(unit, _) => Ok(DataType::Timestamp(unit, None)),
            _ => Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        }
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        match given.len() >= 2 && given.iter().all(is_text) {
            true => Ok(vec![DataType::Utf8; given.len()]),
            false => {
                plan_err!("try_strptime takes a string and a format: try_strptime(s, '%Y-%m-%d')")
            }
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        for format in args.args.iter().skip(1) {
            check_format(format)?;
        }
        let returns = args.return_field.data_type().clone();
        if let Ok(parsed) = self.parser.inner().invoke_with_args(args.clone()) {
            return parsed.cast_to(&returns, None);
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let num_rows = arrays.first().map_or(0, |array| array.len());
        let mut values = Vec::with_capacity(num_rows);
        for row in 0..num_rows {
            let cells = arrays
                .iter()
                .map(|array| ScalarValue::try_from_array(array, row));
            let cells = cells.map(|cell| cell.map(ColumnarValue::Scalar));
            let of_row = ScalarFunctionArgs {
                args: cells.collect::<Result<_>>()?,
                number_rows: 1,
                ..args.clone()
            };
            let parsed = self.parser.inner().invoke_with_args(of_row);
            values.push(
                match parsed.and_then(|parsed| parsed.cast_to(&returns, None)) {
                    Ok(ColumnarValue::Scalar(value)) => value,
                    Ok(ColumnarValue::Array(array)) => ScalarValue::try_from_array(&array, 0)?,
                    Err(_) => ScalarValue::try_new_null(&returns)?,
                },
            );
        }
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        match (args.args.iter().all(is_scalar), values.pop()) {
            (true, Some(value)) => Ok(value.into()),
            (_, Some(value)) => {
                values.push(value);
                Ok(ColumnarValue::Array(ScalarValue::iter_to_array(values)?))
            }
            (_, None) => Ok(ColumnarValue::Array(
                ScalarValue::try_new_null(&returns)?.to_array_of_size(0)?,
            )),
        }
    }
}

/// Refuses a constant that is no format; in a column of formats, such a one gives NULL.
fn check_format(format: &ColumnarValue) -> Result<()> {
    let ColumnarValue::Scalar(format) = format else {
        return Ok(());
    };
    let Some(format) = format.try_as_str().flatten() else {
        return Ok(());
    };
    match StrftimeItems::new(format).any(|item| item == Item::Error) {
        true => exec_err!(
            "try_strptime: '{format}' is no format: a part of it, as %Y, %m or %d, is not known"
        ),
        false => Ok(()),
    }
}

/// Writes a format of Python and DuckDB as chrono has it: `%f` is microseconds, `%g` milliseconds and `%n` nanoseconds of a
/// second, and behind a point any number of digits where a string is read.
pub(super) fn chrono_format(format: &str, is_read: bool) -> String {
    let mut written = String::with_capacity(format.len());
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            written.push(c);
            continue;
        }
        let digits = match chars.next() {
            Some('f') => '6',
            Some('g') => '3',
            Some('n') => '9',
            other => {
                written.push('%');
                written.extend(other);
                continue;
            }
        };
        match is_read && written.ends_with('.') {
            true => {
                written.pop();
                written.push_str("%.f");
            }
            false => written.extend(['%', digits, 'f']),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::chrono_format;

    #[test]
    fn fractions_are_those_of_python() {
        for (format, is_read, expect) in [
            ("%Y-%m-%d", true, "%Y-%m-%d"),
            ("%S.%f", true, "%S%.f"),
            ("%S.%f", false, "%S.%6f"),
            ("%S,%g", false, "%S,%3f"),
            ("%f%n", true, "%6f%9f"),
            ("100%%f %", false, "100%%f %"),
        ] {
            assert_eq!(chrono_format(format, is_read), expect);
        }
    }
}
