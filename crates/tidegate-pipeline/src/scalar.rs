//! A typed constant: the parameters that a pipeline's literals become.

use std::sync::Arc;

use arrow_schema::DataType;
use serde::{Deserialize, Serialize};

/// A constant with its Arrow type. `value` is [`ScalarValue::Null`] for a typed NULL.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scalar {
    /// The Arrow type; it decides how `value` is read.
    pub data_type: DataType,
    /// The value in the one representation that its type uses.
    pub value: ScalarValue,
}

/// The value of a [`Scalar`], in the widest representation of its family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ScalarValue {
    /// NULL of whatever type.
    Null,
    /// `Boolean`.
    Boolean(bool),
    /// Signed integers; dates, times, timestamps and durations in their type's unit.
    Int(i64),
    /// Unsigned integers.
    UInt(u64),
    /// `Float32` and `Float64`; a `Float32` is held exactly.
    Float(f64),
    /// The unscaled value of `Decimal32`, `Decimal64` and `Decimal128`.
    Decimal(i128),
    /// `Utf8`, `LargeUtf8`, `Utf8View`, and dictionaries of them.
    Utf8(Arc<str>),
    /// Every `Interval` unit: months, days and nanoseconds are added in this order.
    Interval {
        /// Whole months.
        months: i32,
        /// Whole days.
        days: i32,
        /// Nanoseconds.
        nanoseconds: i64,
    },
}
