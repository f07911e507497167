//! Conversions of one value, as the cast matrix decided.

use arrow_schema::DataType;

use super::EvalError;
use super::temporal::Calendar;
use super::value::Value;
use crate::check::{CastRule, Number, cast_rule};
use crate::expr::CastFailure;
use crate::types::Decimal;

/// A conversion between two known types.
pub(crate) struct Cast {
    rule: CastRule,
    on_failure: CastFailure,
    to: DataType,
}

impl Cast {
    /// Looks the conversion up in the matrix.
    pub(crate) fn new(
        from: &DataType,
        to: &DataType,
        on_failure: CastFailure,
    ) -> Result<Self, EvalError> {
        Ok(Self {
            rule: cast_rule(from, to, on_failure)?,
            on_failure,
            to: to.clone(),
        })
    }

    /// Converts a value. NULL stays NULL; what has no image raises or becomes NULL.
    pub(crate) fn apply<'a>(&self, value: Value<'a>) -> Result<Value<'a>, EvalError> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        if let Some(converted) = apply(&self.rule, value) {
            return Ok(converted);
        }
        // Arrow turns a timestamp outside the calendar into an error even for TRY_CAST.
        let always_raises = matches!(self.rule, CastRule::TimestampToDay(_));
        if self.on_failure == CastFailure::Null && !always_raises {
            return Ok(Value::Null);
        }
        Err(EvalError::CastFailed {
            value: format!("{value:?}"),
            to: self.to.to_string(),
        })
    }
}

/// Returns the image of a value that is not NULL, if it has one.
fn apply<'a>(rule: &CastRule, value: Value<'a>) -> Option<Value<'a>> {
    match (rule, value) {
        (CastRule::Keep, value) => Some(value),
        (CastRule::Number(to), value) => number(*to, value),
        (CastRule::IntegerToDecimal { factor, to }, value) => {
            // Arrow reduces the integer to the decimal's width before it looks for overflow.
            let integer = to.width.wrap(match value {
                Value::Int(value) => i128::from(value),
                Value::UInt(value) => i128::from(value),
                _ => return None,
            });
            within(*to, integer.checked_mul(*factor)?)
        }
        (CastRule::FloatToDecimal { to }, value) => {
            let float = match value {
                Value::Float32(value) => f64::from(value),
                Value::Float64(value) => value,
                _ => return None,
            };
            float_to_decimal(*to, float)
        }
        (CastRule::DecimalToInteger { divisor, to }, Value::Decimal(value)) => {
            integer(*to, value / divisor)
        }
        (CastRule::DecimalToFloat { scale, to }, Value::Decimal(value)) => {
            let float = value as f64 / 10_f64.powi(*scale);
            Some(match to {
                Number::Float32 => Value::Float32(float as f32),
                _ => Value::Float64(float),
            })
        }
        (CastRule::DecimalUp { .. } | CastRule::DecimalDown { .. }, Value::Decimal(value)) => {
            rescaled(rule, value)
        }
        (CastRule::DecimalZero, Value::Decimal(_)) => Some(Value::Decimal(0)),
        (CastRule::Multiply(factor), Value::Int(value)) => {
            value.checked_mul(*factor).map(Value::Int)
        }
        (CastRule::Divide(divisor), Value::Int(value)) => Some(Value::Int(value / divisor)),
        (CastRule::TimestampToDay(unit), Value::Int(value)) => {
            Calendar::Timestamp(*unit).day(value).map(Value::Int)
        }
        (CastRule::Then(first, second), value) => apply(second, apply(first, value)?),
        _ => None,
    }
}

fn float_to_decimal<'a>(to: Decimal, value: f64) -> Option<Value<'a>> {
    let scaled = (10_f64.powi(i32::from(to.scale)) * value).round();
    within(to, float_to_i128(scaled)?)
}

/// Brings an unscaled decimal to another scale.
fn rescaled<'a>(rule: &CastRule, value: i128) -> Option<Value<'a>> {
    match rule {
        CastRule::DecimalUp {
            factor,
            to,
            checked: true,
        } => within(*to, to.width.fit(value)?.checked_mul(*factor)?),
        CastRule::DecimalUp { factor, to, .. } => {
            let scaled = to.width.fit(value)?.wrapping_mul(*factor);
            Some(Value::Decimal(to.width.wrap(scaled)))
        }
        CastRule::DecimalDown {
            divisor,
            to,
            checked,
        } => {
            let rounded = to.width.fit(divide_rounding(value, *divisor))?;
            if *checked {
                within(*to, rounded)
            } else {
                Some(Value::Decimal(rounded))
            }
        }
        _ => None,
    }
}

/// Returns an unscaled decimal if it has no more digits than the type.
fn within<'a>(to: Decimal, value: i128) -> Option<Value<'a>> {
    to.holds(value).then_some(Value::Decimal(value))
}

/// Divides, rounding half away from zero.
fn divide_rounding(value: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (value / divisor, value % divisor);
    let half = divisor / 2;
    if value >= 0 && remainder >= half {
        quotient + 1
    } else if value < 0 && remainder <= -half {
        quotient - 1
    } else {
        quotient
    }
}

/// Converts between booleans, integers and floats.
fn number<'a>(to: Number, value: Value<'a>) -> Option<Value<'a>> {
    match (to, value) {
        (Number::Boolean, Value::Boolean(value)) => Some(Value::Boolean(value)),
        (Number::Boolean, Value::Int(value)) => Some(Value::Boolean(value != 0)),
        (Number::Boolean, Value::UInt(value)) => Some(Value::Boolean(value != 0)),
        (Number::Boolean, Value::Float32(value)) => Some(Value::Boolean(value != 0.0)),
        (Number::Boolean, Value::Float64(value)) => Some(Value::Boolean(value != 0.0)),
        (Number::Float32, value) => Some(Value::Float32(match value {
            Value::Boolean(value) => f32::from(u8::from(value)),
            Value::Int(value) => value as f32,
            Value::UInt(value) => value as f32,
            Value::Float32(value) => value,
            Value::Float64(value) => value as f32,
            _ => return None,
        })),
        (Number::Float64, value) => Some(Value::Float64(match value {
            Value::Boolean(value) => f64::from(u8::from(value)),
            Value::Int(value) => value as f64,
            Value::UInt(value) => value as f64,
            Value::Float32(value) => f64::from(value),
            Value::Float64(value) => value,
            _ => return None,
        })),
        (to, Value::Boolean(value)) => integer(to, i128::from(value)),
        (to, Value::Int(value)) => integer(to, i128::from(value)),
        (to, Value::UInt(value)) => integer(to, i128::from(value)),
        (to, Value::Float32(value)) => integer(to, float_to_i128(f64::from(value))?),
        (to, Value::Float64(value)) => integer(to, float_to_i128(value)?),
        _ => None,
    }
}

/// Returns an integer if the type holds it.
fn integer<'a>(to: Number, value: i128) -> Option<Value<'a>> {
    match to {
        Number::Int(bits) => {
            let value = i64::try_from(value).ok()?;
            let shift = 64 - bits;
            ((value << shift) >> shift == value).then_some(Value::Int(value))
        }
        Number::UInt(bits) => {
            let value = u64::try_from(value).ok()?;
            let shift = 64 - bits;
            ((value << shift) >> shift == value).then_some(Value::UInt(value))
        }
        _ => None,
    }
}

/// Truncates towards zero; `None` for NaN and what 128 bits cannot hold.
fn float_to_i128(value: f64) -> Option<i128> {
    // 2^127 is exact in a double, and the greatest double below it is in range.
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    (-LIMIT..LIMIT).contains(&value).then_some(value as i128)
}

#[cfg(test)]
mod tests;
