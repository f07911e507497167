//! The exact sum of doubles, rounded once: what `Reduce::SumFloat` means.

/// How many doubles a sum is kept in while they hold it.
const PARTS: usize = 4;

/// A sum: a few doubles, whose exact sum it is, or all digits that a sum of doubles can have.
#[derive(Clone, Debug)]
pub(crate) enum FloatSum {
    /// The parts; those after the first so many are 0. No two have bits in one place.
    Few {
        /// Smallest first.
        parts: [f64; PARTS],
        /// How many.
        num: u8,
    },
    /// Everything else.
    Wide(Box<ExactSum>),
}

impl FloatSum {
    pub(crate) fn new() -> Self {
        Self::Few {
            parts: [0.0; PARTS],
            num: 0,
        }
    }

    pub(crate) fn add(&mut self, value: f64) {
        let Self::Few { parts, num } = self else {
            if let Self::Wide(wide) = self {
                wide.add(value);
            }
            return;
        };
        // Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997: grow-expansion without zeros.
        let mut grown = [0.0; PARTS];
        let (mut sum, mut len) = (value, 0);
        for part in &parts[..usize::from(*num)] {
            let (high, low) = two_sum(sum, *part);
            if low != 0.0 {
                grown[len] = low;
                len += 1;
            }
            sum = high;
        }
        if len < PARTS && sum.is_finite() {
            grown[len] = sum;
            (*parts, *num) = (grown, len as u8 + 1);
            return;
        }
        let mut wide = Box::new(ExactSum::new());
        let parts = parts[..usize::from(*num)].iter();
        parts.for_each(|part| wide.add(*part));
        wide.add(value);
        *self = Self::Wide(wide);
    }

    /// Rounds to the nearest double, ties to even.
    pub(crate) fn rounded(&self) -> f64 {
        match self {
            Self::Wide(wide) => wide.rounded(),
            Self::Few { parts, num } => match parts[..usize::from(*num)] {
                [] => 0.0,
                // As the wide sum, which has no sign of zero.
                [one] => one + 0.0,
                ref parts => {
                    let mut wide = ExactSum::new();
                    parts.iter().for_each(|part| wide.add(*part));
                    wide.rounded()
                }
            },
        }
    }
}

/// Returns the rounded sum and what is lost by rounding.
fn two_sum(left: f64, right: f64) -> (f64, f64) {
    let sum = left + right;
    let of_right = sum - left;
    let of_left = sum - of_right;
    (sum, (left - of_left) + (right - of_right))
}

/// 2^-1074 is the unit; the sum of 2^63 doubles below 2^1024 takes 2,162 bits and a sign.
const LIMBS: usize = 34;

/// A sum, as an integer of units in limbs of 64 bits, lowest first, two's complement.
#[derive(Clone, Debug)]
pub(crate) struct ExactSum {
    limbs: [u64; LIMBS],
    /// The sum of what is infinite or NaN; 0 while there is none.
    special: f64,
}

impl ExactSum {
    pub(crate) fn new() -> Self {
        Self {
            limbs: [0; LIMBS],
            special: 0.0,
        }
    }

    pub(crate) fn add(&mut self, value: f64) {
        if !value.is_finite() {
            self.special += value;
            return;
        }
        let bits = value.to_bits();
        let (exponent, fraction) = ((bits >> 52 & 0x7ff) as usize, bits & ((1 << 52) - 1));
        let (mantissa, shift) = match exponent {
            0 => (fraction, 0),
            exponent => (fraction | 1 << 52, exponent - 1),
        };
        let wide = u128::from(mantissa) << (shift % 64);
        let parts = [wide as u64, (wide >> 64) as u64];
        let is_negative = value.is_sign_negative();
        let mut carry = false;
        for (index, limb) in self.limbs[shift / 64..].iter_mut().enumerate() {
            let part = parts.get(index).copied().unwrap_or(0);
            if index >= parts.len() && !carry {
                break;
            }
            let (once, first) = match is_negative {
                true => limb.overflowing_sub(part),
                false => limb.overflowing_add(part),
            };
            let (twice, second) = match is_negative {
                true => once.overflowing_sub(u64::from(carry)),
                false => once.overflowing_add(u64::from(carry)),
            };
            (*limb, carry) = (twice, first || second);
        }
    }

    /// Rounds to the nearest double, ties to even.
    pub(crate) fn rounded(&self) -> f64 {
        if self.special != 0.0 {
            return self.special;
        }
        let is_negative = self.limbs[LIMBS - 1] >> 63 == 1;
        let mut limbs = self.limbs;
        if is_negative {
            let mut carry = true;
            for limb in &mut limbs {
                (*limb, carry) = (!*limb).overflowing_add(u64::from(carry));
            }
        }
        let Some(top) = limbs.iter().rposition(|limb| *limb != 0) else {
            return 0.0;
        };
        let highest = 64 * top + 63 - limbs[top].leading_zeros() as usize;
        let bit = |at: usize| limbs[at / 64] >> (at % 64) & 1;
        let lowest = highest.saturating_sub(52);
        let bits = (lowest..=highest).rev();
        let mut mantissa = bits.fold(0_u64, |bits, at| bits << 1 | bit(at));
        if lowest > 0 && bit(lowest - 1) == 1 {
            let is_tie = (0..lowest - 1).all(|at| bit(at) == 0);
            mantissa += u64::from(!is_tie || mantissa & 1 == 1);
        }
        // Adding the exponent to a mantissa with its leading 1 carries into it, and ends in infinity.
        let magnitude = match lowest {
            0 => f64::from_bits(mantissa),
            lowest if lowest > 2045 => f64::INFINITY,
            lowest => f64::from_bits(((lowest as u64) << 52) + mantissa),
        };
        if is_negative { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests;
