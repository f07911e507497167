//! What values say of themselves: the least and the greatest, and the greatest common factor of
//! their distances.
//!
//! Division by a factor is exact, so it is a multiplication by the inverse of the factor's odd part
//! modulo 2^64 and a rotation; a product that is too great tells that a value is no multiple (Warren,
//! Hacker's Delight, 2nd edition, §10-17).

use super::native::Native;
use super::validity::{Stretch, Validity};
use crate::program::Interval;

/// Values that are looked at together when a common factor is looked for.
const BLOCK: usize = 256;

/// Returns the least and the greatest value of blocks of a chunk; `None` if all are NULL.
pub(super) fn range_of<'a, N: Native>(
    blocks: impl Iterator<Item = (usize, &'a [N])>,
    validity: &Validity,
) -> Option<Interval> {
    let (mut low, mut high) = (N::GREATEST, N::LEAST);
    for (first, block) in blocks {
        for stretch in validity.stretches(first, block.len()) {
            match stretch {
                Stretch::Valid(rows) => {
                    for value in &block[rows] {
                        low = low.min(*value);
                        high = high.max(*value);
                    }
                }
                Stretch::Mixed(rows, bits) => {
                    for (index, value) in block[rows].iter().enumerate() {
                        // Without a branch: it would be taken at random.
                        let is_valid = (bits >> index) & 1 == 1;
                        low = low.min(if is_valid { *value } else { N::GREATEST });
                        high = high.max(if is_valid { *value } else { N::LEAST });
                    }
                }
            }
        }
    }
    (low <= high).then(|| Interval::new(low.widened(), high.widened()))
}

/// Returns the greatest common divisor of the distances from the base, 0 if all are 0.
pub(super) fn common_factor<'a, N: Native>(
    blocks: impl Iterator<Item = (usize, &'a [N])>,
    base: u64,
    validity: &Validity,
) -> u64 {
    let mut factor = 0_u64;
    for (first, block) in blocks {
        for stretch in validity.stretches(first, block.len()) {
            match stretch {
                Stretch::Valid(rows) => {
                    for block in block[rows].chunks(BLOCK) {
                        factor = joint_factor(factor, block, base);
                    }
                }
                Stretch::Mixed(rows, bits) => {
                    for (index, value) in block[rows].iter().enumerate() {
                        if (bits >> index) & 1 == 1 {
                            factor = gcd(factor, value.word().wrapping_sub(base));
                        }
                    }
                }
            }
            if factor == 1 {
                return 1;
            }
        }
    }
    factor
}

fn joint_factor<N: Native>(factor: u64, block: &[N], base: u64) -> u64 {
    if factor == 1 {
        return 1;
    }
    if factor > 1 {
        let divisor = Divisor::new(factor);
        let quotients = block
            .iter()
            .map(|value| divisor.quotient(value.word().wrapping_sub(base)));
        if quotients.fold(true, |all, quotient| all & (quotient <= divisor.limit)) {
            return factor;
        }
    }
    block.iter().fold(factor, |factor, value| {
        gcd(factor, value.word().wrapping_sub(base))
    })
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Divides multiples of a number exactly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Divisor {
    /// The inverse of the odd part.
    inverse: u64,
    /// How often 2 divides.
    shift: u32,
    /// The greatest quotient.
    pub(super) limit: u64,
}

impl Divisor {
    /// Takes a divisor, which is not 0.
    pub(crate) fn new(divisor: u64) -> Self {
        let shift = divisor.trailing_zeros();
        let odd = divisor >> shift;
        // Each of Newton's steps doubles the bits that are right, from three on.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Self {
            inverse,
            shift,
            limit: u64::MAX / divisor,
        }
    }

    /// Returns the inverse of the odd part modulo 2^64, whose low bits are that modulo fewer.
    pub(crate) fn inverse(self) -> u64 {
        self.inverse
    }

    /// Returns how often 2 divides.
    pub(crate) fn shift(self) -> u32 {
        self.shift
    }

    /// Returns whether it divides by 1.
    pub(super) fn is_one(self) -> bool {
        self.limit == u64::MAX
    }

    /// Returns the quotient of a multiple; of another number, something beyond the limit.
    #[inline(always)]
    pub(super) fn quotient(self, value: u64) -> u64 {
        value.wrapping_mul(self.inverse).rotate_right(self.shift)
    }
}
