//! From a row program to instructions, for inputs of given encodings.
//!
//! Each value is computed at the level at which it is known: once if it hangs on constants alone, once for
//! each entry of a dictionary if it hangs on one input that has a dictionary worth it, else for each row.
//! Rows then look up what entries have. What the selection needs comes first; the rest runs for selected
//! rows alone, and so takes every condition of the selection as TRUE.

mod lower_op;

pub(super) use lower_op::span;

use std::collections::{HashMap, HashSet};

use tidegate_pipeline::program::{Input, InputId, Op, Raise, Reduce, Sink, Type, ValueId};
use tidegate_pipeline::{Interval, RowProgram, Unsupported};

use super::allocate::allocate;
use super::code::{Code, Constant, EntryCode, Instruction, Operation, Register, SinkCode};
use super::vector::Lane;

/// Where a value is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Constant,
    Entry(usize),
    Row,
}

/// For what instructions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Setup,
    Entry(usize),
    Filter,
    Rest,
}

/// A table of entries.
#[derive(Clone, Copy, Debug)]
enum Table {
    Value(ValueId),
    /// Codes of a key's strings.
    Codes(usize),
    /// Whether the conditions of the selection hold that hang on an input alone.
    Verdict(usize),
}

/// Returns the inputs that the selection reads, and errors of rows that need not be selected.
pub(super) fn filtering(program: &RowProgram) -> Vec<bool> {
    let mut reads = vec![false; program.inputs.len()];
    let mut open = vec![program.selected];
    for raise in raises(program, false) {
        open.extend([raise.guard, raise.when]);
    }
    let mut seen = HashSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        match &program.value(id).op {
            Op::Input(InputId(input)) | Op::IsPresent(InputId(input)) => {
                reads[*input as usize] = true;
            }
            op => open.extend(op.operands()),
        }
    }
    reads
}

/// Returns how many tables a program may have.
pub(super) fn num_tables(program: &RowProgram) -> usize {
    let num_keys = match &program.sink {
        Sink::Groups(groups) => groups.keys.len(),
        Sink::Rows(_) | Sink::Sorted(_) => 0,
    };
    program.values.len() + num_keys + program.inputs.len()
}

/// Returns the errors of selected rows alone, or those of others too.
fn raises(program: &RowProgram, of_selected: bool) -> impl Iterator<Item = &Raise> {
    let selected = program.conjuncts(program.selected);
    program.raises.iter().filter(move |raise| {
        let guard = program.conjuncts(raise.guard);
        let known = |id: &ValueId| guard.contains(id) || is_always(program, *id);
        selected.iter().all(known) == of_selected
    })
}

fn is_always(program: &RowProgram, id: ValueId) -> bool {
    matches!(program.value(id).op, Op::Bool(true) | Op::RowExists)
}

/// Compiles a program for inputs of which some have dictionaries that are worth tables.
///
/// # Errors
/// What blocks cannot compute.
pub(super) fn compile(program: &RowProgram, coded: &[bool]) -> Result<Code, Unsupported> {
    let mut compiler = Compiler::new(program, coded);
    let (pass, verdicts) = compiler.selection()?;
    let mut filter_raises = Vec::new();
    for raise in raises(program, false) {
        filter_raises.push(compiler.raise(Place::Filter, raise)?);
    }
    compiler.assume(program.selected);
    let mut rest_raises = Vec::new();
    for raise in raises(program, true) {
        rest_raises.push(compiler.raise(Place::Rest, raise)?);
    }
    let sink = compiler.sink()?;
    let mut entries = Vec::new();
    for input in 0..program.inputs.len() {
        let instructions = compiler.lists.remove(&Place::Entry(input));
        let tables = compiler.tables.remove(&input).unwrap_or_default();
        if !tables.is_empty() {
            entries.push(EntryCode {
                input,
                instructions: instructions.unwrap_or_default(),
                tables,
            });
        }
    }
    let mut list = |place: Place| compiler.lists.remove(&place).unwrap_or_default();
    let mut code = Code {
        setup: list(Place::Setup),
        filter: list(Place::Filter),
        rest: list(Place::Rest),
        lanes: compiler.lanes,
        constants: compiler.constants,
        entries,
        verdicts,
        pass,
        filter_raises,
        rest_raises,
        sink,
    };
    allocate(&mut code);
    Ok(code)
}

/// Returns which values are TRUE for every row where some are assumed to be.
///
/// Values stand behind what they are computed from.
fn truths(program: &RowProgram, assumed: &HashSet<ValueId>) -> Vec<bool> {
    let mut truths: Vec<bool> = Vec::with_capacity(program.values.len());
    for (index, value) in program.values.iter().enumerate() {
        let of = |id: ValueId| truths[id.0 as usize];
        let is_true = match value.op {
            Op::Bool(true) | Op::RowExists => true,
            Op::And(left, right) => of(left) && of(right),
            Op::Or(left, right) => of(left) || of(right),
            _ => false,
        };
        truths.push(is_true || assumed.contains(&ValueId(index as u32)));
    }
    truths
}

struct Compiler<'a> {
    program: &'a RowProgram,
    levels: Vec<Level>,
    lanes: Vec<Lane>,
    constants: Vec<(Register, Constant)>,
    by_constant: HashMap<(Lane, Constant), Register>,
    constant_registers: HashSet<Register>,
    lists: HashMap<Place, Vec<Instruction>>,
    /// The tables of each input, and the registers that they are made of.
    tables: HashMap<usize, Vec<(Register, usize)>>,
    known: HashMap<(Place, ValueId), Register>,
    /// Registers that were brought to another lane.
    cast: HashMap<(Place, Register, Lane), Register>,
    /// The conditions that are TRUE for every row.
    always: Vec<bool>,
    /// The conditions that are TRUE for every selected row.
    when_selected: Vec<bool>,
}

impl<'a> Compiler<'a> {
    fn new(program: &'a RowProgram, coded: &[bool]) -> Self {
        let mut levels: Vec<Level> = Vec::with_capacity(program.values.len());
        for value in &program.values {
            let operands = value.op.operands();
            let texts = |id: &ValueId| program.data(*id) == Type::Text;
            let level = match &value.op {
                Op::Input(InputId(input)) if coded[*input as usize] => {
                    Level::Entry(*input as usize)
                }
                Op::Input(_) | Op::IsPresent(_) => Level::Row,
                op => {
                    let levels = op.operands().into_iter().map(|id| levels[id.0 as usize]);
                    levels.fold(Level::Constant, Level::with)
                }
            };
            let is_text = value.data == Type::Text || operands.iter().any(texts);
            // Text borrows from a block, so that what is made of it is made for each.
            let again = level == Level::Constant && is_text && !operands.is_empty();
            levels.push(if again { Level::Row } else { level });
        }
        Self {
            program,
            levels,
            lanes: Vec::new(),
            constants: Vec::new(),
            by_constant: HashMap::new(),
            constant_registers: HashSet::new(),
            lists: HashMap::new(),
            tables: HashMap::new(),
            known: HashMap::new(),
            cast: HashMap::new(),
            always: truths(program, &HashSet::new()),
            when_selected: Vec::new(),
        }
    }

    fn level(&self, id: ValueId) -> Level {
        self.levels[id.0 as usize]
    }

    fn register(&mut self, lane: Lane) -> Register {
        self.lanes.push(lane);
        self.lanes.len() - 1
    }

    /// Writes an instruction; returns the register of its result.
    fn make(
        &mut self,
        place: Place,
        lane: Lane,
        operation: Operation,
        operands: &[Register],
    ) -> Register {
        let to = self.register(lane);
        let instruction = Instruction::new(operation, operands, to);
        self.lists.entry(place).or_default().push(instruction);
        to
    }

    fn constant(&mut self, lane: Lane, value: Constant) -> Register {
        let key = (lane, value);
        if let Some(register) = self.by_constant.get(&key) {
            return *register;
        }
        let register = self.register(lane);
        self.constants.push((register, key.1.clone()));
        self.constant_registers.insert(register);
        self.by_constant.insert(key, register);
        register
    }

    fn boolean(&mut self, value: bool) -> Register {
        self.constant(Lane::Bool, Constant::Int(value.into()))
    }

    /// Brings a register to a lane.
    fn cast(&mut self, place: Place, from: Register, lane: Lane) -> Register {
        if self.lanes[from] == lane {
            return from;
        }
        if let Some(known) = self.cast.get(&(place, from, lane)) {
            return *known;
        }
        let made_in = match self.constant_registers.contains(&from) {
            true => Place::Setup,
            false => place,
        };
        let to = self.make(made_in, lane, Operation::Cast, &[from]);
        self.cast.insert((place, from, lane), to);
        to
    }

    /// Takes the conditions that a condition is a conjunction of as TRUE from here on in the rest.
    fn assume(&mut self, condition: ValueId) {
        let mut assumed = HashSet::new();
        let mut open = vec![condition];
        while let Some(id) = open.pop() {
            assumed.insert(id);
            if let Op::And(left, right) = self.program.value(id).op {
                open.extend([left, right]);
            }
        }
        self.when_selected = truths(self.program, &assumed);
    }

    fn is_true(&self, place: Place, id: ValueId) -> bool {
        let selected = place == Place::Rest && self.when_selected.get(id.0 as usize) == Some(&true);
        selected || self.always[id.0 as usize]
    }

    fn is_false(&self, id: ValueId) -> bool {
        self.program.is(id, false)
    }

    /// Returns the register of a condition; none if it is TRUE.
    fn condition(&mut self, place: Place, id: ValueId) -> Result<Option<Register>, Unsupported> {
        match self.is_true(place, id) {
            true => Ok(None),
            false => self.value(place, id).map(Some),
        }
    }

    fn raise(&mut self, place: Place, raise: &Raise) -> Result<(Register, Register), Unsupported> {
        Ok((
            self.value(place, raise.guard)?,
            self.value(place, raise.when)?,
        ))
    }

    /// Computes the selection: conditions on one dictionary together, for its entries.
    fn selection(&mut self) -> Result<(Option<Register>, Vec<usize>), Unsupported> {
        let conjuncts = self.program.conjuncts(self.program.selected);
        let mut by_input: HashMap<usize, Register> = HashMap::new();
        let mut inputs = Vec::new();
        let mut rows = Vec::new();
        for id in conjuncts {
            if self.is_true(Place::Filter, id) {
                continue;
            }
            let Level::Entry(input) = self.level(id) else {
                rows.push(self.value(Place::Filter, id)?);
                continue;
            };
            let place = Place::Entry(input);
            let register = self.value(place, id)?;
            let all = match by_input.get(&input) {
                None => {
                    inputs.push(input);
                    register
                }
                Some(before) => self.both(place, *before, register),
            };
            by_input.insert(input, all);
        }
        let mut verdicts = Vec::new();
        let mut looked_up = Vec::new();
        for input in inputs {
            let table = self.table(Table::Verdict(input));
            if let Some(register) = by_input.get(&input) {
                self.tables
                    .entry(input)
                    .or_default()
                    .push((*register, table));
            }
            let gather = Operation::Gather { input, table };
            verdicts.push(table);
            looked_up.push(self.make(Place::Filter, Lane::Bool, gather, &[]));
        }
        let all = looked_up.into_iter().chain(rows);
        let pass = all.reduce(|one, other| self.both(Place::Filter, one, other));
        Ok((pass, verdicts))
    }

    fn both(&mut self, place: Place, left: Register, right: Register) -> Register {
        self.make(place, Lane::Bool, Operation::And, &[left, right])
    }

    fn table(&self, table: Table) -> usize {
        let num_values = self.program.values.len();
        match table {
            Table::Value(id) => id.0 as usize,
            Table::Codes(key) => num_values + key,
            Table::Verdict(input) => num_tables(self.program) - self.program.inputs.len() + input,
        }
    }

    fn sink(&mut self) -> Result<SinkCode, Unsupported> {
        let place = Place::Rest;
        match &self.program.sink {
            Sink::Rows(outputs) => {
                let mut columns = Vec::with_capacity(outputs.len());
                for output in outputs {
                    let value = self.value(place, output.value.value)?;
                    columns.push((value, self.condition(place, output.value.valid)?));
                }
                Ok(SinkCode::Rows(columns))
            }
            Sink::Groups(groups) => {
                let mut keys = Vec::with_capacity(groups.keys.len());
                for (index, key) in groups.keys.iter().enumerate() {
                    let value = match self.program.data(key.value.value) {
                        Type::Text => self.codes(index, key.value.value)?,
                        _ => self.value(place, key.value.value)?,
                    };
                    keys.push((value, self.condition(place, key.value.valid)?));
                }
                let mut accumulators = Vec::with_capacity(groups.accumulators.len());
                for accumulator in &groups.accumulators {
                    let value = match accumulator.value {
                        Some(value) => Some(self.taken_in(accumulator.reduce, value)?),
                        None => None,
                    };
                    accumulators.push((value, self.condition(place, accumulator.rows)?));
                }
                Ok(SinkCode::Groups { keys, accumulators })
            }
            Sink::Sorted(_) => Err(Unsupported::new("a sort")),
        }
    }

    /// Computes a value in a lane in which state takes it in.
    fn taken_in(&mut self, reduce: Reduce, value: ValueId) -> Result<Register, Unsupported> {
        let register = self.value(Place::Rest, value)?;
        let lane = match (reduce, self.lanes[register]) {
            (Reduce::SumFloat | Reduce::Moments, _) | (_, Lane::F32) => Lane::F64,
            (Reduce::SumInteger { bits: 64 } | Reduce::Combine(_), _)
            | (_, Lane::Bool | Lane::I32) => Lane::I64,
            (_, lane) => lane,
        };
        Ok(self.cast(Place::Rest, register, lane))
    }

    /// Computes the codes of a key's strings: for entries where they are entries'.
    fn codes(&mut self, key: usize, id: ValueId) -> Result<Register, Unsupported> {
        let intern = Operation::Intern { key };
        let Level::Entry(input) = self.level(id) else {
            let from = self.value(Place::Rest, id)?;
            return Ok(self.make(Place::Rest, Lane::I32, intern, &[from]));
        };
        let place = Place::Entry(input);
        let from = self.value(place, id)?;
        let codes = self.make(place, Lane::I32, intern, &[from]);
        let table = self.table(Table::Codes(key));
        self.tables.entry(input).or_default().push((codes, table));
        let gather = Operation::Gather { input, table };
        Ok(self.make(Place::Rest, Lane::I32, gather, &[]))
    }

    /// Returns the register in which a value is at a place.
    fn value(&mut self, place: Place, id: ValueId) -> Result<Register, Unsupported> {
        if self.is_true(place, id) {
            return Ok(self.boolean(true));
        }
        if self.is_false(id) {
            return Ok(self.boolean(false));
        }
        let level = self.level(id);
        let place = if level == Level::Constant {
            Place::Setup
        } else {
            place
        };
        if let Some(register) = self.known.get(&(place, id)) {
            return Ok(*register);
        }
        let is_input = matches!(self.program.value(id).op, Op::Input(_));
        let register = match level {
            Level::Entry(input)
                if place != Place::Entry(input)
                    && !is_input
                    && self.program.data(id) != Type::Text =>
            {
                self.looked_up(place, input, id)?
            }
            _ => self.compute(place, id)?,
        };
        self.known.insert((place, id), register);
        Ok(register)
    }

    /// Looks up what entries have.
    fn looked_up(
        &mut self,
        place: Place,
        input: usize,
        id: ValueId,
    ) -> Result<Register, Unsupported> {
        let of_entry = self.value(Place::Entry(input), id)?;
        let table = self.table(Table::Value(id));
        let tables = self.tables.entry(input).or_default();
        if !tables.iter().any(|(_, known)| *known == table) {
            tables.push((of_entry, table));
        }
        let gather = Operation::Gather { input, table };
        Ok(self.make(place, self.lanes[of_entry], gather, &[]))
    }

    fn load(&mut self, place: Place, input: usize, id: ValueId) -> Register {
        let Input { facts, .. } = &self.program.inputs[input];
        let interval: Interval = facts.interval;
        let lane = Lane::of(self.program.data(id));
        self.make(place, lane, Operation::Load { input, interval }, &[])
    }
}

impl Level {
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Constant, level) | (level, Self::Constant) => level,
            (one, other) if one == other => one,
            _ => Self::Row,
        }
    }
}
