//! `CAST(a AS type)` and `TRY_CAST`, by the rules of the cast matrix. What has no image raises, or is NULL.

use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use crate::catalogue::calendar::CALENDAR;
use crate::catalogue::{
    Accuracy, Arguments, Body, Kernel, Lowered, Options, ScalarEntry, Signature,
};
use crate::check::{CastRule, Number, Unsupported, cast_rule};
use crate::expr::CastFailure;
use crate::interval::{FloatRange, Interval};
use crate::program::{
    Builder, Class, Comparison, FloatOp, IntegerOp, Nullable, Raised, Rounding, Type, ValueId,
};
use crate::types::{Decimal, DecimalWidth, SECONDS_PER_DAY, per_second};

pub(super) static ENTRIES: &[ScalarEntry] = &[ScalarEntry {
    name: "cast",
    datafusion: &[],
    constants: &[],
    arity: (1, 1),
    types: |signature| rule(signature).map(|_| ()),
    lower,
    accuracy: Accuracy::Exact,
    signatures,
}];

static ROUND: Kernel = Kernel {
    name: "round",
    accuracy: Accuracy::Exact,
    body: Body::Float(f64::round),
    cuda: Some("round_away({0})"),
    gives: |arguments| {
        let bound = arguments[0].floats().bound;
        Type::Float64(FloatRange::within(bound + 0.5))
    },
};

fn on_failure(signature: &Signature) -> CastFailure {
    match signature.options {
        Options::OnFailure(on_failure) => on_failure,
        _ => CastFailure::Raise,
    }
}

fn rule(signature: &Signature) -> Result<CastRule, Unsupported> {
    let (from, to) = (&signature.arguments[0], &signature.result);
    cast_rule(from, to, on_failure(signature))
}

fn lower(builder: &mut Builder, arguments: &mut Arguments<'_>) -> Lowered {
    let ([value], valid) = arguments.strict(builder)?;
    let (from, to) = (
        &arguments.signature.arguments[0],
        &arguments.signature.result,
    );
    let failure = Failure {
        on_failure: on_failure(arguments.signature),
        error: Raised::CastFailed {
            value,
            from: from.clone(),
            to: to.clone(),
        },
    };
    let rule = rule(arguments.signature)?;
    Ok(failure.convert(builder, &rule, Nullable { value, valid }))
}

/// What becomes of values without an image.
struct Failure {
    on_failure: CastFailure,
    error: Raised,
}

impl Failure {
    fn convert(&self, builder: &mut Builder, rule: &CastRule, from: Nullable) -> Nullable {
        let with = |value| Nullable { value, ..from };
        let value = from.value;
        match rule {
            CastRule::Keep => from,
            CastRule::Number(to) => self.number(builder, *to, from),
            CastRule::Then(first, second) => {
                let between = self.convert(builder, first, from);
                self.convert(builder, second, between)
            }
            CastRule::DecimalZero => with(builder.int(0)),
            CastRule::DecimalToInteger { divisor, to } => {
                let whole = builder.divide_by(Rounding::Zero, value, *divisor);
                self.held(builder, with(whole), integers(*to))
            }
            CastRule::DecimalToFloat { scale, to } => {
                let double = builder.convert(value, Class::F64);
                let power = builder.float(10_f64.powi(*scale));
                let divided = builder.float2(FloatOp::Divide, double, power);
                with(match to {
                    Number::Float32 => builder.convert(divided, Class::F32),
                    _ => divided,
                })
            }
            CastRule::IntegerToDecimal { factor, to } => {
                self.integer_to_decimal(builder, from, *factor, *to)
            }
            CastRule::DecimalUp {
                factor,
                to,
                checked,
            } => self.decimal_up(builder, from, *factor, *to, *checked),
            CastRule::DecimalDown {
                divisor,
                to,
                checked,
            } => {
                let rounded = builder.divide_by(Rounding::Nearest, value, *divisor);
                let limit = match checked {
                    true => Interval::of_digits(*to),
                    false => Interval::of_width(to.width),
                };
                self.held(builder, with(rounded), limit)
            }
            CastRule::FloatToDecimal { to } => {
                let double = builder.convert(value, Class::F64);
                let power = builder.float(10_f64.powi(i32::from(to.scale)));
                let scaled = builder.float2(FloatOp::Multiply, power, double);
                let rounded = builder.call(&ROUND, vec![scaled]);
                self.truncated(builder, with(rounded), Interval::of_digits(*to))
            }
            CastRule::Multiply(factor) => {
                self.multiplied(builder, from, i128::from(*factor), Interval::signed(64))
            }
            CastRule::Divide(divisor) => {
                with(builder.divide_by(Rounding::Zero, value, i128::from(*divisor)))
            }
            CastRule::TimestampToDay(unit) => {
                let per_day = SECONDS_PER_DAY * per_second(*unit);
                let days = builder.divide_by(Rounding::Down, value, i128::from(per_day));
                // Arrow raises here even for TRY_CAST.
                with(builder.held(days, CALENDAR, from.valid, &self.error))
            }
        }
    }

    fn integer_to_decimal(
        &self,
        builder: &mut Builder,
        from: Nullable,
        factor: i128,
        to: Decimal,
    ) -> Nullable {
        // Arrow reduces the integer to the decimal's width first.
        let width = Interval::of_width(to.width);
        let value = match builder.interval(from.value).is_within(width) {
            true => from.value,
            false => builder.convert(from.value, class_of(to.width)),
        };
        let reduced = Nullable { value, ..from };
        self.multiplied(builder, reduced, factor, Interval::of_digits(to))
    }

    /// Multiplies by a power of ten; unchecked where the declared digits are bound to suffice.
    fn decimal_up(
        &self,
        builder: &mut Builder,
        from: Nullable,
        factor: i128,
        to: Decimal,
        checked: bool,
    ) -> Nullable {
        let held = self.held(builder, from, Interval::of_width(to.width));
        if checked {
            return self.multiplied(builder, held, factor, Interval::of_digits(to));
        }
        let (factor, bits) = (builder.int(factor), bits_of(to.width));
        let op = IntegerOp::Multiply;
        Nullable {
            value: builder.wrapping(op, (bits, true), held.value, factor),
            ..held
        }
    }

    /// Raises where `failed` holds, or makes the value NULL.
    fn without(&self, builder: &mut Builder, from: Nullable, failed: ValueId) -> Nullable {
        if self.on_failure == CastFailure::Raise {
            builder.raise(failed, from.valid, self.error.clone());
            return from;
        }
        let has_image = builder.not(failed);
        Nullable {
            valid: builder.and(from.valid, has_image),
            ..from
        }
    }

    /// Lets only values within `limit` through.
    fn held(&self, builder: &mut Builder, from: Nullable, limit: Interval) -> Nullable {
        let (value, outside) = builder.limited(from.value, limit);
        self.without(builder, Nullable { value, ..from }, outside)
    }

    fn multiplied(
        &self,
        builder: &mut Builder,
        from: Nullable,
        factor: i128,
        limit: Interval,
    ) -> Nullable {
        let factor = builder.int(factor);
        let op = IntegerOp::Multiply;
        let (scaled, failed) = builder.failing(op, Interval::ALL, from.value, factor);
        let (value, outside) = builder.limited(scaled, limit);
        let bad = builder.or(failed, outside);
        self.without(builder, Nullable { value, ..from }, bad)
    }

    /// Truncates a double.
    fn truncated(&self, builder: &mut Builder, from: Nullable, limit: Interval) -> Nullable {
        let whole = builder.convert(from.value, Class::I128);
        let failed = builder.failed(whole);
        let (value, outside) = builder.limited(whole, limit);
        let bad = builder.or(failed, outside);
        self.without(builder, Nullable { value, ..from }, bad)
    }

    /// Converts between booleans, integers and floats.
    fn number(&self, builder: &mut Builder, to: Number, from: Nullable) -> Nullable {
        let data = builder.data(from.value);
        let with = |value| Nullable { value, ..from };
        match to {
            Number::Boolean => with(match data {
                Type::Bool => from.value,
                _ => {
                    let zero = match data {
                        data if data.is_float() => zero_like(builder, from.value),
                        _ => builder.int(0),
                    };
                    builder.compare(Comparison::NotEqual, from.value, zero)
                }
            }),
            Number::Float32 => with(builder.convert(from.value, Class::F32)),
            Number::Float64 => with(builder.convert(from.value, Class::F64)),
            Number::Int(_) | Number::UInt(_) => match data {
                Type::Float32(_) | Type::Float64(_) => {
                    let double = builder.convert(from.value, Class::F64);
                    self.truncated(builder, with(double), integers(to))
                }
                Type::Bool => with(builder.convert(from.value, Class::I32)),
                Type::Int(_) | Type::Text => self.held(builder, from, integers(to)),
            },
        }
    }
}

/// Returns 0 in the width of a float.
fn zero_like(builder: &mut Builder, float: ValueId) -> ValueId {
    let (zero, class) = (builder.float(0.0), builder.data(float).class());
    builder.convert(zero, class)
}

fn integers(to: Number) -> Interval {
    match to {
        Number::Int(bits) => Interval::signed(bits),
        Number::UInt(bits) => Interval::unsigned(bits),
        Number::Boolean => Interval::BOOL,
        Number::Float32 | Number::Float64 => Interval::ALL,
    }
}

fn bits_of(width: DecimalWidth) -> u32 {
    match width {
        DecimalWidth::W32 => 32,
        DecimalWidth::W64 => 64,
        DecimalWidth::W128 => 128,
    }
}

fn class_of(width: DecimalWidth) -> Class {
    match width {
        DecimalWidth::W32 => Class::I32,
        DecimalWidth::W64 => Class::I64,
        DecimalWidth::W128 => Class::I128,
    }
}

/// Every pair of these types that the matrix has.
fn signatures() -> Vec<Signature> {
    use DataType::{
        Boolean, Date32, Date64, Decimal32, Decimal64, Decimal128, Duration, Float32, Float64,
        Int8, Int16, Int32, Int64, Interval, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8,
        Utf8View,
    };
    use IntervalUnit::{DayTime, MonthDayNano, YearMonth};
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};

    let types = [
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Decimal32(7, 2),
        Decimal64(12, 3),
        Decimal64(18, 0),
        Decimal128(15, 2),
        Decimal128(20, 12),
        Decimal128(38, 6),
        Date32,
        Date64,
        Timestamp(Second, None),
        Timestamp(Millisecond, None),
        Timestamp(Microsecond, None),
        Timestamp(Nanosecond, None),
        Duration(Second),
        Duration(Nanosecond),
        Interval(YearMonth),
        Interval(DayTime),
        Interval(MonthDayNano),
        Utf8,
        Utf8View,
    ];
    let mut signatures = Vec::new();
    for from in &types {
        for to in &types {
            for on_failure in [CastFailure::Raise, CastFailure::Null] {
                if cast_rule(from, to, on_failure).is_ok() {
                    let options = Options::OnFailure(on_failure);
                    signatures.push(Signature::with(vec![from.clone()], to.clone(), options));
                }
            }
        }
    }
    signatures
}
