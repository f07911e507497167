//! Arithmetic: exact where intervals prove that it fits, wrapping or checked elsewhere.

use super::super::{
    Class, Comparison, FloatOp, IntegerOp, Op, Overflow, Raised, Rounding, Type, ValueId,
};
use super::Builder;
use crate::interval::{FloatRange, Interval};

impl Builder {
    fn integer(
        &mut self,
        op: IntegerOp,
        overflow: Overflow,
        (left, right): (ValueId, ValueId),
        interval: Interval,
    ) -> ValueId {
        let op = Op::Integer {
            op,
            overflow,
            left,
            right,
        };
        self.push(op, Type::Int(interval))
    }

    /// Computes `+ - *` where the intervals prove that the result fits 128 bits.
    pub fn exact(&mut self, op: IntegerOp, left: ValueId, right: ValueId) -> ValueId {
        let interval = op.interval(self.interval(left), self.interval(right));
        self.integer(op, Overflow::Never, (left, right), interval)
    }

    /// Computes `+ - *` on integers of so many bits, which wrap.
    pub fn wrapping(
        &mut self,
        op: IntegerOp,
        (bits, signed): (u32, bool),
        left: ValueId,
        right: ValueId,
    ) -> ValueId {
        let limit = if signed {
            Interval::signed(bits)
        } else {
            Interval::unsigned(bits)
        };
        let exact = op.interval(self.interval(left), self.interval(right));
        if exact.is_within(limit) && !exact.is_saturated() {
            return self.exact(op, left, right);
        }
        let overflow = Overflow::Wraps { bits, signed };
        self.integer(op, overflow, (left, right), limit)
    }

    /// Computes `+ - *` for a width of signed integers, and whether that does not hold the result.
    pub fn failing(
        &mut self,
        op: IntegerOp,
        limit: Interval,
        left: ValueId,
        right: ValueId,
    ) -> (ValueId, ValueId) {
        let exact = op.interval(self.interval(left), self.interval(right));
        // Intervals are cut at 128 bits: what reaches the ends is not proven.
        if exact.is_within(limit) && !exact.is_saturated() {
            return (self.exact(op, left, right), self.bool(false));
        }
        let overflow = Overflow::Fails { bits: limit.bits() };
        let value = self.integer(op, overflow, (left, right), limit);
        (value, self.failed(value))
    }

    /// Computes `+ - *` for a width of signed integers; raises where that does not hold the result.
    pub fn checked(
        &mut self,
        op: IntegerOp,
        limit: Interval,
        (left, right): (ValueId, ValueId),
        valid: ValueId,
        error: &Raised,
    ) -> ValueId {
        let (value, failed) = self.failing(op, limit, left, right);
        self.raise(failed, valid, error.clone());
        value
    }

    /// Divides, within `limit`; of a divisor 0 or of MIN / −1 the caller raises.
    pub fn divide(
        &mut self,
        rounding: Rounding,
        left: ValueId,
        right: ValueId,
        limit: Interval,
    ) -> ValueId {
        let (dividend, divisor) = (self.interval(left), self.interval(right));
        let data = Type::Int(rounding.interval(dividend, divisor).clamp_to(limit));
        let bits = if limit.low < 0 { limit.bits() } else { 128 };
        self.push(
            Op::Divide {
                rounding,
                bits,
                left,
                right,
            },
            data,
        )
    }

    /// Divides by a constant above 0.
    pub fn divide_by(&mut self, rounding: Rounding, value: ValueId, divisor: i128) -> ValueId {
        if divisor == 1 {
            return value;
        }
        let divisor = self.int(divisor);
        self.divide(rounding, value, divisor, Interval::ALL)
    }

    /// Computes the remainder; of a divisor 0 the caller raises.
    pub fn remainder(&mut self, left: ValueId, right: ValueId) -> ValueId {
        let data = Type::Int(self.interval(left).remainder(self.interval(right)));
        self.push(Op::Remainder { left, right }, data)
    }

    /// Computes on floats of one width.
    pub fn float2(&mut self, op: FloatOp, left: ValueId, right: ValueId) -> ValueId {
        let range = op.range(self.data(left).floats(), self.data(right).floats());
        let data = match self.data(left) {
            Type::Float32(_) => Type::Float32(FloatRange {
                least: range.least,
                ..range.narrowed()
            }),
            _ => Type::Float64(range),
        };
        self.push(Op::Float2 { op, left, right }, data)
    }

    /// Turns the sign of a float.
    pub fn negate_float(&mut self, value: ValueId) -> ValueId {
        let data = self.data(value);
        self.push(Op::NegateFloat(value), data)
    }

    /// Converts to a class of numbers; integers that may not fit are reduced modulo its width.
    pub fn convert(&mut self, value: ValueId, to: Class) -> ValueId {
        let from = self.data(value);
        if from.class() == to {
            return value;
        }
        let fit = |bits: u32| {
            let limit = Interval::signed(bits);
            let holds = !from.is_float() && from.interval().is_within(limit);
            Type::Int(if holds { from.interval() } else { limit })
        };
        let of_integer = FloatRange::within(from.interval().magnitude() as f64 * (1.0 + 1e-6));
        let data = match (to, from) {
            (Class::F64, Type::Float32(range)) => Type::Float64(FloatRange {
                are_singles: true,
                ..range
            }),
            (Class::F64, _) => Type::Float64(of_integer),
            (Class::F32, Type::Float64(range)) => Type::Float32(range.narrowed()),
            (Class::F32, _) => Type::Float32(of_integer.narrowed()),
            (Class::I32, _) => fit(32),
            (Class::I64, _) => fit(64),
            (Class::I128, _) => fit(128),
            (Class::Bool, _) => Type::Bool,
            (Class::Text, _) => Type::Text,
        };
        self.push(Op::Convert { value, to }, data)
    }

    /// Lets integers within `limit` through; elsewhere the result is 0 and the second value holds.
    pub fn limited(&mut self, value: ValueId, limit: Interval) -> (ValueId, ValueId) {
        let interval = self.interval(value);
        let mut outside = self.bool(false);
        if interval.low < limit.low {
            let low = self.int(limit.low);
            let below = self.compare(Comparison::Less, value, low);
            outside = self.or(outside, below);
        }
        if interval.high > limit.high {
            let high = self.int(limit.high);
            let above = self.compare(Comparison::Greater, value, high);
            outside = self.or(outside, above);
        }
        if self.is(outside, false) {
            return (value, outside);
        }
        let zero = self.int(0);
        let inside = interval.clamp_to(limit).hull(Interval::of(0));
        let value = self.select_as(outside, zero, value, Type::Int(inside));
        (value, outside)
    }

    /// Lets integers within `limit` through and raises elsewhere.
    pub fn held(
        &mut self,
        value: ValueId,
        limit: Interval,
        valid: ValueId,
        error: &Raised,
    ) -> ValueId {
        let (value, outside) = self.limited(value, limit);
        self.raise(outside, valid, error.clone());
        value
    }
}

impl Interval {
    /// Returns the bits of the narrowest machine integer that holds the interval.
    fn bits(self) -> u32 {
        let widths = [8, 16, 32, 64];
        let fits = |bits: &u32| self.is_within(Self::signed(*bits));
        widths.into_iter().find(fits).unwrap_or(128)
    }
}

impl IntegerOp {
    /// Returns where results lie.
    pub fn interval(self, left: Interval, right: Interval) -> Interval {
        match self {
            Self::Add => left + right,
            Self::Subtract => left - right,
            Self::Multiply => left * right,
        }
    }
}

impl Rounding {
    /// Returns where quotients lie.
    pub fn interval(self, dividend: Interval, divisor: Interval) -> Interval {
        let truncated = dividend.divided_by(divisor);
        match self {
            Self::Zero => truncated,
            Self::Down if divisor.low == divisor.high && divisor.low > 0 => Interval::new(
                dividend.low.div_euclid(divisor.low),
                dividend.high.div_euclid(divisor.low),
            ),
            Self::Down => Interval::new(truncated.low.saturating_sub(1), truncated.high),
            Self::Nearest => Interval::new(
                truncated.low.saturating_sub(1),
                truncated.high.saturating_add(1),
            ),
        }
    }
}

impl FloatOp {
    fn range(self, left: FloatRange, right: FloatRange) -> FloatRange {
        // One part in 2^50 covers the rounding of the bound and of the value.
        let slack = 1.0 + f64::EPSILON * 4.0;
        let apart = (left.least - right.bound).max(right.least - left.bound);
        let (bound, least) = match self {
            Self::Add | Self::Subtract => ((left.bound + right.bound) * slack, apart),
            Self::Multiply => (left.bound * right.bound * slack, left.least * right.least),
            // By zero it is infinite or NaN.
            Self::Divide if right.least > 0.0 => {
                (left.bound / right.least * slack, left.least / right.bound)
            }
            Self::Remainder if right.least > 0.0 => (left.bound, 0.0),
            Self::Divide | Self::Remainder => (f64::INFINITY, 0.0),
        };
        let range = FloatRange::within(bound);
        // Rounding takes none so much nearer; what may lie below the normal numbers is as good as 0.
        let least = least * (1.0 - 1e-6);
        let is_apart = least > 1e-30 && range.bound.is_finite();
        FloatRange {
            least: if is_apart { least } else { 0.0 },
            ..range
        }
    }
}
