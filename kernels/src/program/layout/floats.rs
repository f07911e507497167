//! The digits of float sums, and of sums of values and of their squares.

use tidegate_pipeline::program::ValueId;
use tidegate_pipeline::{FloatRange, Interval};

use super::{Part, Planner, Rows, Sums, Term, Word, WordOp};
use crate::groups::floats::{DIGITS_SEEN, scale_exponent, unit_exponent};

/// How float sums are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FloatForm {
    /// As sums of doubles that are multiples of a unit, not as integers.
    pub(crate) as_parts: bool,
    /// In more digits.
    pub(crate) is_wide: bool,
    /// In the same digits whatever is known of the values.
    pub(crate) is_fixed: bool,
}

/// A fixed point's parameters among the literals, and the bound of the values that go into it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatScaleAt {
    /// The first of `2 + levels` words.
    pub literal: usize,
    /// How many digits there are.
    pub levels: usize,
    /// Bits of a digit.
    pub digit_bits: u32,
    /// No value is farther from zero; infinite if that is not known.
    pub bound: f64,
}

/// The fixed point whose digits are summed for a variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MomentScale {
    /// The literal that tells a double's exponent from the unit's.
    pub literal: usize,
    /// How many digits of 32 bits a value has.
    pub levels: usize,
    /// No value is farther from zero; infinite if that is not known.
    pub bound: f64,
}

/// A sum of floats that is laid out.
#[derive(Clone, Copy, Debug)]
pub(super) struct FloatSum {
    pub(super) value: ValueId,
    pub(super) rows: Rows,
    pub(super) scale: FloatScaleAt,
    pub(super) as_parts: bool,
    /// Each value has to be asked whether the digits hold enough of it.
    pub(super) is_checked: bool,
}

/// Sums of values and squares that are laid out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct MomentSum {
    pub(super) value: ValueId,
    pub(super) rows: Rows,
    pub(super) scale: MomentScale,
}

/// Digits of a float sum whose values have a known bound, and of one whose values have not, or lie
/// far apart.
const LEVELS: usize = 3;
const LEVELS_UNBOUNDED: usize = 5;
const LEVELS_FIXED: usize = 6;
const DIGIT_BITS: u32 = 32;

/// The same where the digits are kept as doubles for a while.
const PARTS: usize = 2;
const PARTS_UNBOUNDED: usize = 4;
const PART_BITS: u32 = 41;

/// The same of values for a variance.
const MOMENT_LEVELS: usize = 3;

/// The least and the greatest exponent of the power of two that values stay below: the sums' squares
/// stay within doubles.
const EXPONENT_MIN: i32 = -192;
const EXPONENT_MAX: i32 = 448;

/// The biased exponent of a double whose last bit is 1.
const BIASED_ONE: i32 = 1075;

impl MomentScale {
    /// The most digits of a value.
    pub const LEVELS_MAX: usize = 5;

    /// Returns the exponent of two whose power is a unit, for values below two to the power of
    /// `exponent` as far as possible.
    pub fn unit_exponent(&self, exponent: i32) -> i32 {
        exponent.clamp(EXPONENT_MIN, EXPONENT_MAX) - 32 * self.levels as i32
    }

    /// Returns the literal for a unit.
    pub fn literal_of(unit_exponent: i32) -> u64 {
        (BIASED_ONE + unit_exponent) as u64
    }

    /// Returns the exponent of the unit of a launch's literals.
    pub fn unit_of(&self, literals: &[u64]) -> i32 {
        literals[self.literal] as i32 - BIASED_ONE
    }

    /// Returns the C++ for the same.
    pub(crate) fn unit_code(&self) -> String {
        format!("(i32)p.literals[{}] - {BIASED_ONE}", self.literal)
    }
}

impl FloatForm {
    /// Returns how many digits a sum has, and their bits.
    fn digits(self, range: FloatRange) -> (usize, u32) {
        let is_bounded = range.bound.is_finite() && !self.is_wide;
        match (self.as_parts, is_bounded) {
            _ if self.is_fixed => (LEVELS_FIXED, DIGIT_BITS),
            (false, true) => (LEVELS, DIGIT_BITS),
            (false, false) => (LEVELS_UNBOUNDED, DIGIT_BITS),
            (true, true) => (PARTS, PART_BITS),
            (true, false) => (PARTS_UNBOUNDED, PART_BITS),
        }
    }

    /// Returns the bound that a value's fixed point is made for.
    fn scale_bound(self, range: FloatRange) -> f64 {
        match self.is_fixed {
            true => f64::INFINITY,
            false => range.bound,
        }
    }
}

impl Planner<'_> {
    pub(super) fn float_sum(&mut self, value: ValueId, rows: Rows) -> Sums {
        let range = self.program.data(value).floats();
        let form = self.keeping.floats;
        let is_same = |sum: &&FloatSum| sum.value == value && sum.rows == rows;
        let known = self.layout.floats.iter().find(is_same).copied();
        let sum = known.unwrap_or_else(|| {
            let (levels, digit_bits) = form.digits(range);
            let bound = form.scale_bound(range);
            let exponent = scale_exponent(bound);
            let unit = |level: usize| unit_exponent(exponent, digit_bits, level);
            // One part may hold every digit that a value has.
            let is_one = levels == PARTS && is_multiple_of(range, unit(0));
            let levels = if is_one { 1 } else { levels };
            // The digits hold enough of each value, as is known without asking it.
            let is_near = levels == 1 || range.least >= 2_f64.powi(unit(levels - 1) + DIGITS_SEEN);
            let literal = self.layout.num_literals;
            self.layout.num_literals += 2 + 2 * levels;
            let sum = FloatSum {
                value,
                rows,
                scale: FloatScaleAt {
                    literal,
                    levels,
                    digit_bits,
                    bound,
                },
                as_parts: form.as_parts && !form.is_fixed,
                is_checked: !is_near,
            };
            self.layout.floats.push(sum);
            sum
        });
        let digits = (0..sum.scale.levels).map(|level| {
            let index = self.layout.add(sum.word(level));
            (index, sum.as_parts.then_some(index + 1))
        });
        Sums::Float(digits.collect(), sum.scale)
    }

    /// Adds the words of both sums, unless they are there.
    pub(super) fn moments(&mut self, value: ValueId, rows: Rows) -> Sums {
        let sum = self.moment_sum(value, rows);
        let levels = sum.scale.levels;
        let sums = self.sum_words(sum);
        let squares = (0..2 * levels).map(|level| self.layout.add(sum.word(level, true)));
        Sums::Moments {
            sums,
            squares: squares.collect(),
            scale: sum.scale,
        }
    }

    /// Adds the words of the sums of pairs and of their products, unless they are there.
    pub(super) fn co_moment(&mut self, value: ValueId, other: ValueId, rows: Rows) -> Sums {
        let pair = [value, other].map(|value| self.moment_sum(value, rows));
        if !self.layout.products.contains(&pair) {
            self.layout.products.push(pair);
        }
        let [one, two] = pair;
        let product = |level: usize| Word {
            term: Term::Product {
                literals: [one.scale.literal, two.scale.literal],
                level,
            },
            ..one.word(level, false)
        };
        let sums = pair.map(|sum| self.sum_words(sum));
        let levels = one.scale.levels + two.scale.levels;
        let products = (0..levels).map(|level| self.layout.add(product(level)));
        Sums::CoMoment {
            sums,
            products: products.collect(),
            scales: [one.scale, two.scale],
        }
    }

    fn sum_words(&mut self, sum: MomentSum) -> Vec<usize> {
        let levels = 0..sum.scale.levels;
        levels
            .map(|level| self.layout.add(sum.word(level, false)))
            .collect()
    }

    /// Returns the digits of a value's sum and of its squares', laid out now unless they were.
    fn moment_sum(&mut self, value: ValueId, rows: Rows) -> MomentSum {
        let form = self.keeping.floats;
        let bound = form.scale_bound(self.program.data(value).floats());
        let is_same = |sum: &&MomentSum| sum.value == value && sum.rows == rows;
        let known = self.layout.moments.iter().find(is_same).copied();
        known.unwrap_or_else(|| {
            let is_bounded = bound.is_finite() && !form.is_wide;
            let scale = MomentScale {
                literal: self.layout.num_literals,
                levels: match is_bounded {
                    true => MOMENT_LEVELS,
                    false => MomentScale::LEVELS_MAX,
                },
                bound,
            };
            self.layout.num_literals += 1;
            let sum = MomentSum { value, rows, scale };
            self.layout.moments.push(sum);
            sum
        })
    }
}

impl FloatSum {
    fn word(&self, level: usize) -> Word {
        let FloatScaleAt {
            literal, levels, ..
        } = self.scale;
        let most = 1 << (self.scale.digit_bits - 1);
        let part = Part {
            literal,
            levels,
            level,
        };
        Word {
            op: if self.as_parts {
                WordOp::Part
            } else {
                WordOp::Add
            },
            term: match self.as_parts {
                true => Term::Part(part),
                false => Term::Digit { literal, level },
            },
            rows: self.rows,
            range: Interval::new(-most, most),
            split: self.as_parts,
            index: 0,
        }
    }
}

impl MomentSum {
    fn word(&self, level: usize, is_square: bool) -> Word {
        let digit = (1 << 32) - 1;
        Word {
            op: WordOp::Add,
            term: Term::Power {
                literal: self.scale.literal,
                level,
                is_square,
            },
            rows: self.rows,
            range: Interval::new(if is_square { 0 } else { -digit }, digit),
            split: false,
            index: 0,
        }
    }
}

/// Returns whether all values are multiples of a power of two: singles that are not nearer to zero than
/// where their last digit is one.
fn is_multiple_of(range: FloatRange, exponent: i32) -> bool {
    range.are_singles && range.least >= 2_f64.powi(exponent + 23)
}
