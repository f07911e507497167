//! A chunk's values of one type, about to be written.

use std::ops::Range;

use super::Narrowing;
use super::fill::Filler;
use super::layout::Layout;
use super::native::{Native, Values};
use super::survey::{Divisor, common_factor, range_of};
use super::validity::Validity;
use super::write::{FloatBits, Reader, Scale, Seen, copy, narrow};
use crate::host::simd::Simd;
use crate::program::Interval;

/// The values of a chunk, of whatever type.
pub(super) trait Column: Send + Sync {
    /// Chooses from some of the values, if they tell enough.
    fn likely_layout(&self, validity: &Validity) -> Option<Layout>;

    /// Chooses from all values, which then fit.
    fn exact_layout(&self, validity: &Validity) -> Layout;

    /// Writes the values of some rows to `into`, which has room for exactly those. A NULL becomes
    /// one of the values, or 0 if there is none.
    fn write(
        &self,
        layout: Layout,
        validity: &Validity,
        rows: Range<usize>,
        into: (&mut [u8], Reader),
        seen: &mut Seen,
    );

    /// Returns whether all of the values that were seen fit.
    fn fits(&self, layout: Layout, seen: &Seen) -> bool;

    /// Returns a bound of the sizes that were seen: infinity if a float is not finite, 0 of integers.
    fn float_bound(&self, seen: &Seen) -> f64;
}

/// Integers, dates, times, decimals, booleans or codes.
pub(super) struct Integers<N: Native> {
    values: Values<N>,
    narrowing: Narrowing,
    /// What range is known already.
    known: Option<Interval>,
    /// One of the values, if some row has one.
    filler: Option<N>,
}

impl<N: Native> Integers<N> {
    pub(super) fn new(values: Values<N>, validity: &Validity, narrowing: Narrowing) -> Self {
        let filler = first_value(&values, validity);
        Self {
            values,
            narrowing,
            known: None,
            filler,
        }
    }

    /// Takes integers whose least and greatest are known.
    pub(super) fn within(values: Values<N>, validity: &Validity, range: Interval) -> Self {
        let known = Some(range);
        Self {
            known,
            ..Self::new(values, validity, Narrowing::Width)
        }
    }

    fn scale_of(layout: Layout) -> Option<(Scale, u32)> {
        let Layout::Narrowed {
            base,
            factor,
            width,
        } = layout
        else {
            return None;
        };
        let divisor = Divisor::new(factor.max(1));
        let base = base as u64;
        Some((Scale { base, divisor }, width))
    }
}

impl<N: Native> Column for Integers<N> {
    fn likely_layout(&self, validity: &Validity) -> Option<Layout> {
        if self.filler.is_none() || self.known.is_some() || self.values.is_small() {
            return Some(self.exact_layout(validity));
        }
        let range = range_of(self.values.sample(), validity)?;
        let factor = match self.narrowing {
            Narrowing::Width => 1,
            Narrowing::Factor => {
                common_factor(self.values.sample(), range.low as u64, validity).max(1)
            }
        };
        Layout::of_sample(range, factor, N::IS_UNSIGNED_WORD)
    }

    fn exact_layout(&self, validity: &Validity) -> Layout {
        let all = || self.values.blocks(0..self.values.num_rows());
        if self.filler.is_none() {
            return Layout::EMPTY;
        }
        let Some(range) = self.known.or_else(|| range_of(all(), validity)) else {
            return Layout::EMPTY;
        };
        let is_signed_word = i64::try_from(range.low).is_ok() && i64::try_from(range.high).is_ok();
        let factor = match self.narrowing {
            Narrowing::Factor if is_signed_word && range.low < range.high => {
                common_factor(all(), range.low as u64, validity)
            }
            _ => 1,
        };
        match Layout::of_range(range, factor) {
            // Beyond the signed words a decimal stays plain, with or without a sign.
            Layout::Narrowed { .. } if !is_signed_word && size_of::<N>() > 8 => Layout::Wide(range),
            layout => layout,
        }
    }

    fn write(
        &self,
        layout: Layout,
        validity: &Validity,
        rows: Range<usize>,
        (into, reader): (&mut [u8], Reader),
        seen: &mut Seen,
    ) {
        let instructions = Simd::widest();
        let mut filled = Filler::new(self.filler.unwrap_or_default());
        let width = layout.width() as usize;
        let mut into = into;
        for (first, block) in self.values.blocks(rows) {
            let block = filled.fill(instructions, first, block, validity);
            let (here, rest) = std::mem::take(&mut into).split_at_mut(block.len() * width);
            match Self::scale_of(layout) {
                Some((scale, width)) => {
                    narrow(instructions, block, width, scale, (here, reader), seen);
                }
                None => widen(block, here),
            }
            into = rest;
        }
    }

    fn fits(&self, layout: Layout, seen: &Seen) -> bool {
        let Layout::Narrowed { base, factor, .. } = layout else {
            return true;
        };
        if seen.least > seen.greatest {
            return true;
        }
        let is_whole = seen.greatest <= Divisor::new(factor.max(1)).limit;
        let highest = i128::from(base) + i128::from(factor) * i128::from(seen.greatest);
        let is_word =
            highest <= i128::from(i64::MAX) || (N::IS_UNSIGNED_WORD && layout == Layout::WORDS);
        seen.beyond == 0 && is_whole && is_word
    }

    fn float_bound(&self, _seen: &Seen) -> f64 {
        0.0
    }
}

/// Writes integers at 16 bytes.
fn widen<N: Native>(values: &[N], into: &mut [u8]) {
    let (places, _) = into.as_chunks_mut::<16>();
    for (place, value) in places.iter_mut().zip(values) {
        *place = value.widened().to_le_bytes();
    }
}

/// Floats, as they are; `LANES` make a line.
pub(super) struct Floats<T: FloatBits<WIDTH>, const WIDTH: usize, const LANES: usize> {
    pub(super) values: Values<T>,
}

impl<T, const WIDTH: usize, const LANES: usize> Column for Floats<T, WIDTH, LANES>
where
    T: FloatBits<WIDTH>,
{
    fn likely_layout(&self, validity: &Validity) -> Option<Layout> {
        Some(self.exact_layout(validity))
    }

    fn exact_layout(&self, _validity: &Validity) -> Layout {
        Layout::Plain(WIDTH as u32)
    }

    fn write(
        &self,
        _layout: Layout,
        validity: &Validity,
        rows: Range<usize>,
        (into, reader): (&mut [u8], Reader),
        seen: &mut Seen,
    ) {
        let instructions = Simd::widest();
        let mut filled = Filler::new(T::default());
        let mut into = into;
        for (first, block) in self.values.blocks(rows) {
            let block = filled.fill(instructions, first, block, validity);
            let (here, rest) = std::mem::take(&mut into).split_at_mut(block.len() * WIDTH);
            copy::<T, WIDTH, LANES>(instructions, block, (here, reader), seen);
            into = rest;
        }
    }

    fn fits(&self, _layout: Layout, _seen: &Seen) -> bool {
        true
    }

    fn float_bound(&self, seen: &Seen) -> f64 {
        let greatest = T::of_size(seen.greatest);
        if greatest.is_finite() {
            greatest
        } else {
            f64::INFINITY
        }
    }
}

/// Returns the value of the first row that has one.
fn first_value<N: Native>(values: &Values<N>, validity: &Validity) -> Option<N> {
    let row = validity.first_valid()?;
    let (_, block) = values.blocks(row..row + 1).next()?;
    block.first().copied()
}
