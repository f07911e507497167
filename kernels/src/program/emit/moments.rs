//! Variances as words: the digits of exact sums of values and of their squares.

use super::aggregate::{Sums, Word, WordOp, Words};
use super::{Emitter, Val};
use crate::program::Interval;

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

/// Digits of values with a known bound, and of others or such that lie far apart.
const LEVELS: usize = 3;
const LEVELS_UNBOUNDED: usize = MomentScale::LEVELS_MAX;

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

impl Emitter<'_> {
    /// Adds the words of both sums, unless they are there.
    pub(crate) fn moments(&mut self, value: &Val, condition: &str, words: &mut Words) -> Sums {
        let same =
            |(code, under, _): &&(String, String, Sums)| *code == value.code && under == condition;
        if let Some((_, _, sums)) = self.moment_sums.iter().find(same) {
            return sums.clone();
        }
        let bound = self.scale_bound(value);
        let levels = if bound.is_finite() && !self.wide_floats {
            LEVELS
        } else {
            LEVELS_UNBOUNDED
        };
        let literal = self.literals.len();
        self.literals.push(0);
        self.lines.extend([
            format!("u64 sums{literal}[{levels}], squares{literal}[{}];", 2 * levels),
            format!(
                "moments_outside |= !power_digits<{levels}>({}, (i32)p.literals[{literal}], sums{literal}, squares{literal}) && {condition};",
                value.code
            ),
        ]);
        let mut add = |name: &str, level: usize, range: Interval| {
            words.add(Word {
                op: WordOp::Add,
                code: format!("{name}{literal}[{level}]"),
                condition: condition.to_owned(),
                range,
                split: false,
                index: 0,
                part: None,
            })
        };
        let digit = (1 << 32) - 1;
        let signed = Interval::new(-digit, digit);
        let unsigned = Interval::new(0, digit);
        let sums = Sums::Moments {
            sums: (0..levels).map(|at| add("sums", at, signed)).collect(),
            squares: (0..2 * levels)
                .map(|at| add("squares", at, unsigned))
                .collect(),
            scale: MomentScale {
                literal,
                levels,
                bound,
            },
        };
        let known = (value.code.clone(), condition.to_owned(), sums.clone());
        self.moment_sums.push(known);
        sums
    }
}
