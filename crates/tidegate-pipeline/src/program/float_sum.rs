//! The exact sum of doubles, rounded once: what `Reduce::SumFloat` means.

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
mod tests {
    use super::ExactSum;

    fn sum(values: &[f64]) -> f64 {
        let mut sum = ExactSum::new();
        values.iter().for_each(|value| sum.add(*value));
        let mut reversed = ExactSum::new();
        values.iter().rev().for_each(|value| reversed.add(*value));
        assert_eq!(sum.rounded().to_bits(), reversed.rounded().to_bits());
        sum.rounded()
    }

    #[test]
    fn sums_are_exact_and_rounded_once() {
        assert_eq!(sum(&[0.1, 0.2]), 0.1 + 0.2);
        assert_eq!(sum(&[1e308, 1.0, -1e308]), 1.0);
        assert_eq!(sum(&[1e308, 1e308, -1e308]), 1e308);
        assert_eq!(sum(&[1e308, 1e308]), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, -f64::MAX, -2.5]), -2.5);
        assert_eq!(sum(&[5e-324, 5e-324]), 1e-323);
        assert_eq!(
            sum(&[f64::MIN_POSITIVE, -5e-324]),
            f64::MIN_POSITIVE - 5e-324
        );
        assert_eq!(sum(&[1.0, f64::EPSILON / 2.0]), 1.0);
        assert_eq!(sum(&[1.0, f64::EPSILON / 2.0, 1e-300]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[-0.0, -0.0]).to_bits(), 0);
        assert_eq!(sum(&[f64::MAX, 2.0_f64.powi(970)]), f64::INFINITY);
        assert_eq!(sum(&[f64::MAX, 2.0_f64.powi(969)]), f64::MAX);
    }

    #[test]
    fn infinities_and_nan_are_added_as_floats_are() {
        assert_eq!(sum(&[1.0, f64::INFINITY]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[f64::NAN, 1.0]).is_nan());
    }
}
