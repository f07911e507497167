//! A run of a program: one thread's registers and state.

use std::sync::Arc;

use arrow_array::{Array, RecordBatch};

use tidegate_pipeline::Interval;
use tidegate_pipeline::program::Sink;

use super::HostProgram;
use super::block::{BLOCK, Chunk, Entries, Values};
use super::compile::{compile, num_tables};
use super::declined::Declined;
use super::execute::{Machine, Source};
use super::groups::recorder::are_rows_better;
use super::groups::records::Partition;
use super::groups::shared::SharedStrings;
use super::load;
use super::machine::Unit;
use super::ops;
use super::sink::{State, num_keys};
use super::vector::{Held, Lane, Vector, read};
use crate::strings::Dictionary;

/// Of so many rows at least one has a string of a key that was there before, or groups do not become records. One
/// in ten of the first 100,000 tells of half a million strings, if all are as frequent.
const STRINGS_REPEAT: usize = 10;

/// A run of a program over groups of rows, for one thread.
#[derive(Debug)]
pub struct HostRun {
    program: Arc<HostProgram>,
    /// The code for inputs of which some have dictionaries that are worth tables.
    units: Vec<(Vec<bool>, Unit)>,
    dictionaries: Dictionaries,
    strings: Vec<Dictionary>,
    /// Which inputs of a block have such codes.
    coded: Vec<bool>,
    /// Which rows were selected last, a byte of 0 or 1 each, if some were and others not.
    pass: Vec<u8>,
    /// The places of those rows.
    selection: Vec<u16>,
    num_selected: usize,
    num_rows: usize,
    state: State,
}

/// The dictionaries of a group of rows, and what is known of their entries.
#[derive(Debug)]
struct Dictionaries {
    held: Vec<Option<Held>>,
    lens: Vec<usize>,
    /// Which entries contradict what is known of their input, if some do: no row that has a value may use one.
    outside: Vec<Option<Vec<bool>>>,
    /// Whether a dictionary has so few entries that work on them pays.
    pays: Vec<bool>,
    /// What was computed for entries.
    tables: Vec<Option<Vector>>,
    is_ruled_out: bool,
}

/// How many rows of a block are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// No row: the block's other columns need not be decoded, and there is nothing to fold.
    None,
    /// So many rows.
    Some(usize),
}

impl HostRun {
    pub(super) fn new(program: Arc<HostProgram>) -> Self {
        let row_program = program.program();
        let num_inputs = row_program.inputs.len();
        Self {
            units: Vec::new(),
            dictionaries: Dictionaries {
                held: vec![None; num_inputs],
                lens: vec![0; num_inputs],
                outside: vec![None; num_inputs],
                pays: vec![false; num_inputs],
                tables: vec![None; num_tables(row_program)],
                is_ruled_out: false,
            },
            strings: vec![Dictionary::default(); num_keys(row_program)],
            coded: vec![false; num_inputs],
            pass: Vec::with_capacity(BLOCK),
            selection: vec![0; BLOCK],
            num_selected: 0,
            num_rows: 0,
            state: State::new(row_program, &program.output()),
            program,
        }
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<HostProgram> {
        &self.program
    }

    /// Begins a group of rows. `entries[i]` is the dictionary of `inputs()[i]`, if it has one; `rows` is how
    /// many rows the group has, since work on entries pays only with several rows for each.
    ///
    /// # Errors
    /// Entries of another kind than their input.
    pub fn begin(&mut self, entries: &[Option<&Entries>], rows: usize) -> Result<(), Declined> {
        self.dictionaries.clear();
        for input in 0..self.coded.len() {
            let entries = entries.get(input).copied().flatten();
            if let Some(entries) = entries {
                self.dictionaries
                    .hold(&self.program, input, entries, rows)?;
            }
        }
        if self.dictionaries.pays.contains(&true) {
            let coded = self.dictionaries.pays.clone();
            let unit = unit(&mut self.units, &self.program, &coded)?;
            self.dictionaries
                .look_up(&mut self.units[unit].1, &mut self.strings)?;
            self.dictionaries.rule_out(&self.units[unit].1);
        }
        Ok(())
    }

    /// Returns whether no row of the group can be selected, by its dictionaries alone: it need not be
    /// read. This holds if every block of the group has codes wherever the group has entries.
    pub fn is_ruled_out(&self) -> bool {
        self.dictionaries.is_ruled_out
    }

    /// Evaluates the selection of a block, of whose chunks those with `filters` are there.
    ///
    /// # Errors
    /// Why the block is declined.
    pub fn select(
        &mut self,
        rows: usize,
        chunks: &[Option<Chunk<'_>>],
    ) -> Result<Selected, Declined> {
        (self.num_selected, self.num_rows) = (0, rows);
        self.check(rows, chunks)?;
        let unit = unit(&mut self.units, &self.program, &self.coded)?;
        let Unit { code, registers } = {
            self.dictionaries
                .look_up(&mut self.units[unit].1, &mut self.strings)?;
            &mut self.units[unit].1
        };
        let source = Source::Rows {
            chunks,
            held: &self.dictionaries.held,
            tables: &self.dictionaries.tables,
            selection: None,
        };
        let mut texts = code.texts();
        let mut machine = Machine::new(registers, &mut texts, &mut self.strings);
        machine.run(&code.filter, source, rows)?;
        if machine.raises(&code.filter_raises, None, rows)? {
            return Err(Declined::Raises);
        }
        self.num_selected = match code.pass {
            None => rows,
            Some(pass) => {
                let pass = read::<u8>(&machine.registers[pass], rows)?;
                self.pass.clear();
                self.pass.extend_from_slice(pass);
                ops::count(pass)
            }
        };
        Ok(match self.num_selected {
            0 => Selected::None,
            count => Selected::Some(count),
        })
    }

    /// Returns which rows were selected last, a byte of 0 or 1 each; `None` if all were.
    pub fn selected(&self) -> Option<&[u8]> {
        (self.num_selected < self.num_rows).then_some(&self.pass)
    }

    /// Leaves rows of the block that was selected last out: those whose byte of `wanted`, of 0 or 1, is 0.
    pub fn restrict(&mut self, wanted: &[u8]) -> Selected {
        if self.num_selected == self.num_rows {
            self.pass.clear();
            self.pass.extend_from_slice(wanted);
            self.pass.resize(self.num_rows, 0);
        } else {
            ops::both(&mut self.pass, wanted);
        }
        self.num_selected = match self.num_selected {
            0 => 0,
            _ => ops::count(&self.pass),
        };
        match self.num_selected {
            0 => Selected::None,
            count => Selected::Some(count),
        }
    }

    /// Folds the block that was selected last; all its chunks are there.
    ///
    /// # Errors
    /// Why the block is declined.
    pub fn fold(&mut self, rows: usize, chunks: &[Option<Chunk<'_>>]) -> Result<(), Declined> {
        if rows != self.num_rows {
            return Err(Declined::Unsupported(
                "a block that was not selected".to_owned(),
            ));
        }
        if self.num_selected == 0 {
            return Ok(());
        }
        self.check(rows, chunks)?;
        let unit = unit(&mut self.units, &self.program, &self.coded)?;
        let Unit { code, registers } = {
            self.dictionaries
                .look_up(&mut self.units[unit].1, &mut self.strings)?;
            &mut self.units[unit].1
        };
        let pass = (self.num_selected < rows).then_some(self.pass.as_slice());
        // Where most rows are selected, computing for all costs less than picking some.
        let takes_all = self.num_selected * 4 >= rows * 3 && self.state.takes_all_rows();
        let (pass, selection) = match (pass, takes_all) {
            (Some(pass), false) => {
                let count = ops::places(pass, &mut self.selection);
                (None, Some(&self.selection[..count]))
            }
            (pass, _) => (pass, None),
        };
        let count = selection.map_or(rows, <[u16]>::len);
        let source = Source::Rows {
            chunks,
            held: &self.dictionaries.held,
            tables: &self.dictionaries.tables,
            selection,
        };
        let mut texts = code.texts();
        let mut machine = Machine::new(registers, &mut texts, &mut self.strings);
        machine.run(&code.rest, source, count)?;
        if machine.raises(&code.rest_raises, pass, count)? {
            return Err(Declined::Raises);
        }
        self.state.fold(&code.sink, &mut machine, pass, count)?;
        // A block is folded once.
        self.num_selected = 0;
        Ok(())
    }

    /// Holds a block against what is known of its inputs, and notes which have codes that are worth it.
    fn check(&mut self, rows: usize, chunks: &[Option<Chunk<'_>>]) -> Result<(), Declined> {
        if rows > BLOCK || chunks.len() != self.coded.len() {
            return Err(Declined::Unsupported(format!("a block of {rows} rows")));
        }
        for (input, chunk) in chunks.iter().enumerate() {
            let pays = self.dictionaries.pays[input];
            self.coded[input] = pays;
            let Some(chunk) = chunk else {
                continue;
            };
            self.coded[input] = pays && is_coded(chunk.values);
            let nullable = self.program.program().inputs[input].facts.nullable;
            let validity = chunk.validity.and_then(|validity| validity.get(..rows));
            if !nullable && validity.is_some_and(|validity| validity.contains(&0)) {
                return Err(Declined::OutsideFacts { input });
            }
            let outside = self.dictionaries.outside[input].as_deref();
            if outside.is_some_and(|outside| load::uses(chunk, rows, outside)) {
                return Err(Declined::OutsideFacts { input });
            }
        }
        Ok(())
    }

    /// Returns the bytes of state, dictionaries and rows that are kept.
    pub fn memory_bytes(&self) -> usize {
        let units: usize = self.units.iter().map(|(_, unit)| unit.memory_bytes()).sum();
        let strings: usize = self.strings.iter().map(Dictionary::memory_bytes).sum();
        units + strings + self.dictionaries.memory_bytes() + self.state.memory_bytes()
    }

    /// Returns how many groups there are.
    pub fn num_groups(&self) -> usize {
        match &self.state {
            State::Groups(groups) => groups.num_groups(),
            State::Rows(_) => 0,
        }
    }

    /// Takes the groups out, in batches of at most so many rows under the pipeline's output schema. The run
    /// has no groups then and goes on; without keys, the one group is there again.
    ///
    /// # Errors
    /// A group's result raises; the groups are still there.
    pub fn take(&mut self, batch_rows: usize) -> Result<Vec<RecordBatch>, Declined> {
        let State::Groups(groups) = &mut self.state else {
            return Ok(Vec::new());
        };
        let (schema, finishes) = (self.program.output(), self.program.finishes());
        let batches = groups.take(&schema, finishes, &self.strings, batch_rows)?;
        self.strings.iter_mut().for_each(Dictionary::clear);
        // They may have codes of strings that are no longer there.
        self.dictionaries
            .tables
            .iter_mut()
            .for_each(|table| *table = None);
        Ok(batches)
    }

    /// Makes records from now on, of which `shared` has the strings: of each row if `takes_rows`, else of the
    /// groups whenever they are many. Returns whether there can be records.
    pub fn start_records(&mut self, shared: &Arc<SharedStrings>, takes_rows: bool) -> bool {
        let row_program = self.program.program();
        match (&mut self.state, &row_program.sink) {
            (State::Groups(groups), Sink::Groups(of_program)) => {
                groups.start_records(row_program, of_program, shared, takes_rows)
            }
            _ => false,
        }
    }

    /// Returns whether each row should become a record, for there are few rows for each group; `None` if
    /// rows have strings of their own, which are not worth records.
    pub fn are_rows_better(&self) -> Option<bool> {
        let State::Groups(groups) = &self.state else {
            return None;
        };
        let rows = groups.num_rows();
        let few = rows - rows / STRINGS_REPEAT;
        let has_few = self.strings.iter().all(|strings| strings.len() <= few);
        has_few.then(|| are_rows_better(rows, groups.num_groups()))
    }

    /// Makes records of all groups that there are.
    ///
    /// # Errors
    /// They cannot be records, and are still groups.
    pub fn record_groups(&mut self) -> Result<(), Declined> {
        match &mut self.state {
            State::Groups(groups) => groups.record_groups(&self.strings),
            State::Rows(_) => Ok(()),
        }
    }

    /// Takes the records, by partition, and makes none from now on; `None` if it made none. Groups that are
    /// no records stay.
    pub fn take_records(&mut self) -> Option<Vec<Partition>> {
        match &mut self.state {
            State::Groups(groups) => groups.take_records(),
            State::Rows(_) => None,
        }
    }

    /// Takes selected rows out that were gathered by a program without an aggregate, if there are at least
    /// `batch_rows` or if `flush`; in batches of `batch_rows`, and a last one of what is left over.
    ///
    /// # Errors
    /// Rows that the output's types do not hold.
    pub fn rows(&mut self, batch_rows: usize, flush: bool) -> Result<Vec<RecordBatch>, Declined> {
        match &mut self.state {
            State::Rows(rows) => rows.take(batch_rows, flush),
            State::Groups(_) => Ok(Vec::new()),
        }
    }
}

/// Returns the place of the code for inputs of which some are coded.
fn unit(
    units: &mut Vec<(Vec<bool>, Unit)>,
    program: &HostProgram,
    coded: &[bool],
) -> Result<usize, Declined> {
    if let Some(place) = units.iter().position(|(known, _)| known == coded) {
        return Ok(place);
    }
    let code = compile(program.program(), coded)?;
    units.push((coded.to_vec(), Unit::new(code)?));
    Ok(units.len() - 1)
}

/// Returns which entries lie outside of an interval.
fn outside(entries: &Entries, interval: Interval) -> Vec<bool> {
    fn of<T: Copy + Into<i128>>(values: &[T], interval: Interval) -> Vec<bool> {
        let outside = values
            .iter()
            .map(|value| !interval.contains((*value).into()));
        outside.collect()
    }
    match entries {
        Entries::I32(values) => of(values, interval),
        Entries::I64(values) => of(values, interval),
        Entries::I128(values) => of(values, interval),
        Entries::F32(values) => vec![false; values.len()],
        Entries::F64(values) => vec![false; values.len()],
        Entries::Text(array) => vec![false; array.len()],
    }
}

fn is_coded(values: Values<'_>) -> bool {
    matches!(
        values,
        Values::Codes8(_) | Values::Codes16(_) | Values::Codes32(_) | Values::Constant(_)
    )
}

impl Dictionaries {
    fn clear(&mut self) {
        self.held.iter_mut().for_each(|held| *held = None);
        self.lens.fill(0);
        self.outside.iter_mut().for_each(|outside| *outside = None);
        self.pays.fill(false);
        self.tables.iter_mut().for_each(|table| *table = None);
        self.is_ruled_out = false;
    }

    fn memory_bytes(&self) -> usize {
        let held: usize = self.held.iter().flatten().map(Held::memory_bytes).sum();
        let tables: usize = self.tables.iter().flatten().map(Vector::memory_bytes).sum();
        held + tables
    }

    /// Keeps the entries of an input, in its lane.
    fn hold(
        &mut self,
        program: &HostProgram,
        input: usize,
        entries: &Entries,
        rows: usize,
    ) -> Result<(), Declined> {
        let (lane, interval) = program.lane_of(input);
        let (values, len) = match entries {
            Entries::I32(values) => (Values::I32(values), values.len()),
            Entries::I64(values) => (Values::I64(values), values.len()),
            Entries::I128(values) => (Values::I128(values), values.len()),
            Entries::F32(values) => (Values::F32(values), values.len()),
            Entries::F64(values) => (Values::F64(values), values.len()),
            Entries::Text(array) => (Values::Text { array, at: 0 }, array.len()),
        };
        let held = match (entries, lane) {
            (Entries::Text(array), Lane::Text) => Held::Text(array.clone()),
            (Entries::I32(values), Lane::Bool) => {
                let bools = values.iter().map(|value| (*value != 0).into());
                Held::Vector(Vector::Bool(bools.collect()))
            }
            _ => {
                let mut vector = Vector::new(lane, len);
                let chunk = Chunk {
                    values,
                    validity: None,
                };
                if !load::load(&chunk, None, None, interval, &mut vector, len)? {
                    let outside = outside(entries, interval);
                    let validity: Vec<u8> = outside.iter().map(|is| u8::from(!is)).collect();
                    let chunk = Chunk {
                        values,
                        validity: Some(&validity),
                    };
                    load::load(&chunk, None, None, interval, &mut vector, len)?;
                    self.outside[input] = Some(outside);
                }
                Held::Vector(vector)
            }
        };
        self.held[input] = Some(held);
        self.lens[input] = len;
        self.pays[input] = len > 0 && len.saturating_mul(2) <= rows;
        Ok(())
    }

    /// Computes the tables of a code that are not there yet.
    fn look_up(&mut self, unit: &mut Unit, strings: &mut [Dictionary]) -> Result<(), Declined> {
        let Unit { code, registers } = unit;
        for entry in &code.entries {
            if entry
                .tables
                .iter()
                .all(|(_, table)| self.tables[*table].is_some())
            {
                continue;
            }
            let Some(held) = &self.held[entry.input] else {
                return Err(Declined::Unsupported("codes without entries".to_owned()));
            };
            let lanes = entry
                .tables
                .iter()
                .map(|(register, _)| code.lanes[*register]);
            let mut made: Vec<Vector> = lanes.map(|lane| Vector::new(lane, 0)).collect();
            let mut texts = code.texts();
            let len = self.lens[entry.input];
            for at in (0..len).step_by(BLOCK) {
                let count = BLOCK.min(len - at);
                let mut machine = Machine::new(registers, &mut texts, strings);
                machine.run(&entry.instructions, Source::Entries { held, at }, count)?;
                for ((register, _), made) in entry.tables.iter().zip(&mut made) {
                    load::append(made, &machine.registers[*register], count)?;
                }
            }
            for ((_, table), made) in entry.tables.iter().zip(made) {
                self.tables[*table] = Some(made);
            }
        }
        Ok(())
    }

    /// Decides whether entries alone rule all rows out.
    fn rule_out(&mut self, unit: &Unit) {
        let is_false = |table: &usize| match &self.tables[*table] {
            Some(Vector::Bool(verdicts)) => !verdicts.contains(&1),
            _ => false,
        };
        let has_errors = !unit.code.filter_raises.is_empty();
        self.is_ruled_out = !has_errors && unit.code.verdicts.iter().any(is_false);
    }
}
