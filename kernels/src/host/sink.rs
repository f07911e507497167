//! What becomes of selected rows: groups, or rows that leave.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use tidegate_pipeline::program::{Groups, Sink};
use tidegate_pipeline::{RowProgram, Unsupported};

use super::block::BLOCK;
use super::code::{AccumulatorCode, KeyCode, Register, SinkCode};
use super::columns::{Column, batch_of, columns_of};
use super::declined::Declined;
use super::execute::Machine;
use super::finish::Finish;
use super::groups::finder::Finder;
use super::groups::keys::{KeyPlan, Keys};
use super::groups::recorder::{Recorder, record_width};
use super::groups::records::Partition;
use super::groups::results::Results;
use super::groups::shared::SharedStrings;
use super::groups::states::States;
use super::groups::taken::Taken;
use super::vector::{Vector, read};
use crate::strings::Dictionary;

/// State of a run.
#[derive(Debug)]
pub(super) enum State {
    Rows(RowState),
    Groups(Box<GroupState>),
}

/// Rows that have not left yet.
#[derive(Debug)]
pub(super) struct RowState {
    schema: SchemaRef,
    /// Nothing until the first row comes.
    columns: Vec<Column>,
    num_rows: usize,
}

/// Groups.
#[derive(Debug)]
pub(super) struct GroupState {
    /// Nothing if there is one group of all rows.
    finder: Option<Finder>,
    states: States,
    num_keys: usize,
    num_accumulators: usize,
    /// The group of each row of a block.
    groups: Vec<u32>,
    /// What makes records of the groups, if there are many.
    recorder: Option<Recorder>,
    /// Rows that the groups have taken in.
    rows: usize,
}

impl State {
    /// Starts without rows.
    pub(super) fn new(program: &RowProgram, schema: &SchemaRef) -> Self {
        match &program.sink {
            Sink::Groups(groups) => Self::Groups(Box::new(GroupState::new(program, groups))),
            Sink::Rows(_) | Sink::Sorted(_) => Self::Rows(RowState {
                schema: schema.clone(),
                columns: Vec::new(),
                num_rows: 0,
            }),
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.columns.iter().map(Column::memory_bytes).sum(),
            Self::Groups(groups) => groups.memory_bytes(),
        }
    }

    /// Returns whether it takes rows in that are not selected, which then count nowhere.
    pub(super) fn takes_all_rows(&self) -> bool {
        match self {
            Self::Rows(_) => false,
            Self::Groups(groups) => {
                let finder = groups.finder.as_ref();
                groups.recorder.is_none() && finder.is_some_and(Finder::takes_all_rows)
            }
        }
    }

    /// Takes a block's rows, those that `pass` selects if it is given.
    pub(super) fn fold(
        &mut self,
        code: &SinkCode,
        machine: &mut Machine<'_, '_>,
        pass: Option<&[u8]>,
        count: usize,
    ) -> Result<(), Declined> {
        match (self, code) {
            (Self::Rows(rows), SinkCode::Rows(columns)) => rows.fold(columns, machine, count),
            (Self::Groups(groups), SinkCode::Groups { keys, accumulators }) => {
                groups.fold((keys, accumulators), machine, pass, count)
            }
            _ => Err(Declined::Unsupported("a sink of another kind".to_owned())),
        }
    }
}

impl RowState {
    fn fold(
        &mut self,
        outputs: &[(Register, Option<Register>)],
        machine: &Machine<'_, '_>,
        count: usize,
    ) -> Result<(), Declined> {
        if self.columns.is_empty() {
            self.columns = columns_of(&self.schema)?;
        }
        for (column, output) in self.columns.iter_mut().zip(outputs) {
            machine.append(column, *output, count)?;
        }
        self.num_rows += count;
        Ok(())
    }

    /// Takes the rows out in batches, if there are enough.
    pub(super) fn take(
        &mut self,
        batch_rows: usize,
        flush: bool,
    ) -> Result<Vec<RecordBatch>, Declined> {
        let batch_rows = batch_rows.max(1);
        if self.num_rows == 0 || (self.num_rows < batch_rows && !flush) {
            return Ok(Vec::new());
        }
        let columns = std::mem::take(&mut self.columns);
        let num_rows = std::mem::take(&mut self.num_rows);
        let batch = batch_of(&self.schema, columns, num_rows)?;
        let starts = (0..num_rows).step_by(batch_rows);
        Ok(starts
            .map(|start| batch.slice(start, batch_rows.min(num_rows - start)))
            .collect())
    }
}

impl GroupState {
    fn new(program: &RowProgram, groups: &Groups) -> Self {
        let has_keys = !groups.keys.is_empty();
        let finder = has_keys.then(|| Finder::new(KeyPlan::new(program, groups)));
        let mut states = States::new(program, groups);
        if !has_keys {
            states.fit(1);
        }
        Self {
            finder,
            states,
            num_keys: groups.keys.len(),
            num_accumulators: groups.accumulators.len(),
            groups: Vec::new(),
            recorder: None,
            rows: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let finder = self.finder.as_ref().map_or(0, Finder::memory_bytes);
        let recorder = self.recorder.as_ref().map_or(0, Recorder::memory_bytes);
        finder + self.states.memory_bytes() + self.groups.capacity() * 4 + recorder
    }

    /// The same for groups that come from records.
    pub(super) fn of_records(program: &RowProgram, groups: &Groups) -> Self {
        Self {
            finder: Some(Finder::by_hash(KeyPlan::new(program, groups))),
            states: States::single(program, groups),
            ..Self::new(program, groups)
        }
    }

    /// Makes records of the groups from now on; returns whether they can be.
    pub(super) fn start_records(
        &mut self,
        program: &RowProgram,
        groups: &Groups,
        shared: &Arc<SharedStrings>,
        takes_rows: bool,
    ) -> bool {
        if self.recorder.is_none()
            && let Some(finder) = &self.finder
        {
            self.recorder = Recorder::new(program, groups, finder.plan(), shared, takes_rows);
        }
        self.recorder.is_some()
    }

    /// Makes records of all groups.
    ///
    /// # Errors
    /// They cannot be records, and are still groups.
    pub(super) fn record_groups(&mut self, strings: &[Dictionary]) -> Result<(), Declined> {
        let (Some(finder), Some(recorder)) = (&mut self.finder, &mut self.recorder) else {
            return Ok(());
        };
        recorder.record_groups(finder, &mut self.states, strings)?;
        self.rows = 0;
        Ok(())
    }

    /// Takes the records, by partition; there are none from now on.
    pub(super) fn take_records(&mut self) -> Option<Vec<Partition>> {
        self.recorder.take().map(Recorder::finish)
    }

    /// Takes whole records of up to [`BLOCK`] groups in.
    pub(super) fn merge(&mut self, records: &[u64]) -> Result<(), Declined> {
        let Some(finder) = &mut self.finder else {
            return Err(Declined::Unsupported("records without keys".to_owned()));
        };
        let Some(width) = record_width(finder.plan(), &self.states) else {
            return Err(Declined::Unsupported("records of strings".to_owned()));
        };
        let count = records.len() / width;
        let fill = |words: &mut [Vec<u64>]| {
            for (column, words) in words.iter_mut().enumerate() {
                let records = records.chunks_exact(width).zip(words);
                records.for_each(|(record, word)| *word = record[column]);
            }
        };
        finder.find_words(fill, &mut self.groups, count)?;
        self.states.fit(finder.num_groups());
        let to = (width, finder.plan().num_words());
        self.states.merge_records(&self.groups, to, records)
    }

    /// Returns the words of a block of records.
    pub(super) fn block_words(&self) -> usize {
        let plan = self.finder.as_ref().map(Finder::plan);
        let width = plan.and_then(|plan| record_width(plan, &self.states));
        width.unwrap_or(1) * BLOCK
    }

    pub(super) fn num_groups(&self) -> usize {
        self.finder.as_ref().map_or(1, Finder::num_groups)
    }

    /// Returns how many rows the groups have taken in.
    pub(super) fn num_rows(&self) -> usize {
        self.rows
    }

    fn fold(
        &mut self,
        (keys, accumulators): (&[KeyCode], &[AccumulatorCode]),
        machine: &mut Machine<'_, '_>,
        pass: Option<&[u8]>,
        count: usize,
    ) -> Result<(), Declined> {
        let registers: &[Vector] = machine.registers;
        let taken = |index: usize| {
            let (value, rows) = accumulators[index];
            let rows = rows.map(|rows| read::<u8>(&registers[rows], count));
            Ok(Taken {
                value: value.map(|value| &registers[value]),
                texts: machine.text(value.unwrap_or_default()),
                rows: rows.transpose()?,
            })
        };
        let Some(finder) = &mut self.finder else {
            self.states.flush_before(count);
            for index in 0..accumulators.len() {
                self.states.take_in(index, None, taken(index)?, count)?;
            }
            return Ok(());
        };
        let keys = Keys { registers, keys };
        if let Some(recorder) = &mut self.recorder {
            recorder.fit(finder, &mut self.states, machine.strings, &mut self.rows)?;
            if recorder.takes_rows() {
                return recorder.record_rows(finder, keys, machine.strings, &taken, count);
            }
        }
        finder.find(keys, machine.strings, pass, &mut self.groups, count)?;
        self.states.fit(finder.num_groups());
        self.states.flush_before(count);
        self.states.lines_of(&mut self.groups);
        self.rows += count;
        self.states.take_in_lines(&self.groups, &taken)
    }

    /// Takes the groups out.
    pub(super) fn take(
        &mut self,
        schema: &SchemaRef,
        finishes: &[Finish],
        strings: &[Dictionary],
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>, Declined> {
        let batches = self.batches(schema, finishes, strings, batch_rows)?;
        self.states.clear();
        match &mut self.finder {
            Some(finder) => finder.clear(),
            None => self.states.fit(1),
        }
        self.rows = 0;
        Ok(batches)
    }

    /// Forgets the groups, and keeps their memory for others.
    pub(super) fn restart(&mut self) {
        self.states.restart();
        if let Some(finder) = &mut self.finder {
            finder.restart();
        }
    }

    /// Returns the groups.
    pub(super) fn batches(
        &mut self,
        schema: &SchemaRef,
        finishes: &[Finish],
        strings: &[Dictionary],
        batch_rows: usize,
    ) -> Result<Vec<RecordBatch>, Declined> {
        self.states.settle();
        let num_groups = self.num_groups();
        let mut batches = Vec::new();
        for start in (0..num_groups).step_by(batch_rows.max(1)) {
            let groups = start..num_groups.min(start.saturating_add(batch_rows.max(1)));
            let count = groups.len();
            let mut columns = columns_of(schema)?;
            if let Some(finder) = &self.finder {
                let words = finder.words_of(groups.clone());
                for (key, column) in columns.iter_mut().enumerate().take(self.num_keys) {
                    let none = Dictionary::default();
                    let strings = strings.get(key).unwrap_or(&none);
                    finder.plan().append_key(key, words, strings, column)?;
                }
            }
            let accumulators = 0..self.num_accumulators;
            let results = accumulators.map(|at| self.states.results(at, groups.clone()));
            let results: Vec<Vec<Results>> = results.collect();
            let mut rest = columns
                .as_mut_slice()
                .get_mut(self.num_keys..)
                .unwrap_or_default();
            for finish in finishes {
                let (own, others) = rest.split_at_mut(finish.num_columns().min(rest.len()));
                finish.append(&results, count, own)?;
                rest = others;
            }
            batches.push(batch_of(schema, columns, count)?);
        }
        Ok(batches)
    }
}

/// Returns the finishes of a program's calls.
pub(super) fn finishes(program: &RowProgram) -> Result<Vec<Finish>, Unsupported> {
    match &program.sink {
        Sink::Groups(groups) => Finish::all(groups),
        Sink::Rows(_) | Sink::Sorted(_) => Ok(Vec::new()),
    }
}

/// Returns how many keys a program has.
pub(super) fn num_keys(program: &RowProgram) -> usize {
    match &program.sink {
        Sink::Groups(groups) => groups.keys.len(),
        Sink::Rows(_) | Sink::Sorted(_) => 0,
    }
}
