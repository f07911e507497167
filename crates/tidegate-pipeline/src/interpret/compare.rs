//! The orders of values: one for SQL comparisons, one for sorting, extremes and IN.
//!
//! Both put floats in IEEE 754 totalOrder, in which a NaN equals itself and is beyond infinity. SQL
//! comparisons first make −0.0 into +0.0; the total order leaves −0.0 before it.

use std::cmp::Ordering;

use super::value::Value;
use crate::expr::CompareOp;

/// Evaluates `left op right` in three-valued logic.
pub(crate) fn compare<'a>(op: CompareOp, left: Value<'_>, right: Value<'_>) -> Value<'a> {
    let nulls = (left.is_null(), right.is_null());
    let holds = match op {
        CompareOp::IsDistinctFrom | CompareOp::IsNotDistinctFrom => {
            let same = match nulls {
                (false, false) => sql_order(left, right).is_eq(),
                (left_null, right_null) => left_null == right_null,
            };
            same == (op == CompareOp::IsNotDistinctFrom)
        }
        _ if nulls.0 || nulls.1 => return Value::Null,
        CompareOp::Eq => sql_order(left, right).is_eq(),
        CompareOp::NotEq => sql_order(left, right).is_ne(),
        CompareOp::Lt => sql_order(left, right).is_lt(),
        CompareOp::LtEq => sql_order(left, right).is_le(),
        CompareOp::Gt => sql_order(left, right).is_gt(),
        CompareOp::GtEq => sql_order(left, right).is_ge(),
    };
    Value::Boolean(holds)
}

fn sql_order(left: Value<'_>, right: Value<'_>) -> Ordering {
    // By comparison, not by adding zero: that would leave a NaN's bits to the hardware.
    let fold64 = |value: f64| if value == 0.0 { 0.0 } else { value };
    let fold32 = |value: f32| if value == 0.0 { 0.0 } else { value };
    match (left, right) {
        (Value::Float64(left), Value::Float64(right)) => fold64(left).total_cmp(&fold64(right)),
        (Value::Float32(left), Value::Float32(right)) => fold32(left).total_cmp(&fold32(right)),
        _ => total_order(left, right),
    }
}

/// Orders two values of one type that are not NULL; equal only if they are the same bits.
pub(crate) fn total_order(left: Value<'_>, right: Value<'_>) -> Ordering {
    match (left, right) {
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
