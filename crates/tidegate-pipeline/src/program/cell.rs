//! A value that is there, as the interpreter of programs has it.

use std::cmp::Ordering;

use arrow_schema::DataType;

use super::Type;
use crate::catalogue::span::Span;
use crate::scalar::{Scalar, ScalarValue};
use crate::types::is_string;

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

    /// Reads a literal; NULL as something of its type.
    pub(crate) fn of_scalar(scalar: &'a Scalar, data: Type) -> Self {
        match &scalar.value {
            ScalarValue::Null => Self::within(data),
            ScalarValue::Boolean(value) => Self::bool(*value),
            ScalarValue::Int(value) => Self::Int((*value).into()),
            ScalarValue::UInt(value) => Self::Int((*value).into()),
            ScalarValue::Float(value) if scalar.data_type == DataType::Float32 => {
                Self::Float((*value as f32).into())
            }
            ScalarValue::Float(value) => Self::Float(*value),
            ScalarValue::Decimal(value) => Self::Int(*value),
            ScalarValue::Utf8(text) => Self::Text(text),
            ScalarValue::Interval {
                months,
                days,
                nanoseconds,
            } => Self::Int(Span::new(*months, *days, *nanoseconds).packed()),
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
