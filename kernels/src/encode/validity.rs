//! Which rows of a chunk have a value, and the walk over a chunk's values that leaves the others out.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBufferBuilder;

/// Rows of a word.
pub(super) const WORD_ROWS: usize = 32;

/// Arrow's validity of all arrays of a chunk, one after another.
pub(super) struct Validity {
    num_rows: usize,
    /// A bit for each row, if some value is NULL.
    words: Option<Vec<u32>>,
}

/// Rows that follow each other in one array of a chunk.
pub(super) enum Stretch {
    /// Each has a value.
    Valid(Range<usize>),
    /// Some are NULL: bit `n` of the word tells of the `n`-th.
    Mixed(Range<usize>, u32),
}

impl Validity {
    pub(super) fn of(arrays: &[ArrayRef]) -> Self {
        let num_rows = arrays.iter().map(|array| array.len()).sum();
        if arrays.iter().all(|array| array.logical_null_count() == 0) {
            let words = None;
            return Self { num_rows, words };
        }
        let mut bits = BooleanBufferBuilder::new(num_rows);
        for array in arrays {
            match array.logical_nulls() {
                Some(nulls) => bits.append_buffer(nulls.inner()),
                None => bits.append_n(array.len(), true),
            }
        }
        let mut words = vec![0_u32; num_rows.div_ceil(WORD_ROWS)];
        let bits = bits.finish();
        for (word, bytes) in words.iter_mut().zip(bits.values().chunks(4)) {
            let mut four = [0; 4];
            four[..bytes.len()].copy_from_slice(bytes);
            *word = u32::from_le_bytes(four);
        }
        let rest = num_rows % WORD_ROWS;
        if rest > 0
            && let Some(last) = words.last_mut()
        {
            *last &= (1 << rest) - 1;
        }
        let words = Some(words);
        Self { num_rows, words }
    }

    pub(super) fn num_rows(&self) -> usize {
        self.num_rows
    }

    pub(super) fn has_nulls(&self) -> bool {
        self.words.is_some()
    }

    pub(super) fn words(&self) -> Option<&[u32]> {
        self.words.as_deref()
    }

    /// Returns the first row that has a value.
    pub(super) fn first_valid(&self) -> Option<usize> {
        let Some(words) = &self.words else {
            return (self.num_rows > 0).then_some(0);
        };
        let word = words.iter().position(|word| *word != 0)?;
        Some(word * WORD_ROWS + words[word].trailing_zeros() as usize)
    }

    /// Returns a word of the rows from this one on: a bit for each, which is 1 if it has a value.
    #[inline]
    pub(super) fn bits(&self, row: usize) -> u32 {
        let Some(words) = &self.words else {
            return u32::MAX;
        };
        let word = |index: usize| words.get(index).copied().map_or(0, u64::from);
        let (index, bit) = (row / WORD_ROWS, row % WORD_ROWS);
        ((word(index) | (word(index + 1) << WORD_ROWS)) >> bit) as u32
    }

    /// Returns whether some of the chunk's rows has no value.
    pub(super) fn has_null(&self, rows: Range<usize>) -> bool {
        self.stretches(rows.start, rows.len())
            .any(|stretch| matches!(stretch, Stretch::Mixed(_, _)))
    }

    /// Returns the rows of an array, numbered in the array, that begins at the chunk's row `first`.
    #[inline]
    pub(super) fn stretches(&self, first: usize, len: usize) -> impl Iterator<Item = Stretch> {
        let mut row = 0;
        std::iter::from_fn(move || {
            if row == len {
                return None;
            }
            let from = row;
            let Some(words) = &self.words else {
                row = len;
                return Some(Stretch::Valid(from..len));
            };
            let (word, bit) = ((first + row) / WORD_ROWS, (first + row) % WORD_ROWS);
            row = len.min(row + WORD_ROWS - bit);
            let mask = u32::MAX >> (WORD_ROWS - (row - from));
            let bits = (words[word] >> bit) & mask;
            Some(if bits == mask {
                Stretch::Valid(from..row)
            } else {
                Stretch::Mixed(from..row, bits)
            })
        })
    }
}

/// Returns whether a row has a value.
pub(super) fn is_valid(words: Option<&[u32]>, row: usize) -> bool {
    words.is_none_or(|words| (words[row / WORD_ROWS] >> (row % WORD_ROWS)) & 1 == 1)
}
