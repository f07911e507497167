//! The one textual form of a value, used by every lane.
//!
//! A float keeps about 12 significant digits, so that sums taken in a different order read the
//! same; all else is exact. `NULL` is a missing value, `(empty)` a string without characters;
//! spaces at the ends of a string read `␣` and line breaks `\n`, so that a row is always one line.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float16Type,
    Float32Type, Float64Type, Schema,
};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, DurationFormat, FormatOptions};
use sqllogictest::ColumnType;

/// How a missing value reads.
const NULL: &str = "NULL";

/// Names the class of a column's type by the letter used after `query`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// `B`
    Boolean,
    /// `I`: signed or unsigned, any width
    Integer,
    /// `N`: decimal ("numeric"), any width
    Decimal,
    /// `R`: binary floating point, any width
    Float,
    /// `T`: string in any layout
    Text,
    /// `D`
    Date,
    /// `P`: timestamp or time of day ("point in time")
    Time,
    /// `?`: interval, duration, list, struct, untyped NULL
    Other,
}

impl ColumnType for ColumnKind {
    fn from_char(letter: char) -> Option<Self> {
        match letter {
            'B' => Some(Self::Boolean),
            'I' => Some(Self::Integer),
            'N' => Some(Self::Decimal),
            'R' => Some(Self::Float),
            'T' => Some(Self::Text),
            'D' => Some(Self::Date),
            'P' => Some(Self::Time),
            '?' => Some(Self::Other),
            _ => None,
        }
    }

    fn to_char(&self) -> char {
        match self {
            Self::Boolean => 'B',
            Self::Integer => 'I',
            Self::Decimal => 'N',
            Self::Float => 'R',
            Self::Text => 'T',
            Self::Date => 'D',
            Self::Time => 'P',
            Self::Other => '?',
        }
    }
}

impl From<&DataType> for ColumnKind {
    fn from(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean,
            integer if integer.is_integer() => Self::Integer,
            decimal if decimal.is_decimal() => Self::Decimal,
            float if float.is_floating() => Self::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Text,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Dictionary(_, value) => Self::from(value.as_ref()),
            _ => Self::Other,
        }
    }
}

/// Gives the kind of every column of `schema`.
pub fn column_kinds(schema: &Schema) -> Vec<ColumnKind> {
    let fields = schema.fields().iter();
    fields
        .map(|field| ColumnKind::from(field.data_type()))
        .collect()
}

/// Renders `batches` as rows of text, in the order given.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<String>>, ArrowError> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch
            .columns()
            .iter()
            .map(column)
            .collect::<Result<Vec<_>, _>>()?;
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| c[row].clone()).collect()),
        );
    }
    Ok(rows)
}

/// Renders a column, one string per row.
fn column(array: &ArrayRef) -> Result<Vec<String>, ArrowError> {
    if let DataType::Dictionary(_, value_type) = array.data_type() {
        return column(&cast(array, value_type)?);
    }
    let options = FormatOptions::default()
        .with_null(NULL)
        .with_duration_format(DurationFormat::ISO8601);
    let formatter = ArrayFormatter::try_new(array.as_ref(), &options)?;
    let value = |row: usize| -> Result<String, ArrowError> {
        Ok(match array.data_type() {
            DataType::Float16 => float32(array.as_primitive::<Float16Type>().value(row).to_f32()),
            DataType::Float32 => float32(array.as_primitive::<Float32Type>().value(row)),
            DataType::Float64 => float64(array.as_primitive::<Float64Type>().value(row)),
            DataType::Decimal32(_, scale) => decimal(
                &array.as_primitive::<Decimal32Type>().value(row).to_string(),
                *scale,
            ),
            DataType::Decimal64(_, scale) => decimal(
                &array.as_primitive::<Decimal64Type>().value(row).to_string(),
                *scale,
            ),
            DataType::Decimal128(_, scale) => decimal(
                &array
                    .as_primitive::<Decimal128Type>()
                    .value(row)
                    .to_string(),
                *scale,
            ),
            DataType::Decimal256(_, scale) => decimal(
                &array
                    .as_primitive::<Decimal256Type>()
                    .value(row)
                    .to_string(),
                *scale,
            ),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                text(&formatter.value(row).try_to_string()?)
            }
            _ => formatter.value(row).try_to_string()?,
        })
    };
    (0..array.len())
        .map(
            |row| match array.is_null(row) || array.data_type().is_null() {
                true => Ok(NULL.to_owned()),
                false => value(row),
            },
        )
        .collect()
}

/// Renders a double with 12 significant digits; trailing zeros are not written.
pub fn float64(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return not_finite_or_zero(value);
    }
    let rounded = format!("{value:.11e}").parse().unwrap_or(value);
    readable(
        rounded,
        f64::abs(rounded),
        |v| format!("{v}"),
        |v| format!("{v:e}"),
    )
}

/// Renders a single exactly: its arithmetic is row by row, no summation order enters it.
fn float32(value: f32) -> String {
    if !value.is_finite() || value == 0.0 {
        return not_finite_or_zero(f64::from(value));
    }
    let magnitude = f64::from(value.abs());
    readable(value, magnitude, |v| format!("{v}"), |v| format!("{v:e}"))
}

/// Writes out the plain form between 1e-5 and 1e16, the exponent form elsewhere.
fn readable<T>(
    value: T,
    magnitude: f64,
    plain: impl Fn(T) -> String,
    exponent: impl Fn(T) -> String,
) -> String {
    match (1e-5..1e16).contains(&magnitude) {
        true => plain(value),
        false => exponent(value),
    }
}

/// Renders what rounding has no say in. The sign of a NaN is not shown, that of a zero is.
fn not_finite_or_zero(value: f64) -> String {
    let sign = if value.is_sign_negative() { "-" } else { "" };
    match value {
        nan if nan.is_nan() => "NaN".to_owned(),
        infinite if infinite.is_infinite() => format!("{sign}Infinity"),
        _ => format!("{sign}0"),
    }
}

/// Sets the point in an unscaled decimal. Arrow's own formatter cuts off what is beyond the type's
/// precision, and arithmetic may go beyond it.
fn decimal(unscaled: &str, scale: i8) -> String {
    let (sign, digits) = match unscaled.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", unscaled),
    };
    let Ok(scale) = usize::try_from(scale) else {
        return format!("{unscaled}e{}", scale.unsigned_abs());
    };
    if scale == 0 {
        return unscaled.to_owned();
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

/// Renders a string as one line whose ends can be seen.
fn text(value: &str) -> String {
    if value.is_empty() {
        return "(empty)".to_owned();
    }
    let inner = value.trim_matches(' ');
    let start = value.len() - value.trim_start_matches(' ').len();
    let end = value.len() - start - inner.len();
    let escaped = inner
        .replace('\n', "\\n")
        .replace('\r', "\\r")
        .replace('\t', "\\t");
    format!("{}{escaped}{}", "␣".repeat(start), "␣".repeat(end))
}
