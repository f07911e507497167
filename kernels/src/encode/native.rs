//! The values of arrays as they lie in memory, one array after another.

use std::ops::Range;

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};

/// Values that are written together: what a step leaves for the next stays in a near cache.
pub(super) const BLOCK: usize = 2048;

/// An integer as it lies in an array.
pub(super) trait Native: ArrowNativeType + Ord {
    const LEAST: Self;
    const GREATEST: Self;
    /// Whether values may be beyond the signed words, but never below 0.
    const IS_UNSIGNED_WORD: bool;

    fn widened(self) -> i128;

    /// Returns the value modulo 2^64.
    fn word(self) -> u64;

    /// Returns 0 exactly if the value is its [`word`](Self::word), with its sign where it has one.
    fn beyond(self) -> u64;
}

macro_rules! native {
    ($($native:ty),*) => {$(
        impl Native for $native {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;
            const IS_UNSIGNED_WORD: bool = size_of::<Self>() == 8 && Self::MIN == 0;

            #[inline(always)]
            fn widened(self) -> i128 {
                self as i128
            }

            #[inline(always)]
            fn word(self) -> u64 {
                self as u64
            }

            #[inline(always)]
            fn beyond(self) -> u64 {
                if size_of::<Self>() <= 8 {
                    return 0;
                }
                let high = (self as i128 >> 64) as u64;
                high ^ (self as i64 >> 63) as u64
            }
        }
    )*};
}

native!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

/// The values of a chunk's arrays.
pub(super) struct Values<T: ArrowNativeType> {
    parts: Vec<ScalarBuffer<T>>,
    num_rows: usize,
}

impl<T: ArrowNativeType> Values<T> {
    /// Takes the values of arrays of a fixed width.
    pub(super) fn of(arrays: &[ArrayRef]) -> Self {
        let values = |array: &ArrayRef| {
            let data = array.to_data();
            ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
        };
        Self::from_parts(arrays.iter().map(values).collect())
    }

    pub(super) fn from_parts(parts: Vec<ScalarBuffer<T>>) -> Self {
        let num_rows = parts.iter().map(|part| part.len()).sum();
        Self { parts, num_rows }
    }

    pub(super) fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns the values of the rows in blocks, each with the row at which it begins.
    pub(super) fn blocks(&self, rows: Range<usize>) -> impl Iterator<Item = (usize, &[T])> {
        let mut first = 0;
        let parts = self.parts.iter().filter_map(move |part| {
            let start = first;
            first += part.len();
            let from = rows.start.max(start);
            let to = rows.end.min(first);
            (from < to).then(|| (from, &part[from - start..to - start]))
        });
        parts.flat_map(|(from, part)| {
            let blocks = part.chunks(BLOCK).enumerate();
            blocks.map(move |(index, block)| (from + index * BLOCK, block))
        })
    }

    /// Returns values of some rows, in blocks: of all if they are few, and else of stretches spread
    /// over the chunk, of which one is its begin and one its end.
    pub(super) fn sample(&self) -> impl Iterator<Item = (usize, &[T])> {
        let num_rows = self.num_rows;
        let (count, len) = if self.is_small() {
            (1, num_rows)
        } else {
            (SAMPLES, SAMPLE_ROWS)
        };
        let start = move |index: usize| match count {
            1 => 0,
            _ => (num_rows - len) / (count - 1) * index,
        };
        (0..count).flat_map(move |index| {
            let start = if index + 1 == count {
                num_rows - len
            } else {
                start(index)
            };
            self.blocks(start..start + len)
        })
    }

    /// Returns whether a sample is of all rows.
    pub(super) fn is_small(&self) -> bool {
        self.num_rows <= SAMPLES * SAMPLE_ROWS
    }
}

const SAMPLES: usize = 32;
const SAMPLE_ROWS: usize = 32;
