//! The order of values, one for comparisons, sorting, extremes and IN.
//!
//! Every NaN, whatever its sign and payload, equals itself and is greater than all other floats, and
//! −0.0 equals 0.0. Otherwise floats are in the order of their numbers.

use std::cmp::Ordering;

use super::value::Value;
use crate::expr::CompareOp;

/// Evaluates `left op right` in three-valued logic.
pub(crate) fn compare<'a>(op: CompareOp, left: Value<'_>, right: Value<'_>) -> Value<'a> {
    let nulls = (left.is_null(), right.is_null());
    let holds = match op {
        CompareOp::IsDistinctFrom | CompareOp::IsNotDistinctFrom => {
            let same = match nulls {
                (false, false) => order(left, right).is_eq(),
                (left_null, right_null) => left_null == right_null,
            };
            same == (op == CompareOp::IsNotDistinctFrom)
        }
        _ if nulls.0 || nulls.1 => return Value::Null,
        CompareOp::Eq => order(left, right).is_eq(),
        CompareOp::NotEq => order(left, right).is_ne(),
        CompareOp::Lt => order(left, right).is_lt(),
        CompareOp::LtEq => order(left, right).is_le(),
        CompareOp::Gt => order(left, right).is_gt(),
        CompareOp::GtEq => order(left, right).is_ge(),
    };
    Value::Boolean(holds)
}

/// Orders two values of one type that are not NULL.
pub(crate) fn order(left: Value<'_>, right: Value<'_>) -> Ordering {
    match (canonical(left), canonical(right)) {
        (Value::Int(left), Value::Int(right)) => left.cmp(&right),
        (Value::Decimal(left), Value::Decimal(right)) => left.cmp(&right),
        (Value::Utf8(left), Value::Utf8(right)) => left.cmp(right),
        (Value::UInt(left), Value::UInt(right)) => left.cmp(&right),
        (Value::Float64(left), Value::Float64(right)) => left.total_cmp(&right),
        (Value::Float32(left), Value::Float32(right)) => left.total_cmp(&right),
        (Value::Boolean(left), Value::Boolean(right)) => left.cmp(&right),
        (
            Value::Interval {
                months: left_months,
                days: left_days,
                nanoseconds: left_nanoseconds,
            },
            Value::Interval {
                months: right_months,
                days: right_days,
                nanoseconds: right_nanoseconds,
            },
        ) => (left_months, left_days, left_nanoseconds).cmp(&(
            right_months,
            right_days,
            right_nanoseconds,
        )),
        // Values of two families never meet in a checked pipeline; the order stays total anyway.
        (left, right) => family(left).cmp(&family(right)),
    }
}

/// Returns 0.0 for −0.0 and the one quiet NaN for every NaN; other values stay as they are.
pub(crate) fn canonical(value: Value<'_>) -> Value<'_> {
    // By comparison, not by adding zero: that would leave a NaN's bits to the hardware.
    match value {
        Value::Float64(value) if value.is_nan() => Value::Float64(f64::NAN),
        Value::Float64(0.0) => Value::Float64(0.0),
        Value::Float32(value) if value.is_nan() => Value::Float32(f32::NAN),
        Value::Float32(0.0) => Value::Float32(0.0),
        other => other,
    }
}

fn family(value: Value<'_>) -> u8 {
    match value {
        Value::Null => 0,
        Value::Boolean(_) => 1,
        Value::Int(_) => 2,
        Value::UInt(_) => 3,
        Value::Float32(_) => 4,
        Value::Float64(_) => 5,
        Value::Decimal(_) => 6,
        Value::Utf8(_) => 7,
        Value::Interval { .. } => 8,
    }
}

#[cfg(test)]
mod tests;
