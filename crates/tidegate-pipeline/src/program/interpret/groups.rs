//! Rows in groups, and what is kept of each.

use super::super::cell::Cell;
use super::super::float_sum::FloatSum;
use super::super::{Accumulator, Groups, Output, Reduce};
use super::evaluate::{BLOCK_ROWS, Block, Texts};
use crate::interpret::EvalError;
use crate::interpret::block::BlockBuilder;
use crate::interpret::groups::{GroupTable, encode};

/// The groups met so far, in order of first appearance.
pub(super) struct Table {
    keys: GroupTable,
    /// A row's key, kept to be written over.
    key: Vec<u8>,
    states: Vec<States>,
    /// Whether rows have keys.
    grouped: bool,
}

impl Table {
    /// Starts over no rows: without keys there is one group.
    pub(super) fn new(groups: &Groups) -> Result<Self, EvalError> {
        let mut table = Self {
            keys: GroupTable::default(),
            key: Vec::new(),
            states: groups.accumulators.iter().map(States::new).collect(),
            grouped: !groups.keys.is_empty(),
        };
        if !table.grouped {
            table.keys.group(&[])?;
            table.states.iter_mut().for_each(States::add_group);
        }
        Ok(table)
    }

    /// Returns how many groups there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns about how much memory is held.
    pub(super) fn memory_bytes(&self) -> usize {
        let states: usize = self.states.iter().map(States::memory_bytes).sum();
        self.keys.memory_bytes() + states
    }

    /// Takes a selected row.
    pub(super) fn take(
        &mut self,
        groups: &Groups,
        block: &Block<'_>,
        row: usize,
    ) -> Result<(), EvalError> {
        let mut group = 0;
        if self.grouped {
            self.key.clear();
            for key in &groups.keys {
                encode(block.get(key.value, row), &mut self.key);
            }
            let before = self.keys.len();
            group = self.keys.group(&self.key)?;
            if group == before {
                self.states.iter_mut().for_each(States::add_group);
            }
        }
        for (accumulator, states) in groups.accumulators.iter().zip(&mut self.states) {
            if block.is_true(accumulator.rows, row) {
                let value = accumulator.value.map(|value| block.cell(value, row));
                let other = match accumulator.reduce {
                    Reduce::CoMoment { other } => block.cell(other, row).float(),
                    _ => 0.0,
                };
                states.take(group, value.unwrap_or(Cell::Int(0)), other);
            }
        }
        Ok(())
    }

    /// Writes a row for each group.
    pub(super) fn finish(&self, groups: &Groups, rows: &mut BlockBuilder) -> Result<(), EvalError> {
        for start in (0..self.len()).step_by(BLOCK_ROWS) {
            let num = BLOCK_ROWS.min(self.len() - start);
            let texts = groups.calls.iter().map(|call| Texts::of(&call.finish));
            let texts: Vec<Texts> = texts.collect();
            let finished = groups.calls.iter().zip(&texts).map(|(call, texts)| {
                let inputs: Vec<(usize, usize)> = call
                    .accumulators
                    .iter()
                    .flat_map(|at| {
                        let num_results = groups.accumulators[*at].reduce.num_results();
                        (0..num_results).map(|result| (*at, result))
                    })
                    .collect();
                Block::new(&call.finish, texts, num, |index, row| {
                    let (at, result) = inputs[index];
                    self.states[at].result(start + row, result)
                })
            });
            let finished: Vec<Block<'_>> = finished.collect::<Result<_, _>>()?;
            for row in 0..num {
                let mut values: Vec<Option<Cell<'_>>> = match groups.keys.len() {
                    0 => Vec::new(),
                    keys => self.keys.decode(start + row, keys)?,
                };
                for (call, block) in groups.calls.iter().zip(&finished) {
                    let outputs = call.finish.finished();
                    let outputs = outputs.iter();
                    values.extend(
                        outputs.map(|(_, output): &(_, &Output)| block.get(output.value, row)),
                    );
                }
                rows.push(values)?;
            }
        }
        Ok(())
    }
}

/// What one accumulator keeps of every group.
enum States {
    Count(Vec<u64>),
    Integer {
        bits: u32,
        sums: Vec<Option<i128>>,
    },
    Float(Vec<Option<FloatSum>>),
    Extreme {
        greatest: bool,
        held: Vec<Option<Held>>,
        text_bytes: usize,
    },
    Combined {
        combine: fn(i64, i64) -> i64,
        held: Vec<Option<i64>>,
    },
    Moments(Vec<Moments>),
    CoMoment(Vec<CoMoment>),
}

/// A value that outlives its row.
#[derive(Clone, Debug)]
enum Held {
    Int(i128),
    Float(f64),
    Text(Box<str>),
}

impl Held {
    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Int(value) => Self::Int(value),
            Cell::Float(value) => Self::Float(value),
            Cell::Text(text) => Self::Text(text.into()),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Int(value) => Cell::Int(*value),
            Self::Float(value) => Cell::Float(*value),
            Self::Text(text) => Cell::Text(text),
        }
    }
}

/// The mean of values and the sum of their squared distances from it, by Welford's method; a backend may add
/// up exactly and round once.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: u64,
    mean: f64,
    squares: f64,
}

/// The means of pairs and the sum of the products of their distances from them, likewise.
#[derive(Clone, Copy, Debug, Default)]
struct CoMoment {
    count: u64,
    mean: f64,
    other_mean: f64,
    products: f64,
}

impl States {
    fn new(accumulator: &Accumulator) -> Self {
        match accumulator.reduce {
            Reduce::Count => Self::Count(Vec::new()),
            Reduce::SumInteger { bits } => Self::Integer {
                bits,
                sums: Vec::new(),
            },
            Reduce::SumFloat => Self::Float(Vec::new()),
            Reduce::Least | Reduce::Greatest => Self::Extreme {
                greatest: accumulator.reduce == Reduce::Greatest,
                held: Vec::new(),
                text_bytes: 0,
            },
            Reduce::Combine(monoid) => Self::Combined {
                combine: monoid.combine,
                held: Vec::new(),
            },
            Reduce::Moments => Self::Moments(Vec::new()),
            Reduce::CoMoment { .. } => Self::CoMoment(Vec::new()),
        }
    }

    fn add_group(&mut self) {
        match self {
            Self::Count(counts) => counts.push(0),
            Self::Integer { sums, .. } => sums.push(None),
            Self::Float(sums) => sums.push(None),
            Self::Extreme { held, .. } => held.push(None),
            Self::Combined { held, .. } => held.push(None),
            Self::Moments(moments) => moments.push(Moments::default()),
            Self::CoMoment(moments) => moments.push(CoMoment::default()),
        }
    }

    fn take(&mut self, group: usize, value: Cell<'_>, other: f64) {
        match self {
            Self::Count(counts) => counts[group] += 1,
            Self::Integer { sums, .. } => {
                let sum = &mut sums[group];
                *sum = Some(sum.unwrap_or(0).wrapping_add(value.int()));
            }
            Self::Float(sums) => {
                let sum = sums[group].get_or_insert_with(FloatSum::new);
                sum.add(value.float());
            }
            Self::Extreme {
                greatest,
                held,
                text_bytes,
            } => {
                let held = &mut held[group];
                let is_beyond = held.as_ref().is_none_or(|held| {
                    let order = value.order(held.cell());
                    match *greatest {
                        true => order.is_gt(),
                        false => order.is_lt(),
                    }
                });
                if is_beyond {
                    let before = held.as_ref().map_or("", |held| held.cell().text());
                    *text_bytes += value.text().len();
                    *text_bytes -= before.len();
                    *held = Some(Held::of(value));
                }
            }
            Self::Combined { combine, held } => {
                let held = &mut held[group];
                *held = Some(combine(held.unwrap_or(0), value.int() as i64));
            }
            Self::Moments(moments) => {
                let moments = &mut moments[group];
                moments.count += 1;
                let before = value.float() - moments.mean;
                moments.mean += before / moments.count as f64;
                moments.squares += before * (value.float() - moments.mean);
            }
            Self::CoMoment(moments) => {
                let moments = &mut moments[group];
                moments.count += 1;
                let before = value.float() - moments.mean;
                moments.mean += before / moments.count as f64;
                moments.other_mean += (other - moments.other_mean) / moments.count as f64;
                moments.products += before * (other - moments.other_mean);
            }
        }
    }

    fn result(&self, group: usize, index: usize) -> Option<Cell<'_>> {
        match self {
            Self::Count(counts) => Some(Cell::Int(i128::from(counts[group]))),
            Self::Integer { bits, sums } => {
                let shift = 128 - bits;
                sums[group].map(|sum| Cell::Int(sum << shift >> shift))
            }
            Self::Float(sums) => sums[group].as_ref().map(|sum| Cell::Float(sum.rounded())),
            Self::Extreme { held, .. } => held[group].as_ref().map(Held::cell),
            Self::Combined { held, .. } => held[group].map(|held| Cell::Int(i128::from(held))),
            Self::Moments(moments) => Some(Cell::Float(match index {
                0 => moments[group].mean,
                _ => moments[group].squares,
            })),
            Self::CoMoment(moments) => Some(Cell::Float(moments[group].products)),
        }
    }

    /// Returns about how much memory is held.
    fn memory_bytes(&self) -> usize {
        match self {
            Self::Count(counts) => counts.capacity() * size_of::<u64>(),
            Self::Integer { sums, .. } => sums.capacity() * size_of::<Option<i128>>(),
            Self::Float(sums) => sums.capacity() * size_of::<Option<FloatSum>>(),
            Self::Extreme {
                held, text_bytes, ..
            } => held.capacity() * size_of::<Option<Held>>() + text_bytes,
            Self::Combined { held, .. } => held.capacity() * size_of::<Option<i64>>(),
            Self::Moments(moments) => moments.capacity() * size_of::<Moments>(),
            Self::CoMoment(moments) => moments.capacity() * size_of::<CoMoment>(),
        }
    }
}
