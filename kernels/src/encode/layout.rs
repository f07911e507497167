//! How a chunk's values are written, chosen from some of them or from all.
//!
//! A choice from a few values may turn out not to hold all; whoever writes them notices, and chooses
//! again from all. So a chunk whose few values told enough is read once.

use crate::program::Interval;

/// How a chunk's values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// As `base + factor * raw`, the raw values of so many bytes.
    Narrowed {
        /// What is added.
        base: i64,
        /// What raw values are multiplied by, at least 1.
        factor: u64,
        /// Bytes of a raw value; 0 if all are 0.
        width: u32,
    },
    /// Floats of so many bytes, as they are.
    Plain(u32),
    /// Integers beyond 64 bits, at 16 bytes.
    Wide(Interval),
}

impl Layout {
    /// A chunk without values.
    pub(super) const EMPTY: Self = Self::Narrowed {
        base: 0,
        factor: 1,
        width: 0,
    };

    /// Unsigned words of 64 bits, whatever they are.
    pub(super) const WORDS: Self = Self::Narrowed {
        base: 0,
        factor: 1,
        width: 8,
    };

    /// Returns the bytes that a value takes.
    pub(super) fn width(self) -> u32 {
        match self {
            Self::Narrowed { width, .. } | Self::Plain(width) => width,
            Self::Wide(_) => 16,
        }
    }

    /// Chooses for values of exactly this range, which are multiples of `factor` from the least on.
    pub(super) fn of_range(range: Interval, factor: u64) -> Self {
        match Ends::of(range) {
            Ends::Signed(base, high) => {
                let factor = factor.max(1);
                let width = width_of(base.abs_diff(high) / factor);
                Self::Narrowed {
                    base,
                    factor,
                    width,
                }
            }
            Ends::Unsigned => Self::WORDS,
            Ends::Wide => Self::Wide(range),
        }
    }

    /// Chooses for values of which some have this range and factor. The width suits those; the base
    /// leaves room for others, on both sides unless that at 0 is enough. `None` if nothing can be
    /// said without all values.
    pub(super) fn of_sample(range: Interval, factor: u64, is_unsigned: bool) -> Option<Self> {
        let Ends::Signed(low, high) = Ends::of(range) else {
            return None;
        };
        let factor = factor.max(1);
        let distance = low.abs_diff(high) / factor;
        let width = width_of(distance);
        if width == 0 {
            let base = low;
            return Some(Self::Narrowed {
                base,
                factor: 1,
                width,
            });
        }
        if is_unsigned && width == 8 {
            return (factor == 1).then_some(Self::WORDS);
        }
        let greatest = greatest_of(width);
        let residue = low.unsigned_abs() % factor;
        let from_zero = (high.unsigned_abs() - residue.min(high.unsigned_abs())) / factor;
        if low >= 0 && from_zero <= greatest {
            // Below the factor, which is at most the distance of two signed values that are not
            // negative.
            let base = residue as i64;
            return Some(Self::Narrowed {
                base,
                factor,
                width,
            });
        }
        if width == 8 && factor == 1 {
            // There is room for every value.
            let base = i64::MIN;
            return Some(Self::Narrowed {
                base,
                factor,
                width,
            });
        }
        let least = if is_unsigned { 0 } else { i64::MIN };
        let below = (greatest - distance) / 2;
        let room = least.abs_diff(low) / factor;
        // Not below the least, so inside of the signed words.
        let base = (low as u64).wrapping_sub(below.min(room).wrapping_mul(factor)) as i64;
        Some(Self::Narrowed {
            base,
            factor,
            width,
        })
    }
}

/// In what words a range lies.
enum Ends {
    Signed(i64, i64),
    /// Beyond the signed words, but not beyond those without a sign.
    Unsigned,
    Wide,
}

impl Ends {
    fn of(range: Interval) -> Self {
        match (i64::try_from(range.low), i64::try_from(range.high)) {
            (Ok(low), Ok(high)) => Self::Signed(low, high),
            _ if range.low >= 0 && u64::try_from(range.high).is_ok() => Self::Unsigned,
            _ => Self::Wide,
        }
    }
}

/// Returns the least width for raw values up to this one.
fn width_of(greatest: u64) -> u32 {
    match greatest {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// Returns the greatest raw value of a width.
fn greatest_of(width: u32) -> u64 {
    match width {
        0 => 0,
        width => u64::MAX >> (64 - 8 * width.min(8)),
    }
}

#[cfg(test)]
mod tests;
