//! One case: a pipeline and its input, run as a device runs it and held against the interpreter.
//!
//! A case is run from chunks of several sizes, in several orders of threads, in one fold and in
//! several, and merged from two tables. Groups must be the interpreter's bit for bit, save float
//! sums: those must be within 256 units of rounding of the exact sum, of the size of what the values'
//! distances from zero add up to, and the same bits whatever the order.

use std::cell::RefCell;
use std::sync::Arc;

use arrow_array::{RecordBatch, new_null_array};
use arrow_schema::Schema;
use tidegate_kernels::RunError;
use tidegate_kernels::columns;
use tidegate_kernels::encode::{EncodedColumn, Narrowing, encode};
use tidegate_kernels::engine::{Engine, Machine, ResidentChunk, ResidentColumn, Segments};
use tidegate_kernels::finish::finish_groups;
use tidegate_kernels::groups::{Groups, dictionary_array, fill_float_scales, output_schema};
use tidegate_kernels::program::{
    DeviceProgram, FinishLayout, FinishProgram, Interval, Lookup, ProgramOptions, RadixLimits,
    Sink, Slot, SlotFacts, SlotKind, StoreLimits, finish_program, first_aggregate, generate,
};
use tidegate_kernels::rows::{download_rows, write_rows};
use tidegate_kernels::strings::Dictionary;
use tidegate_kernels::table::GroupTable;
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{EvalError, Expr, ExprKind, NamedExpr, Pipeline, Scalar, Step};

use crate::cells::{Cell, rows_of};
use crate::reference::Reference;
use crate::shim::{Buffer, Kernels, ShimEngine, ShimMachine, keep, now};

/// A pipeline and its input.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) pipeline: Pipeline,
    pub(crate) batches: Vec<RecordBatch>,
    pub(crate) limits: StoreLimits,
    /// How many slots a hash table begins with.
    pub(crate) slots: Option<u64>,
    pub(crate) narrowing: Narrowing,
    /// What the program is made from.
    pub(crate) facts: Vec<Facts>,
    /// The name of the store that the program must have, of the one for the chunks' own facts.
    pub(crate) store: Option<&'static str>,
    /// Whether the device must refuse the values.
    pub(crate) refused: bool,
}

/// What a program is told of its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Facts {
    /// What holds of the chunks.
    Seen,
    /// The same, with ranges widened to whole bytes.
    Rounded,
    /// What the types say.
    Declared,
    /// What holds of the chunks, in which strings are codes and what is made of them is looked up.
    LookedUp,
}

impl Case {
    pub(crate) fn new(
        name: impl Into<String>,
        pipeline: Pipeline,
        batches: Vec<RecordBatch>,
    ) -> Self {
        Self {
            name: name.into(),
            pipeline,
            batches,
            limits: StoreLimits {
                dense_bytes: 64 << 20,
                ..StoreLimits::default()
            },
            slots: None,
            narrowing: Narrowing::Width,
            facts: vec![Facts::Seen],
            store: None,
            refused: false,
        }
    }

    /// Also makes the program from the types alone.
    pub(crate) fn declared(mut self) -> Self {
        self.facts.push(Facts::Declared);
        self
    }

    /// Makes the program from the types only.
    pub(crate) fn of_types_only(mut self) -> Self {
        self.facts = vec![Facts::Declared];
        self
    }

    /// Also makes the program from ranges widened to bytes.
    pub(crate) fn rounded(mut self) -> Self {
        self.facts.push(Facts::Rounded);
        self
    }

    /// Also makes a program that looks up what is made of strings.
    pub(crate) fn looked_up(mut self) -> Self {
        self.facts.push(Facts::LookedUp);
        self
    }

    pub(crate) fn store(mut self, name: &'static str) -> Self {
        self.store = Some(name);
        self
    }

    /// Gives no thread cells of its own, so that a block shares a table.
    pub(crate) fn shared(mut self) -> Self {
        self.limits.private_bytes = 0;
        self.store("shared table")
    }

    /// Keeps the groups in global memory, addressed by their keys.
    pub(crate) fn dense(mut self) -> Self {
        self.limits.private_bytes = 0;
        self.limits.shared_bytes = 0;
        self.store("direct-addressed table")
    }

    /// Keeps the groups in a hash table of at first so many slots.
    pub(crate) fn hash(mut self, slots: u64) -> Self {
        self.limits.private_bytes = 0;
        self.limits.shared_bytes = 0;
        self.limits.dense_bytes = 0;
        self.slots = Some(slots);
        self.store("hash table")
    }

    /// Sorts the rows into 32 partitions first, whatever there are of them; a block has few hot
    /// keys, and so many bytes for a table of its own.
    pub(crate) fn sorted(mut self, table_bytes: u64) -> Self {
        self.limits.radix = RadixLimits {
            rows_min: 1,
            dense_bytes_min: 0,
            way_bits: 5,
            hot_keys: 64,
            table_bytes,
            ..RadixLimits::default()
        };
        self
    }

    pub(crate) fn refused(mut self) -> Self {
        self.refused = true;
        self
    }

    /// Returns the program for these facts, or why there is none.
    pub(crate) fn program(
        &self,
        facts: Facts,
        threads: u32,
    ) -> Result<(DeviceProgram, Input), String> {
        let options = ProgramOptions {
            threads,
            limits: self.limits,
            ..ProgramOptions::default()
        };
        self.program_with(facts, &options)
    }

    fn program_with(
        &self,
        facts: Facts,
        options: &ProgramOptions,
    ) -> Result<(DeviceProgram, Input), String> {
        let chunkings = chunkings(&self.batches);
        let input = RefCell::new(Input::of(&chunkings));
        let facts_of = |slot: &Slot| {
            let mut input = input.borrow_mut();
            if facts == Facts::LookedUp
                && let Some(column) = only_column(&slot.expr)
            {
                return input.add_lookup(slot, &column, &self.pipeline, &chunkings);
            }
            let seen = input.add(slot, &self.pipeline.parameters, &chunkings, self.narrowing);
            match facts {
                Facts::Seen | Facts::LookedUp => seen,
                Facts::Rounded => {
                    let limit = Interval::of_type(&slot.expr.data_type).unwrap_or(seen.range);
                    let mut rounded = seen;
                    rounded.round(limit.hull(rounded.range));
                    rounded
                }
                Facts::Declared => SlotFacts::declared(&slot.expr.data_type, true),
            }
        };
        let program = generate(&self.pipeline, &facts_of, options);
        let mut program = program.map_err(|why| why.what)?;
        if let Sink::Groups(plan) = &program.sink {
            fill_float_scales(plan, &mut program.literals);
        }
        Ok((program, input.into_inner()))
    }

    /// Runs the case.
    pub(crate) fn check(&self) {
        if let Err(why) = self.outcome() {
            // Of many columns one alone says more.
            let narrower = self
                .columns()
                .into_iter()
                .find_map(|case| case.outcome().err());
            panic!("{}", narrower.unwrap_or(why));
        }
    }

    /// Returns a case for each column of the last projection.
    fn columns(&self) -> Vec<Self> {
        let Some((Step::Project(columns), before)) = self.pipeline.steps.split_last() else {
            return Vec::new();
        };
        let only = |(index, column): (usize, &NamedExpr)| {
            let mut case = self.clone();
            case.name = format!("{}, column {index}", self.name);
            case.pipeline.steps = [before, &[Step::Project(vec![column.clone()])]].concat();
            let fields = [self.pipeline.output.field(index).clone()].to_vec();
            case.pipeline.output = Arc::new(Schema::new(fields));
            case
        };
        columns.iter().enumerate().map(only).collect()
    }

    fn outcome(&self) -> Result<(), String> {
        let reference = Reference::of(self);
        for facts in &self.facts {
            let made = self.program(*facts, 64);
            let (program, input) = made
                .map_err(|why| format!("{}: no program from {facts:?} facts: {why}", self.name))?;
            let kernels = Kernels::compile(&program);
            let mut wide = None;
            let outcome = self.check_store(*facts, &program).and_then(|()| {
                let mut first = None;
                RUNS.iter().try_for_each(|run| {
                    let engine = ShimEngine::new(&kernels, run.seed);
                    let mut found = self.batch(&engine, &program, &input, *run);
                    if matches!(&found, Err(error) if is_float_range(error)) {
                        // So does a device: floats farther apart get a longer fixed point.
                        let wide = wide.get_or_insert_with(|| self.wide(*facts));
                        let engine = ShimEngine::new(&wide.1, run.seed);
                        found = self.batch(&engine, &wide.0, &input, *run);
                    }
                    self.check_run(*run, &program, &reference, found, &mut first)
                        .map_err(|why| format!("{why} in {run:?}"))
                })
            });
            outcome.map_err(|why| {
                let path = keep(&program.text, &format!("{}.cu", self.name));
                format!(
                    "{} ({facts:?} facts): {why}\n{}\n{:?}\nthe program is {}",
                    self.name,
                    self.pipeline,
                    self.pipeline.parameters,
                    path.display()
                )
            })?;
        }
        Ok(())
    }

    /// Returns the program whose float sums have the longest fixed point.
    fn wide(&self, facts: Facts) -> (DeviceProgram, Kernels) {
        let options = ProgramOptions {
            threads: 64,
            limits: self.limits,
            wide_floats: true,
            ..ProgramOptions::default()
        };
        let (program, _) = self.program_with(facts, &options).unwrap();
        let kernels = Kernels::compile(&program);
        (program, kernels)
    }

    fn check_store(&self, facts: Facts, program: &DeviceProgram) -> Result<(), String> {
        match (self.store, facts, &program.sink) {
            (Some(store), Facts::Seen, Sink::Groups(plan)) if plan.store.name() != store => {
                Err(format!("a {} instead of a {store}", plan.store.name()))
            }
            _ => Ok(()),
        }
    }

    fn check_run(
        &self,
        run: Run,
        program: &DeviceProgram,
        reference: &Reference,
        found: Result<RecordBatch, RunError>,
        first: &mut Option<Vec<Vec<Cell>>>,
    ) -> Result<(), String> {
        let batch = match (&reference.rows, found) {
            (Err(expected), Err(RunError::Eval(error)))
                if reference.raises_as(expected, &error, &self.batches) =>
            {
                return Ok(());
            }
            (_, Err(RunError::Unsuited { why, .. })) if self.refused => {
                let why = why.to_string();
                return if why.contains("outside of") {
                    Ok(())
                } else {
                    Err(why)
                };
            }
            (Ok(_), Ok(_)) if self.refused => return Err("the device did not refuse".to_owned()),
            (Ok(_), Ok(batch)) => batch,
            (Err(error), Ok(_)) => return Err(format!("the device did not raise {error}")),
            (Ok(_), Err(error)) => return Err(format!("{error}, instead of rows")),
            (Err(expected), Err(error)) => return Err(format!("{error}, instead of {expected}")),
        };
        let mut rows = rows_of(std::slice::from_ref(&batch));
        reference.compare(&rows)?;
        if let Some(after) = &reference.after {
            after.compare(&batch)?;
        }
        // Merging adds rounded sums up; everything else is exact.
        if run.merged {
            return Ok(());
        }
        if matches!(program.sink, Sink::Groups(_)) {
            rows.sort_by_cached_key(|row| format!("{row:?}"));
        }
        if *first.get_or_insert_with(|| rows.clone()) != rows {
            return Err("other bits than the first run's".to_owned());
        }
        Ok(())
    }

    /// Runs the program and returns what leaves it.
    fn batch(
        &self,
        engine: &ShimEngine,
        program: &DeviceProgram,
        input: &Input,
        run: Run,
    ) -> Result<RecordBatch, RunError> {
        let (chunks, mut held) = input.resident(engine, run.chunking);
        let mut program = program.clone();
        for (slot, at) in &program.lookups {
            let table = input.tables[*slot].as_ref().unwrap();
            program.literals[*at..at + 3].copy_from_slice(&table.literals(engine, &mut held));
        }
        let program = &program;
        let plan = match &program.sink {
            Sink::Groups(plan) => plan,
            Sink::Rows(columns) => {
                let segments = Segments::of(program, &chunks).kept();
                let schema = Arc::clone(&self.pipeline.output);
                let rows = write_rows(engine, program, columns, &segments)?;
                let rows = download_rows(engine, &rows, columns)?;
                return rows.into_batch(&input.dictionaries, &schema);
            }
        };
        let mut filled = program.clone();
        fill_float_scales(plan, &mut filled.literals);
        let program = &filled;
        let table = || GroupTable::new(engine, program, plan, self.slots);
        let mut tables = vec![table()?];
        for (index, launch) in launches(&chunks, run.launches).into_iter().enumerate() {
            if run.merged && index > 0 {
                tables.push(table()?);
            }
            let segments = Segments::of(program, launch);
            let last = tables.len() - 1;
            tables[last].fold(engine, program, &segments)?;
        }
        let groups = tables
            .iter()
            .map(|table| table.read(engine))
            .collect::<Result<Vec<_>, _>>()?;
        let groups = Groups::merged(groups);
        let aggregate = first_aggregate(&self.pipeline).unwrap();
        let dictionary = |key: &tidegate_kernels::program::KeyPlan| {
            key.dictionary.map(|slot| &input.dictionaries[slot])
        };
        let dictionaries: Vec<Option<&Dictionary>> = plan.keys.iter().map(dictionary).collect();
        let schema = output_schema(aggregate);
        let batch = groups.to_batch(&program.finishes, &dictionaries, &schema);
        if tables.len() == 1 && run.chunking == 0 {
            let found = finished(run.seed, &tables[0], &input.dictionaries, &schema);
            agree(&batch, found)?;
        }
        Ok(batch?)
    }
}

/// Finishes the groups of a table on the device.
fn finished(
    seed: u64,
    table: &GroupTable<Buffer>,
    dictionaries: &[Dictionary],
    schema: &Arc<Schema>,
) -> Result<RecordBatch, RunError> {
    let literals = table.literals().len();
    let layout = FinishLayout::Arrow;
    let program = finish_program(table.plan(), table.finishes(), literals, layout);
    let program = program.map_err(|why| EvalError::Internal { what: why.what })?;
    let machine = ShimMachine::new(seed, 1 << 30);
    let num_groups = table.count(&now(machine.engine(&columns::SOURCE, &columns::KERNELS))?)?;
    let engine = now(machine.engine(&program.text, &FinishProgram::KERNELS))?;
    let groups = finish_groups(&engine, &program, table, num_groups)?;
    let outputs: Vec<_> = program
        .columns
        .into_iter()
        .map(|column| column.output)
        .collect();
    let rows = download_rows(&engine, &groups.rows, &outputs)?;
    rows.into_batch(dictionaries, schema)
}

/// Holds what the device has finished against what the host has: the same rows in the same order.
fn agree(
    host: &Result<RecordBatch, EvalError>,
    device: Result<RecordBatch, RunError>,
) -> Result<(), RunError> {
    let what = match (host, device) {
        (Ok(host), Ok(device)) => {
            let (host, device) = (rows_of(std::slice::from_ref(host)), rows_of(&[device]));
            match host
                .iter()
                .zip(&device)
                .find(|(host, device)| host != device)
            {
                None if host.len() == device.len() => return Ok(()),
                None => format!("{} groups finished instead of {}", device.len(), host.len()),
                Some((host, device)) => format!("finished {device:?} instead of {host:?}"),
            }
        }
        (Err(host), Err(RunError::Eval(device)))
            if host.is_arithmetic() && device.is_arithmetic() =>
        {
            return Ok(());
        }
        (host, device) => format!("finished {device:?} instead of {host:?}"),
    };
    Err(EvalError::Internal { what }.into())
}

fn is_float_range(error: &RunError) -> bool {
    error.to_string().contains("a float is outside")
}

fn launches(chunks: &[ResidentChunk], each: usize) -> Vec<&[ResidentChunk]> {
    chunks.chunks(each).collect()
}

/// How one run is made.
#[derive(Clone, Copy, Debug)]
struct Run {
    seed: u64,
    /// Which way of cutting the batches into chunks.
    chunking: usize,
    /// Chunks of a launch.
    launches: usize,
    /// Each launch has a table of its own.
    merged: bool,
}

const RUNS: [Run; 4] = [
    Run {
        seed: 1,
        chunking: 0,
        launches: usize::MAX,
        merged: false,
    },
    Run {
        seed: 2,
        chunking: 1,
        launches: usize::MAX,
        merged: false,
    },
    Run {
        seed: 3,
        chunking: 1,
        launches: 1,
        merged: false,
    },
    Run {
        seed: 4,
        chunking: 1,
        launches: 2,
        merged: true,
    },
];

/// Cuts the batches into chunks: all in one, and each by itself.
fn chunkings(batches: &[RecordBatch]) -> [Vec<Vec<RecordBatch>>; 2] {
    let each = batches.iter().map(|batch| vec![batch.clone()]).collect();
    [vec![batches.to_vec()], each]
}

/// The chunks of a case, by slot.
pub(crate) struct Input {
    /// Rows by chunking and chunk.
    rows: [Vec<usize>; 2],
    /// By chunking, chunk and slot.
    columns: [Vec<Vec<EncodedColumn>>; 2],
    dictionaries: Vec<Dictionary>,
    /// What slots have for each code, where they are looked up.
    tables: Vec<Option<Table>>,
}

/// A slot's value for every code, and last for NULL.
struct Table {
    values: Vec<u8>,
    valid: Vec<u8>,
}

impl Table {
    fn literals(&self, engine: &ShimEngine, held: &mut Vec<Buffer>) -> [u64; 3] {
        let addresses = [&self.values, &self.valid].map(|bytes| upload(engine, bytes, held));
        [addresses[0], addresses[1], self.valid.len() as u64 - 1]
    }
}

fn upload(engine: &ShimEngine, bytes: &[u8], held: &mut Vec<Buffer>) -> u64 {
    let buffer = engine.alloc(bytes.len() as u64).unwrap();
    engine.write(&buffer, 0, bytes).unwrap();
    held.push(buffer);
    engine.address(&held[held.len() - 1])
}

/// Returns the column of strings that an expression is made of, if it is one and computed.
fn only_column(expr: &Expr) -> Option<Expr> {
    fn collect(expr: &Expr, columns: &mut Vec<Expr>) {
        if matches!(expr.kind, ExprKind::Column(_)) && !columns.contains(expr) {
            columns.push(expr.clone());
        }
        expr.children()
            .iter()
            .for_each(|child| collect(child, columns));
    }
    let mut columns = Vec::new();
    collect(expr, &mut columns);
    let computed = !matches!(expr.kind, ExprKind::Column(_));
    (computed && columns.len() == 1 && is_string(&columns[0].data_type)).then(|| columns.remove(0))
}

impl Input {
    fn of(chunkings: &[Vec<Vec<RecordBatch>>; 2]) -> Self {
        let rows = |batches: &Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum();
        Self {
            rows: chunkings
                .each_ref()
                .map(|chunks| chunks.iter().map(rows).collect()),
            columns: chunkings
                .each_ref()
                .map(|chunks| vec![Vec::new(); chunks.len()]),
            dictionaries: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Encodes a slot and returns what holds for all of its chunks.
    fn add(
        &mut self,
        slot: &Slot,
        parameters: &[Scalar],
        chunkings: &[Vec<Vec<RecordBatch>>; 2],
        narrowing: Narrowing,
    ) -> SlotFacts {
        let mut dictionary = Dictionary::default();
        let mut facts: Option<SlotFacts> = None;
        for (columns, chunks) in self.columns.iter_mut().zip(chunkings) {
            for (columns, batches) in columns.iter_mut().zip(chunks) {
                let column = encode(slot, parameters, batches, &mut dictionary, narrowing).unwrap();
                facts = Some(match facts {
                    Some(facts) => facts.join(&column.facts),
                    None => column.facts.clone(),
                });
                columns.push(column);
            }
        }
        self.dictionaries.push(dictionary);
        self.tables.push(None);
        facts.unwrap_or_else(|| SlotFacts::declared(&slot.expr.data_type, true))
    }

    /// Encodes the column of strings beneath a slot, and evaluates the slot for each of them.
    fn add_lookup(
        &mut self,
        slot: &Slot,
        column: &Expr,
        pipeline: &Pipeline,
        chunkings: &[Vec<Vec<RecordBatch>>; 2],
    ) -> SlotFacts {
        let codes = Slot {
            expr: column.clone(),
            kind: SlotKind::Code,
        };
        let parameters = &pipeline.parameters;
        let mut facts = self.add(&codes, parameters, chunkings, Narrowing::Width);
        let strings = self.dictionaries.pop().unwrap();
        let every: Vec<Option<i128>> = (0..strings.len() as i128).map(Some).chain([None]).collect();
        let fields = pipeline.input.fields().iter().enumerate();
        let columns = fields.map(|(index, field)| match column.kind {
            ExprKind::Column(at) if at == index => {
                dictionary_array(field.data_type(), &every, &strings).unwrap()
            }
            _ => new_null_array(field.data_type(), every.len()),
        });
        let input = RecordBatch::try_new(Arc::clone(&pipeline.input), columns.collect()).unwrap();
        let mut own = Dictionary::default();
        let values = encode(slot, parameters, &[input], &mut own, Narrowing::Width).unwrap();
        facts.lookup = Some(Lookup {
            range: values.facts.range,
            nullable: values.facts.nullable,
        });
        self.dictionaries.push(own);
        self.tables.pop();
        self.tables.push(Some(Table {
            values: values
                .words()
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect(),
            valid: (0..every.len())
                .map(|row| u8::from(values.is_valid(row)))
                .collect(),
        }));
        facts
    }

    /// Copies a chunking to the device.
    fn resident(&self, engine: &ShimEngine, chunking: usize) -> (Vec<ResidentChunk>, Vec<Buffer>) {
        let mut held = Vec::new();
        let mut copied = |bytes: &[u8]| upload(engine, bytes, &mut held);
        let chunks = self.rows[chunking].iter().zip(&self.columns[chunking]);
        let chunks = chunks.map(|(rows, columns)| ResidentChunk {
            num_rows: *rows as u64,
            columns: columns
                .iter()
                .map(|column| {
                    let words = column.validity.iter().flatten();
                    let validity: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                    ResidentColumn::at(column, copied(&column.values), copied(&validity))
                })
                .collect(),
        });
        let chunks = chunks.collect();
        (chunks, held)
    }
}

/// Runs cases, of which each names itself where it fails.
pub(crate) fn check_all(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    for case in cases {
        case.check();
    }
}

/// Where groups may be, and the limits that bring them there.
pub(crate) fn each_store() -> [(&'static str, StoreLimits); 3] {
    let default = StoreLimits::default();
    let dense = StoreLimits {
        shared_bytes: 0,
        private_bytes: 0,
        dense_bytes: 64 << 20,
        ..default
    };
    let hash = StoreLimits {
        dense_bytes: 0,
        ..dense
    };
    [("default", default), ("dense", dense), ("hash", hash)]
}
