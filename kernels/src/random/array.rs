//! Arrays of one or more dimensions, and parts of them: in each dimension a start, a step and a count.
//!
//! The rows of a part are in row-major order. Neighbours of the last dimension are a *run*: indices a
//! step apart in the flat array. Where a part has all of a dimension, the runs of the one before it
//! join up, and whoever does not ask for indices sees one long run.

use std::ops::Range;

use thiserror::Error;

use super::fill::Values;
use super::philox::Stream;
use super::simd::Simd;

/// The generator makes so many neighbours at once.
const GROUP: u64 = 64;

/// An array whose values are a function of their position.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<u64>,
    values: Values,
    kind: ValueKind,
    seed: u64,
    stream: Stream,
}

/// What the values of an array are kept in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// 64-bit integers.
    Integer,
    /// Doubles.
    Double,
    /// Singles.
    Single,
}

/// Why there is no such array.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArrayError {
    /// A shape without dimensions, or with too many.
    #[error("a shape has from 1 to {max} dimensions, got {count}", max = Array::DIMENSIONS_MAX)]
    Dimensions {
        /// How many were asked for.
        count: usize,
    },
    /// More values than a signed 64-bit integer counts.
    #[error("an array of shape {shape:?} has 2^63 values or more; make a dimension smaller")]
    TooLarge {
        /// The shape.
        shape: Vec<u64>,
    },
}

/// Indices of one dimension: `start`, `start + step`, .. , `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first index.
    pub start: u64,
    /// How far neighbours are apart; at least 1.
    pub step: u64,
    /// How many there are.
    pub count: u64,
}

impl Span {
    /// Returns all indices of a dimension.
    pub fn all(len: u64) -> Self {
        Self {
            start: 0,
            step: 1,
            count: len,
        }
    }

    /// Returns the index at a place, which is below the count.
    pub fn at(&self, place: u64) -> u64 {
        self.start + self.step * place
    }

    /// Returns the indices that are also in `range`.
    pub fn within(&self, range: Range<u64>) -> Self {
        let before = |bound: u64| {
            bound
                .saturating_sub(self.start)
                .div_ceil(self.step)
                .min(self.count)
        };
        let (from, to) = (before(range.start), before(range.end.max(range.start)));
        Self {
            start: if from < self.count {
                self.at(from)
            } else {
                self.start
            },
            step: self.step,
            count: to - from,
        }
    }
}

/// A part of an array: a span for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The spans, the slowest dimension first.
    pub spans: Vec<Span>,
}

impl Part {
    /// Returns how many values the part has.
    pub fn num_values(&self) -> u64 {
        self.spans.iter().map(|span| span.count).product()
    }

    /// Cuts the part into pieces in the order of its rows, each of about as many values as are wanted at
    /// most, and adds them to `pieces`.
    pub fn cut(self, num_values_max: u64, pieces: &mut Vec<Self>) {
        self.cut_from(0, num_values_max, pieces);
    }

    /// As [`Part::cut`], of a part whose dimensions before `dimension` have been cut to single indices.
    fn cut_from(self, dimension: usize, num_values_max: u64, pieces: &mut Vec<Self>) {
        let num_values = self.num_values();
        if num_values <= num_values_max || dimension == self.spans.len() {
            pieces.push(self);
            return;
        }
        let span = self.spans[dimension];
        let below = num_values / span.count;
        let each = (num_values_max / below.max(1)).max(1);
        let mut place = 0;
        while place < span.count {
            let mut piece = self.clone();
            piece.spans[dimension] = Span {
                start: span.at(place),
                step: span.step,
                count: each.min(span.count - place),
            };
            piece.cut_from(dimension + 1, num_values_max, pieces);
            place += each;
        }
    }
}

/// Runs of a part that are equally far apart, and what a device needs to find them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The flat index at which the first run begins.
    pub first: u64,
    /// How far runs are apart, as flat indices.
    pub stride: u64,
    /// How many runs there are.
    pub count: u64,
    /// How far neighbours of a run are apart, as flat indices.
    pub step: u64,
    /// Values of a run.
    pub len: u64,
    /// The index in each dimension at the first value, and how far it goes from run to run.
    pub indices: Vec<(u64, u64)>,
}

impl Array {
    /// The most dimensions.
    pub const DIMENSIONS_MAX: usize = 8;

    /// Describes an array.
    ///
    /// # Errors
    /// A shape of no or of too many dimensions, or of 2^63 values or more.
    pub fn try_new(shape: Vec<u64>, values: Values, seed: u64) -> Result<Self, ArrayError> {
        if !(1..=Self::DIMENSIONS_MAX).contains(&shape.len()) {
            return Err(ArrayError::Dimensions { count: shape.len() });
        }
        // A dimension of 0 does not make the others small.
        let size = shape
            .iter()
            .try_fold(1_u64, |size, len| size.checked_mul((*len).max(1)));
        if size.is_none_or(|size| size > i64::MAX as u64) {
            return Err(ArrayError::TooLarge { shape });
        }
        Ok(Self {
            shape,
            kind: if values.are_integers() {
                ValueKind::Integer
            } else {
                ValueKind::Double
            },
            values,
            seed,
            stream: Stream::new(seed),
        })
    }

    /// Describes the same with singles in the place of doubles: values of the same law, but no rounded
    /// doubles. Integers stay what they are.
    pub fn in_singles(mut self) -> Self {
        if self.kind == ValueKind::Double {
            self.kind = ValueKind::Single;
        }
        self
    }

    /// Returns what the values are kept in.
    pub fn kind(&self) -> ValueKind {
        self.kind
    }

    /// Returns the length of each dimension.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns what the values are.
    pub fn values(&self) -> Values {
        self.values
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the random bits of the seed.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns how many values the array has.
    pub fn num_values(&self) -> u64 {
        self.shape.iter().product()
    }

    /// Returns all of the array.
    pub fn whole(&self) -> Part {
        Part {
            spans: self.shape.iter().map(|len| Span::all(*len)).collect(),
        }
    }

    /// Returns how far neighbours of each dimension are apart, as flat indices.
    fn strides(&self) -> Vec<u64> {
        let mut strides = vec![1; self.shape.len()];
        for dimension in (1..self.shape.len()).rev() {
            strides[dimension - 1] = strides[dimension] * self.shape[dimension].max(1);
        }
        strides
    }

    /// Returns how far the longest run of a part reaches, as flat indices; see [`Array::runs`].
    pub fn reach(&self, part: &Part, indices: bool) -> u64 {
        let (_, step, len) = self.innermost(part, indices);
        len.saturating_sub(1) * step + 1
    }

    /// Returns the dimension whose spans are runs, or the first of those that join up, and the runs' step
    /// and length.
    fn innermost(&self, part: &Part, indices: bool) -> (usize, u64, u64) {
        let strides = self.strides();
        let mut inner = part.spans.len() - 1;
        let mut step = part.spans[inner].step;
        let mut len = part.spans[inner].count;
        while !indices && inner > 0 {
            let outer = part.spans[inner - 1];
            let joins = len * step == strides[inner - 1] * outer.step || outer.count == 1;
            if !joins {
                break;
            }
            len *= outer.count;
            inner -= 1;
        }
        if len == 1 {
            step = 1;
        }
        (inner, step, len)
    }

    /// Returns the runs of a part, in its order. Unless `indices` are asked for, neighbouring runs that
    /// join up are one.
    pub fn runs(&self, part: &Part, indices: bool) -> Vec<Runs> {
        if part.num_values() == 0 {
            return Vec::new();
        }
        let strides = self.strides();
        let (inner, step, len) = self.innermost(part, indices);
        let around = inner.saturating_sub(1);
        let (count, stride) = if inner > 0 {
            let span = part.spans[around];
            (span.count, span.step * strides[around])
        } else {
            (1, 0)
        };
        let outer: u64 = part.spans[..around].iter().map(|span| span.count).product();
        let mut place = vec![0; around];
        let mut found = Vec::with_capacity(outer as usize);
        for _ in 0..outer {
            let at: Vec<u64> = part
                .spans
                .iter()
                .enumerate()
                .map(|(dimension, span)| span.at(place.get(dimension).copied().unwrap_or(0)))
                .collect();
            let goes = |dimension| {
                if inner > 0 && dimension == around {
                    part.spans[around].step
                } else {
                    0
                }
            };
            found.push(Runs {
                first: at.iter().zip(&strides).map(|(at, by)| at * by).sum(),
                stride,
                count,
                step,
                len,
                indices: at
                    .iter()
                    .enumerate()
                    .map(|(dimension, at)| (*at, goes(dimension)))
                    .collect(),
            });
            advance(&mut place, &part.spans[..around]);
        }
        found
    }

    /// Calls `visit` with each piece of a run that the rows of a part make up, in order: its first flat
    /// index, the step, and which of the rows asked for it has.
    fn pieces(
        &self,
        part: &Part,
        rows: Range<u64>,
        indices: bool,
        mut visit: impl FnMut(&Runs, u64, u64, Range<usize>),
    ) {
        let mut before = 0;
        for runs in self.runs(part, indices) {
            let total = runs.count * runs.len;
            let mut row = rows.start.max(before);
            let end = rows.end.min(before + total);
            while row < end {
                let (run, offset) = ((row - before) / runs.len, (row - before) % runs.len);
                let taken = (runs.len - offset).min(end - row);
                let from = (row - rows.start) as usize;
                visit(&runs, run, offset, from..from + taken as usize);
                row += taken;
            }
            before += total;
        }
    }

    /// Writes the doubles of a part's rows, as many as `out` has, from row `from` on.
    pub fn read(&self, simd: Simd, part: &Part, from: u64, out: &mut [f64]) {
        let rows = from..from + out.len() as u64;
        self.pieces(part, rows, false, |runs, run, offset, place| {
            let first = runs.first + run * runs.stride + offset * runs.step;
            self.values
                .fill(simd, &self.stream, first, runs.step, &mut out[place]);
        });
    }

    /// Makes the doubles of a part's rows a block at a time, in order, and visits each block; all but the
    /// last are nearly full. A block ends where the generator begins anew, so that it makes nothing twice.
    pub fn read_blocks(
        &self,
        simd: Simd,
        part: &Part,
        rows: Range<u64>,
        block: &mut [f64],
        mut visit: impl FnMut(&[f64]),
    ) {
        let mut filled = 0;
        self.pieces(part, rows, false, |runs, run, offset, place| {
            let mut first = runs.first + run * runs.stride + offset * runs.step;
            let mut left = place.len();
            while left > 0 {
                let room = block.len() - filled;
                let past = (first + room as u64 * runs.step) % GROUP / runs.step;
                let most = if past < room as u64 {
                    room - past as usize
                } else {
                    room
                };
                let taken = left.min(most);
                let out = &mut block[filled..filled + taken];
                self.values.fill(simd, &self.stream, first, runs.step, out);
                first += taken as u64 * runs.step;
                left -= taken;
                filled += taken;
                if left > 0 || filled == block.len() {
                    visit(&block[..filled]);
                    filled = 0;
                }
            }
        });
        if filled > 0 {
            visit(&block[..filled]);
        }
    }

    /// Writes the singles of a part's rows, as many as `out` has, from row `from` on.
    pub fn read_singles(&self, simd: Simd, part: &Part, from: u64, out: &mut [f32]) {
        let rows = from..from + out.len() as u64;
        self.pieces(part, rows, false, |runs, run, offset, place| {
            let first = runs.first + run * runs.stride + offset * runs.step;
            self.values
                .fill_singles(simd, &self.stream, first, runs.step, &mut out[place]);
        });
    }

    /// Writes the integers of a part's rows, as many as `out` has, from row `from` on.
    pub fn read_integers(&self, simd: Simd, part: &Part, from: u64, out: &mut [i64]) {
        let rows = from..from + out.len() as u64;
        self.pieces(part, rows, false, |runs, run, offset, place| {
            let first = runs.first + run * runs.stride + offset * runs.step;
            self.values
                .fill_integers(simd, &self.stream, first, runs.step, &mut out[place]);
        });
    }

    /// Writes the indices in one dimension of a part's rows, as many as `out` has, from row `from` on.
    pub fn read_indices(&self, part: &Part, dimension: usize, from: u64, out: &mut [i64]) {
        let rows = from..from + out.len() as u64;
        let is_last = dimension + 1 == self.shape.len();
        self.pieces(part, rows, true, |runs, run, offset, place| {
            let (at, by) = runs.indices[dimension];
            if is_last {
                let mut index = at + offset * runs.step;
                for out in &mut out[place] {
                    *out = index as i64;
                    index += runs.step;
                }
            } else {
                out[place].fill((at + run * by) as i64);
            }
        });
    }
}

/// Goes to the next place, the last dimension first.
fn advance(place: &mut [u64], spans: &[Span]) {
    for (place, span) in place.iter_mut().zip(spans).rev() {
        *place += 1;
        if *place < span.count {
            return;
        }
        *place = 0;
    }
}
