//! Arithmetic on two values, by the rules of Arrow's `numeric` kernels as DataFusion calls them.
//!
//! Integers wrap on `+ - *` and raise on division by zero and on MIN / −1, while MIN % −1 is 0.
//! Floats follow IEEE 754. Decimals, durations and intervals are checked: each step of a decimal
//! operation has to fit the integer beneath, but nothing is held against the declared precision.

use std::ops::{Add, Div, Mul, Rem, Sub};

use arrow_schema::{DataType, IntervalUnit};

use super::EvalError;
use super::temporal::{Shift, shift};
use super::value::Value;
use crate::check::decimal_rule;
use crate::expr::ArithmeticOp;
use crate::types::{Decimal, DecimalWidth, MILLISECONDS_PER_DAY, integer_bits};

/// One operation on operands of known types.
pub(crate) struct Arithmetic {
    kernel: Kernel,
    /// How the operation reads in an error.
    operation: Box<str>,
}

enum Kernel {
    Int {
        op: ArithmeticOp,
        bits: u32,
    },
    UInt {
        op: ArithmeticOp,
        bits: u32,
    },
    Float32(ArithmeticOp),
    Float64(ArithmeticOp),
    Decimal {
        op: ArithmeticOp,
        width: DecimalWidth,
        left_factor: i128,
        right_factor: i128,
    },
    /// The days between two dates, of which each is so many units.
    Days(i64),
    /// `+` or `-` on 64-bit time, which raises on overflow.
    Checked {
        subtract: bool,
    },
    Interval {
        subtract: bool,
        unit: IntervalUnit,
    },
    /// A date or timestamp moved by an interval, which may come first.
    Shift {
        shift: Shift,
        subtract: bool,
        interval_first: bool,
    },
}

impl Arithmetic {
    /// Chooses the kernel. The types have passed the check of the node.
    pub(crate) fn new(
        op: ArithmeticOp,
        left: &DataType,
        right: &DataType,
    ) -> Result<Self, EvalError> {
        let operation = format!("{left} {op} {right}");
        let kernel = kernel(op, left, right)?
            .ok_or_else(|| EvalError::internal(format!("arithmetic {operation}")))?;
        Ok(Self {
            kernel,
            operation: operation.into(),
        })
    }

    /// Computes `left op right`; NULL if either is.
    pub(crate) fn apply<'a>(
        &self,
        left: Value<'a>,
        right: Value<'a>,
    ) -> Result<Value<'a>, EvalError> {
        let overflow = || EvalError::Overflow {
            operation: self.operation.to_string(),
        };
        match (&self.kernel, left, right) {
            (_, Value::Null, _) | (_, _, Value::Null) => Ok(Value::Null),
            (Kernel::Int { op, bits }, Value::Int(left), Value::Int(right)) => {
                match int(*op, *bits, left, right)? {
                    Some(value) => Ok(Value::Int(value)),
                    None => Err(overflow()),
                }
            }
            (Kernel::UInt { op, bits }, Value::UInt(left), Value::UInt(right)) => {
                uint(*op, *bits, left, right).map(Value::UInt)
            }
            (Kernel::Float64(op), Value::Float64(left), Value::Float64(right)) => {
                Ok(Value::Float64(float(*op, left, right)))
            }
            (Kernel::Float32(op), Value::Float32(left), Value::Float32(right)) => {
                Ok(Value::Float32(float(*op, left, right)))
            }
            (
                Kernel::Decimal {
                    op,
                    width,
                    left_factor,
                    right_factor,
                },
                Value::Decimal(left),
                Value::Decimal(right),
            ) => {
                let scaled = |value: i128, factor: i128| {
                    value
                        .checked_mul(factor)
                        .and_then(|value| width.fit(value))
                        .ok_or_else(overflow)
                };
                let left = scaled(left, *left_factor)?;
                let right = scaled(right, *right_factor)?;
                match decimal(*op, *width, left, right)? {
                    Some(value) => Ok(Value::Decimal(value)),
                    None => Err(overflow()),
                }
            }
            (Kernel::Days(units), Value::Int(left), Value::Int(right)) => {
                Ok(Value::Int(left.wrapping_sub(right) / units))
            }
            (Kernel::Checked { subtract }, Value::Int(left), Value::Int(right)) => {
                let sum = if *subtract {
                    left.checked_sub(right)
                } else {
                    left.checked_add(right)
                };
                sum.map(Value::Int).ok_or_else(overflow)
            }
            (Kernel::Interval { subtract, unit }, left, right) => {
                intervals(*subtract, *unit, left, right).ok_or_else(overflow)
            }
            (
                Kernel::Shift {
                    shift: kind,
                    subtract,
                    interval_first,
                },
                left,
                right,
            ) => {
                let (from, by) = if *interval_first {
                    (right, left)
                } else {
                    (left, right)
                };
                shift(*kind, from, by, *subtract).ok_or_else(overflow)
            }
            _ => Err(EvalError::internal(format!(
                "{} on {left:?} and {right:?}",
                self.operation
            ))),
        }
    }
}

fn kernel(
    op: ArithmeticOp,
    left: &DataType,
    right: &DataType,
) -> Result<Option<Kernel>, EvalError> {
    if let (Some(left), Some(right)) = (Decimal::of(left), Decimal::of(right)) {
        let rule = decimal_rule(op, left, right)?;
        return Ok(Some(Kernel::Decimal {
            op,
            width: left.width,
            left_factor: rule.left_factor,
            right_factor: rule.right_factor,
        }));
    }
    let subtract = op == ArithmeticOp::Subtract;
    let kernel = match (left, right) {
        (DataType::Float32, _) => Kernel::Float32(op),
        (DataType::Float64, _) => Kernel::Float64(op),
        (DataType::Date32, DataType::Date32) => Kernel::Days(1),
        (DataType::Date64, DataType::Date64) => Kernel::Days(MILLISECONDS_PER_DAY),
        (DataType::Interval(unit), DataType::Interval(_)) => Kernel::Interval {
            subtract,
            unit: *unit,
        },
        (from, DataType::Interval(_)) | (DataType::Interval(_), from) => Kernel::Shift {
            shift: Shift::new(from)?,
            subtract,
            interval_first: matches!(left, DataType::Interval(_)),
        },
        (DataType::Timestamp(_, _) | DataType::Duration(_), _) => Kernel::Checked { subtract },
        _ => match integer_bits(left) {
            Some((bits, true)) => Kernel::Int { op, bits },
            Some((bits, false)) => Kernel::UInt { op, bits },
            None => return Ok(None),
        },
    };
    Ok(Some(kernel))
}

/// Computes on signed integers of so many bits. `None` is the one quotient that does not fit.
fn int(op: ArithmeticOp, bits: u32, left: i64, right: i64) -> Result<Option<i64>, EvalError> {
    let wrap = |value: i64| (value << (64 - bits)) >> (64 - bits);
    match op {
        ArithmeticOp::Add => Ok(Some(wrap(left.wrapping_add(right)))),
        ArithmeticOp::Subtract => Ok(Some(wrap(left.wrapping_sub(right)))),
        ArithmeticOp::Multiply => Ok(Some(wrap(left.wrapping_mul(right)))),
        ArithmeticOp::Divide | ArithmeticOp::Modulo if right == 0 => Err(EvalError::DivideByZero),
        ArithmeticOp::Divide => Ok(left
            .checked_div(right)
            .filter(|quotient| wrap(*quotient) == *quotient)),
        ArithmeticOp::Modulo => Ok(Some(left.wrapping_rem(right))),
    }
}

fn uint(op: ArithmeticOp, bits: u32, left: u64, right: u64) -> Result<u64, EvalError> {
    let wrap = |value: u64| (value << (64 - bits)) >> (64 - bits);
    match op {
        ArithmeticOp::Add => Ok(wrap(left.wrapping_add(right))),
        ArithmeticOp::Subtract => Ok(wrap(left.wrapping_sub(right))),
        ArithmeticOp::Multiply => Ok(wrap(left.wrapping_mul(right))),
        ArithmeticOp::Divide => left.checked_div(right).ok_or(EvalError::DivideByZero),
        ArithmeticOp::Modulo => left.checked_rem(right).ok_or(EvalError::DivideByZero),
    }
}

/// Computes on floats of either width, by IEEE 754.
fn float<T>(op: ArithmeticOp, left: T, right: T) -> T
where
    T: Add<Output = T> + Sub<Output = T> + Mul<Output = T> + Div<Output = T> + Rem<Output = T>,
{
    match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Subtract => left - right,
        ArithmeticOp::Multiply => left * right,
        ArithmeticOp::Divide => left / right,
        ArithmeticOp::Modulo => left % right,
    }
}

/// Computes on unscaled decimals of one scale. `None` is overflow of the width.
fn decimal(
    op: ArithmeticOp,
    width: DecimalWidth,
    left: i128,
    right: i128,
) -> Result<Option<i128>, EvalError> {
    let value = match op {
        ArithmeticOp::Add => left.checked_add(right),
        ArithmeticOp::Subtract => left.checked_sub(right),
        ArithmeticOp::Multiply => left.checked_mul(right),
        ArithmeticOp::Divide | ArithmeticOp::Modulo if right == 0 => {
            return Err(EvalError::DivideByZero);
        }
        ArithmeticOp::Divide => left.checked_div(right),
        // The remainder of MIN by −1 would fit, but the quotient does not, and Arrow checks that.
        ArithmeticOp::Modulo => left
            .checked_div(right)
            .and_then(|quotient| width.fit(quotient))
            .and_then(|_| left.checked_rem(right)),
    };
    Ok(value.and_then(|value| width.fit(value)))
}

fn intervals<'a>(
    subtract: bool,
    unit: IntervalUnit,
    left: Value<'a>,
    right: Value<'a>,
) -> Option<Value<'a>> {
    let (
        Value::Interval {
            months,
            days,
            nanoseconds,
        },
        Value::Interval {
            months: by_months,
            days: by_days,
            nanoseconds: by_nanoseconds,
        },
    ) = (left, right)
    else {
        return None;
    };
    let parts = |left: i32, right: i32| {
        if subtract {
            left.checked_sub(right)
        } else {
            left.checked_add(right)
        }
    };
    let nanoseconds = if subtract {
        nanoseconds.checked_sub(by_nanoseconds)?
    } else {
        nanoseconds.checked_add(by_nanoseconds)?
    };
    if unit == IntervalUnit::DayTime {
        // The milliseconds beneath are 32 bits wide.
        i32::try_from(nanoseconds / 1_000_000).ok()?;
    }
    Some(Value::Interval {
        months: parts(months, by_months)?,
        days: parts(days, by_days)?,
        nanoseconds,
    })
}

/// Negates a value of this type: integers wrap, everything else raises on overflow.
pub(crate) fn negate<'a>(value: Value<'a>, data_type: &DataType) -> Result<Value<'a>, EvalError> {
    let negated = match value {
        Value::Null => Some(Value::Null),
        Value::Float32(value) => Some(Value::Float32(-value)),
        Value::Float64(value) => Some(Value::Float64(-value)),
        Value::Int(value) => match integer_bits(data_type) {
            Some((bits, _)) => {
                let shift = 64 - bits;
                Some(Value::Int((value.wrapping_neg() << shift) >> shift))
            }
            None => value.checked_neg().map(Value::Int),
        },
        Value::Decimal(value) => Decimal::of(data_type).and_then(|decimal| {
            let negated = value.checked_neg()?;
            decimal.width.fit(negated).map(Value::Decimal)
        }),
        interval @ Value::Interval { .. } => {
            let unit = match data_type {
                DataType::Interval(unit) => *unit,
                _ => IntervalUnit::MonthDayNano,
            };
            let zero = Value::Interval {
                months: 0,
                days: 0,
                nanoseconds: 0,
            };
            intervals(true, unit, zero, interval)
        }
        other => return Err(EvalError::internal(format!("negation of {other:?}"))),
    };
    negated.ok_or_else(|| EvalError::Overflow {
        operation: format!("- {data_type}"),
    })
}

#[cfg(test)]
mod tests;
