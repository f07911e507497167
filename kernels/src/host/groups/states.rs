//! The state of all groups, and how values become it.

use std::ops::Range;

use tidegate_pipeline::RowProgram;
use tidegate_pipeline::program::Groups;

use super::super::run::Declined;
use super::super::vector::{Lane, Texts, Vector, mismatch, read};
use super::layout::{Kind, Layout, Place, Presence};
use super::results::Results;

/// The state of all groups: the words of a group lie side by side.
#[derive(Clone, Debug)]
pub(in super::super) struct States {
    layout: Layout,
    words: Vec<u64>,
    num_groups: usize,
    /// Totals of partial sums, by accumulator and group.
    totals: Vec<Vec<i128>>,
    texts: Vec<Vec<Option<Box<str>>>>,
    text_bytes: usize,
    /// How many rows partial sums may have taken in.
    rows: usize,
}

/// What an accumulator takes in of a block.
#[derive(Clone, Copy)]
pub(in super::super) struct Taken<'s, 'a> {
    pub(in super::super) value: Option<&'s Vector>,
    pub(in super::super) texts: &'s Texts<'a>,
    /// Which rows count; all if there is nothing.
    pub(in super::super) rows: Option<&'s [u8]>,
}

impl States {
    pub(in super::super) fn new(program: &RowProgram, groups: &Groups) -> Self {
        let layout = Layout::new(program, groups);
        Self {
            words: Vec::new(),
            num_groups: 0,
            totals: vec![Vec::new(); layout.num_totals],
            texts: vec![Vec::new(); layout.num_texts],
            text_bytes: 0,
            rows: 0,
            layout,
        }
    }

    /// Forgets all groups.
    pub(in super::super) fn clear(&mut self) {
        self.words = Vec::new();
        self.num_groups = 0;
        self.totals
            .iter_mut()
            .for_each(|totals| *totals = Vec::new());
        self.texts.iter_mut().for_each(|texts| *texts = Vec::new());
        (self.text_bytes, self.rows) = (0, 0);
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        let totals: usize = self.totals.iter().map(Vec::capacity).sum();
        let texts: usize = self.texts.iter().map(Vec::capacity).sum();
        (self.words.capacity() + totals * 2 + texts * 2) * 8 + self.text_bytes
    }

    /// Gives new groups their state.
    pub(in super::super) fn fit(&mut self, num_groups: usize) {
        let start = &self.layout.start;
        self.words
            .reserve((num_groups - self.num_groups.min(num_groups)) * start.len());
        for _ in self.num_groups..num_groups {
            self.words.extend_from_slice(start);
        }
        self.totals
            .iter_mut()
            .for_each(|totals| totals.resize(num_groups, 0));
        self.texts
            .iter_mut()
            .for_each(|texts| texts.resize(num_groups, None));
        self.num_groups = num_groups;
    }

    /// Makes room for so many rows in partial sums.
    pub(in super::super) fn flush_before(&mut self, rows: usize) {
        if self.rows.saturating_add(rows) > self.layout.rows_most {
            self.flush();
        }
        self.rows += rows;
    }

    /// Adds partial sums to their totals.
    pub(in super::super) fn flush(&mut self) {
        let width = self.layout.start.len();
        for place in &self.layout.places {
            if let Kind::Partial { total } = place.kind {
                let words = self.words.chunks_exact_mut(width.max(1));
                for (words, total) in words.zip(&mut self.totals[total]) {
                    let partial = std::mem::take(&mut words[place.at]);
                    *total = total.wrapping_add(i128::from(partial as i64));
                }
            }
        }
        self.rows = 0;
    }

    /// Takes a block's values of one accumulator into the groups of its rows, or into the first group.
    pub(in super::super) fn take_in(
        &mut self,
        accumulator: usize,
        groups: Option<&[u32]>,
        taken: Taken<'_, '_>,
        count: usize,
    ) -> Result<(), Declined> {
        let place = self.layout.places[accumulator];
        let width = self.layout.start.len();
        if let Presence::Bit { at, bit } = place.presence {
            let set = |words: &mut [u64], counts: bool| words[0] |= u64::from(counts) << bit;
            each_row(
                &mut self.words,
                (width, at, 1),
                groups,
                count,
                |words, row| {
                    set(words, taken.rows.is_none_or(|rows| rows[row] != 0));
                },
            );
        }
        if let Kind::ExtremeText { greatest, texts } = place.kind {
            self.take_texts((greatest, texts), groups, taken, count);
            return Ok(());
        }
        let mut target = Target {
            words: &mut self.words,
            width,
            groups,
            rows: taken.rows,
            count,
        };
        let Some(value) = taken.value else {
            target.count(place.at);
            return Ok(());
        };
        target.values(place, value)
    }

    fn take_texts(
        &mut self,
        (greatest, texts): (bool, usize),
        groups: Option<&[u32]>,
        taken: Taken<'_, '_>,
        count: usize,
    ) {
        let held = &mut self.texts[texts];
        for row in 0..count {
            if taken.rows.is_some_and(|rows| rows[row] == 0) {
                continue;
            }
            let group = groups.map_or(0, |groups| groups[row] as usize);
            let text = taken.texts.get(row);
            let is_beyond = match &held[group] {
                None => true,
                Some(held) if greatest => text.as_bytes() > held.as_bytes(),
                Some(held) => text.as_bytes() < held.as_bytes(),
            };
            if is_beyond {
                self.text_bytes += text.len();
                self.text_bytes -= held[group].as_ref().map_or(0, |held| held.len());
                held[group] = Some(text.into());
            }
        }
    }

    /// Returns the results of an accumulator for groups. Partial sums have to be flushed.
    pub(in super::super) fn results(
        &self,
        accumulator: usize,
        groups: Range<usize>,
    ) -> Vec<Results> {
        let place = self.layout.places[accumulator];
        let width = self.layout.start.len();
        let words = &self.words[groups.start * width..groups.end * width];
        let totals = match place.kind {
            Kind::Partial { total } => &self.totals[total][groups.clone()],
            _ => &[],
        };
        let texts = match place.kind {
            Kind::ExtremeText { texts, .. } => &self.texts[texts][groups],
            _ => &[],
        };
        Results::of(place, width, words, totals, texts)
    }
}

/// Calls a function with some words of each row's group.
#[inline(always)]
fn each_row(
    words: &mut [u64],
    (width, at, len): (usize, usize, usize),
    groups: Option<&[u32]>,
    count: usize,
    mut each: impl FnMut(&mut [u64], usize),
) {
    match groups {
        None => {
            let words = &mut words[at..at + len];
            for row in 0..count {
                each(words, row);
            }
        }
        Some(groups) => {
            for (row, group) in groups.iter().enumerate() {
                let from = *group as usize * width + at;
                each(&mut words[from..from + len], row);
            }
        }
    }
}

/// The words into which a block's values go.
struct Target<'s> {
    words: &'s mut [u64],
    width: usize,
    groups: Option<&'s [u32]>,
    rows: Option<&'s [u8]>,
    count: usize,
}

impl Target<'_> {
    /// Counts rows.
    fn count(&mut self, at: usize) {
        match (self.groups, self.rows) {
            (None, None) => self.words[at] += self.count as u64,
            (None, Some(rows)) => self.words[at] += super::super::ops::count(rows) as u64,
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
            self.groups,
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

    fn values(&mut self, place: Place, value: &Vector) -> Result<(), Declined> {
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
                    let held = words[0] as i64;
                    let kept = if greatest {
                        held.max(value)
                    } else {
                        held.min(value)
                    };
                    words[0] = kept as u64;
                });
            }
            (Kind::Extreme128 { greatest }, Lane::I128) => {
                let values = read::<i128>(value, self.count)?;
                self.each_value(at, 2, values, |words, value| {
                    let held = wide(words);
                    let kept = if greatest {
                        held.max(value)
                    } else {
                        held.min(value)
                    };
                    set_wide(words, kept);
                });
            }
            (Kind::ExtremeFloat { greatest }, Lane::F64) => {
                let values = read::<f64>(value, self.count)?;
                self.each_value(at, 1, values, |words, value| {
                    let held = f64::from_bits(words[0]);
                    let (low, high) = if greatest {
                        (held, value)
                    } else {
                        (value, held)
                    };
                    // NaN is the greatest.
                    let is_beyond = (low < high) | (!low.is_nan() & high.is_nan());
                    words[0] = if is_beyond { value } else { held }.to_bits();
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
        if self.groups.is_none() {
            let sum = super::super::simd::widest(|| match rows {
                None => values
                    .iter()
                    .fold(0_i64, |sum, value| sum.wrapping_add(*value)),
                Some(rows) => values.iter().zip(rows).fold(0_i64, |sum, (value, row)| {
                    sum.wrapping_add(value & 0_i64.wrapping_sub(i64::from(*row)))
                }),
            });
            self.words[at] = self.words[at].wrapping_add(sum as u64);
            return;
        }
        match rows {
            None => self.each(at, 1, |words, row| {
                words[0] = words[0].wrapping_add(values[row] as u64);
            }),
            // A mask instead of a branch.
            Some(rows) => self.each(at, 1, |words, row| {
                let mask = 0_u64.wrapping_sub(rows[row].into());
                words[0] = words[0].wrapping_add(values[row] as u64 & mask);
            }),
        }
    }

    fn sum_floats(&mut self, at: usize, values: &[f64]) {
        if self.groups.is_none() {
            let sum = f64::from_bits(self.words[at]) + float_sum(values, self.rows);
            self.words[at] = sum.to_bits();
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
    super::super::simd::widest(|| {
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
