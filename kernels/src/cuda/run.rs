//! One execution of a pipeline on a GPU.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tidegate_device::cuda::{DeviceBuffer, Lane};
use tidegate_device::{DeviceError, Reservation};
use tidegate_pipeline::{EvalError, Interpreter, Pipeline, Step};

use super::{Shared, declared_program};
use crate::backend::{FoldReport, PipelineRun, RunError};
use crate::encode::{Dictionary, EncodedColumn, Narrowing, encode};
use crate::engine::{ResidentChunk, ResidentColumn, Segments};
use crate::groups::{Groups, fill_float_scales, output_schema};
use crate::program::{
    DeviceProgram, Interval, Sink, Slot, SlotFacts, SlotKind, first_aggregate, generate,
};
use crate::rows::{read_rows, write_rows};
use crate::table::GroupTable;

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
    dictionaries: Vec<Dictionary>,
    table: Option<GroupTable<DeviceBuffer>>,
    /// Groups of tables of another layout.
    retired: Vec<Groups>,
    /// Rows written by a program without groups.
    rows: Vec<RecordBatch>,
    memory: Reservation,
}

impl CudaRun {
    pub(super) fn new(shared: &Arc<Shared>, pipeline: Arc<Pipeline>) -> Result<Self, RunError> {
        let program = declared_program(&pipeline, &shared.options).map_err(|why| {
            RunError::Eval(EvalError::Internal {
                what: format!("a refused pipeline was opened: {why}"),
            })
        })?;
        let slots: Vec<Slot> = program.slots.into_iter().map(|(slot, _)| slot).collect();
        let inner = Inner {
            pipeline,
            facts: vec![None; slots.len()],
            dictionaries: vec![Dictionary::default(); slots.len()],
            slots,
            table: None,
            retired: Vec::new(),
            rows: Vec::new(),
            memory: shared.device.budget().reserve(0)?,
        };
        Ok(Self {
            shared: Arc::clone(shared),
            state: Arc::new(RunState {
                inner: Mutex::new(Some(inner)),
                is_void: AtomicBool::new(false),
            }),
            is_finished: false,
        })
    }
}

impl PipelineRun for CudaRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        let pending = self.shared.device.submit(move |lane| {
            let folded = state.fold(&shared, lane, &batches);
            if folded.is_err() {
                state.is_void.store(true, Ordering::Release);
            }
            drop(input);
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
        let began = Instant::now();
        let columns = inner.encode(batches)?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let (chunk, buffer) = upload(lane, rows, &columns)?;
        inner.learn(&columns);
        inner.launch(shared, lane, &[chunk])?;
        drop(buffer);
        let state_bytes = inner.state_bytes();
        let state_fits = inner.memory.resize(state_bytes).is_ok();
        Ok(FoldReport {
            rows,
            bytes: columns.iter().map(EncodedColumn::device_bytes).sum(),
            device_seconds: began.elapsed().as_secs_f64(),
            state_bytes,
            state_fits,
        })
    }

    fn finish(&self, shared: &Shared, lane: &Lane<'_>) -> Result<Vec<RecordBatch>, RunError> {
        self.check()?;
        let inner = self.inner.lock().take().ok_or(RunError::Void)?;
        inner.finish(shared, lane)
    }
}

impl Inner {
    fn encode(&mut self, batches: &[RecordBatch]) -> Result<Vec<EncodedColumn>, RunError> {
        let parameters = &self.pipeline.parameters;
        let encoded: Vec<Result<EncodedColumn, EvalError>> = thread::scope(|scope| {
            let threads: Vec<_> = self
                .slots
                .iter()
                .zip(&mut self.dictionaries)
                .map(|(slot, dictionary)| {
                    scope.spawn(move || {
                        encode(slot, parameters, batches, dictionary, Narrowing::Width)
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

    /// Widens what is known of the values by a chunk.
    fn learn(&mut self, columns: &[EncodedColumn]) {
        for ((slot, known), column) in self.slots.iter().zip(&mut self.facts).zip(columns) {
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
        let mut program = generate(&self.pipeline, &facts_of, &shared.options)
            .map_err(|why| refused(shared, why))?;
        if let Sink::Groups(plan) = &program.sink {
            fill_float_scales(plan, &mut program.literals);
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
                let dictionaries = &self.dictionaries;
                let rows = write_rows(&engine, &program, columns, &segments)?;
                let rows = read_rows(&engine, &rows, columns, dictionaries, schema)?;
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
                    let literals = program.literals.clone();
                    self.table = Some(GroupTable::new(&engine, plan, literals, None)?);
                }
                match &mut self.table {
                    Some(table) => table.fold(&engine, &program, &segments),
                    None => Ok(()),
                }
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
        let dictionaries: Vec<Option<&Dictionary>> = table
            .plan()
            .keys
            .iter()
            .map(|key| key.dictionary.map(|slot| &self.dictionaries[slot]))
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
        let mut interpreter = Interpreter::new(Arc::new(rest))?;
        interpreter.fold(&batch)?;
        Ok(interpreter.finish()?)
    }
}

fn refused(shared: &Shared, why: String) -> RunError {
    RunError::Device(DeviceError::LaunchFailed {
        device: shared.device.info().id,
        launch: 0,
        why,
    })
}

/// Copies a chunk's columns into one buffer on the device.
fn upload(
    lane: &Lane<'_>,
    num_rows: u64,
    columns: &[EncodedColumn],
) -> Result<(ResidentChunk, DeviceBuffer), DeviceError> {
    let aligned = |bytes: usize| (bytes as u64).next_multiple_of(COLUMN_ALIGNMENT);
    let validity_bytes = |column: &EncodedColumn| column.validity.as_ref().map_or(0, |words| words.len() * 4);
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
