//! Mean and sum of squared differences from it, of exact sums of values and of their squares.
//!
//! With n values, n·Σx² − (Σx)² is n times the sum of squared differences. It is an integer of units,
//! formed exactly and rounded once, so that nothing cancels. `kernels/cuda/moments_finish.cuh` does
//! the same, bit for bit.

use crate::program::MomentScale;

/// Limbs of 32 bits, enough for the squares of [`MomentScale::LEVELS_MAX`] digits over 2^64 values.
const LIMBS: usize = 2 * MomentScale::LEVELS_MAX + 4;

/// An integer in limbs, the least first; in two's complement.
pub(super) type Wide = [u32; LIMBS];

/// The exact sums of a group's values and of their squares, in units of one fixed point; or what they
/// come to, once groups in other units were added.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PowerSums {
    Exact {
        sum: Wide,
        squares: Wide,
        /// The exponent of two whose power is a unit.
        exponent: i32,
    },
    Rounded(Moments),
}

/// Mean and sum of squared differences from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Moments {
    pub(super) mean: f64,
    pub(super) m2: f64,
}

impl PowerSums {
    /// Takes the digits of both sums, the least first.
    pub(super) fn of(
        sum: impl Iterator<Item = u64>,
        squares: impl Iterator<Item = u64>,
        exponent: i32,
    ) -> Self {
        Self::Exact {
            sum: carried(sum),
            squares: carried(squares),
            exponent,
        }
    }

    /// Returns the moments of a group with so many values.
    pub(super) fn moments(&self, count: u64) -> Moments {
        let (sum, squares, exponent) = match self {
            _ if count == 0 => return Moments::default(),
            Self::Rounded(moments) => return *moments,
            Self::Exact {
                sum,
                squares,
                exponent,
            } => (sum, squares, *exponent),
        };
        let counts = carried([count].into_iter());
        let spread = difference(&product(&counts, squares), &product(sum, sum));
        Moments {
            mean: nearest(sum, exponent) / count as f64,
            m2: nearest(&spread, 2 * exponent) / count as f64,
        }
    }

    /// Adds a group's values to another's: exactly in the same units, else as DataFusion merges
    /// partial states.
    pub(super) fn merge(&mut self, count: u64, other: &Self, other_count: u64) {
        if let (
            Self::Exact {
                sum,
                squares,
                exponent,
            },
            Self::Exact {
                sum: other_sum,
                squares: other_squares,
                exponent: other_exponent,
            },
        ) = (&mut *self, other)
            && exponent == other_exponent
        {
            *sum = total(sum, other_sum);
            *squares = total(squares, other_squares);
            return;
        }
        let (here, there) = (self.moments(count), other.moments(other_count));
        *self = match (count, other_count) {
            (0, _) => other.clone(),
            (_, 0) => return,
            _ => Self::Rounded(here.merged(count as f64, there, other_count as f64)),
        };
    }
}

impl Moments {
    fn merged(self, count: f64, other: Self, other_count: f64) -> Self {
        let total = count + other_count;
        let delta = other.mean - self.mean;
        Self {
            mean: self.mean * (count / total) + other.mean * (other_count / total),
            m2: self.m2 + other.m2 + delta * delta * (count * other_count / total),
        }
    }
}

pub(super) fn carried(digits: impl Iterator<Item = u64>) -> Wide {
    let mut digits = digits.map(|digit| i128::from(digit as i64));
    let mut limbs = [0; LIMBS];
    let mut carry = 0_i128;
    for limb in &mut limbs {
        carry += digits.next().unwrap_or(0);
        *limb = carry as u32;
        carry >>= 32;
    }
    limbs
}

pub(super) fn difference(a: &Wide, b: &Wide) -> Wide {
    let mut result = [0; LIMBS];
    let mut carry = 0_i64;
    for (limb, (a, b)) in result.iter_mut().zip(a.iter().zip(b)) {
        carry += i64::from(*a) - i64::from(*b);
        *limb = carry as u32;
        carry >>= 32;
    }
    result
}

pub(super) fn total(a: &Wide, b: &Wide) -> Wide {
    difference(a, &difference(&[0; LIMBS], b))
}

pub(super) fn product(a: &Wide, b: &Wide) -> Wide {
    let mut result = [0; LIMBS];
    for (i, a) in a.iter().enumerate().filter(|(_, a)| **a != 0) {
        let mut carry = 0_u64;
        for (limb, b) in result[i..].iter_mut().zip(b) {
            carry += u64::from(*a) * u64::from(*b) + u64::from(*limb);
            *limb = carry as u32;
            carry >>= 32;
        }
    }
    result
}

/// Returns the nearest double of an integer, times a power of two.
pub(super) fn nearest(value: &Wide, exponent: i32) -> f64 {
    match value[LIMBS - 1] >> 31 {
        1 => -scaled(&difference(&[0; LIMBS], value), exponent),
        _ => scaled(value, exponent),
    }
}

/// The same of one that is not negative.
fn scaled(value: &Wide, exponent: i32) -> f64 {
    let Some(top) = value.iter().rposition(|limb| *limb != 0) else {
        return 0.0;
    };
    let limb = |below: usize| top.checked_sub(below).map_or(0, |at| value[at]);
    let first = (u128::from(limb(0)) << 64) | (u128::from(limb(1)) << 32) | u128::from(limb(2));
    let zeros = limb(0).leading_zeros();
    let first = first << zeros;
    let is_inexact = first as u32 != 0 || value[..top.saturating_sub(2)].iter().any(|l| *l != 0);
    let high = (first >> 32) as u64 | u64::from(is_inexact);
    let power = 32 * (top as i32 - 1) - zeros as i32 + exponent;
    high as f64 * f64::from_bits(((power + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests;
