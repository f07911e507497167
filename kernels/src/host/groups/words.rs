//! Takes the values of one accumulator into the words of rows' lines, whatever the accumulator keeps.

use super::super::declined::Declined;
use super::super::simd::widest;
use super::super::vector::{Lane, Vector, mismatch, read};
use super::layout::{Kind, Place};

/// Calls a function with some words of each row's line, or of the one `first` line.
#[inline(always)]
pub(super) fn each_row(
    words: &mut [u64],
    (width, at, len): (usize, usize, usize),
    (lines, first): (Option<&[u32]>, usize),
    count: usize,
    mut each: impl FnMut(&mut [u64], usize),
) {
    match lines {
        None => {
            let at = first * width + at;
            let words = &mut words[at..at + len];
            for row in 0..count {
                each(words, row);
            }
        }
        Some(lines) => {
            for (row, line) in lines.iter().enumerate() {
                let from = *line as usize * width + at;
                each(&mut words[from..from + len], row);
            }
        }
    }
}

/// The words into which a block's values go.
pub(super) struct Target<'s> {
    pub(super) words: &'s mut [u64],
    pub(super) width: usize,
    pub(super) lines: Option<&'s [u32]>,
    /// The line of all rows if there are no lines.
    pub(super) first: usize,
    pub(super) rows: Option<&'s [u8]>,
    pub(super) count: usize,
}

impl Target<'_> {
    /// Returns a word of the line of all rows.
    fn only(&mut self, at: usize) -> &mut u64 {
        &mut self.words[self.first * self.width + at]
    }

    /// Counts rows.
    pub(super) fn count(&mut self, at: usize) {
        let count = match self.rows {
            None => self.count,
            Some(rows) => super::super::ops::count(rows),
        };
        match (self.lines, self.rows) {
            (None, _) => *self.only(at) += count as u64,
            (Some(_), None) => self.each(at, 1, |words, _| words[0] += 1),
            (Some(_), Some(rows)) => {
                self.each(at, 1, |words, row| words[0] += u64::from(rows[row]))
            }
        }
    }

    #[inline(always)]
    fn each(&mut self, at: usize, len: usize, each: impl FnMut(&mut [u64], usize)) {
        each_row(
            self.words,
            (self.width, at, len),
            (self.lines, self.first),
            self.count,
            each,
        );
    }

    /// Calls a function with the words and the value of each row that counts.
    #[inline(always)]
    fn each_value<T: Copy>(
        &mut self,
        at: usize,
        len: usize,
        values: &[T],
        mut each: impl FnMut(&mut [u64], T),
    ) {
        match self.rows {
            None => self.each(at, len, |words, row| each(words, values[row])),
            Some(rows) => self.each(at, len, |words, row| {
                if rows[row] != 0 {
                    each(words, values[row]);
                }
            }),
        }
    }

    pub(super) fn values(&mut self, place: Place, value: &Vector) -> Result<(), Declined> {
        let at = place.at;
        match (place.kind, value.lane()) {
            (Kind::Sum64 | Kind::Partial { .. }, Lane::I64) => {
                self.sum(at, read(value, self.count)?)
            }
            (Kind::Partial { .. }, Lane::I128) => {
                let values = read::<i128>(value, self.count)?;
                self.each_value(at, 1, values, |words, value| {
                    words[0] = words[0].wrapping_add(value as u64);
                });
            }
            (Kind::Sum128, Lane::I64) => {
                let values = read::<i64>(value, self.count)?;
                self.each_value(at, 2, values, |words, value| add_wide(words, value.into()));
            }
            (Kind::Sum128, Lane::I128) => {
                let values = read::<i128>(value, self.count)?;
                self.each_value(at, 2, values, add_wide);
            }
            (Kind::Float, Lane::F64) => self.sum_floats(at, read(value, self.count)?),
            (Kind::Combined(monoid), Lane::I64) => {
                let values = read::<i64>(value, self.count)?;
                self.each_value(at, 1, values, |words, value| {
                    words[0] = (monoid.combine)(words[0] as i64, value) as u64;
                });
            }
            (Kind::Extreme64 { greatest }, Lane::I64) => {
                let values = read::<i64>(value, self.count)?;
                self.each_value(at, 1, values, |words, value| {
                    words[0] = extreme(words[0] as i64, value, greatest) as u64;
                });
            }
            (Kind::Extreme128 { greatest }, Lane::I128) => {
                let values = read::<i128>(value, self.count)?;
                self.each_value(at, 2, values, |words, value| {
                    set_wide(words, extreme(wide(words), value, greatest));
                });
            }
            (Kind::ExtremeFloat { greatest }, Lane::F64) => {
                let values = read::<f64>(value, self.count)?;
                self.each_value(at, 1, values, |words, value| {
                    words[0] = extreme_float(words[0], value, greatest);
                });
            }
            (Kind::Moments, Lane::F64) => {
                let values = read::<f64>(value, self.count)?;
                self.each_value(at, 3, values, moments);
            }
            (_, lane) => return Err(mismatch(lane)),
        }
        Ok(())
    }

    fn sum(&mut self, at: usize, values: &[i64]) {
        let rows = self.rows;
        if self.lines.is_none() {
            let sum = widest(|| match rows {
                None => values
                    .iter()
                    .fold(0_i64, |sum, value| sum.wrapping_add(*value)),
                Some(rows) => values.iter().zip(rows).fold(0_i64, |sum, (value, row)| {
                    sum.wrapping_add(value & 0_i64.wrapping_sub(i64::from(*row)))
                }),
            });
            let word = self.only(at);
            *word = word.wrapping_add(sum as u64);
            return;
        }
        self.each_value(at, 1, values, |words, value| {
            words[0] = words[0].wrapping_add(value as u64);
        });
    }

    fn sum_floats(&mut self, at: usize, values: &[f64]) {
        if self.lines.is_none() {
            let sum = float_sum(values, self.rows);
            let word = self.only(at);
            *word = (f64::from_bits(*word) + sum).to_bits();
            return;
        }
        self.each_value(at, 1, values, |words, value| {
            words[0] = (f64::from_bits(words[0]) + value).to_bits();
        });
    }
}

/// Adds floats up in eight lanes.
fn float_sum(values: &[f64], rows: Option<&[u8]>) -> f64 {
    const LANES: usize = 8;
    widest(|| {
        let mut sums = [0.0_f64; LANES];
        match rows {
            None => {
                for chunk in values.chunks(LANES) {
                    sums.iter_mut()
                        .zip(chunk)
                        .for_each(|(sum, value)| *sum += value);
                }
            }
            Some(rows) => {
                for (chunk, rows) in values.chunks(LANES).zip(rows.chunks(LANES)) {
                    let chunk = chunk.iter().zip(rows);
                    for (sum, (value, row)) in sums.iter_mut().zip(chunk) {
                        *sum += if *row != 0 { *value } else { 0.0 };
                    }
                }
            }
        }
        sums.iter().sum()
    })
}

#[inline(always)]
fn extreme<T: Ord>(held: T, value: T, greatest: bool) -> T {
    if greatest {
        held.max(value)
    } else {
        held.min(value)
    }
}

#[inline(always)]
fn extreme_float(word: u64, value: f64, greatest: bool) -> u64 {
    let held = f64::from_bits(word);
    let (low, high) = if greatest {
        (held, value)
    } else {
        (value, held)
    };
    // NaN is the greatest.
    let is_beyond = (low < high) | (!low.is_nan() & high.is_nan());
    if is_beyond { value } else { held }.to_bits()
}

/// Takes what one accumulator has in records, from a word on, into the words of their groups.
pub(super) fn merge_all<'r>(
    kind: Kind,
    words: &mut [u64],
    at: impl Fn(u32) -> usize,
    rows: impl Iterator<Item = (&'r u32, &'r [u64])>,
    from: usize,
) -> Result<(), Declined> {
    macro_rules! each {
        ($len:literal, $words:ident, $record:ident => $merge:expr) => {
            for (group, record) in rows {
                let (at, $record) = (at(*group), &record[from..from + $len]);
                let $words = &mut words[at..at + $len];
                $merge;
            }
        };
    }
    match kind {
        Kind::Count | Kind::Sum64 => {
            each!(1, words, record => words[0] = words[0].wrapping_add(record[0]));
        }
        Kind::Float => each!(1, words, record => {
            let sum = f64::from_bits(words[0]) + f64::from_bits(record[0]);
            words[0] = sum.to_bits();
        }),
        Kind::Sum128 => each!(2, words, record => add_wide(words, wide(record))),
        Kind::Extreme64 { greatest } => each!(1, words, record => {
            words[0] = extreme(words[0] as i64, record[0] as i64, greatest) as u64;
        }),
        Kind::Extreme128 { greatest } => each!(2, words, record => {
            set_wide(words, extreme(wide(words), wide(record), greatest));
        }),
        Kind::ExtremeFloat { greatest } => each!(1, words, record => {
            words[0] = extreme_float(words[0], f64::from_bits(record[0]), greatest);
        }),
        Kind::Combined(monoid) => each!(1, words, record => {
            words[0] = (monoid.combine)(words[0] as i64, record[0] as i64) as u64;
        }),
        Kind::Moments => each!(3, words, record => merge_moments(words, record)),
        // Partial sums go to their totals, and strings are in no record.
        Kind::Partial { .. } | Kind::ExtremeText { .. } => return Err(mismatch(Lane::Text)),
    }
    Ok(())
}

/// By the method of Chan, Golub and LeVeque.
fn merge_moments(words: &mut [u64], record: &[u64]) {
    let (count, other) = (words[0], record[0]);
    if other == 0 {
        return;
    }
    if count == 0 {
        words.copy_from_slice(record);
        return;
    }
    let (mean, squares) = (f64::from_bits(words[1]), f64::from_bits(words[2]));
    let (other_mean, other_squares) = (f64::from_bits(record[1]), f64::from_bits(record[2]));
    let both = (count + other) as f64;
    let between = other_mean - mean;
    let share = other as f64 / both;
    words[0] = count + other;
    words[1] = (mean + between * share).to_bits();
    let squares = squares + other_squares + between * between * share * count as f64;
    words[2] = squares.to_bits();
}

pub(super) fn wide(words: &[u64]) -> i128 {
    i128::from(words[1] as i64) << 64 | i128::from(words[0])
}

fn set_wide(words: &mut [u64], value: i128) {
    words[0] = value as u64;
    words[1] = (value >> 64) as u64;
}

fn add_wide(words: &mut [u64], value: i128) {
    set_wide(words, wide(words).wrapping_add(value));
}

/// By Welford's method.
fn moments(words: &mut [u64], value: f64) {
    words[0] += 1;
    let (mean, squares) = (f64::from_bits(words[1]), f64::from_bits(words[2]));
    let before = value - mean;
    let mean = mean + before / words[0] as f64;
    words[1] = mean.to_bits();
    words[2] = (squares + before * (value - mean)).to_bits();
}
