//! Float sums in the digits of their fixed point, until they are read.
//!
//! Digits of one fixed point add up exactly, so that groups of several tables can be merged before
//! anything is rounded.

/// How many digits of a value its fixed point holds at the least.
pub(crate) const DIGITS_SEEN: i32 = 44;

/// Returns the exponent of a unit of a digit of values below 2^`exponent`.
pub(crate) fn unit_exponent(exponent: i32, digit_bits: u32, level: usize) -> i32 {
    let bits = digit_bits as i32;
    exponent - (bits - 1) - bits * level as i32
}

/// Returns an exponent whose power of two is beyond every value of the bound: a multiple of 8, so
/// that chunks of about the same values share one.
pub fn scale_exponent(bound: f64) -> i32 {
    if !bound.is_finite() {
        return 64;
    }
    let exponent = if bound == 0.0 {
        0
    } else {
        bound.log2().floor() as i32 + 1
    };
    ((exponent + 7).div_euclid(8) * 8).clamp(-800, 960)
}

/// A call's float sum in every group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FloatSums {
    /// The value of one unit of each digit, the greatest first.
    units: Vec<f64>,
    digit_bits: u32,
    /// The digits of group after group.
    digits: Vec<i128>,
    /// What was added to groups in other digits; empty if nothing was.
    others: Vec<f64>,
}

impl FloatSums {
    pub(super) fn new(units: Vec<f64>, digit_bits: u32) -> Self {
        Self {
            units,
            digit_bits,
            digits: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Adds a group with these digits.
    pub(super) fn push(&mut self, digits: impl Iterator<Item = i128>) {
        self.digits.extend(digits);
    }

    fn len(&self) -> usize {
        self.digits.len() / self.units.len()
    }

    fn digits_of(&self, group: usize) -> &[i128] {
        let levels = self.units.len();
        &self.digits[group * levels..(group + 1) * levels]
    }

    /// Returns the sum of a group, rounded.
    pub(super) fn get(&self, group: usize) -> Option<f64> {
        if group >= self.len() {
            return None;
        }
        let digits = self.digits_of(group).iter().copied();
        let sum = fixed_point_sum(digits.zip(self.units.iter().copied()), self.digit_bits);
        Some(match self.others.get(group) {
            Some(other) => sum + other,
            None => sum,
        })
    }

    /// Returns the sums of all groups, rounded.
    pub(super) fn rounded(&self) -> Vec<f64> {
        let groups = 0..self.len();
        groups.filter_map(|group| self.get(group)).collect()
    }

    /// Adds a group with the sum that it has in another table.
    pub(super) fn push_from(&mut self, from: &Self, row: usize) {
        let group = self.len();
        self.digits.resize(self.digits.len() + self.units.len(), 0);
        self.add_from(group, from, row);
    }

    /// Adds the sum of a group of another table.
    pub(super) fn add_from(&mut self, group: usize, from: &Self, row: usize) {
        let is_same = self.units == from.units && self.digit_bits == from.digit_bits;
        let other = if is_same {
            let levels = self.units.len();
            let digits = &mut self.digits[group * levels..(group + 1) * levels];
            for (to, from) in digits.iter_mut().zip(from.digits_of(row)) {
                *to += from;
            }
            from.others.get(row).copied()
        } else {
            from.get(row)
        };
        if let Some(other) = other {
            self.others.resize(self.len(), 0.0);
            self.others[group] += other;
        }
    }
}

/// Adds digits of fixed point up and rounds once, or nearly so: the digits are carried into each
/// other until they do not overlap, and are added from the least.
fn fixed_point_sum(digits: impl Iterator<Item = (i128, f64)>, digit_bits: u32) -> f64 {
    let mut digits: Vec<(i128, f64)> = digits.collect();
    for level in (1..digits.len()).rev() {
        let carry = digits[level].0 >> digit_bits;
        digits[level].0 -= carry << digit_bits;
        digits[level - 1].0 += carry;
    }
    // The leading digits are joined, so that a difference of two of them does not cancel.
    let mut sum = 0.0;
    let mut joined = 0_i128;
    for (position, (digit, unit)) in digits.iter().enumerate() {
        let is_free = joined.unsigned_abs() < 1 << 80;
        if is_free {
            joined = (joined << if position == 0 { 0 } else { digit_bits }) + digit;
            sum = joined as f64 * unit;
        } else {
            sum += *digit as f64 * unit;
        }
    }
    sum
}
