//! A value that is there, as the interpreter of programs has it.

use std::cmp::Ordering;

use arrow_schema::DataType;

use super::Type;
use crate::catalogue::span::Span;
use crate::interpret::value::Value;
use crate::scalar::{Scalar, ScalarValue};
use crate::types::{Decimal, is_string};

/// A value that is there, borrowing its text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// Integers, decimals, dates, times and SQL's intervals; booleans as 0 and 1.
    Int(i128),
    /// Floats of both widths.
    Float(f64),
    /// Strings.
    Text(&'a str),
}

impl<'a> Cell<'a> {
    pub(crate) fn bool(value: bool) -> Self {
        Self::Int(i128::from(value))
    }

    pub(crate) fn int(self) -> i128 {
        match self {
            Self::Int(value) => value,
            Self::Float(_) | Self::Text(_) => 0,
        }
    }

    pub(crate) fn float(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Int(_) | Self::Text(_) => 0.0,
        }
    }

    pub(crate) fn text(self) -> &'a str {
        match self {
            Self::Text(text) => text,
            Self::Int(_) | Self::Float(_) => "",
        }
    }

    pub(crate) fn is_true(self) -> bool {
        self.int() != 0
    }

    /// Returns something of a type.
    pub(crate) fn within(data: Type) -> Self {
        match data {
            Type::Bool => Self::Int(0),
            Type::Int(interval) => Self::Int(0.clamp(interval.low, interval.high)),
            Type::Float64(range) if !range.are_singles => Self::Float(range.least),
            Type::Float32(range) | Type::Float64(range) => {
                let single = range.least as f32;
                let is_below = f64::from(single) < range.least;
                Self::Float(if is_below { single.next_up() } else { single }.into())
            }
            Type::Text => Self::Text(""),
        }
    }

    /// Returns whether a value is of a type.
    pub(crate) fn is_of(self, data: Type) -> bool {
        match (self, data) {
            (Self::Int(value), Type::Bool | Type::Int(_)) => data.interval().contains(value),
            (Self::Float(value), Type::Float32(range)) => {
                range.contains(value) && (value.is_nan() || f64::from(value as f32) == value)
            }
            (Self::Float(value), Type::Float64(range)) => range.contains(value),
            (Self::Text(_), Type::Text) => true,
            _ => false,
        }
    }

    /// Reads a cell of an array; `None` for NULL.
    pub(crate) fn of(value: Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Null => return None,
            Value::Boolean(value) => Self::bool(value),
            Value::Int(value) => Self::Int(i128::from(value)),
            Value::UInt(value) => Self::Int(i128::from(value)),
            Value::Float32(value) => Self::Float(f64::from(value)),
            Value::Float64(value) => Self::Float(value),
            Value::Decimal(value) => Self::Int(value),
            Value::Utf8(text) => Self::Text(text),
            Value::Interval {
                months,
                days,
                nanoseconds,
            } => Self::Int(Span::new(months, days, nanoseconds).packed()),
        })
    }

    /// Reads a literal; NULL as something of its type.
    pub(crate) fn of_scalar(scalar: &'a Scalar, data: Type) -> Self {
        match &scalar.value {
            ScalarValue::Null => Self::within(data),
            _ => Self::of(Value::of_scalar(scalar)).unwrap_or(Self::within(data)),
        }
    }

    /// Returns the value as a cell of an array of this type.
    pub(crate) fn as_value(self, data_type: &DataType) -> Value<'a> {
        match (self, data_type) {
            (Self::Int(value), DataType::Boolean) => Value::Boolean(value != 0),
            (
                Self::Int(value),
                DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64,
            ) => Value::UInt(value as u64),
            (Self::Int(value), DataType::Interval(_)) => {
                let span = Span::of_packed(value);
                Value::Interval {
                    months: span.months,
                    days: span.days,
                    nanoseconds: span.nanoseconds,
                }
            }
            (Self::Int(value), data_type) => match Decimal::of(data_type) {
                Some(_) => Value::Decimal(value),
                None => Value::Int(value as i64),
            },
            (Self::Float(value), DataType::Float32) => Value::Float32(value as f32),
            (Self::Float(value), _) => Value::Float64(value),
            (Self::Text(text), _) => Value::Utf8(text),
        }
    }

    /// Orders two values as SQL compares them.
    pub(crate) fn order(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => canonical(one).total_cmp(&canonical(other)),
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (one, other) => one.int().cmp(&other.int()),
        }
    }
}

/// Returns 0.0 for −0.0 and one NaN for every NaN.
pub(crate) fn canonical(value: f64) -> f64 {
    match value {
        value if value.is_nan() => f64::NAN,
        0.0 => 0.0,
        value => value,
    }
}

/// Returns the type of a column's values, of which this is known.
pub(crate) fn type_of(data_type: &DataType, facts: super::Facts) -> Type {
    match data_type {
        DataType::Boolean => Type::Bool,
        DataType::Float32 => Type::Float32(facts.floats),
        DataType::Float64 => Type::Float64(facts.floats),
        string if is_string(string) => Type::Text,
        _ => Type::Int(facts.interval),
    }
}
