//! The cast matrix: which conversions there are, and what each does to a value.
//!
//! A [`CastRule`] is the whole of a conversion, decided once from the two types. The matrix is that
//! of `arrow-cast` as DataFusion calls it, less everything to or from text, the time types, and what
//! shifts by a time zone.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::Unsupported;
use crate::expr::CastFailure;
use crate::types::{
    Decimal, MILLISECONDS_PER_DAY, SECONDS_PER_DAY, integer_bits, is_float, is_string, per_second,
};

/// A number type that a cast can give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// TRUE unless zero.
    Boolean,
    /// Signed, of so many bits.
    Int(u32),
    /// Unsigned, of so many bits.
    UInt(u32),
    /// `Float32`.
    Float32,
    /// `Float64`.
    Float64,
}

/// What a conversion does to a value that is not NULL.
#[derive(Clone, Debug, PartialEq)]
pub enum CastRule {
    /// The representation stays: another layout, unit-free temporal and integer, a wider decimal.
    Keep,
    /// Between booleans, integers and floats: towards zero, and it fails out of range.
    Number(Number),
    /// Integer to decimal: reduced to the decimal's width, multiplied, held against the precision.
    IntegerToDecimal {
        /// 10 to the scale.
        factor: i128,
        /// What it becomes.
        to: Decimal,
    },
    /// Float to decimal: multiplied by 10^scale, rounded half away from zero.
    FloatToDecimal {
        /// What it becomes.
        to: Decimal,
    },
    /// Decimal to integer: divided towards zero.
    DecimalToInteger {
        /// 10 to the scale.
        divisor: i128,
        /// What it becomes.
        to: Number,
    },
    /// Decimal to float: divided by 10^scale in double precision.
    DecimalToFloat {
        /// Digits after the point.
        scale: i32,
        /// What it becomes.
        to: Number,
    },
    /// To a greater or equal scale. Unchecked where the digits are bound to suffice.
    DecimalUp {
        /// The power of ten that lies between the scales.
        factor: i128,
        /// What it becomes.
        to: Decimal,
        /// Whether the digits may not suffice.
        checked: bool,
    },
    /// To a smaller scale, rounded half away from zero.
    DecimalDown {
        /// The power of ten that lies between the scales.
        divisor: i128,
        /// What it becomes.
        to: Decimal,
        /// Whether the digits may not suffice.
        checked: bool,
    },
    /// To a scale so much smaller that every value rounds to zero.
    DecimalZero,
    /// To a finer unit of time; fails on overflow.
    Multiply(i64),
    /// To a coarser unit of time, towards zero.
    Divide(i64),
    /// The day in which a timestamp of this unit falls. Fails whatever the cast says about failing.
    TimestampToDay(TimeUnit),
    /// One rule, then another.
    Then(Box<CastRule>, Box<CastRule>),
}

/// Returns what the cast does, or why the IR does not have it.
pub fn cast_rule(
    from: &DataType,
    to: &DataType,
    on_failure: CastFailure,
) -> Result<CastRule, Unsupported> {
    use arrow_schema::DataType::{
        Date32, Date64, Duration, Int32, Int64, Interval, Time32, Time64, Timestamp,
    };

    if from == to || (is_string(from) && is_string(to)) {
        return Ok(CastRule::Keep);
    }
    let refused = || Unsupported::new(format!("cast from {from} to {to}"));
    if is_string(from) || is_string(to) {
        return Err(refused());
    }
    let through_int64 = |first: CastRule, second: CastRule| match (first, second) {
        (CastRule::Keep, rule) | (rule, CastRule::Keep) => rule,
        (first, second) => CastRule::Then(Box::new(first), Box::new(second)),
    };
    let rule = match (from, to) {
        (Time32(_) | Time64(_), _) | (_, Time32(_) | Time64(_)) => return Err(refused()),

        (Date32, Int32 | Int64) | (Int32, Date32) => CastRule::Keep,
        (Date64, Int64) | (Int64, Date64) => CastRule::Keep,
        (Date64, Int32) | (Int64, Date32) => CastRule::Number(Number::Int(32)),
        (Date32 | Int32, Date64) => CastRule::Multiply(MILLISECONDS_PER_DAY),
        (Date64, Date32) => through_int64(
            CastRule::Divide(MILLISECONDS_PER_DAY),
            CastRule::Number(Number::Int(32)),
        ),
        (Date32, Timestamp(unit, None)) => CastRule::Multiply(SECONDS_PER_DAY * per_second(*unit)),
        // Without an error to raise, Arrow multiplies unchecked here.
        (Date64, Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, None))
            if on_failure == CastFailure::Null =>
        {
            return Err(refused());
        }
        (Date64, Timestamp(unit, None)) => rescale(per_second(TimeUnit::Millisecond), *unit),

        (Timestamp(unit, None), Date32) => CastRule::TimestampToDay(*unit),
        (Timestamp(unit, None), Date64) => rescale(per_second(*unit), TimeUnit::Millisecond),
        (Timestamp(_, None), Timestamp(_, Some(_))) => return Err(refused()),
        (Timestamp(unit, _), Timestamp(other, _)) | (Duration(unit), Duration(other)) => {
            rescale(per_second(*unit), *other)
        }
        (Timestamp(_, _) | Duration(_), number) if number.is_numeric() => {
            cast_rule(&Int64, number, on_failure).map_err(|_| refused())?
        }
        (number, Timestamp(_, _) | Duration(_)) if number.is_numeric() => {
            cast_rule(number, &Int64, on_failure).map_err(|_| refused())?
        }

        (
            Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime),
            Interval(IntervalUnit::MonthDayNano),
        ) => CastRule::Keep,

        _ => number_rule(from, to).ok_or_else(refused)?,
    };
    Ok(rule)
}

/// Returns the rule between units of time, of which `from` make a second.
fn rescale(from: i64, to: TimeUnit) -> CastRule {
    let to = per_second(to);
    match from.cmp(&to) {
        std::cmp::Ordering::Equal => CastRule::Keep,
        std::cmp::Ordering::Less => CastRule::Multiply(to / from),
        std::cmp::Ordering::Greater => CastRule::Divide(from / to),
    }
}

/// Returns the rule between booleans, integers, floats and decimals.
fn number_rule(from: &DataType, to: &DataType) -> Option<CastRule> {
    match (Decimal::of(from), Decimal::of(to)) {
        (Some(from), Some(to)) => decimal_to_decimal(from, to),
        (Some(decimal), None) => match number(to)? {
            Number::Boolean => None,
            number @ (Number::Int(_) | Number::UInt(_)) => Some(CastRule::DecimalToInteger {
                divisor: decimal
                    .width
                    .power_of_ten(u32::try_from(decimal.scale).ok()?)?,
                to: number,
            }),
            number => Some(CastRule::DecimalToFloat {
                scale: i32::from(decimal.scale),
                to: number,
            }),
        },
        (None, Some(to)) if is_float(from) => Some(CastRule::FloatToDecimal { to }),
        (None, Some(to)) if from.is_integer() => Some(CastRule::IntegerToDecimal {
            factor: to.width.power_of_ten(u32::try_from(to.scale).ok()?)?,
            to,
        }),
        (None, Some(_)) => None,
        (None, None) => {
            number(from)?;
            Some(CastRule::Number(number(to)?))
        }
    }
}

fn decimal_to_decimal(from: Decimal, to: Decimal) -> Option<CastRule> {
    let grown = i16::from(to.scale) - i16::from(from.scale);
    let digits_in = i16::from(from.precision);
    let digits_out = i16::from(to.precision);
    if from.width == to.width && grown == 0 && digits_in <= digits_out {
        return Some(CastRule::Keep);
    }
    if grown >= 0 {
        // A step beyond the table of powers fails in Arrow even over no rows.
        if grown > i16::from(to.width.max_precision()) {
            return None;
        }
        return Some(CastRule::DecimalUp {
            factor: to.width.power_of_ten(u32::try_from(grown).ok()?)?,
            to,
            checked: digits_in + grown > digits_out,
        });
    }
    let shrunk = -grown;
    if shrunk > i16::from(from.width.max_precision()) {
        return Some(CastRule::DecimalZero);
    }
    Some(CastRule::DecimalDown {
        divisor: from.width.power_of_ten(u32::try_from(shrunk).ok()?)?,
        to,
        checked: digits_in - shrunk >= digits_out,
    })
}

fn number(data_type: &DataType) -> Option<Number> {
    match data_type {
        DataType::Boolean => Some(Number::Boolean),
        DataType::Float32 => Some(Number::Float32),
        DataType::Float64 => Some(Number::Float64),
        other => integer_bits(other).map(|(bits, signed)| {
            if signed {
                Number::Int(bits)
            } else {
                Number::UInt(bits)
            }
        }),
    }
}
