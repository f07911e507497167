//! `to_timestamp` and its like, and the formats of `strptime` and `strftime`, which are Python's, with DuckDB's `%g` and
//! `%n`.
//!
//! DataFusion's functions of the family of `to_timestamp` forget the session's zone where a column is read by a format,
//! forget hours where a format has no minutes, and take a number for what clocks of the session's zone show ([`Zoned`]).

use std::sync::Arc;

use datafusion::arrow::array::{Array, make_array};
use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};

use super::forwarded::methods_of;
use super::strptime;

/// DataFusion's functions that read timestamps.
pub(crate) const PARSERS: [&str; 5] = [
    "to_timestamp",
    "to_timestamp_seconds",
    "to_timestamp_millis",
    "to_timestamp_micros",
    "to_timestamp_nanos",
];

/// The one whose numbers are of another unit than its timestamps.
const IN_SECONDS: &str = "to_timestamp";

/// Returns the functions, made of those that are registered.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(crate) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let parsers = PARSERS.iter().map(|name| registry.udf(name));
    let parsers = parsers.collect::<Result<Vec<_>>>()?;
    let zoned = parsers.into_iter().map(|parser| Zoned(parser).into());
    Ok(zoned.chain(strptime::functions()).collect())
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
    methods_of!(0);

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let updated = self.0.inner().with_updated_config(config)?;
        Some(Self(Arc::new(updated)).into())
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = match args.return_field.data_type() {
            DataType::Timestamp(unit, zone) if has_formats(&args.args) => {
                return strptime::instants(self.name(), &args, *unit, zone.as_ref());
            }
            DataType::Timestamp(_, zone) => zone.clone(),
            _ => None,
        };
        if let Some(number) = args.args.first_mut()
            && number.data_type().is_integer()
            && self.name() == IN_SECONDS
        {
            // Nanoseconds are made of it through seconds, which would be read in the zone if they had none.
            let instant = DataType::Timestamp(TimeUnit::Second, zone.clone());
            *number = number.cast_to(&instant, None)?;
        }
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
}

/// Tells whether arguments are a text and formats.
fn has_formats(args: &[ColumnarValue]) -> bool {
    let is_text = |value: &ColumnarValue| value.data_type().is_string();
    args.len() > 1 && args.iter().all(is_text)
}

/// Writes a format of Python and DuckDB as chrono has it: `%f` is microseconds, `%g` milliseconds and `%n` nanoseconds of a
/// second, and behind a point any number of digits where a string is read; `%x` and `%c` are a date and a timestamp of
/// ISO 8601.
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
            // As in DuckDB; to chrono these are the American and the C library's.
            Some('x') => {
                written.push_str("%Y-%m-%d");
                continue;
            }
            Some('c') => {
                written.push_str("%Y-%m-%d %H:%M:%S");
                continue;
            }
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
            ("%x|%c|%X", false, "%Y-%m-%d|%Y-%m-%d %H:%M:%S|%X"),
        ] {
            assert_eq!(chrono_format(format, is_read), expect);
        }
    }
}
