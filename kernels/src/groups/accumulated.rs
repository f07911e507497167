//! What an accumulator has kept of every group: decoded, merged, and as results that a finish reads.

use std::sync::Arc;

use arrow_array::StringViewArray;
use tidegate_pipeline::catalogue::Monoid;

use super::StateWords;
use super::floats::FloatSums;
use super::moments::PowerSums;
use super::products::ProductSums;
use crate::host::{ResultValues, Results};
use crate::program::{AccumulatorPlan, Image, Sums};
use crate::strings::Dictionary;

/// One accumulator in every group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accumulated {
    /// How many rows it has taken in; at least 1 where nobody asks for more.
    pub(super) counts: Vec<u64>,
    pub(super) sums: SumColumn,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum SumColumn {
    None,
    /// Modulo 2^`bits`, in integers of 128 bits.
    Integers {
        sums: Vec<i128>,
        bits: u32,
    },
    Floats(FloatSums),
    /// Images in unsigned order: the greatest wins.
    Extremes {
        images: Vec<u64>,
        complement: bool,
        image: Image,
    },
    Combined {
        values: Vec<i64>,
        monoid: &'static Monoid,
    },
    Moments(Vec<PowerSums>),
    CoMoments(Vec<ProductSums>),
    /// Codes of a slot's dictionary, the greatest strings so far; or the least.
    Codes {
        codes: Vec<u32>,
        dictionary: usize,
        least: bool,
    },
    /// The same as strings.
    Strings {
        strings: Vec<Arc<str>>,
        least: bool,
    },
}

impl Accumulated {
    /// Reads an accumulator out of the words of groups, under launches with these literals.
    pub(super) fn decode(plan: &AccumulatorPlan, literals: &[u64], words: &StateWords<'_>) -> Self {
        let counts = match plan.count {
            Some(count) => words.each(|words| words[count]),
            // A group that is there has a row, and every row a value.
            None => vec![1; words.slots.len()],
        };
        let sums = match &plan.sums {
            Sums::None => SumColumn::None,
            Sums::Integer { limbs, bits } => {
                let sum = |words: &[u64]| {
                    limbs.iter().fold(0_i128, |sum, (index, shift)| {
                        let limb = i128::from(words[*index] as i64);
                        sum.wrapping_add(limb.wrapping_shl(*shift))
                    })
                };
                SumColumn::Integers {
                    sums: words.each(sum),
                    bits: *bits,
                }
            }
            Sums::Float(digits, scale) => {
                let units = digit_units(&literals[scale.literal..], scale.levels);
                let mut sums = FloatSums::new(units, scale.digit_bits);
                for words in words.groups() {
                    sums.push(digits.iter().map(|(low, high)| match high {
                        None => i128::from(words[*low] as i64),
                        Some(high) => {
                            i128::from(words[*low]) + (i128::from(words[*high] as i64) << 32)
                        }
                    }));
                }
                SumColumn::Floats(sums)
            }
            Sums::Extreme {
                word,
                complement,
                image,
            } => SumColumn::Extremes {
                images: words.each(|words| words[*word]),
                complement: *complement,
                image: *image,
            },
            Sums::Combined { word, monoid } => SumColumn::Combined {
                values: words.each(|words| words[*word] as i64),
                monoid,
            },
            Sums::String {
                word,
                complement,
                dictionary,
            } => {
                let mask = if *complement { u64::MAX } else { 0 };
                SumColumn::Codes {
                    codes: words.each(|words| (words[*word] ^ mask) as u32),
                    dictionary: *dictionary,
                    least: *complement,
                }
            }
            Sums::Moments {
                sums,
                squares,
                scale,
            } => {
                let unit = scale.unit_of(literals);
                SumColumn::Moments(words.each(|words| {
                    let digit = |index: &usize| words[*index];
                    PowerSums::of(sums.iter().map(digit), squares.iter().map(digit), unit)
                }))
            }
            Sums::CoMoment {
                sums,
                products,
                scales,
            } => {
                let units = scales.map(|scale| scale.unit_of(literals));
                SumColumn::CoMoments(words.each(|words| {
                    let digit = |index: &usize| words[*index];
                    let sums = sums.each_ref().map(|at| at.iter().map(digit));
                    ProductSums::of(sums, products.iter().map(digit), units)
                }))
            }
        };
        Self { counts, sums }
    }

    /// Puts strings in the place of codes, given the dictionaries by slot.
    pub(super) fn name(&mut self, dictionaries: &[&Dictionary]) {
        let SumColumn::Codes {
            codes,
            dictionary,
            least,
        } = &self.sums
        else {
            return;
        };
        let dictionary = dictionaries[*dictionary];
        // A group without a value has no code.
        let string = |code: &u32| dictionary.get(*code as usize).into();
        self.sums = SumColumn::Strings {
            strings: codes.iter().map(string).collect(),
            least: *least,
        };
    }

    /// Appends a group of another table.
    pub(super) fn push(&mut self, from: &Self, row: usize) {
        self.counts.push(from.counts[row]);
        match (&mut self.sums, &from.sums) {
            (SumColumn::Integers { sums: to, .. }, SumColumn::Integers { sums, .. }) => {
                to.push(sums[row]);
            }
            (SumColumn::Floats(to), SumColumn::Floats(from)) => to.push_from(from, row),
            (SumColumn::Extremes { images: to, .. }, SumColumn::Extremes { images, .. }) => {
                to.push(images[row]);
            }
            (SumColumn::Combined { values: to, .. }, SumColumn::Combined { values, .. }) => {
                to.push(values[row]);
            }
            (SumColumn::Moments(to), SumColumn::Moments(from)) => to.push(from[row].clone()),
            (SumColumn::CoMoments(to), SumColumn::CoMoments(from)) => to.push(from[row].clone()),
            (SumColumn::Strings { strings: to, .. }, SumColumn::Strings { strings, .. }) => {
                to.push(Arc::clone(&strings[row]));
            }
            _ => {}
        }
    }

    /// Adds the same group of another table.
    pub(super) fn add(&mut self, at: usize, from: &Self, row: usize) {
        let (count, other_count) = (self.counts[at], from.counts[row]);
        self.counts[at] += other_count;
        match (&mut self.sums, &from.sums) {
            (SumColumn::Integers { sums: to, .. }, SumColumn::Integers { sums, .. }) => {
                to[at] = to[at].wrapping_add(sums[row]);
            }
            (SumColumn::Floats(to), SumColumn::Floats(from)) => to.add_from(at, from, row),
            (SumColumn::Extremes { images: to, .. }, SumColumn::Extremes { images, .. }) => {
                to[at] = to[at].max(images[row]);
            }
            (SumColumn::Strings { strings: to, least }, SumColumn::Strings { strings, .. }) => {
                let is_better = match least {
                    true => strings[row] < to[at],
                    false => strings[row] > to[at],
                };
                if other_count > 0 && (count == 0 || is_better) {
                    to[at] = Arc::clone(&strings[row]);
                }
            }
            (SumColumn::Combined { values: to, monoid }, SumColumn::Combined { values, .. }) => {
                to[at] = (monoid.combine)(to[at], values[row])
            }
            (SumColumn::Moments(to), SumColumn::Moments(from)) => {
                to[at].merge(count, &from[row], other_count);
            }
            (SumColumn::CoMoments(to), SumColumn::CoMoments(from)) => {
                to[at].merge(count, &from[row], other_count);
            }
            _ => {}
        }
    }

    /// Returns the results, as a finish reads them.
    pub(super) fn results(&self) -> Vec<Results> {
        let values = match &self.sums {
            SumColumn::None => {
                return vec![Results {
                    values: ResultValues::I64(
                        self.counts.iter().map(|count| *count as i64).collect(),
                    ),
                    validity: None,
                }];
            }
            SumColumn::Moments(sums) => {
                let moments = sums.iter().zip(&self.counts);
                let moments = moments.map(|(sums, count)| sums.moments(*count));
                let (means, squares) = moments.map(|of| (of.mean, of.m2)).unzip();
                return [means, squares]
                    .map(|values| Results {
                        values: ResultValues::F64(values),
                        validity: None,
                    })
                    .into();
            }
            SumColumn::CoMoments(sums) => {
                let sums = sums.iter().zip(&self.counts);
                return vec![Results {
                    values: ResultValues::F64(
                        sums.map(|(sum, count)| sum.co_moment(*count)).collect(),
                    ),
                    validity: None,
                }];
            }
            SumColumn::Integers { sums, bits: 64 } => {
                ResultValues::I64(sums.iter().map(|sum| *sum as i64).collect())
            }
            SumColumn::Integers { sums, .. } => ResultValues::I128(sums.clone()),
            SumColumn::Combined { values, .. } => ResultValues::I64(values.clone()),
            SumColumn::Floats(sums) => ResultValues::F64(sums.rounded()),
            SumColumn::Extremes {
                images,
                complement,
                image,
            } => {
                let mask = if *complement { u64::MAX } else { 0 };
                extremes(images.iter().map(|image| image ^ mask), *image)
            }
            // Codes are named before they are read.
            SumColumn::Codes { .. } => {
                ResultValues::Text(StringViewArray::new_null(self.counts.len()))
            }
            SumColumn::Strings { strings, .. } => {
                let there = strings.iter().zip(&self.counts);
                let there = there.map(|(string, count)| (*count > 0).then_some(string.as_ref()));
                ResultValues::Text(there.collect())
            }
        };
        let is_whole = self.counts.iter().all(|count| *count > 0);
        let validity = || {
            self.counts
                .iter()
                .map(|count| u8::from(*count > 0))
                .collect()
        };
        vec![Results {
            values,
            validity: (!is_whole).then(validity),
        }]
    }
}

/// Returns the values of images.
fn extremes(images: impl Iterator<Item = u64>, image: Image) -> ResultValues {
    let signed = |image: u64| (image ^ (1 << 63)) as i64;
    match image {
        Image::Bool => {
            ResultValues::Bool(images.map(|image| u8::from(signed(image) != 0)).collect())
        }
        Image::Signed => ResultValues::I64(images.map(signed).collect()),
        Image::Unsigned => ResultValues::I128(images.map(i128::from).collect()),
        Image::Single => ResultValues::F32(images.map(|image| single_of(signed(image))).collect()),
        Image::Double => ResultValues::F64(images.map(|image| double_of(signed(image))).collect()),
    }
}

/// Returns the value of one unit of each digit, from the literals of its scale.
fn digit_units(literals: &[u64], levels: usize) -> Vec<f64> {
    let magic = |word: &u64| f64::from_bits(*word) / (1.5 * 4_503_599_627_370_496.0);
    literals[2..2 + levels].iter().map(magic).collect()
}

fn double_of(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ ((ordered >> 63) as u64 >> 1) as i64) as u64)
}

fn single_of(ordered: i64) -> f32 {
    let ordered = ordered as i32;
    f32::from_bits((ordered ^ ((ordered >> 31) as u32 >> 1) as i32) as u32)
}
