//! Arithmetic: exact where ranges prove that it fits, checked or wrapping elsewhere.

use arrow_schema::DataType;
use tidegate_pipeline::check::decimal_rule;
use tidegate_pipeline::types::{Decimal, MILLISECONDS_PER_DAY, integer_bits, is_float};
use tidegate_pipeline::{ArithmeticOp, Interval};

use super::expr::{bits_of, literal, width_range};
use super::{Class, Emitter, Val, Valid};

impl Emitter<'_> {
    pub(crate) fn arithmetic(
        &mut self,
        op: ArithmeticOp,
        types: (&DataType, &DataType),
        left: Val,
        right: Val,
    ) -> Result<Val, String> {
        let valid = self.all_valid(&[&left, &right]);
        if let (Some(left_type), Some(right_type)) = (Decimal::of(types.0), Decimal::of(types.1)) {
            return self.decimal(op, (left_type, right_type), &left, &right, valid);
        }
        if is_float(types.0) {
            return Ok(self.float_arithmetic(op, &left, &right, valid));
        }
        let none = || Err(format!("{} {op} {} has no device form", types.0, types.1));
        match types {
            (DataType::Date32, DataType::Date32) => {
                let exact = left.range - right.range;
                Ok(self.plain(op, &left, &right, exact, valid))
            }
            (DataType::Date64, DataType::Date64) => {
                let exact = left.range - right.range;
                if !exact.is_within(Interval::signed(64)) {
                    return none();
                }
                let days = self.plain(op, &left, &right, exact, valid);
                let range = Interval::new(
                    exact.low / i128::from(MILLISECONDS_PER_DAY),
                    exact.high / i128::from(MILLISECONDS_PER_DAY),
                );
                let code = format!("(i64){} / {MILLISECONDS_PER_DAY}ll", days.code);
                Ok(self.integer(&code, range, days.valid))
            }
            (DataType::Timestamp(_, _) | DataType::Duration(_), _) => {
                Ok(self.checked_time(op, &left, &right, valid))
            }
            (data_type, _) => match integer_bits(data_type) {
                Some((bits, signed)) => {
                    Ok(self.integer_arithmetic(op, (bits, signed), &left, &right, valid))
                }
                None => none(),
            },
        }
    }

    /// Computes `+`, `-` or `*` where the result is known to fit.
    pub(super) fn plain(
        &mut self,
        op: ArithmeticOp,
        left: &Val,
        right: &Val,
        exact: Interval,
        valid: Valid,
    ) -> Val {
        let class = Class::of(exact).name();
        let function = wrapping(op);
        let code = format!(
            "{function}(({class}){}, ({class}){})",
            left.code, right.code
        );
        self.integer(&code, exact, valid)
    }

    fn integer_arithmetic(
        &mut self,
        op: ArithmeticOp,
        (bits, signed): (u32, bool),
        left: &Val,
        right: &Val,
        valid: Valid,
    ) -> Val {
        let limit = type_range(bits, signed);
        let exact = exact(op, left.range, right.range);
        if matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo) {
            return self.division(op, left, right, limit, exact, valid, bits);
        }
        if exact.is_within(limit) {
            return self.plain(op, left, right, exact, valid);
        }
        // The low bits of the result depend on the low bits of the operands alone.
        let class = if bits == 64 { "i64" } else { "i32" };
        let function = wrapping(op);
        let wide = format!(
            "{function}(({class}){}, ({class}){})",
            left.code, right.code
        );
        let narrow = match (bits, signed) {
            (8, true) => "signed char",
            (16, true) => "short",
            (8, false) => "u8",
            (16, false) => "u16",
            (32, false) => "u32",
            (64, false) => "u64",
            (32, true) => "i32",
            _ => "i64",
        };
        let code = format!("({narrow})({wide})");
        self.integer(&code, limit, valid)
    }

    #[expect(clippy::too_many_arguments, reason = "a division has that many sides")]
    fn division(
        &mut self,
        op: ArithmeticOp,
        left: &Val,
        right: &Val,
        limit: Interval,
        exact: Interval,
        valid: Valid,
        bits: u32,
    ) -> Val {
        self.uses_checked = true;
        if right.range.contains(0) {
            let code = format!("{} == 0", right.code);
            self.raise_if(&code, &valid, "DIVIDE_BY_ZERO");
        }
        let class = Class::of(left.range.hull(right.range).hull(exact)).name();
        let divisor = format!("safe_divisor(({class}){})", right.code);
        let divides = op == ArithmeticOp::Divide;
        let overflows = left.range.contains(limit.low)
            && limit.low < 0
            && right.range.contains(-1)
            // Arrow raises for the remainder of decimals, but not of integers.
            && (divides || bits == 0);
        if overflows {
            let least = least_literal(limit);
            let code = format!("({} == {least} && {} == -1)", left.code, right.code);
            self.raise_if(&code, &valid, "OVERFLOW");
        }
        let function = if divides { "quotient" } else { "remainder_of" };
        let code = format!("{function}(({class}){}, {divisor})", left.code);
        let range = Interval::new(exact.low.max(limit.low), exact.high.min(limit.high));
        let class = Class::of(range).name();
        self.integer(&format!("({class}){code}"), range, valid)
    }

    fn float_arithmetic(&mut self, op: ArithmeticOp, left: &Val, right: &Val, valid: Valid) -> Val {
        let class = left.class;
        // One part in 2^50 covers the rounding of the bound and of the value.
        let slack = 1.0 + f64::EPSILON * 4.0;
        let apart = (left.least - right.bound).max(right.least - left.bound);
        let (sign, bound, least) = match op {
            ArithmeticOp::Add => ("+", (left.bound + right.bound) * slack, apart),
            ArithmeticOp::Subtract => ("-", (left.bound + right.bound) * slack, apart),
            ArithmeticOp::Multiply => (
                "*",
                left.bound * right.bound * slack,
                left.least * right.least,
            ),
            ArithmeticOp::Divide => ("/", f64::INFINITY, 0.0),
            ArithmeticOp::Modulo => {
                let function = if class == Class::F32 { "fmodf" } else { "fmod" };
                let code = format!("{function}({}, {})", left.code, right.code);
                return self.float(class, &code, left.bound.min(f64::INFINITY), valid);
            }
        };
        let bound = if class == Class::F32 {
            bound * (1.0 + 1e-6)
        } else {
            bound
        };
        let code = format!("{} {sign} {}", left.code, right.code);
        let value = self.float(class, &code, bound, valid);
        // Rounding takes none so much nearer; what may lie below the normal numbers is as good as 0.
        let least = least * (1.0 - 1e-6);
        let least = if least > 1e-30 && value.bound.is_finite() {
            least
        } else {
            0.0
        };
        Val { least, ..value }
    }

    fn decimal(
        &mut self,
        op: ArithmeticOp,
        (left_type, right_type): (Decimal, Decimal),
        left: &Val,
        right: &Val,
        valid: Valid,
    ) -> Result<Val, String> {
        let rule = decimal_rule(op, left_type, right_type).map_err(|error| error.to_string())?;
        let limit = width_range(left_type.width);
        let left = self.scaled(left, rule.left_factor, limit, &valid);
        let right = self.scaled(right, rule.right_factor, limit, &valid);
        let exact = exact(op, left.range, right.range);
        if matches!(op, ArithmeticOp::Divide | ArithmeticOp::Modulo) {
            return Ok(self.division(op, &left, &right, limit, exact, valid, 0));
        }
        // The bounds of 128 bits are where ranges saturate: what reaches them is not proven.
        if exact.is_within(limit) && exact.low > i128::MIN && exact.high < i128::MAX {
            return Ok(self.plain(op, &left, &right, exact, valid));
        }
        let name = match op {
            ArithmeticOp::Add => "checked_add",
            ArithmeticOp::Subtract => "checked_sub",
            _ => "checked_mul",
        };
        Ok(self.checked(name, &left.code, &right.code, limit, valid))
    }

    /// Multiplies a decimal by a power of ten, raising where its width does not hold it.
    fn scaled(&mut self, value: &Val, factor: i128, limit: Interval, valid: &Valid) -> Val {
        if factor == 1 {
            return value.clone();
        }
        let exact = value.range * Interval::of(factor);
        if exact.is_within(limit) && exact.low > i128::MIN && exact.high < i128::MAX {
            let class = Class::of(exact).name();
            let code = format!(
                "wrapping_mul(({class}){}, ({class}){})",
                value.code,
                literal(factor)
            );
            return self.integer(&code, exact, value.valid.clone());
        }
        self.checked(
            "checked_mul",
            &value.code,
            &literal(factor),
            limit,
            valid.clone(),
        )
    }

    /// Computes in 128 bits and raises where the width does not hold the result.
    pub(crate) fn checked(
        &mut self,
        function: &str,
        left: &str,
        right: &str,
        limit: Interval,
        valid: Valid,
    ) -> Val {
        self.uses_checked = true;
        let bad = format!("bad{}", self.lines.len());
        self.lines.push(format!("bool {bad} = false;"));
        let wide = self.bind(
            Class::I128,
            &format!("{function}((i128){left}, (i128){right}, {bad})"),
        );
        let bits = bits_of(limit);
        self.raise_if(
            &format!("({bad} || !fits({wide}, {bits}))"),
            &valid,
            "OVERFLOW",
        );
        let class = Class::of(limit).name();
        self.integer(&format!("({class}){wide}"), limit, valid)
    }

    fn checked_time(&mut self, op: ArithmeticOp, left: &Val, right: &Val, valid: Valid) -> Val {
        let limit = Interval::signed(64);
        let exact = exact(op, left.range, right.range);
        if exact.is_within(limit) {
            return self.plain(op, left, right, exact, valid);
        }
        let name = if op == ArithmeticOp::Add {
            "checked_add"
        } else {
            "checked_sub"
        };
        self.checked(name, &left.code, &right.code, limit, valid)
    }

    pub(super) fn negate(&mut self, inner: &Val, data_type: &DataType) -> Result<Val, String> {
        if is_float(data_type) {
            let code = format!("-{}", inner.code);
            return Ok(self.float(inner.class, &code, inner.bound, inner.valid.clone()));
        }
        let zero = Val {
            code: "0".into(),
            class: Class::I32,
            range: Interval::of(0),
            bound: 0.0,
            least: 0.0,
            are_singles: false,
            valid: Valid::Always,
        };
        let valid = inner.valid.clone();
        if let Some((bits, signed)) = integer_bits(data_type) {
            let op = ArithmeticOp::Subtract;
            return Ok(self.integer_arithmetic(op, (bits, signed), &zero, inner, valid));
        }
        let Some(limit) = Interval::of_type(data_type) else {
            return Err(format!("- {data_type} has no device form"));
        };
        let exact = -inner.range;
        if exact.is_within(limit) && inner.range.low > i128::MIN {
            return Ok(self.plain(ArithmeticOp::Subtract, &zero, inner, exact, valid));
        }
        Ok(self.checked("checked_sub", "0", &inner.code, limit, valid))
    }
}

fn exact(op: ArithmeticOp, left: Interval, right: Interval) -> Interval {
    match op {
        ArithmeticOp::Add => left + right,
        ArithmeticOp::Subtract => left - right,
        ArithmeticOp::Multiply => left * right,
        ArithmeticOp::Divide => left.divided_by(right),
        ArithmeticOp::Modulo => left.remainder(right),
    }
}

fn wrapping(op: ArithmeticOp) -> &'static str {
    match op {
        ArithmeticOp::Add => "wrapping_add",
        ArithmeticOp::Subtract => "wrapping_sub",
        _ => "wrapping_mul",
    }
}

fn type_range(bits: u32, signed: bool) -> Interval {
    if signed {
        Interval::signed(bits)
    } else {
        Interval::new(0, (1 << bits) - 1)
    }
}

fn least_literal(limit: Interval) -> String {
    literal(limit.low)
}
