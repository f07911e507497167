//! Rows in groups, and what is kept of each.

use std::collections::HashMap;

use super::super::cell::Cell;
use super::super::float_sum::ExactSum;
use super::super::{Accumulator, Groups, Output, Reduce};
use super::evaluate::Row;
use super::shown;
use crate::interpret::EvalError;
use crate::interpret::block::BlockBuilder;
use crate::interpret::value::Value;

/// A value that outlives its row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Kept {
    Int(i128),
    Float(u64),
    Text(Box<str>),
}

impl Kept {
    fn of(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Int(value) => Self::Int(value),
            Cell::Float(value) => Self::Float(value.to_bits()),
            Cell::Text(text) => Self::Text(text.into()),
        }
    }

    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Int(value) => Cell::Int(*value),
            Self::Float(bits) => Cell::Float(f64::from_bits(*bits)),
            Self::Text(text) => Cell::Text(text),
        }
    }
}

/// The groups met so far, in order of first appearance.
pub(super) struct Table<'p> {
    groups: &'p Groups,
    places: HashMap<Vec<Option<Kept>>, usize>,
    keys: Vec<Vec<Option<Kept>>>,
    states: Vec<Vec<State>>,
}

impl<'p> Table<'p> {
    pub(super) fn new(groups: &'p Groups) -> Self {
        let mut table = Self {
            groups,
            places: HashMap::new(),
            keys: Vec::new(),
            states: Vec::new(),
        };
        if groups.keys.is_empty() {
            table.place(Vec::new());
        }
        table
    }

    fn place(&mut self, key: Vec<Option<Kept>>) -> usize {
        if let Some(place) = self.places.get(&key) {
            return *place;
        }
        let place = self.keys.len();
        self.keys.push(key.clone());
        let accumulators = self.groups.accumulators.iter();
        self.states.push(accumulators.map(State::new).collect());
        self.places.insert(key, place);
        place
    }

    /// Takes a selected row.
    pub(super) fn take(&mut self, row: &Row<'_>) -> Result<(), EvalError> {
        let keys = self.groups.keys.iter();
        let key = keys.map(|key| row.get(key.value).map(Kept::of)).collect();
        let place = self.place(key);
        let states = self.states[place].iter_mut();
        for (accumulator, state) in self.groups.accumulators.iter().zip(states) {
            if row.is_true(accumulator.rows) {
                state.take(accumulator.value.map(|value| row.cell(value)));
            }
        }
        Ok(())
    }

    /// Writes a row for each group.
    pub(super) fn finish(&self, rows: &mut BlockBuilder) -> Result<(), EvalError> {
        for (key, states) in self.keys.iter().zip(&self.states) {
            let results: Vec<Vec<Option<Cell<'_>>>> = states.iter().map(State::results).collect();
            let keys = key.iter().zip(&self.groups.keys);
            let mut row: Vec<Value<'_>> = keys
                .map(|(kept, Output { data_type, .. })| {
                    let cell = kept.as_ref().map(Kept::cell);
                    cell.map_or(Value::Null, |cell| cell.as_value(data_type))
                })
                .collect();
            for call in &self.groups.calls {
                let inputs = call.accumulators.iter();
                let inputs: Vec<_> = inputs.flat_map(|at| results[*at].clone()).collect();
                let finished = Row::of(&call.finish, &inputs)?;
                let outputs = call.finish.finished();
                row.extend(outputs.iter().map(|(_, output)| shown(&finished, output)));
            }
            rows.push(row)?;
        }
        Ok(())
    }
}

/// What one accumulator keeps of a group.
enum State {
    Count(u64),
    Integer { bits: u32, sum: Option<i128> },
    Float(Option<Box<ExactSum>>),
    Extreme { greatest: bool, held: Option<Kept> },
    Moments { count: u64, mean: f64, squares: f64 },
}

impl State {
    fn new(accumulator: &Accumulator) -> Self {
        match accumulator.reduce {
            Reduce::Count => Self::Count(0),
            Reduce::SumInteger { bits } => Self::Integer { bits, sum: None },
            Reduce::SumFloat => Self::Float(None),
            Reduce::Least => Self::Extreme {
                greatest: false,
                held: None,
            },
            Reduce::Greatest => Self::Extreme {
                greatest: true,
                held: None,
            },
            Reduce::Moments => Self::Moments {
                count: 0,
                mean: 0.0,
                squares: 0.0,
            },
        }
    }

    fn take(&mut self, value: Option<Cell<'_>>) {
        let value = value.unwrap_or(Cell::Int(0));
        match self {
            Self::Count(count) => *count += 1,
            Self::Integer { sum, .. } => {
                *sum = Some(sum.unwrap_or(0).wrapping_add(value.int()));
            }
            Self::Float(sum) => {
                let sum = sum.get_or_insert_with(|| Box::new(ExactSum::new()));
                sum.add(value.float());
            }
            Self::Extreme { greatest, held } => {
                let is_beyond = held.as_ref().is_none_or(|held| {
                    let order = value.order(held.cell());
                    if *greatest {
                        order.is_gt()
                    } else {
                        order.is_lt()
                    }
                });
                if is_beyond {
                    *held = Some(Kept::of(value));
                }
            }
            // By Welford's method; a backend may add up exactly and round once.
            Self::Moments {
                count,
                mean,
                squares,
            } => {
                *count += 1;
                let before = value.float() - *mean;
                *mean += before / *count as f64;
                *squares += before * (value.float() - *mean);
            }
        }
    }

    fn results(&self) -> Vec<Option<Cell<'_>>> {
        match self {
            Self::Count(count) => vec![Some(Cell::Int(i128::from(*count)))],
            Self::Integer { bits, sum } => {
                let shift = 128 - bits;
                vec![sum.map(|sum| Cell::Int(sum << shift >> shift))]
            }
            Self::Float(sum) => vec![sum.as_ref().map(|sum| Cell::Float(sum.rounded()))],
            Self::Extreme { held, .. } => vec![held.as_ref().map(Kept::cell)],
            Self::Moments { mean, squares, .. } => {
                vec![Some(Cell::Float(*mean)), Some(Cell::Float(*squares))]
            }
        }
    }
}
