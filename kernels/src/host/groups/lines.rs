//! Takes columns of a block's rows into the words of their groups, up to four columns in one pass.
//!
//! The words of a group lie side by side in a *line*, so that a pass meets each line once a row, which is
//! what counts as soon as the lines do not fit the first level of cache.

use super::super::simd::widest_of;

/// The most columns of a pass.
pub(super) const COLUMNS_MAX: usize = 4;

/// Where a pass adds.
pub(super) struct Lines<'a> {
    /// The words of all lines, so many a line.
    pub(super) words: &'a mut [u64],
    pub(super) width: usize,
    /// The word of a line at which the pass's columns begin.
    pub(super) at: usize,
    /// The line of each row.
    pub(super) rows: &'a [u32],
}

impl Lines<'_> {
    /// Adds integers modulo 2^64 to the first words and doubles to those behind them.
    pub(super) fn sum(self, integers: &[&[i64]], floats: &[&[f64]]) {
        macro_rules! pass {
            ($integers:literal, $floats:literal) => {
                self.sum_columns::<$integers, $floats>(
                    std::array::from_fn(|column| integers[column]),
                    std::array::from_fn(|column| floats[column]),
                )
            };
        }
        match (integers.len(), floats.len()) {
            (0, 1) => pass!(0, 1),
            (0, 2) => pass!(0, 2),
            (0, 3) => pass!(0, 3),
            (0, 4) => pass!(0, 4),
            (1, 0) => pass!(1, 0),
            (1, 1) => pass!(1, 1),
            (1, 2) => pass!(1, 2),
            (1, 3) => pass!(1, 3),
            (2, 0) => pass!(2, 0),
            (2, 1) => pass!(2, 1),
            (2, 2) => pass!(2, 2),
            (3, 0) => pass!(3, 0),
            (3, 1) => pass!(3, 1),
            (4, 0) => pass!(4, 0),
            (integers, floats) => {
                debug_assert_eq!(integers + floats, 0, "a pass has at most four columns");
            }
        }
    }

    fn sum_columns<const I: usize, const F: usize>(
        self,
        integers: [&[i64]; I],
        floats: [&[f64]; F],
    ) {
        widest_of(sum_columns, (self, integers, floats));
    }

    /// Keeps the greatest integers, or the least where `greatest` is FALSE.
    pub(super) fn extremes(self, values: &[&[i64]], greatest: &[bool]) {
        // The order of complements is the reverse.
        let flip = |column: usize| if greatest[column] { 0 } else { -1 };
        macro_rules! pass {
            ($columns:literal) => {
                self.extremes_of::<$columns>(std::array::from_fn(|column| {
                    (values[column], flip(column))
                }))
            };
        }
        match values.len() {
            1 => pass!(1),
            2 => pass!(2),
            3 => pass!(3),
            4 => pass!(4),
            columns => debug_assert_eq!(columns, 0, "a pass has at most four columns"),
        }
    }

    fn extremes_of<const N: usize>(self, columns: [(&[i64], i64); N]) {
        widest_of(extremes_of, (self, columns));
    }
}

#[inline(always)]
fn sum_columns<const I: usize, const F: usize>(
    (lines, integers, floats): (Lines<'_>, [&[i64]; I], [&[f64]; F]),
) {
    let Lines {
        words,
        width,
        at,
        rows,
    } = lines;
    let integers = integers.map(|values| &values[..rows.len()]);
    let floats = floats.map(|values| &values[..rows.len()]);
    for (row, line) in rows.iter().enumerate() {
        let from = *line as usize * width + at;
        let words = &mut words[from..from + I + F];
        for column in 0..I {
            words[column] = words[column].wrapping_add(integers[column][row] as u64);
        }
        for column in 0..F {
            let sum = f64::from_bits(words[I + column]) + floats[column][row];
            words[I + column] = sum.to_bits();
        }
    }
}

#[inline(always)]
fn extremes_of<const N: usize>((lines, columns): (Lines<'_>, [(&[i64], i64); N])) {
    let Lines {
        words,
        width,
        at,
        rows,
    } = lines;
    let columns = columns.map(|(values, flip)| (&values[..rows.len()], flip));
    for (row, line) in rows.iter().enumerate() {
        let from = *line as usize * width + at;
        let words = &mut words[from..from + N];
        for (word, (values, flip)) in words.iter_mut().zip(columns) {
            let kept = (*word as i64 ^ flip).max(values[row] ^ flip) ^ flip;
            *word = kept as u64;
        }
    }
}
