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
    /// Integers of 84 bits, uniform.
    Wide,
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
    /// One of so many rows is NULL; none at 0.
    pub(crate) null_every: u64,
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

fn hash(row: u64, seed: u64) -> u64 {
    mix(row.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(seed))
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
            Values::Wide => 6,
        };
        kind | if self.sparse { 16 } else { 0 }
    }

    pub(crate) fn count(&self) -> u64 {
        match self.values {
            Values::Uniform { count }
            | Values::Hundredths { count, .. }
            | Values::Zipf { count }
            | Values::Half { count } => count,
            Values::Full | Values::Unit | Values::Wide => 1,
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
        let h = hash(row, self.seed);
        let raw = match self.values {
            Values::Uniform { count } => h % count,
            Values::Hundredths { low, count } => {
                return ((low + h % count) as f64 / 100.0).to_bits();
            }
            Values::Full | Values::Wide => h,
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
        self.value_of(self.raw(row, quantiles))
    }

    /// Returns the value of a raw word, as it is stored.
    pub(crate) fn value_of(&self, raw: u64) -> i64 {
        (raw as i64)
            .wrapping_mul(self.factor)
            .wrapping_add(self.base)
    }

    /// Returns whether a row is NULL.
    pub(crate) fn is_null(&self, row: u64) -> bool {
        self.null_every > 0 && hash(row, !self.seed).is_multiple_of(self.null_every)
    }

    /// Returns what a row adds to a sum, exactly: the value, of a double its hundredths or its
    /// multiple of 2^-53.
    pub(crate) fn exact(&self, row: u64) -> i128 {
        match self.values {
            Values::Wide => i128::from(self.raw(row, &[])) << 20,
            Values::Hundredths { .. } => (self.float(row, &[]) * 100.0).round() as i128,
            Values::Unit => (self.float(row, &[]) * 9_007_199_254_740_992.0) as i128,
            _ => i128::from(self.integer(row, &[])),
        }
    }

    /// Returns what [`Column::exact`] counts in.
    pub(crate) fn unit(&self) -> f64 {
        match self.values {
            Values::Hundredths { .. } => 1e-2,
            Values::Unit => 1.110_223_024_625_156_5e-16,
            _ => 1.0,
        }
    }

    pub(crate) fn is_float(&self) -> bool {
        matches!(self.values, Values::Hundredths { .. } | Values::Unit)
    }

    /// Returns the law of the values and how they are stored.
    pub(crate) fn description(&self) -> String {
        let law = match self.values {
            Values::Uniform { .. } => "uniform",
            Values::Zipf { .. } => "zipf 1.1",
            Values::Half { .. } => "half on one",
            Values::Hundredths { low, count } => {
                let high = (low + count - 1) as f64 / 100.0;
                return format!("doubles {} to {high}", low as f64 / 100.0) + &self.stored();
            }
            Values::Unit => return "doubles 0 to 1".to_owned() + &self.stored(),
            Values::Full => return "all of 64 bits".to_owned() + &self.stored(),
            Values::Wide => return "84 bits".to_owned() + &self.stored(),
        };
        let spread = if self.sparse {
            format!("{} of 64 bits", self.count())
        } else {
            let low = self.base + self.low as i64 * self.factor;
            format!("{low} to {}", low + (self.count() as i64 - 1) * self.factor)
        };
        format!("{law} {spread}") + &self.stored()
    }

    fn stored(&self) -> String {
        let nulls = match self.null_every {
            0 => String::new(),
            every => format!(", {} % NULL", 100 / every),
        };
        format!(" in {} B{nulls}", self.width)
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
            Values::Wide => (Interval::new(0, (1 << 84) - 1), 0.0),
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
            float_least: 0.0,
            nullable: self.null_every > 0,
            widths: vec![self.width],
            scaled: self.factor != 1,
            step: match self.values {
                Values::Uniform { .. } if !self.sparse => self.factor as u64,
                _ => 1,
            },
            lookup: None,
        }
    }
}
