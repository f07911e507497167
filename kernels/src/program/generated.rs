//! Columns that a kernel makes from the rows' positions: the indices and the values of an array.
//!
//! A segment is then a piece of a part of an array, as [`Runs`] of indices, and a thread takes rows by
//! bunches: TG_ROWS are the values of a block. What stands in the place of a column's description is in
//! `random.cuh`.

use arrow_schema::DataType;
use tidegate_pipeline::{Expr, ExprKind, Interval, Pipeline, Step, Unsupported};

use super::shape::Shape;
use super::slots::{Slot, SlotFacts};
use crate::engine::Segments;
use crate::random::{
    Array, NORMAL_MAX, NORMAL_MAX_SINGLE, Part, Runs, ValueKind, Values, device_definitions_single,
    device_words,
};

/// The array whose indices and values a kernel's input columns are.
#[derive(Clone, Debug, PartialEq)]
pub struct Generated {
    /// The array.
    pub array: Array,
    /// What each column of the pipeline's input is.
    pub columns: Vec<GeneratedColumn>,
    /// How far neighbours of the last dimension are apart in the parts that will be folded.
    pub step: u64,
    /// The parts' runs are short: a thread takes neighbours, each of which has a block of its own, where
    /// both values of a block would mostly lie outside.
    pub short_runs: bool,
}

/// What a column of a generated array is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeneratedColumn {
    /// The index in a dimension.
    Index(usize),
    /// The value.
    Value,
}

impl GeneratedColumn {
    /// Returns what a column is of the table of an array, whose first columns are the indices.
    pub fn of(array: &Array, column: usize) -> Self {
        if column < array.shape().len() {
            Self::Index(column)
        } else {
            Self::Value
        }
    }
}

/// Returns why the columns of an array are not all that a program reads, if so.
pub(super) fn check_slots(slots: &[(Slot, SlotFacts)]) -> Result<(), Unsupported> {
    let is_column = |(slot, _): &(Slot, SlotFacts)| matches!(slot.expr.kind, ExprKind::Column(_));
    if slots.iter().all(is_column) {
        return Ok(());
    }
    Err(Unsupported::new(
        "an expression that the host evaluates, over an array that the device makes",
    ))
}

/// The most rows of a segment, those outside of runs included.
const ROWS_MAX: u64 = 1 << 31;
/// Indices of which some share blocks.
const GROUP: u64 = 64;
/// The farthest that a run reaches in one segment.
const REACH_MAX: u64 = 1 << 30;

/// Runs that reach less far are short: a group of indices more than they need costs more than half.
const SHORT_REACH: u64 = 96;

impl Generated {
    /// Describes what a kernel makes of parts of an array, whose last spans have all this step.
    pub fn new(array: Array, columns: Vec<GeneratedColumn>, step: u64, parts: &[Part]) -> Self {
        let indices = columns
            .iter()
            .any(|column| matches!(column, GeneratedColumn::Index(_)));
        let reach = |part: &Part| array.reach(part, indices);
        let farthest = parts.iter().map(reach).max();
        Self {
            short_runs: farthest.is_some_and(|reach| reach < SHORT_REACH),
            array,
            columns,
            step,
        }
    }

    /// Returns what is known of a column's values.
    pub fn facts(&self, slot: &Slot) -> SlotFacts {
        let (mut range, mut bound, mut least) = (Interval::ALL, 0.0, 0.0);
        let mut width = 8;
        match self.column(slot) {
            GeneratedColumn::Value if self.array.kind() == ValueKind::Single => {
                width = 4;
                // A single's rounding takes it farther by 2^-24 of itself, parameters included.
                bound = self.bound() * (1.0 + f64::from(f32::EPSILON));
                least = self.least() - bound * f64::from(f32::EPSILON);
            }
            GeneratedColumn::Index(dimension) => {
                let last = self.array.shape()[dimension].saturating_sub(1);
                range = Interval::new(0, i128::from(last));
            }
            GeneratedColumn::Value => match self.array.values() {
                Values::Normal { .. } | Values::Uniform { .. } | Values::Constant(_) => {
                    bound = self.bound();
                    least = self.least() - bound * f64::EPSILON;
                }
                Values::Integers { low, count } => {
                    let high = i128::from(low) + i128::from(count.wrapping_sub(1));
                    range = Interval::new(i128::from(low), high);
                }
                Values::Series { start, step } => range = self.series(start, step),
            },
        }
        SlotFacts {
            range,
            float_bound: if bound.is_finite() {
                bound
            } else {
                f64::INFINITY
            },
            float_least: if bound.is_finite() {
                least.max(0.0)
            } else {
                0.0
            },
            nullable: false,
            widths: vec![width],
            scaled: false,
            step: 1,
            lookup: None,
        }
    }

    /// Returns how far from zero a float can be.
    fn bound(&self) -> f64 {
        match self.array.values() {
            Values::Normal { location, scale } => location.abs() + self.normal_max() * scale,
            Values::Uniform { low, width } => low.abs() + width.abs(),
            Values::Constant(value) => value.abs(),
            Values::Integers { .. } | Values::Series { .. } => f64::INFINITY,
        }
    }

    /// Returns how near to zero a float can be; at most 0 if one can be zero.
    fn least(&self) -> f64 {
        match self.array.values() {
            Values::Normal { location, scale } => location.abs() - self.normal_max() * scale,
            Values::Uniform { low, width } => low.max(-(low + width)),
            Values::Constant(value) => value.abs(),
            Values::Integers { .. } | Values::Series { .. } => 0.0,
        }
    }

    /// Returns how far from zero a standard normal can be.
    fn normal_max(&self) -> f64 {
        match self.array.kind() {
            ValueKind::Single => NORMAL_MAX_SINGLE,
            _ => NORMAL_MAX,
        }
    }

    /// Returns how many rows a group can have at the most, where a pipeline groups by indices.
    pub fn group_rows_max(&self, pipeline: &Pipeline) -> Option<u64> {
        // What each column is over the input, if it is one of its columns.
        let mut scope: Vec<Option<usize>> = (0..self.columns.len()).map(Some).collect();
        let of_input = |expr: &Expr, scope: &[Option<usize>]| match expr.kind {
            ExprKind::Column(index) => scope.get(index).copied().flatten(),
            _ => None,
        };
        for step in &pipeline.steps {
            match step {
                Step::Filter(_) => {}
                Step::Project(columns) => {
                    let columns = columns.iter();
                    scope = columns
                        .map(|column| of_input(&column.expr, &scope))
                        .collect();
                }
                Step::Aggregate(aggregate) => {
                    let shape = self.array.shape();
                    let mut is_key = vec![false; shape.len()];
                    for key in &aggregate.keys {
                        let column = of_input(&key.expr, &scope);
                        if let Some(GeneratedColumn::Index(dimension)) =
                            column.map(|column| self.columns[column])
                        {
                            is_key[dimension] = true;
                        }
                    }
                    let others = shape.iter().zip(&is_key).filter(|(_, is_key)| !**is_key);
                    let rows = others.map(|(len, _)| len).product();
                    return is_key.contains(&true).then_some(rows);
                }
                Step::Sort(_) => return None,
            }
        }
        None
    }

    /// Returns where the values of a series lie.
    fn series(&self, start: i64, step: i64) -> Interval {
        let last = i128::from(self.array.num_values().saturating_sub(1));
        let (first, last) = (
            i128::from(start),
            i128::from(start) + i128::from(step) * last,
        );
        let range = Interval::new(first.min(last), first.max(last));
        // Beyond 64 bits it wraps.
        if range.is_within(Interval::signed(64)) {
            range
        } else {
            Interval::signed(64)
        }
    }

    pub(super) fn column(&self, slot: &Slot) -> GeneratedColumn {
        match slot.expr.kind {
            ExprKind::Column(index) => self.columns[index],
            _ => GeneratedColumn::Value,
        }
    }

    /// Returns the literals that the kernel's numbers are, in the order of `random.cuh`.
    pub(super) fn literals(&self) -> Vec<u64> {
        let mut words = self.array.stream().words().to_vec();
        let real = |value: f64| match self.array.kind() {
            ValueKind::Single => u64::from((value as f32).to_bits()),
            _ => value.to_bits(),
        };
        words.extend(match self.array.values() {
            Values::Normal { location, scale } => [real(location), real(scale)],
            Values::Uniform { low, width } => [real(low), real(width)],
            Values::Integers { low, count } => [low as u64, count],
            Values::Series { start, step } => [start as u64, step as u64],
            Values::Constant(value) => [real(value), 0],
        });
        words.push(self.step);
        if self.array.kind() != ValueKind::Single {
            words.extend(device_words());
        }
        words
    }

    /// Returns the definitions that the blocks for singles need.
    pub(super) fn definitions(&self) -> String {
        match self.array.kind() {
            ValueKind::Single => device_definitions_single(),
            _ => String::new(),
        }
    }

    /// Returns whether a slot of the program is an index.
    fn reads_indices(&self, slots: &[(Slot, SlotFacts)]) -> bool {
        slots
            .iter()
            .any(|(slot, _)| matches!(self.column(slot), GeneratedColumn::Index(_)))
    }

    /// Returns how many values a block gives.
    pub(super) fn block_rows(&self) -> u64 {
        match self.array.kind() {
            ValueKind::Single => 4,
            _ => 2,
        }
    }

    /// Returns the power of two that the step is, if the values of a block are all of a run.
    pub(super) fn log_step(&self) -> Option<u32> {
        let spread = GROUP / self.block_rows();
        let shares_blocks = self.step.is_power_of_two() && self.step <= spread && !self.short_runs;
        shares_blocks.then(|| self.step.ilog2())
    }

    /// Returns how many rows a thread takes at a time.
    fn bunch_rows(&self) -> u64 {
        match self.log_step() {
            Some(_) => self.block_rows(),
            None => 2,
        }
    }

    /// Cuts parts of the array into segments for a program of this source. The last span of each must
    /// have this source's step, unless it has one index.
    ///
    /// # Errors
    /// A part whose step is another.
    pub fn segments(
        &self,
        slots: &[(Slot, SlotFacts)],
        tile_rows: u32,
        parts: &[Part],
    ) -> Result<Segments, Unsupported> {
        let indices = self.reads_indices(slots);
        let mut segments = Segments::empty();
        for part in parts {
            for runs in self.array.runs(part, indices) {
                if runs.step != self.step && runs.len > 1 {
                    return Err(Unsupported::new(format!(
                        "a part of step {} for a kernel of step {}",
                        runs.step, self.step
                    )));
                }
                self.push(&mut segments, slots, tile_rows, &runs);
            }
        }
        Ok(segments)
    }

    /// Adds runs, in pieces that a segment can hold.
    fn push(
        &self,
        segments: &mut Segments,
        slots: &[(Slot, SlotFacts)],
        tile_rows: u32,
        runs: &Runs,
    ) {
        let (step, rows) = (self.step, self.bunch_rows());
        let len_max = (REACH_MAX / step).max(1);
        let mut begin = 0;
        while begin < runs.len {
            let len = len_max.min(runs.len - begin);
            let reach = (len - 1) * step + 1;
            let bunches = match self.log_step() {
                Some(log) => ((reach + GROUP - 2) / GROUP + 1) * ((GROUP / rows) >> log),
                None => len.div_ceil(rows),
            };
            let runs_max = (ROWS_MAX / (rows * bunches)).max(1);
            let mut run = 0;
            while run < runs.count {
                let count = runs_max.min(runs.count - run);
                let first = runs.first + run * runs.stride + begin * step;
                let geometry = [first, runs.stride, reach | bunches << 32];
                let columns = slots.iter().flat_map(|(slot, _)| {
                    let (base, by) = match self.column(slot) {
                        GeneratedColumn::Index(dimension) => {
                            let (at, by) = runs.indices[dimension];
                            let within = if dimension + 1 == runs.indices.len() {
                                begin * step
                            } else {
                                0
                            };
                            (at + run * by + within, by)
                        }
                        GeneratedColumn::Value => (0, 0),
                    };
                    [geometry[0], geometry[1], base, by, geometry[2]]
                });
                let mut words: Vec<u64> = columns.collect();
                if words.is_empty() {
                    words.extend([geometry[0], geometry[1], 0, 0, geometry[2]]);
                }
                segments.push(
                    &words,
                    (count * bunches * rows) as u32,
                    count * len,
                    tile_rows,
                );
                run += count;
            }
            begin += len;
        }
    }
}

/// Bunches that a thread takes at once, and those of light rows: what is shared between them, such as the
/// numbers that an instruction of its own brings, then costs less.
const UNROLL: u32 = 2;
const UNROLL_LIGHT: u32 = 4;
/// Rows of a tile of 256 threads: a tile costs a division.
const ROWS_PER_TILE: u32 = 32_768;

impl Generated {
    /// Returns how a tile is cut up; `bytes` is how many of a bunch's 16 bytes a thread holds at once, and
    /// rows may be light.
    pub(super) fn shape(&self, threads: u32, bytes: Option<u32>, is_light: bool) -> Shape {
        let usual = match is_light {
            true => UNROLL_LIGHT,
            false => UNROLL,
        };
        let unroll = bytes.map_or(usual, |bytes| (bytes / 16).clamp(1, 4));
        let rows = self.bunch_rows() as u32;
        Shape::of_bunches(threads, rows, 1 << unroll.ilog2(), ROWS_PER_TILE)
    }
}

/// Returns the type of an array's values.
pub fn value_type(array: &Array) -> DataType {
    match array.kind() {
        ValueKind::Integer => DataType::Int64,
        ValueKind::Double => DataType::Float64,
        ValueKind::Single => DataType::Float32,
    }
}
