//! Ranges of integers and of floats, which decide how many bits an expression is computed in.

use crate::types::{Decimal, DecimalWidth, integer_bits};
use arrow_schema::DataType;

/// The values from `low` to `high`, both included. Where a bound would leave 128 bits, it is the
/// bound of 128 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// The least value.
    pub low: i128,
    /// The greatest value.
    pub high: i128,
}

impl Interval {
    /// Every value of 128 bits.
    pub const ALL: Self = Self {
        low: i128::MIN,
        high: i128::MAX,
    };

    /// Booleans as integers.
    pub const BOOL: Self = Self { low: 0, high: 1 };

    /// Counts of rows.
    pub const COUNT: Self = Self {
        low: 0,
        high: i64::MAX as i128,
    };

    /// Makes the range between two values.
    pub fn new(low: i128, high: i128) -> Self {
        Self { low, high }
    }

    /// Makes the range of signed integers of so many bits.
    pub fn signed(bits: u32) -> Self {
        match bits {
            128.. => Self::ALL,
            bits => Self::new(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        }
    }

    /// Makes the range of unsigned integers of so many bits, up to 64.
    pub fn unsigned(bits: u32) -> Self {
        Self::new(0, (1 << bits) - 1)
    }

    /// Makes the range of one value.
    pub fn of(value: i128) -> Self {
        Self::new(value, value)
    }

    /// Returns what the Arrow type can hold; `None` if its values are no integers.
    pub fn of_type(data_type: &DataType) -> Option<Self> {
        if let Some((bits, signed)) = integer_bits(data_type) {
            return Some(if signed {
                Self::signed(bits)
            } else {
                Self::unsigned(bits)
            });
        }
        if let Some(decimal) = Decimal::of(data_type) {
            return Some(Self::of_width(decimal.width));
        }
        match data_type {
            DataType::Boolean => Some(Self::BOOL),
            DataType::Date32 | DataType::Time32(_) => Some(Self::signed(32)),
            DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(_, _)
            | DataType::Duration(_) => Some(Self::signed(64)),
            _ => None,
        }
    }

    /// Returns the unscaled decimals that a width holds.
    pub fn of_width(width: DecimalWidth) -> Self {
        match width {
            DecimalWidth::W32 => Self::signed(32),
            DecimalWidth::W64 => Self::signed(64),
            DecimalWidth::W128 => Self::ALL,
        }
    }

    /// Returns the unscaled values with no more digits than a decimal type.
    pub fn of_digits(decimal: Decimal) -> Self {
        let most = 10_i128.pow(u32::from(decimal.precision).min(38)) - 1;
        Self::new(-most, most).clamp_to(Self::of_width(decimal.width))
    }

    /// Returns whether a bound may have been cut at 128 bits, so that it proves nothing.
    pub fn is_saturated(self) -> bool {
        self.low == i128::MIN || self.high == i128::MAX
    }

    /// Returns what both have in common; the bound of `limit` that is nearest if that is nothing.
    pub fn clamp_to(self, limit: Self) -> Self {
        let low = self.low.clamp(limit.low, limit.high);
        Self::new(low, self.high.clamp(low, limit.high))
    }

    /// Returns whether every value of `self` is in `other`.
    pub fn is_within(self, other: Self) -> bool {
        other.low <= self.low && self.high <= other.high
    }

    /// Returns whether `value` is in the range.
    pub fn contains(self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    /// Returns the least range that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self::new(self.low.min(other.low), self.high.max(other.high))
    }

    /// Returns the greatest distance from zero.
    pub fn magnitude(self) -> u128 {
        self.low.unsigned_abs().max(self.high.unsigned_abs())
    }

    /// Returns how many values there are, if they can be counted.
    pub fn num_values(self) -> Option<u128> {
        self.high
            .checked_sub(self.low)
            .and_then(|distance| (distance as u128).checked_add(1))
    }

    /// Returns the range widened to a whole number of bytes, so that inputs of about the same range
    /// share a kernel. Never beyond `limit`, which holds `self`.
    pub fn rounded(self, limit: Self) -> Self {
        let bits = [7, 8, 15, 16, 23, 24, 31, 32, 39, 47, 55, 63, 64];
        let high = bits
            .iter()
            .map(|bits| (1i128 << bits) - 1)
            .find(|high| self.high <= *high)
            .unwrap_or(i128::MAX);
        let low = if self.low >= 0 {
            0
        } else {
            bits.iter()
                .map(|bits| -(1i128 << bits))
                .find(|low| *low <= self.low)
                .unwrap_or(i128::MIN)
        };
        Self::new(low.max(limit.low), high.min(limit.high))
    }
}

impl std::ops::Add for Interval {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self::new(
            self.low.saturating_add(other.low),
            self.high.saturating_add(other.high),
        )
    }
}

impl std::ops::Sub for Interval {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self::new(
            self.low.saturating_sub(other.high),
            self.high.saturating_sub(other.low),
        )
    }
}

impl std::ops::Mul for Interval {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let products = [
            self.low.saturating_mul(other.low),
            self.low.saturating_mul(other.high),
            self.high.saturating_mul(other.low),
            self.high.saturating_mul(other.high),
        ];
        let low = products.iter().copied().min().unwrap_or(i128::MIN);
        let high = products.iter().copied().max().unwrap_or(i128::MAX);
        Self::new(low, high)
    }
}

impl std::ops::Neg for Interval {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(self.high.saturating_neg(), self.low.saturating_neg())
    }
}

impl Interval {
    /// Returns the range of quotients, rounded towards zero. A divisor of zero does not count, and
    /// MIN / −1 gives one more than the range holds.
    pub fn divided_by(self, divisor: Self) -> Self {
        let most = i128::try_from(self.magnitude()).unwrap_or(i128::MAX);
        if divisor.low > 0 {
            return Self::new(
                self.low.min(0).max(self.low / divisor.low),
                if self.high > 0 {
                    self.high / divisor.low
                } else {
                    0
                },
            )
            .hull(Self::of(self.low / divisor.low))
            .hull(Self::of(0));
        }
        Self::new(-most, most)
    }

    /// Returns the range of remainders: the dividend's sign, smaller than the divisor.
    pub fn remainder(self, divisor: Self) -> Self {
        let most = i128::try_from(divisor.magnitude().saturating_sub(1)).unwrap_or(i128::MAX);
        Self::new(
            if self.low < 0 {
                (-most).max(self.low)
            } else {
                0
            },
            if self.high > 0 {
                most.min(self.high)
            } else {
                0
            },
        )
    }
}

/// Where floats lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatRange {
    /// None is farther from zero; infinite if one may be infinite or NaN.
    pub bound: f64,
    /// None is nearer to zero; 0 if one may be.
    pub least: f64,
    /// Whether each is a single.
    pub are_singles: bool,
}

impl FloatRange {
    /// Every float.
    pub const ALL: Self = Self {
        bound: f64::INFINITY,
        least: 0.0,
        are_singles: false,
    };

    /// Makes the range of floats no farther from zero than a bound, which NaN and infinity lift.
    pub fn within(bound: f64) -> Self {
        Self {
            bound: if bound.is_nan() { f64::INFINITY } else { bound },
            ..Self::ALL
        }
    }

    /// Makes the range of one float.
    pub fn of(value: f64) -> Self {
        let range = Self::within(value.abs());
        Self {
            least: if range.bound.is_finite() {
                range.bound
            } else {
                0.0
            },
            ..range
        }
    }

    /// Returns the range once its floats are rounded to singles.
    pub fn narrowed(self) -> Self {
        // Among the least singles rounding is no matter of proportion.
        let least = f64::from(f32::from_bits(1));
        Self::within(match self.bound {
            0.0 => 0.0,
            bound if bound < 3e38 => bound * (1.0 + 1e-6) + least,
            // Above the greatest single lies infinity.
            _ => f64::INFINITY,
        })
    }

    /// Returns the range that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self {
            bound: self.bound.max(other.bound),
            least: self.least.min(other.least),
            are_singles: self.are_singles && other.are_singles,
        }
    }

    /// Returns whether a float is in the range.
    pub fn contains(self, value: f64) -> bool {
        let is_bounded = self.bound == f64::INFINITY || value.abs() <= self.bound;
        let is_apart = value.is_nan() || value.abs() >= self.least;
        is_bounded
            && is_apart
            && (!self.are_singles || f64::from(value as f32) == value || value.is_nan())
    }
}

#[cfg(test)]
mod tests;
