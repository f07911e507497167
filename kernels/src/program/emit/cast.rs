//! Conversions, as the cast matrix decided.

use arrow_schema::DataType;
use tidegate_pipeline::check::{CastRule, Number, cast_rule};
use tidegate_pipeline::types::{Decimal, SECONDS_PER_DAY, per_second};
use tidegate_pipeline::{CastFailure, Interval};

use super::expr::{literal, width_range};
use super::{Class, Emitter, Val, Valid};

impl Emitter<'_> {
    pub(crate) fn cast(
        &mut self,
        value: Val,
        from: &DataType,
        to: &DataType,
        on_failure: CastFailure,
    ) -> Result<Val, String> {
        let rule = cast_rule(from, to, on_failure).map_err(|error| error.to_string())?;
        self.convert(&rule, value, on_failure)
    }

    fn convert(
        &mut self,
        rule: &CastRule,
        value: Val,
        on_failure: CastFailure,
    ) -> Result<Val, String> {
        let valid = value.valid.clone();
        let converted = match rule {
            CastRule::Keep => value,
            CastRule::Number(to) => self.number_of(*to, value, on_failure),
            CastRule::Then(first, second) => {
                let value = self.convert(first, value, on_failure)?;
                self.convert(second, value, on_failure)?
            }
            CastRule::IntegerToDecimal { factor, to } => {
                let width = width_range(to.width);
                let value = if value.range.is_within(width) {
                    value
                } else {
                    // Arrow reduces the integer to the decimal's width first.
                    let class = Class::of(width).name();
                    self.integer(&format!("({class}){}", value.code), width, valid)
                };
                self.multiplied(value, *factor, holds(*to), on_failure)
            }
            CastRule::DecimalUp {
                factor,
                to,
                checked,
            } => {
                let width = width_range(to.width);
                let value = self.limited(value, width, on_failure);
                if *checked {
                    self.multiplied(value, *factor, holds(*to), on_failure)
                } else {
                    let exact = value.range * Interval::of(*factor);
                    let range = if exact.is_within(width) { exact } else { width };
                    let class = Class::of(range).name();
                    let valid = value.valid.clone();
                    let code = format!(
                        "({class})wrapping_mul(({class}){}, ({class}){})",
                        value.code,
                        literal(*factor)
                    );
                    self.integer(&code, range, valid)
                }
            }
            CastRule::DecimalDown {
                divisor,
                to,
                checked,
            } => {
                self.uses_checked = true;
                let range = value.range.divided_by(Interval::of(*divisor));
                let range =
                    Interval::new(range.low.saturating_sub(1), range.high.saturating_add(1));
                let class = Class::of(value.range.hull(Interval::of(*divisor)).hull(range)).name();
                let code = format!(
                    "divide_rounding(({class}){}, ({class}){})",
                    value.code,
                    literal(*divisor)
                );
                let rounded = self.integer(&code, range, valid);
                let limit = if *checked {
                    holds(*to)
                } else {
                    width_range(to.width)
                };
                self.limited(rounded, limit, on_failure)
            }
            CastRule::DecimalZero => self.integer("0", Interval::of(0), valid),
            CastRule::DecimalToInteger { divisor, to } => {
                self.uses_checked = true;
                let class = Class::of(value.range.hull(Interval::of(*divisor))).name();
                let range = value.range.divided_by(Interval::of(*divisor));
                let code = format!("({class}){} / ({class}){}", value.code, literal(*divisor));
                let whole = self.integer(&code, range, valid);
                self.limited(whole, number_range(*to), on_failure)
            }
            CastRule::DecimalToFloat { scale, to } => {
                self.uses_checked = true;
                let power = 10_f64.powi(*scale);
                let bound = value.range.magnitude() as f64 / power * (1.0 + 1e-6);
                let code = format!("double_of({}) / {power:e}", value.code);
                let wide = self.float(Class::F64, &code, bound, valid);
                self.narrow_float(*to, wide)
            }
            CastRule::FloatToDecimal { to } => {
                self.uses_checked = true;
                let power = 10_f64.powi(i32::from(to.scale));
                let scaled = format!("round_away({power:e} * (double){})", value.code);
                let scaled = self.float(Class::F64, &scaled, f64::INFINITY, valid);
                self.truncated(scaled, holds(*to), on_failure)
            }
            CastRule::Multiply(factor) => {
                self.multiplied(value, i128::from(*factor), Interval::signed(64), on_failure)
            }
            CastRule::Divide(divisor) => {
                let range = value.range.divided_by(Interval::of(i128::from(*divisor)));
                let code = format!("(i64){} / {divisor}ll", value.code);
                self.integer(&code, range, valid)
            }
            CastRule::TimestampToDay(unit) => {
                self.uses_calendar = true;
                let per_day = SECONDS_PER_DAY * per_second(*unit);
                let range = Interval::new(
                    value.range.low / i128::from(per_day) - 1,
                    value.range.high / i128::from(per_day),
                );
                let code = format!("floor_divide({}, {per_day}ll)", value.code);
                let days = self.integer(&code, range, valid.clone());
                let inside = self.within_calendar(days);
                if inside.valid != valid {
                    // Arrow raises here even for TRY_CAST.
                    let bad = format!("!({})", inside.valid.code());
                    self.raise_if(&bad, &valid, "CAST_FAILED");
                }
                Val { valid, ..inside }
            }
        };
        Ok(converted)
    }

    fn multiplied(
        &mut self,
        value: Val,
        factor: i128,
        limit: Interval,
        on_failure: CastFailure,
    ) -> Val {
        let exact = value.range * Interval::of(factor);
        if exact.low > i128::MIN && exact.high < i128::MAX {
            let class = Class::of(exact).name();
            let code = format!(
                "wrapping_mul(({class}){}, ({class}){})",
                value.code,
                literal(factor)
            );
            let scaled = self.integer(&code, exact, value.valid);
            return self.limited(scaled, limit, on_failure);
        }
        self.uses_checked = true;
        let bad = format!("bad{}", self.lines.len());
        self.lines.push(format!("bool {bad} = false;"));
        let code = format!(
            "checked_mul((i128){}, {}, {bad})",
            value.code,
            literal(factor)
        );
        let scaled = self.integer(&code, Interval::ALL, value.valid);
        self.held(scaled, &bad, limit, on_failure)
    }

    /// Lets only values of the range through.
    fn limited(&mut self, value: Val, limit: Interval, on_failure: CastFailure) -> Val {
        if value.range.is_within(limit) {
            return value;
        }
        self.uses_checked = true;
        self.held(value, "false", limit, on_failure)
    }

    /// Raises, or makes NULL, what is bad already or outside of the limit.
    fn held(&mut self, value: Val, bad: &str, limit: Interval, on_failure: CastFailure) -> Val {
        // A limit beyond the value's own bits is met in its own.
        let class = Class::of(value.range.hull(limit)).name();
        let mut outside = vec![bad.to_owned()];
        if value.range.low < limit.low {
            outside.push(format!(
                "({class}){} < ({class}){}",
                value.code,
                literal(limit.low)
            ));
        }
        if value.range.high > limit.high {
            outside.push(format!(
                "({class}){} > ({class}){}",
                value.code,
                literal(limit.high)
            ));
        }
        let bad = self.bind(Class::Bool, &outside.join(" || "));
        let valid = self.failed(&bad, &value.valid, on_failure);
        let range = Interval::new(
            value.range.low.max(limit.low),
            value.range.high.min(limit.high),
        )
        .hull(Interval::of(0));
        let class = Class::of(range).name();
        self.integer(
            &format!("({class})({bad} ? 0 : {})", value.code),
            range,
            valid,
        )
    }

    /// Returns the validity after values that have no image.
    fn failed(&mut self, bad: &str, valid: &Valid, on_failure: CastFailure) -> Valid {
        if on_failure == CastFailure::Raise {
            self.raise_if(bad, valid, "CAST_FAILED");
            return valid.clone();
        }
        match valid {
            Valid::Never => Valid::Never,
            Valid::Always => Valid::If(format!("(!{bad})")),
            Valid::If(valid) => Valid::If(self.bind(Class::Bool, &format!("{valid} && !{bad}"))),
        }
    }

    fn number_of(&mut self, to: Number, value: Val, on_failure: CastFailure) -> Val {
        let valid = value.valid.clone();
        let is_float = matches!(value.class, Class::F32 | Class::F64);
        match to {
            Number::Boolean if value.class == Class::Bool => value,
            Number::Boolean => self.boolean(&format!("{} != 0", value.code), valid),
            Number::Float32 | Number::Float64 if is_float => {
                let wide = match value.class {
                    Class::F32 => {
                        let code = format!("(double){}", value.code);
                        let wide = self.float(Class::F64, &code, value.bound, valid);
                        Val {
                            least: value.least,
                            are_singles: true,
                            ..wide
                        }
                    }
                    _ => value,
                };
                self.narrow_float(to, wide)
            }
            Number::Float32 | Number::Float64 => {
                let bound = value.range.magnitude() as f64 * (1.0 + 1e-6);
                let class = if to == Number::Float32 {
                    Class::F32
                } else {
                    Class::F64
                };
                let code = match (value.class, class) {
                    (Class::I128, Class::F64) => {
                        self.uses_checked = true;
                        format!("double_of({})", value.code)
                    }
                    // Only what an unsigned 64-bit integer holds is this wide here.
                    (Class::I128, _) => format!("(float)(u64){}", value.code),
                    (_, class) => format!("({})(i64){}", class.name(), value.code),
                };
                self.float(class, &code, bound, valid)
            }
            Number::Int(_) | Number::UInt(_) if is_float => {
                self.uses_checked = true;
                let code = format!("(double){}", value.code);
                let wide = self.float(Class::F64, &code, value.bound, valid);
                self.truncated(wide, number_range(to), on_failure)
            }
            Number::Int(_) | Number::UInt(_) => {
                let value = if value.class == Class::Bool {
                    self.integer(&format!("(i32){}", value.code), Interval::new(0, 1), valid)
                } else {
                    value
                };
                self.limited(value, number_range(to), on_failure)
            }
        }
    }

    fn narrow_float(&mut self, to: Number, wide: Val) -> Val {
        if to != Number::Float32 {
            return wide;
        }
        let bound = if wide.bound < 3e38 {
            wide.bound * (1.0 + 1e-6)
        } else {
            f64::INFINITY
        };
        let code = format!("(float){}", wide.code);
        self.float(Class::F32, &code, bound, wide.valid)
    }

    fn truncated(&mut self, value: Val, limit: Interval, on_failure: CastFailure) -> Val {
        let bad = format!("bad{}", self.lines.len());
        self.lines.push(format!("bool {bad} = false;"));
        let code = format!("truncated({}, {bad})", value.code);
        let whole = self.integer(&code, Interval::ALL, value.valid);
        self.held(whole, &bad, limit, on_failure)
    }
}

/// Returns the unscaled values with no more digits than the type.
fn holds(decimal: Decimal) -> Interval {
    let most = 10_i128.pow(u32::from(decimal.precision).min(38)) - 1;
    let width = width_range(decimal.width);
    Interval::new((-most).max(width.low), most.min(width.high))
}

fn number_range(to: Number) -> Interval {
    match to {
        Number::Int(bits) => Interval::signed(bits),
        Number::UInt(bits) => Interval::new(0, (1 << bits) - 1),
        _ => Interval::ALL,
    }
}
