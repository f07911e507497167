//! One execution of a pipeline on a GPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tidegate_device::cuda::{DeviceBuffer, Lane};
use tidegate_device::{DeviceError, Reservation};
use tidegate_pipeline::{EvalError, ExprKind, Interpreter, Pipeline, Step};

use super::lookup::{self, LookupTable};
use super::{Shared, declared_program};
use crate::backend::{FoldReport, PipelineRun, RunError};
use crate::chunk::refuse_chunk;
use crate::encode::{Dictionary, EncodedColumn, Narrowing, encode};
use crate::engine::{FLOAT_RANGE, ResidentChunk, ResidentColumn, Segments};
use crate::groups::{Groups, fill_float_scales, output_schema};
use crate::program::{
    DeviceProgram, Interval, ProgramOptions, Sink, Slot, SlotFacts, SlotKind, first_aggregate,
    generate,
};
use crate::rows::{read_rows, write_rows};
use crate::stored::{ColumnDictionary, Payload, StoredMorsel};
use crate::table::GroupTable;
use crate::transfer::referenced_bytes;

/// Rows of a batch that leaves.
const BATCH_ROWS: usize = 8192;

/// Columns of a chunk begin at multiples of this on the device.
const COLUMN_ALIGNMENT: u64 = 256;

pub(super) struct CudaRun {
    shared: Arc<Shared>,
    state: Arc<RunState>,
    is_finished: bool,
}

/// What a run shares with its work on the device's thread, which alone takes the lock.
struct RunState {
    inner: Mutex<Option<Inner>>,
    is_void: AtomicBool,
}

struct Inner {
    pipeline: Arc<Pipeline>,
    slots: Vec<Slot>,
    facts: Vec<Option<SlotFacts>>,
    dictionaries: Vec<Arc<ColumnDictionary>>,
    /// The values of slots that are looked up by the codes of stored columns.
    tables: Vec<Option<LookupTable>>,
    table: Option<GroupTable<DeviceBuffer>>,
    /// Some float was too small beside others for the usual digits.
    wide_floats: bool,
    /// Groups of tables of another layout.
    retired: Vec<Groups>,
    /// Rows written by a program without groups.
    rows: Vec<RecordBatch>,
    memory: Reservation,
}

impl CudaRun {
    pub(super) fn new(shared: &Arc<Shared>, pipeline: Arc<Pipeline>) -> Result<Self, RunError> {
        Ok(Self {
            shared: Arc::clone(shared),
            state: Arc::new(RunState {
                inner: Mutex::new(Some(Inner::new(shared, pipeline)?)),
                is_void: AtomicBool::new(false),
            }),
            is_finished: false,
        })
    }
}

impl Inner {
    fn new(shared: &Shared, pipeline: Arc<Pipeline>) -> Result<Self, RunError> {
        let program = declared_program(&pipeline, &shared.options).map_err(|why| {
            RunError::Eval(EvalError::Internal {
                what: format!("a refused pipeline was opened: {why}"),
            })
        })?;
        let slots: Vec<Slot> = program.slots.into_iter().map(|(slot, _)| slot).collect();
        Ok(Self {
            pipeline,
            facts: vec![None; slots.len()],
            dictionaries: slots.iter().map(|_| ColumnDictionary::new()).collect(),
            tables: slots.iter().map(|_| None).collect(),
            slots,
            table: None,
            wide_floats: false,
            retired: Vec::new(),
            rows: Vec::new(),
            memory: shared.device.budget().reserve(0)?,
        })
    }

    fn fold(
        &mut self,
        shared: &Shared,
        lane: &Lane<'_>,
        batches: &[RecordBatch],
    ) -> Result<FoldReport, RunError> {
        let began = Instant::now();
        let columns = self.encode(batches)?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let (chunk, buffer) = upload(lane, rows, &columns)?;
        self.learn(&columns);
        self.launch(shared, lane, &[chunk])?;
        drop(buffer);
        let state_bytes = self.state_bytes();
        Ok(FoldReport {
            rows,
            bytes: columns.iter().map(EncodedColumn::device_bytes).sum(),
            device_seconds: began.elapsed().as_secs_f64(),
            state_bytes,
            state_fits: self.memory.resize(state_bytes).is_ok(),
        })
    }
}

impl CudaRun {
    /// Folds on the device's thread. Unless that succeeds the run is void, also if the device is lost
    /// before it comes to it.
    fn submit(
        &self,
        fold: impl FnOnce(&RunState, &Shared, &Lane<'_>) -> Result<FoldReport, RunError>
        + Send
        + 'static,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        let pending = self.shared.device.submit(move |lane| {
            let folded = fold(&state, &shared, lane);
            if folded.is_err() {
                state.is_void.store(true, Ordering::Release);
            }
            folded
        });
        let state = Arc::clone(&self.state);
        async move {
            let folded = pending.await;
            if folded.is_err() {
                state.is_void.store(true, Ordering::Release);
            }
            folded?
        }
        .boxed()
    }
}

impl PipelineRun for CudaRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.submit(move |state, shared, lane| {
            let folded = state.fold(shared, lane, &batches);
            drop(input);
            folded
        })
    }

    fn fold_stored(
        &mut self,
        morsels: Vec<StoredMorsel>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.submit(move |state, shared, lane| state.fold_stored(shared, lane, &morsels))
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Vec<RecordBatch>, RunError>> {
        self.is_finished = true;
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        let pending = self
            .shared
            .device
            .submit(move |lane| state.finish(&shared, lane));
        async move { pending.await? }.boxed()
    }
}

impl Drop for CudaRun {
    fn drop(&mut self) {
        if !self.is_finished {
            self.state.is_void.store(true, Ordering::Release);
        }
    }
}

impl RunState {
    fn check(&self) -> Result<(), RunError> {
        if self.is_void.load(Ordering::Acquire) {
            return Err(RunError::Void);
        }
        Ok(())
    }

    fn fold(
        &self,
        shared: &Shared,
        lane: &Lane<'_>,
        batches: &[RecordBatch],
    ) -> Result<FoldReport, RunError> {
        self.check()?;
        let mut slot = self.inner.lock();
        let inner = slot.as_mut().ok_or(RunError::Void)?;
        inner.fold(shared, lane, batches)
    }

    fn fold_stored(
        &self,
        shared: &Shared,
        lane: &Lane<'_>,
        morsels: &[StoredMorsel],
    ) -> Result<FoldReport, RunError> {
        self.check()?;
        let mut slot = self.inner.lock();
        let inner = slot.as_mut().ok_or(RunError::Void)?;
        let from = lane.mark()?;
        let chunks = inner.adopt(shared, lane, morsels)?;
        inner.launch(shared, lane, &chunks)?;
        let to = lane.mark()?;
        let state_bytes = inner.state_bytes();
        Ok(FoldReport {
            rows: morsels.iter().map(|morsel| morsel.num_rows).sum(),
            bytes: 0,
            device_seconds: lane.elapsed_seconds(&from, &to)?,
            state_bytes,
            state_fits: inner.memory.resize(state_bytes).is_ok(),
        })
    }

    fn finish(&self, shared: &Shared, lane: &Lane<'_>) -> Result<Vec<RecordBatch>, RunError> {
        self.check()?;
        let inner = self.inner.lock().take().ok_or(RunError::Void)?;
        inner.finish(shared, lane)
    }
}

impl Inner {
    fn encode(&self, batches: &[RecordBatch]) -> Result<Vec<EncodedColumn>, RunError> {
        let parameters = &self.pipeline.parameters;
        let encoded: Vec<Result<EncodedColumn, EvalError>> = thread::scope(|scope| {
            let threads: Vec<_> = self
                .slots
                .iter()
                .zip(&self.dictionaries)
                .map(|(slot, dictionary)| {
                    scope.spawn(move || {
                        let mut strings = dictionary.strings.lock();
                        encode(slot, parameters, batches, &mut strings, Narrowing::Width)
                    })
                })
                .collect();
            let joined = threads.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| {
                    Err(EvalError::Internal {
                        what: "a chunk could not be encoded".into(),
                    })
                })
            });
            joined.collect()
        });
        let encoded: Result<Vec<_>, EvalError> = encoded.into_iter().collect();
        Ok(encoded?)
    }

    /// Takes stored columns for the slots, and learns what is known of them.
    fn adopt(
        &mut self,
        shared: &Shared,
        lane: &Lane<'_>,
        morsels: &[StoredMorsel],
    ) -> Result<Vec<ResidentChunk>, RunError> {
        let mut chunks: Vec<ResidentChunk> = morsels
            .iter()
            .map(|morsel| ResidentChunk {
                num_rows: morsel.num_rows,
                columns: Vec::with_capacity(self.slots.len()),
            })
            .collect();
        for index in 0..self.slots.len() {
            let slot = self.slots[index].clone();
            let column = lookup::column_of(&slot.expr).map_err(|why| not_stored(shared, &why))?;
            let mut known = self.facts[index].take();
            let range_before = known.as_ref().map(|known| known.range);
            let mut dictionary: Option<&Arc<ColumnDictionary>> = None;
            for (morsel, chunk) in morsels.iter().zip(&mut chunks) {
                let stored = &morsel.columns[column];
                let Payload::Cuda { column, facts, .. } = &stored.payload else {
                    return Err(not_stored(shared, "a column of another device"));
                };
                let is_computed = !matches!(slot.expr.kind, ExprKind::Column(_));
                if is_computed && stored.dictionary.is_none() {
                    let why = "an expression that the host evaluates, over a stored column";
                    return Err(not_stored(shared, why));
                }
                chunk.columns.push(*column);
                let facts = match known.take() {
                    Some(known) => known.join(facts),
                    None => facts.clone(),
                };
                known = Some(facts);
                if let (Some(of_run), Some(of_chunk)) = (dictionary, &stored.dictionary)
                    && !Arc::ptr_eq(of_run, of_chunk)
                {
                    return Err(refused(
                        shared,
                        "chunks with codes of several dictionaries".into(),
                    ));
                }
                dictionary = dictionary.or(stored.dictionary.as_ref());
            }
            if let (Some(before), Some(known)) = (range_before, &mut known)
                && before != known.range
            {
                // It grows from fold to fold: a rounded range does so less often.
                let limit = Interval::of_type(&slot.expr.data_type).unwrap_or(Interval::ALL);
                known.range = known.range.rounded(limit);
            }
            self.facts[index] = known;
            if let Some(dictionary) = dictionary {
                self.take_dictionary(shared, lane, index, dictionary)?;
            }
        }
        Ok(chunks)
    }

    /// Makes a slot's codes those of a stored column.
    fn take_dictionary(
        &mut self,
        shared: &Shared,
        lane: &Lane<'_>,
        index: usize,
        dictionary: &Arc<ColumnDictionary>,
    ) -> Result<(), RunError> {
        let slot = &self.slots[index];
        if matches!(slot.expr.kind, ExprKind::Column(_)) {
            let own = &self.dictionaries[index];
            if !Arc::ptr_eq(own, dictionary) {
                if own.num_values() > 0 {
                    return Err(refused(
                        shared,
                        "loaded and stored codes of one column".into(),
                    ));
                }
                self.dictionaries[index] = Arc::clone(dictionary);
            }
            return Ok(());
        }
        let num_values = dictionary.num_values();
        let is_made = self.tables[index].as_ref().is_some_and(|table| {
            table.num_values == num_values && Arc::ptr_eq(&table.dictionary, dictionary)
        });
        if !is_made {
            let parameters = &self.pipeline.parameters;
            let strings = &self.dictionaries[index];
            let made = LookupTable::new(lane, slot, parameters, dictionary, strings)?;
            self.tables[index] = Some(made);
        }
        if let (Some(facts), Some(table)) = (&mut self.facts[index], &self.tables[index]) {
            facts.lookup = Some(table.facts);
        }
        Ok(())
    }

    /// Widens what is known of the values by a chunk.
    fn learn(&mut self, columns: &[EncodedColumn]) {
        for ((slot, known), column) in self.slots.iter().zip(&mut self.facts).zip(columns) {
            if let Some(known) = known {
                // What was looked up by stored codes is here as it is.
                known.lookup = None;
            }
            let mut facts = match known.take() {
                Some(known) => known.join(&column.facts),
                None => column.facts.clone(),
            };
            if matches!(slot.kind, SlotKind::Integer | SlotKind::Code) {
                let limit = Interval::of_type(&slot.expr.data_type).unwrap_or(Interval::ALL);
                facts.range = facts.range.rounded(limit);
            }
            *known = Some(facts);
        }
    }

    /// Returns the program for what is known now.
    fn program(&self, shared: &Shared) -> Result<DeviceProgram, RunError> {
        let facts_of = |slot: &Slot| {
            let position = self.slots.iter().position(|known| known == slot);
            let facts = position.and_then(|position| self.facts[position].clone());
            facts.unwrap_or_else(|| SlotFacts::declared(&slot.expr.data_type, true))
        };
        let options = ProgramOptions {
            wide_floats: self.wide_floats,
            ..shared.options.clone()
        };
        let mut program =
            generate(&self.pipeline, &facts_of, &options).map_err(|why| refused(shared, why))?;
        if let Sink::Groups(plan) = &program.sink {
            fill_float_scales(plan, &mut program.literals);
        }
        for (slot, literal) in &program.lookups {
            if let Some(table) = &self.tables[*slot] {
                program.literals[*literal..literal + 3].copy_from_slice(&table.literals());
            }
        }
        let in_order = program.slots.iter().map(|(slot, _)| slot).eq(&self.slots);
        if !in_order {
            return Err(refused(shared, "its inputs depend on its values".into()));
        }
        Ok(program)
    }

    fn launch(
        &mut self,
        shared: &Shared,
        lane: &Lane<'_>,
        chunks: &[ResidentChunk],
    ) -> Result<(), RunError> {
        let program = self.program(shared)?;
        let segments = Segments::of(&program, chunks);
        let engine = shared.engine(lane, &program)?;
        match &program.sink {
            Sink::Rows(columns) => {
                let schema = &self.pipeline.output;
                let rows = write_rows(&engine, &program, columns, &segments)?;
                let strings = Strings::of(&self.dictionaries);
                let rows = read_rows(&engine, &rows, columns, &strings.all(), schema)?;
                self.rows.push(rows);
                Ok(())
            }
            Sink::Groups(plan) => {
                let goes_on = self.table.as_ref().is_some_and(|table| {
                    table.plan() == plan
                        && table.literals() == program.literals
                        && table.has_room_for(segments.num_rows)
                });
                if !goes_on {
                    if let Some(table) = self.table.take() {
                        self.retired.push(table.read(&engine)?);
                    }
                    self.table = Some(GroupTable::new(&engine, &program, plan, None)?);
                }
                let Some(table) = &mut self.table else {
                    return Ok(());
                };
                let is_first = table.is_empty();
                let folded = table.fold(&engine, &program, &segments);
                // Nothing but this fold is lost: with more digits it may do.
                if is_first
                    && !self.wide_floats
                    && matches!(&folded, Err(error) if is_float_range(error))
                {
                    self.wide_floats = true;
                    self.table = None;
                    return self.launch(shared, lane, chunks);
                }
                folded
            }
        }
    }

    fn state_bytes(&self) -> u64 {
        let table = self.table.as_ref().map_or(0, GroupTable::bytes);
        let retired: usize = self.retired.iter().map(Groups::memory_bytes).sum();
        table + retired as u64
    }

    fn finish(mut self, shared: &Shared, lane: &Lane<'_>) -> Result<Vec<RecordBatch>, RunError> {
        let Some(aggregate) = first_aggregate(&self.pipeline) else {
            return Ok(self.rows.iter().flat_map(sliced).collect());
        };
        let Some(table) = self.table.take() else {
            // No row came: the answer over none is the reference's.
            return Ok(Interpreter::new(Arc::clone(&self.pipeline))?.finish()?);
        };
        let program = self.program(shared)?;
        let engine = shared.engine(lane, &program)?;
        let strings = Strings::of(&self.dictionaries);
        let dictionaries: Vec<Option<&Dictionary>> = table
            .plan()
            .keys
            .iter()
            .map(|key| key.dictionary.map(|slot| strings.slot(slot)))
            .collect();
        let mut parts = std::mem::take(&mut self.retired);
        parts.push(table.read(&engine)?);
        let groups = Groups::merged(parts);
        let num_steps = self
            .pipeline
            .steps
            .iter()
            .position(|step| matches!(step, Step::Aggregate(_)))
            .map_or(0, |position| position + 1);
        let rest = &self.pipeline.steps[num_steps..];
        if rest.is_empty() {
            let batch = groups.to_batch(aggregate, &dictionaries, &self.pipeline.output)?;
            return Ok(sliced(&batch).collect());
        }
        let schema = output_schema(aggregate);
        let batch = groups.to_batch(aggregate, &dictionaries, &schema)?;
        let rest = Pipeline {
            input: schema,
            parameters: self.pipeline.parameters.clone(),
            steps: rest.to_vec(),
            output: Arc::clone(&self.pipeline.output),
        };
        finish_groups(shared, lane, Arc::new(rest), &batch)
    }
}

/// Groups from which on the steps after them are worth the device.
const DEVICE_GROUPS_MIN: usize = 100_000;

/// Runs what comes after the groups: on the device again where there are many and it groups them
/// once more, else with the reference interpreter.
fn finish_groups(
    shared: &Shared,
    lane: &Lane<'_>,
    rest: Arc<Pipeline>,
    batch: &RecordBatch,
) -> Result<Vec<RecordBatch>, RunError> {
    let is_worth_it = batch.num_rows() >= DEVICE_GROUPS_MIN
        && rest.aggregates()
        && declared_program(&rest, &shared.options).is_ok()
        && refuse_chunk(&rest, batch).is_none();
    let input = shared.device.reserve(referenced_bytes(batch));
    if is_worth_it && input.is_ok() {
        let mut inner = Inner::new(shared, Arc::clone(&rest))?;
        match inner.fold(shared, lane, std::slice::from_ref(batch)) {
            Ok(_) => return inner.finish(shared, lane),
            // The values did not suit: nothing has left, and the host can do it.
            Err(RunError::Device(
                DeviceError::LaunchFailed { .. } | DeviceError::OutOfMemory { .. },
            )) => {}
            Err(error) => return Err(error),
        }
    }
    let mut interpreter = Interpreter::new(rest)?;
    interpreter.fold(batch)?;
    Ok(interpreter.finish()?)
}

/// Locked dictionaries; slots of one column share theirs.
struct Strings<'a> {
    locked: Vec<MutexGuard<'a, Dictionary>>,
    of_slot: Vec<usize>,
}

impl<'a> Strings<'a> {
    fn of(dictionaries: &'a [Arc<ColumnDictionary>]) -> Self {
        let mut distinct: Vec<&Arc<ColumnDictionary>> = Vec::new();
        let mut of_slot = Vec::with_capacity(dictionaries.len());
        for dictionary in dictionaries {
            let known = distinct
                .iter()
                .position(|known| Arc::ptr_eq(known, dictionary));
            of_slot.push(known.unwrap_or(distinct.len()));
            if known.is_none() {
                distinct.push(dictionary);
            }
        }
        Self {
            locked: distinct.iter().map(|each| each.strings.lock()).collect(),
            of_slot,
        }
    }

    fn slot(&self, slot: usize) -> &Dictionary {
        &self.locked[self.of_slot[slot]]
    }

    fn all(&self) -> Vec<&Dictionary> {
        (0..self.of_slot.len())
            .map(|slot| self.slot(slot))
            .collect()
    }
}

fn is_float_range(error: &RunError) -> bool {
    matches!(error, RunError::Device(DeviceError::LaunchFailed { why, .. }) if why == FLOAT_RANGE)
}

/// Says that stored columns do not do, while loaded ones would.
fn not_stored(shared: &Shared, why: &str) -> RunError {
    RunError::Device(DeviceError::Refused {
        device: shared.device.info().id,
        what: "fold stored columns".into(),
        why: why.into(),
    })
}

fn refused(shared: &Shared, why: String) -> RunError {
    RunError::Device(DeviceError::LaunchFailed {
        device: shared.device.info().id,
        launch: 0,
        why,
    })
}

/// Copies a chunk's columns into one buffer on the device.
pub(super) fn upload(
    lane: &Lane<'_>,
    num_rows: u64,
    columns: &[EncodedColumn],
) -> Result<(ResidentChunk, DeviceBuffer), DeviceError> {
    let aligned = |bytes: usize| (bytes as u64).next_multiple_of(COLUMN_ALIGNMENT);
    let validity_bytes =
        |column: &EncodedColumn| column.validity.as_ref().map_or(0, |words| words.len() * 4);
    let total = columns
        .iter()
        .map(|column| aligned(column.values.len()) + aligned(validity_bytes(column)))
        .sum();
    let buffer = lane.alloc(total)?;
    let mut offset = 0;
    let mut resident = Vec::with_capacity(columns.len());
    for column in columns {
        let values = offset;
        lane.upload(&buffer, values, &column.values)?;
        offset += aligned(column.values.len());
        let validity = offset;
        if let Some(words) = &column.validity {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            lane.upload(&buffer, validity, &bytes)?;
            offset += aligned(bytes.len());
        }
        let base = buffer.address();
        resident.push(ResidentColumn::at(column, base + values, base + validity));
    }
    let chunk = ResidentChunk {
        num_rows,
        columns: resident,
    };
    Ok((chunk, buffer))
}

fn sliced(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<> {
    let batch = batch.clone();
    let starts = (0..batch.num_rows()).step_by(BATCH_ROWS);
    starts.map(move |start| batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start)))
}
