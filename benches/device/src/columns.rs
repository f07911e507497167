//! Columns whose values are a function of the row's number, here and on the device.

use tidegate_kernels::program::{Interval, SlotFacts};

/// What a column's values are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Values {
    /// `low + raw`, uniform over so many raw values.
    Uniform { count: u64 },
    /// Doubles: hundredths, uniform.
    Hundredths { low: u64, count: u64 },
    /// All 64-bit integers.
    Full,
    /// Doubles, uniform from 0 to 1.
    Unit,
    /// Keys under Zipf's law with exponent 1.1.
    Zipf { count: u64 },
    /// Every other row has key 0, the others are uniform.
    Half { count: u64 },
}

/// A column as the benchmark stores it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) values: Values,
    /// Keys are spread over 64 bits.
    pub(crate) sparse: bool,
    /// Bytes of a raw value.
    pub(crate) width: u32,
    /// The value is `base + factor * raw`.
    pub(crate) base: i64,
    pub(crate) factor: i64,
    /// Stored with this added to the raw value: a plain column of a base of its own.
    pub(crate) low: u64,
    pub(crate) seed: u64,
}

const QUANTILES: usize = 1 << 16;

/// Returns the quantiles of Zipf's law over `count` keys, by the continuous distribution.
pub(crate) fn zipf_quantiles(count: u64) -> Vec<u32> {
    let exponent = 1.0 - 1.1;
    let top = (count as f64).powf(exponent);
    (0..=QUANTILES)
        .map(|at| {
            let u = at as f64 / QUANTILES as f64;
            let key = (u * (top - 1.0) + 1.0).powf(1.0 / exponent) - 1.0;
            (key as u64).min(count - 1) as u32
        })
        .collect()
}

pub(crate) fn mix(mut key: u64) -> u64 {
    key ^= key >> 33;
    key = key.wrapping_mul(0xff51_afd7_ed55_8ccd);
    key ^= key >> 33;
    key = key.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    key ^ (key >> 33)
}

impl Column {
    pub(crate) fn kind(&self) -> u64 {
        let kind = match self.values {
            Values::Uniform { .. } => 0,
            Values::Hundredths { .. } => 1,
            Values::Full => 2,
            Values::Unit => 3,
            Values::Zipf { .. } => 4,
            Values::Half { .. } => 5,
        };
        kind | if self.sparse { 16 } else { 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        match self.values {
            Values::Uniform { count }
            | Values::Hundredths { count, .. }
            | Values::Zipf { count }
            | Values::Half { count } => count,
            Values::Full | Values::Unit => 1,
        }
    }

    pub(crate) fn stored_low(&self) -> u64 {
        match self.values {
            Values::Hundredths { low, .. } => low,
            _ => self.low,
        }
    }

    /// Returns the raw word of a row, as it is stored.
    pub(crate) fn raw(&self, row: u64, quantiles: &[u32]) -> u64 {
        let h = mix(row
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(self.seed));
        let raw = match self.values {
            Values::Uniform { count } => h % count,
            Values::Hundredths { low, count } => {
                return ((low + h % count) as f64 / 100.0).to_bits();
            }
            Values::Full => h,
            Values::Unit => return ((h >> 11) as f64 * 1.110_223_024_625_156_5e-16).to_bits(),
            Values::Zipf { .. } => {
                let at = (h >> 48) as usize;
                let (from, to) = (u64::from(quantiles[at]), u64::from(quantiles[at + 1]));
                from + (h & 0xffff_ffff) % (to - from + 1)
            }
            Values::Half { count } => {
                if h & 1 == 1 {
                    0
                } else {
                    (h >> 1) % count
                }
            }
        };
        let raw = if self.sparse { mix(raw) } else { raw };
        raw.wrapping_add(self.low)
    }

    /// Returns the value of a row as an integer.
    pub(crate) fn integer(&self, row: u64, quantiles: &[u32]) -> i64 {
        (self.raw(row, quantiles) as i64)
            .wrapping_mul(self.factor)
            .wrapping_add(self.base)
    }

    /// Returns the value of a row as a double.
    pub(crate) fn float(&self, row: u64, quantiles: &[u32]) -> f64 {
        f64::from_bits(self.raw(row, quantiles))
    }

    pub(crate) fn facts(&self) -> SlotFacts {
        let whole = Interval::signed(64);
        let (range, bound) = match self.values {
            Values::Hundredths { low, count } => (Interval::ALL, (low + count) as f64 / 100.0),
            Values::Unit => (Interval::ALL, 1.0),
            Values::Full => (whole, 0.0),
            _ if self.sparse => (whole, 0.0),
            Values::Uniform { count } | Values::Zipf { count } | Values::Half { count } => {
                let low = i128::from(self.base) + i128::from(self.low) * i128::from(self.factor);
                let high = low + i128::from(count - 1) * i128::from(self.factor);
                (Interval::new(low, high), 0.0)
            }
        };
        SlotFacts {
            range,
            float_bound: bound,
            nullable: false,
            widths: vec![self.width],
            scaled: self.factor != 1,
            lookup: None,
        }
    }
}
