//! One execution of a pipeline on a machine: chunks are folded in, and what is left leaves.
//!
//! The kernel is made for what is known of the values so far; when a chunk widens that, another kernel
//! takes over, and where its groups' layout differs the groups gathered until then are brought back
//! first, to leave as they are or be merged at the end. What comes after the first aggregate is another execution, over the
//! groups as columns (`finish`), if they are many; else the reference interpreter's.

mod finish;
mod inputs;
mod leaving;
mod lookup;
mod programs;
mod ranks;

use std::sync::Arc;
use std::time::Instant;

use arrow_array::RecordBatch;
use tidegate_device::{DeviceError, MemoryBudget, Reservation};
use tidegate_pipeline::{AggregateOutput, EvalError, Pipeline, Sort, Step};

use crate::backend::{Phases, RunError, Sample, Unsuited};
use crate::columns;
use crate::engine::{KernelSet, Machine, ResidentChunk, ResidentColumn, Segments};
use crate::generated::GeneratedRun;
use crate::groups::{Groups, fill_float_scales};
use crate::load::Intake;
use crate::program::{
    DeviceProgram, FinishProgram, Generated, ProgramOptions, STATE_ROWS_MAX, Sink, Slot, SlotFacts,
    declared_program, generate_ordered, next_seed,
};
use crate::random::Part;
use crate::rows::{download_rows, write_rows};
use crate::stored::{NotOneColumn, StoredRun};
use crate::table::GroupTable;

use finish::Ending;
pub use finish::FinishLimits;
pub use leaving::Leaving;
pub use programs::Programs;

use inputs::{ColumnView, Inputs, Strings};
use programs::Purpose;

/// The state of an execution.
pub struct Execution<B> {
    pipeline: Arc<Pipeline>,
    options: ProgramOptions,
    /// Rows are written with the words of this order.
    order: Option<Sort>,
    inputs: Inputs<B>,
    /// The array that the rows of the last fold were made of, if they were.
    generated: Option<Arc<Generated>>,
    table: Option<GroupTable<B>>,
    /// Some float was too small beside others for the usual digits.
    wide_floats: bool,
    /// What keys of more than 64 bits are hashed with, and how many seeds were tried before.
    key_seed: u64,
    key_seeds_tried: u32,
    /// Groups of tables of another layout.
    retired: Vec<Groups>,
    /// Rows of such tables, where whoever gets them merges groups anyway.
    left: Vec<Leaving>,
    /// What comes after a few groups, once it was made.
    ending: Option<Ending>,
    /// Rows written by a program without groups.
    rows: Vec<RecordBatch>,
    /// What is promised for the state beside the table, which has a promise of its own.
    memory: Reservation,
    /// Where the time of the fold under way goes, as far as the host sees it.
    phases: Phases,
}

/// Rows of an array that a launch makes at the most: half of what a table counts.
const LAUNCH_ROWS_MAX: u64 = STATE_ROWS_MAX / 2;

/// Seeds that are tried after the first. Keys meet under one of a million groups once in 10^7 folds.
const KEY_SEEDS_MAX: u32 = 3;

/// What came of a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Launched {
    Done,
    /// Its rows are not in, and its table is gone: it is to be made again, by what was learnt from it.
    Void,
}

/// What a launch reads.
#[derive(Clone, Copy)]
enum Input<'a> {
    Chunks(&'a [ResidentChunk]),
    Stored(&'a StoredRun),
    Generated(&'a [Part]),
}

impl<B: std::fmt::Debug + Send + 'static> Execution<B> {
    /// Begins with empty state.
    ///
    /// # Errors
    /// A pipeline without a device form.
    pub fn new(
        budget: &Arc<MemoryBudget>,
        pipeline: Arc<Pipeline>,
        options: &ProgramOptions,
    ) -> Result<Self, RunError> {
        let program = declared_program(&pipeline, options).map_err(|why| {
            RunError::Eval(EvalError::Internal {
                what: format!("a refused pipeline was opened: {why}"),
            })
        })?;
        Self::of(budget, pipeline, options, &program)
    }

    /// As [`Execution::new`], with the pipeline's declared program.
    pub(crate) fn of(
        budget: &Arc<MemoryBudget>,
        pipeline: Arc<Pipeline>,
        options: &ProgramOptions,
        declared: &DeviceProgram,
    ) -> Result<Self, RunError> {
        Self::with_inputs(budget, pipeline, options, Inputs::of(declared))
    }

    fn with_inputs(
        budget: &Arc<MemoryBudget>,
        pipeline: Arc<Pipeline>,
        options: &ProgramOptions,
        inputs: Inputs<B>,
    ) -> Result<Self, RunError> {
        Ok(Self {
            pipeline,
            options: options.clone(),
            order: None,
            inputs,
            generated: None,
            table: None,
            wide_floats: false,
            key_seed: options.key_seed,
            key_seeds_tried: 0,
            retired: Vec::new(),
            left: Vec::new(),
            ending: None,
            rows: Vec::new(),
            memory: budget.reserve(0)?,
            phases: Phases::default(),
        })
    }

    /// Encodes batches, copies them to the device and folds them; returns the bytes copied. After an
    /// error the execution is void.
    ///
    /// # Errors
    /// What the rows raise; values outside of what the device holds; the device's own errors.
    pub async fn fold<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        batches: &[RecordBatch],
    ) -> Result<u64, RunError> {
        let intake = self.intake();
        let (load, pieces) = intake.encode(batches, machine.piece_bytes())?;
        let parts = load.pieces().iter().zip(&pieces);
        let parts = parts.map(|(piece, bytes)| (piece.offset as u64, bytes.as_slice()));
        let parts: Vec<(u64, &[u8])> = parts.collect();
        let buffer = machine.upload(&parts, load.bytes())?;
        drop(pieces);
        self.learn(machine, &intake, load.facts())?;
        let chunks = load.chunks(machine.address(&buffer));
        self.fold_chunks(machine, &chunks).await?;
        Ok(load.bytes())
    }

    /// Returns what of batches is encoded to be folded.
    pub(crate) fn intake(&self) -> Intake {
        self.inputs.intake(&self.pipeline.parameters)
    }

    /// Learns what holds of rows that were encoded as `intake` says, to be folded next.
    pub(crate) fn learn<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        intake: &Intake,
        facts: Vec<SlotFacts>,
    ) -> Result<(), RunError> {
        self.generated = None;
        self.inputs.learn(machine, intake, facts)
    }

    /// Folds chunks of which was learnt.
    pub(crate) async fn fold_chunks<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        chunks: &[ResidentChunk],
    ) -> Result<(), RunError> {
        self.launch(machine, Input::Chunks(chunks)).await
    }

    /// Learns what is known of the values of rows, and folds nothing.
    ///
    /// # Errors
    /// What evaluating expressions over strings raises; [`DeviceError::Refused`] for columns that do not
    /// do as they are stored.
    pub fn survey<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        sample: &Sample,
    ) -> Result<(), RunError> {
        let parameters = &self.pipeline.parameters;
        self.generated = None;
        match sample {
            Sample::Loaded(batches) => {
                let intake = self.intake();
                let (load, _) = intake.encode(batches, machine.piece_bytes())?;
                self.inputs.learn(machine, &intake, load.facts())?;
            }
            Sample::Stored(run) => self.inputs.adopt_run(machine, parameters, run)?,
            Sample::Generated(source) => self.generated = Some(Arc::clone(source)),
        }
        Ok(())
    }

    /// Compiles and loads the kernels that folds of rows like those surveyed need, and the end of the
    /// execution.
    ///
    /// # Errors
    /// As [`Execution::fold`].
    pub async fn compile<M: Machine<Buffer = B>>(
        &self,
        machine: &M,
        limits: &FinishLimits,
    ) -> Result<(), RunError> {
        let (program, _) = self.program(machine)?;
        let finish = self.finish_ahead(&program, limits);
        let mut needed = needs(&program);
        if let Some(finish) = &finish {
            needed = needed.and(&columns::SOURCE, &columns::KERNELS);
            // What cannot be written is the host's to finish.
            if let Ok(finish) = finish {
                needed = needed.and(&finish.text, &FinishProgram::KERNELS);
            }
        }
        machine.engines(&needed).await?;
        Ok(())
    }

    /// Folds morsels that are on the device, in one launch; what is found out about the run stays with
    /// it. After an error the execution is void.
    ///
    /// # Errors
    /// As [`Execution::fold`]; [`DeviceError::Refused`] for columns that do not do as they are stored.
    pub async fn fold_stored<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        run: &StoredRun,
    ) -> Result<(), RunError> {
        let parameters = &self.pipeline.parameters;
        self.inputs.adopt_run(machine, parameters, run)?;
        self.generated = None;
        self.launch(machine, Input::Stored(run)).await
    }

    /// Folds parts of an array that the kernel makes, in as few launches as a table's counters allow.
    /// After an error the execution is void.
    ///
    /// # Errors
    /// As [`Execution::fold`]; [`DeviceError::Refused`] for an array that does not do.
    pub async fn fold_generated<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        run: &GeneratedRun,
    ) -> Result<(), RunError> {
        self.generated = Some(Arc::clone(&run.source));
        let mut pieces = Vec::with_capacity(run.parts.len());
        for part in &run.parts {
            part.clone().cut(LAUNCH_ROWS_MAX, &mut pieces);
        }
        let mut rest = pieces.as_slice();
        while !rest.is_empty() {
            let mut num_rows = 0;
            let fits = rest.iter().take_while(|piece| {
                num_rows += piece.num_values();
                num_rows <= LAUNCH_ROWS_MAX
            });
            let (now, later) = rest.split_at(fits.count().max(1));
            self.launch(machine, Input::Generated(now)).await?;
            rest = later;
        }
        Ok(())
    }

    /// Folds a chunk whose columns were put on the device by the caller, with what holds of their
    /// values; none of them strings. After an error the execution is void.
    ///
    /// # Errors
    /// As [`Execution::fold`].
    pub async fn fold_resident<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        num_rows: u64,
        columns: &[(ResidentColumn, SlotFacts)],
    ) -> Result<(), RunError> {
        let parameters = &self.pipeline.parameters;
        let chunks = self
            .inputs
            .adopt(machine, parameters, &[num_rows], |_, index| {
                let (column, facts) = &columns[index];
                Ok(ColumnView {
                    column: *column,
                    facts,
                    dictionary: None,
                })
            })?;
        self.launch(machine, Input::Chunks(&chunks)).await
    }

    /// Returns where the time of the folds since the last call went: writing, compiling and loading
    /// kernels.
    pub(crate) fn take_phases(&mut self) -> Phases {
        std::mem::take(&mut self.phases)
    }

    /// Returns the bytes of the state.
    pub fn state_bytes(&self) -> u64 {
        self.table.as_ref().map_or(0, GroupTable::bytes) + self.retired_bytes()
    }

    /// Returns whether the budget covers the state.
    pub fn state_fits(&mut self) -> bool {
        let bytes = self.retired_bytes();
        self.memory.resize(bytes).is_ok()
    }

    fn retired_bytes(&self) -> u64 {
        let retired: usize = self.retired.iter().map(Groups::memory_bytes).sum();
        retired as u64
    }

    /// Returns the program for what is known now, and the bits of the words of its order.
    fn program<M: Machine<Buffer = B>>(
        &self,
        machine: &M,
    ) -> Result<(DeviceProgram, Vec<u32>), RunError> {
        let (mut program, bits) = match (&self.order, &self.generated) {
            (Some(sort), _) => {
                let facts_of = |slot: &Slot| self.inputs.facts_of(slot);
                let options = ProgramOptions {
                    wide_floats: self.wide_floats,
                    ..self.options.clone()
                };
                generate_ordered(&self.pipeline, sort, &facts_of, &options)
                    .map_err(|why| refused(machine, why))?
            }
            (None, Some(source)) => {
                let (wide_floats, options) = (self.wide_floats, &self.options);
                let programs = machine.programs();
                let written = programs.generated(&self.pipeline, source, wide_floats, options);
                let written = written.map_err(|why| not_as_stored(machine, why))?;
                (DeviceProgram::clone(&written), Vec::new())
            }
            (None, None) => {
                let slots = self.inputs.slots.iter();
                let purpose = Purpose {
                    pipeline: Arc::clone(&self.pipeline),
                    facts: Some(
                        slots
                            .map(|slot| (slot.clone(), self.inputs.facts_of(slot)))
                            .collect(),
                    ),
                    wide_floats: self.wide_floats,
                    fixed_floats: self.options.fixed_floats,
                    generated: None,
                };
                let written = machine.programs().get(purpose, &self.options);
                let written = written.map_err(|why| refused(machine, why))?;
                (DeviceProgram::clone(&written), Vec::new())
            }
        };
        if let Sink::Groups(plan) = &program.sink {
            fill_float_scales(plan, &mut program.literals);
            if let Some(wide) = &plan.wide {
                program.literals[wide.seed] = self.key_seed;
            }
        }
        self.inputs.fill_lookups(machine, &mut program);
        let slots = program.slots.iter().map(|(slot, _)| slot);
        if !slots.eq(&self.inputs.slots) {
            return Err(refused(machine, "its inputs depend on its values"));
        }
        Ok((program, bits))
    }

    /// Folds what is there. The first fold of a table is made again if its values want it otherwise.
    async fn launch<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        input: Input<'_>,
    ) -> Result<(), RunError> {
        while self.launch_once(machine, input).await? == Launched::Void {}
        Ok(())
    }

    async fn launch_once<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        input: Input<'_>,
    ) -> Result<Launched, RunError> {
        let began = Instant::now();
        let (mut program, _) = self.program(machine)?;
        self.inputs.fill_ranks(machine, &mut program)?;
        let mut engines = machine.engines(&needs(&program)).await?.into_iter();
        let none = || refused(machine, "its kernels were not loaded");
        let (engine, checking) = (engines.next().ok_or_else(none)?, engines.next());
        self.phases.compile += began.elapsed().as_secs_f64();
        let segments = match input {
            Input::Chunks(chunks) => Arc::new(Segments::of(&program, chunks)),
            Input::Stored(run) => self.inputs.segments_of(machine, &program, run)?,
            Input::Generated(parts) => {
                let Some(source) = &self.generated else {
                    return Err(not_as_stored(machine, "parts of no array"));
                };
                let segments = source.segments(&program.slots, program.tile_rows, parts);
                Arc::new(segments.map_err(|why| not_as_stored(machine, why))?)
            }
        };
        let source = self.generated.as_ref();
        let of_a_group = source.and_then(|source| source.group_rows_max(&self.pipeline));
        let groups_are_small = of_a_group.is_some_and(|rows| rows <= STATE_ROWS_MAX);
        if let (Sink::Groups(plan), Some(table)) = (&program.sink, &self.table) {
            let goes_on = *table.plan() == **plan
                && table.literals() == program.literals
                && (groups_are_small
                    || table.num_rows() + segments.num_rows <= self.options.state_rows);
            if !goes_on {
                self.retire(machine, &engine).await?;
            }
        }
        let plan = match &program.sink {
            Sink::Rows(columns) => {
                let rows = write_rows(&engine, &program, columns, &segments)?;
                let rows = download_rows(&engine, &rows, columns)?;
                let strings = Strings::of(&self.inputs.dictionaries);
                let batch = rows.into_batch(&strings.all(), &self.pipeline.output)?;
                self.rows.push(batch);
                return Ok(Launched::Done);
            }
            Sink::Groups(plan) => plan,
        };
        if self.table.is_none() {
            let table = GroupTable::within(&engine, &program, plan, machine.budget())?;
            self.table = Some(table);
        }
        let Some(table) = &mut self.table else {
            return Ok(Launched::Done);
        };
        let is_first = table.is_empty();
        let (pipeline, ending) = (&self.pipeline, &mut self.ending);
        let folded = table.fold_while(&engine, &program, &segments, || {
            // The end comes soon, and the thread would only wait.
            ending.get_or_insert_with(|| Ending::of(pipeline));
        });
        // Nothing but this fold is lost: with more digits it may do.
        let may_widen = !self.wide_floats && !self.options.fixed_floats;
        if is_first && may_widen && matches!(&folded, Err(error) if is_float_range(error)) {
            self.wide_floats = true;
            self.table = None;
            return Ok(Launched::Void);
        }
        folded?;
        // The same holds under another seed, if two keys have met. Where they meet later whoever reads the
        // groups finds out.
        if is_first
            && let Some(checking) = &checking
            && self.key_seeds_tried < KEY_SEEDS_MAX
            && table.keys_have_met(checking)?
        {
            self.key_seeds_tried += 1;
            self.key_seed = next_seed(self.key_seed);
            self.table = None;
            return Ok(Launched::Void);
        }
        Ok(Launched::Done)
    }

    /// Puts away the groups of a table that does not do for what comes next.
    async fn retire<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        engine: &M::Engine,
    ) -> Result<(), RunError> {
        if self.leaves_in_parts() {
            let part = self.end_table(machine, &FinishLimits::default()).await?;
            self.table = None;
            self.left.push(part);
        } else if let Some(table) = self.table.take() {
            let strings = Strings::of(&self.inputs.dictionaries);
            self.retired.push(table.read(engine)?.named(&strings.all()));
        }
        Ok(())
    }

    /// Returns whether a group may leave more than once: what leaves are states, which are merged above.
    /// Sums that must not depend on how rows are shared out are merged before they are rounded.
    fn leaves_in_parts(&self) -> bool {
        let last = self.pipeline.steps.last();
        let are_states = matches!(
            last,
            Some(Step::Aggregate(aggregate)) if aggregate.output == AggregateOutput::State
        );
        are_states && !self.options.fixed_floats
    }
}

/// Returns the kernels that folds by a program need: first its own.
fn needs(program: &DeviceProgram) -> KernelSet<'_> {
    let needed = KernelSet::of(&program.text, program.kernel_names());
    match &program.sink {
        // Whether keys have met is looked for.
        Sink::Groups(plan) if plan.wide.is_some() => {
            needed.and(&columns::SOURCE, &columns::KERNELS)
        }
        _ => needed,
    }
}

fn is_float_range(error: &RunError) -> bool {
    let RunError::Unsuited { why, .. } = error else {
        return false;
    };
    *why == Unsuited::FloatRange
}

/// Says that stored columns do not do, while loaded ones would.
fn not_as_stored<M: Machine>(machine: &M, why: impl ToString) -> RunError {
    RunError::Device(DeviceError::Refused {
        device: machine.budget().device(),
        what: "fold stored columns".into(),
        why: why.to_string(),
    })
}

fn unfit<M: Machine>(machine: &M, why: NotOneColumn) -> RunError {
    match why {
        NotOneColumn::Elsewhere => not_as_stored(machine, "a column of another device"),
        NotOneColumn::SeveralDictionaries => {
            refused(machine, "chunks with codes of several dictionaries")
        }
    }
}

fn refused<M: Machine>(machine: &M, why: impl ToString) -> RunError {
    RunError::Device(DeviceError::LaunchFailed {
        device: machine.budget().device(),
        launch: 0,
        why: why.to_string(),
    })
}
