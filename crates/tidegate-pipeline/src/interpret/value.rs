//! One cell: a value in the widest representation of its family.

use crate::scalar::{Scalar, ScalarValue};

/// A value of any type, borrowing its text. Its expression's type says how to read it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// NULL of whatever type.
    Null,
    /// `Boolean`.
    Boolean(bool),
    /// Signed integers, dates, times, timestamps and durations.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// `Float32`.
    Float32(f32),
    /// `Float64`.
    Float64(f64),
    /// The unscaled value of a decimal.
    Decimal(i128),
    /// A string of any layout.
    Utf8(&'a str),
    /// Every interval unit; a `DayTime`'s milliseconds are held as nanoseconds.
    Interval {
        /// Whole months.
        months: i32,
        /// Whole days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
}

impl<'a> Value<'a> {
    /// Reads a constant.
    pub(crate) fn of_scalar(scalar: &'a Scalar) -> Self {
        match &scalar.value {
            ScalarValue::Null => Self::Null,
            ScalarValue::Boolean(value) => Self::Boolean(*value),
            ScalarValue::Int(value) => Self::Int(*value),
            ScalarValue::UInt(value) => Self::UInt(*value),
            ScalarValue::Float(value) => match scalar.data_type {
                arrow_schema::DataType::Float32 => Self::Float32(*value as f32),
                _ => Self::Float64(*value),
            },
            ScalarValue::Decimal(value) => Self::Decimal(*value),
            ScalarValue::Utf8(text) => Self::Utf8(text),
            ScalarValue::Interval {
                months,
                days,
                nanoseconds,
            } => Self::Interval {
                months: *months,
                days: *days,
                nanoseconds: *nanoseconds,
            },
        }
    }

    /// Returns whether this is NULL.
    pub(crate) fn is_null(self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns 0.0 for −0.0 and the one quiet NaN for every NaN; other values stay as they are.
    pub(crate) fn canonical(self) -> Self {
        // By comparison, not by adding zero: that would leave a NaN's bits to the hardware.
        match self {
            Self::Float64(value) if value.is_nan() => Self::Float64(f64::NAN),
            Self::Float64(0.0) => Self::Float64(0.0),
            Self::Float32(value) if value.is_nan() => Self::Float32(f32::NAN),
            Self::Float32(0.0) => Self::Float32(0.0),
            other => other,
        }
    }
}
