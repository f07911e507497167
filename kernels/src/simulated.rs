//! The simulated backend: the reference interpreter on the thread of a simulated device.
//!
//! A fold is one launch that copies its batches in; finishing is one launch and a copy out. The
//! interpreter is far slower than a modelled kernel, so with much data the device takes the
//! interpreter's time and not the model's.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tidegate_device::{
    Cost, DeviceError, DeviceInfo, FaultPlan, MemoryBudget, Reservation, SimulatedDevice,
};
use tidegate_pipeline::{EvalError, Interpreter, Pipeline};

use crate::backend::{Finished, FoldReport, Phases, PipelineDevice, PipelineRun, RunError};
use crate::chunk::holds_special;
use crate::generated::GeneratedRun;
use crate::program::Generated;
use crate::stored::{
    ColumnDictionary, Payload, PinnedColumn, PinnedPayload, StoredColumn, StoredMorsel, StoredRun,
};
use crate::stream::{DeviceStream, StreamWork};
use crate::transfer::referenced_bytes;

/// Rows of an array that are made at a time.
const BATCH_ROWS: u64 = 8192;

/// A simulated device that runs pipelines.
#[derive(Clone, Debug)]
pub struct SimulatedPipelineDevice {
    device: Arc<SimulatedDevice>,
    compiled: Arc<Compiled>,
}

/// The programs that the device has compiled, as far as that is modelled.
#[derive(Debug, Default)]
struct Compiled {
    programs: Mutex<HashSet<String>>,
}

impl Compiled {
    /// Compiles a program in `time` unless that was done, on the device's thread; returns how long it took.
    fn compile(&self, time: Duration, program: &str) -> Duration {
        if time.is_zero() || !self.programs.lock().insert(program.to_owned()) {
            return Duration::ZERO;
        }
        thread::sleep(time);
        time
    }
}

impl SimulatedPipelineDevice {
    /// Makes the device run pipelines.
    pub fn new(device: SimulatedDevice) -> Self {
        Self {
            device: Arc::new(device),
            compiled: Arc::default(),
        }
    }

    /// Returns the device underneath, for its counters and its specification.
    pub fn device(&self) -> &SimulatedDevice {
        &self.device
    }
}

impl PipelineDevice for SimulatedPipelineDevice {
    fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn budget(&self) -> &Arc<MemoryBudget> {
        self.device.budget()
    }

    fn refusals(&self, pipeline: &Pipeline) -> Vec<String> {
        let lost = self
            .device
            .check_alive()
            .err()
            .map(|error| error.to_string());
        let unable = Interpreter::new(Arc::new(pipeline.clone())).err();
        lost.into_iter()
            .chain(unable.map(|error| error.to_string()))
            .collect()
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.device.reserve(bytes)
    }

    fn open(&self, pipeline: Arc<Pipeline>) -> Result<Box<dyn PipelineRun>, RunError> {
        self.device.check_alive()?;
        let input = Arc::clone(&pipeline.input);
        let program = pipeline.to_string();
        let state = State {
            interpreter: Interpreter::new(pipeline)?,
            // State is no input: growing it by resize passes by the fault plan's count.
            memory: self.device.budget().reserve(0)?,
        };
        Ok(Box::new(SimulatedRun {
            device: Arc::clone(&self.device),
            compiled: Arc::clone(&self.compiled),
            program,
            input,
            state: Arc::new(RunState {
                state: Mutex::new(Some(state)),
                is_void: AtomicBool::new(false),
            }),
            is_finished: false,
        }))
    }

    fn store(
        &self,
        arrays: Vec<ArrayRef>,
        _: Arc<ColumnDictionary>,
    ) -> BoxFuture<'static, Result<StoredColumn, RunError>> {
        let device = Arc::clone(&self.device);
        async move {
            let bytes = arrays.iter().map(|array| {
                let data = array.to_data();
                data.get_slice_memory_size().unwrap_or_default() as u64
            });
            let bytes = bytes.sum();
            let memory = device.reserve(bytes)?;
            device.copy(bytes).await?;
            let has_special = arrays.iter().any(|array| holds_special(array.as_ref()));
            Ok(StoredColumn {
                device: device.info().id,
                num_rows: arrays.iter().map(|array| array.len() as u64).sum(),
                device_bytes: bytes,
                plain_bytes: bytes,
                encoding: "plain".into(),
                dictionary: None,
                has_special,
                encode_seconds: 0.0,
                payload: Payload::Arrays(arrays),
                memory,
            })
        }
        .boxed()
    }

    fn compiles(&self) -> bool {
        !self.device.spec().compile_time().is_zero()
    }

    fn compile(
        &self,
        pipeline: Arc<Pipeline>,
        _: Vec<RecordBatch>,
    ) -> BoxFuture<'static, Result<(), RunError>> {
        let (time, compiled) = (
            self.device.spec().compile_time(),
            Arc::clone(&self.compiled),
        );
        let done = self.device.submit(Cost::default(), move || {
            compiled.compile(time, &pipeline.to_string());
        });
        async move { Ok(done.await?) }.boxed()
    }

    fn plan_faults(&self, plan: FaultPlan) {
        self.device.plan_faults(plan);
    }

    fn demote(
        &self,
        stored: Arc<StoredColumn>,
    ) -> BoxFuture<'static, Result<PinnedColumn, RunError>> {
        let device = Arc::clone(&self.device);
        let refused = self.has_no_tier("demote a column of another device");
        async move {
            let Payload::Arrays(arrays) = &stored.payload else {
                return Err(refused.into());
            };
            device.copy(stored.device_bytes).await?;
            Ok(PinnedColumn::of(
                &stored,
                PinnedPayload::Arrays(arrays.clone()),
            ))
        }
        .boxed()
    }

    fn promote(
        &self,
        pinned: Arc<PinnedColumn>,
    ) -> BoxFuture<'static, Result<StoredColumn, RunError>> {
        let device = Arc::clone(&self.device);
        let refused = self.has_no_tier("promote a column of a GPU");
        async move {
            let PinnedPayload::Arrays(arrays) = &pinned.payload else {
                return Err(refused.into());
            };
            let memory = device.reserve(pinned.bytes)?;
            device.copy(pinned.bytes).await?;
            let payload = Payload::Arrays(arrays.clone());
            Ok(pinned.stored(device.info().id, payload, memory))
        }
        .boxed()
    }

    fn planned_faults_met(&self) -> u64 {
        self.device.counters().faults
    }

    fn generates(&self, pipeline: &Arc<Pipeline>, _: &Arc<Generated>) -> bool {
        // As on a GPU, rows that leave are made by the host.
        pipeline.aggregates()
    }

    fn with_stream(
        &self,
        cost: Cost,
        memory: Reservation,
        work: StreamWork,
    ) -> BoxFuture<'static, Result<(), DeviceError>> {
        let (id, reserved) = (self.device.info().id, memory.bytes());
        let done = self.device.submit_reserved(cost, memory, move || {
            work(&DeviceStream::simulated(id, reserved));
        });
        done.boxed()
    }

    fn is_lost(&self) -> bool {
        self.device.is_lost()
    }
}

struct SimulatedRun {
    device: Arc<SimulatedDevice>,
    compiled: Arc<Compiled>,
    program: String,
    input: SchemaRef,
    state: Arc<RunState>,
    is_finished: bool,
}

/// What a run shares with its launches. Only the device's thread takes the lock.
struct RunState {
    /// `None` once the run is finished.
    state: Mutex<Option<State>>,
    /// Rows are missing from the state, or nobody wants it any more.
    is_void: AtomicBool,
}

impl SimulatedRun {
    /// Folds rows that need not be moved, as `fold` does on the device's thread.
    fn fold_in_place(
        &self,
        rows: u64,
        fold: impl FnOnce(PendingFold) -> Result<(u64, bool), RunError> + Send + 'static,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let cost = Cost {
            copy_bytes: 0,
            rows,
        };
        let modelled = self.device.modelled_time(cost);
        let pending = PendingFold::new(&self.state);
        let submitted = Instant::now();
        let completion = self.device.submit(cost, move || {
            let began = Instant::now();
            let state_bytes = fold(pending)?;
            Ok::<_, RunError>((state_bytes, (began, began.elapsed())))
        });
        async move {
            let ((state_bytes, state_fits), (began, worked)) = completion.await??;
            let device_seconds = worked.max(modelled).as_secs_f64();
            let phases = Phases {
                queue: (began - submitted).as_secs_f64(),
                kernel: device_seconds,
                ..Phases::default()
            };
            Ok(FoldReport {
                rows: cost.rows,
                bytes: 0,
                device_seconds,
                phases,
                state_bytes,
                state_fits,
            })
        }
        .boxed()
    }
}

struct State {
    interpreter: Interpreter,
    memory: Reservation,
}

impl PipelineRun for SimulatedRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let cost = Cost {
            copy_bytes: batches.iter().map(referenced_bytes).sum(),
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
        };
        let modelled = self.device.modelled_time(cost);
        let pending = PendingFold::new(&self.state);
        // Submitted here and not in the future, so that folds keep the order of their calls.
        let submitted = Instant::now();
        let (time, compiled) = (
            self.device.spec().compile_time(),
            Arc::clone(&self.compiled),
        );
        let program = self.program.clone();
        let completion = self.device.submit_reserved(cost, input, move || {
            let began = Instant::now();
            let compile = compiled.compile(time, &program);
            let state_bytes = pending.run(&batches)?;
            Ok::<_, RunError>((state_bytes, (began, compile, began.elapsed())))
        });
        async move {
            let ((state_bytes, state_fits), (began, compile, worked)) = completion.await??;
            let device_seconds = worked.max(modelled + compile).as_secs_f64();
            let phases = Phases {
                compile: compile.as_secs_f64(),
                queue: (began - submitted).as_secs_f64(),
                kernel: device_seconds - compile.as_secs_f64(),
                ..Phases::default()
            };
            Ok(FoldReport {
                rows: cost.rows,
                bytes: cost.copy_bytes,
                device_seconds,
                phases,
                state_bytes,
                state_fits,
            })
        }
        .boxed()
    }

    fn fold_stored(
        &mut self,
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let schema = Arc::clone(&self.input);
        self.fold_in_place(run.num_rows(), move |pending| {
            let mut batches = Vec::new();
            for morsel in run.morsels() {
                batches.extend(stored_batches(morsel, &schema)?);
            }
            pending.run(&batches)
        })
    }

    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let schema = Arc::clone(&self.input);
        self.fold_in_place(run.num_rows(), move |pending| {
            let parts = run.parts.iter();
            let batches = parts.flat_map(|part| run.batches(part, &schema, BATCH_ROWS));
            pending.run_each(batches)
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>> {
        self.is_finished = true;
        let state = Arc::clone(&self.state);
        let completion = self.device.submit(Cost::default(), move || {
            let began = Instant::now();
            Ok::<_, RunError>((state.finish()?, began))
        });
        let device = Arc::clone(&self.device);
        async move {
            let ((batches, memory), began) = completion.await??;
            device
                .copy(batches.iter().map(referenced_bytes).sum())
                .await?;
            drop(memory);
            let phases = Phases {
                download: began.elapsed().as_secs_f64(),
                ..Phases::default()
            };
            Ok(Finished { batches, phases })
        }
        .boxed()
    }
}

impl Drop for SimulatedRun {
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

    /// Folds, and returns the bytes of the state and whether the budget covers them.
    fn fold(&self, batches: &[RecordBatch]) -> Result<(u64, bool), RunError> {
        self.check()?;
        let mut slot = self.state.lock();
        let state = slot.as_mut().ok_or(RunError::Void)?;
        for batch in batches {
            state.interpreter.fold(batch)?;
        }
        let state_bytes = state.interpreter.state_bytes() as u64;
        let state_fits = state.memory.resize(state_bytes).is_ok();
        Ok((state_bytes, state_fits))
    }

    fn finish(&self) -> Result<(Vec<RecordBatch>, Reservation), RunError> {
        self.check()?;
        let state = self.state.lock().take().ok_or(RunError::Void)?;
        Ok((state.interpreter.finish()?, state.memory))
    }
}

/// Puts a stored morsel's columns together, in the batches that they were stored in.
fn stored_batches(morsel: &StoredMorsel, schema: &SchemaRef) -> Result<Vec<RecordBatch>, RunError> {
    let mismatch = || {
        RunError::Eval(EvalError::ShapeMismatch {
            what: "columns of another device or of other batches were folded".into(),
        })
    };
    let mut columns: Vec<&[ArrayRef]> = Vec::with_capacity(morsel.columns.len());
    for column in &morsel.columns {
        match &column.payload {
            Payload::Arrays(arrays) => columns.push(arrays),
            Payload::Cuda { .. } => return Err(mismatch()),
        }
    }
    let Some(first) = columns.first() else {
        let rows = RecordBatchOptions::new().with_row_count(Some(morsel.num_rows as usize));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), vec![], &rows);
        return Ok(vec![batch.map_err(EvalError::from)?]);
    };
    let mut batches = Vec::with_capacity(first.len());
    for position in 0..first.len() {
        let arrays = columns.iter().map(|arrays| arrays.get(position).cloned());
        let arrays = arrays.collect::<Option<Vec<_>>>().ok_or_else(mismatch)?;
        let batch = RecordBatch::try_new(Arc::clone(schema), arrays);
        batches.push(batch.map_err(EvalError::from)?);
    }
    Ok(batches)
}

/// A fold on its way. Unless it succeeds it voids its run, also if its launch fails without running
/// it, for then its rows are missing.
struct PendingFold {
    state: Arc<RunState>,
    is_folded: bool,
}

impl PendingFold {
    fn new(state: &Arc<RunState>) -> Self {
        Self {
            state: Arc::clone(state),
            is_folded: false,
        }
    }

    fn run(mut self, batches: &[RecordBatch]) -> Result<(u64, bool), RunError> {
        let folded = self.state.fold(batches)?;
        self.is_folded = true;
        Ok(folded)
    }

    /// The same, of batches that are made one by one, for as long as anybody wants the run.
    fn run_each(
        mut self,
        batches: impl Iterator<Item = Result<RecordBatch, EvalError>>,
    ) -> Result<(u64, bool), RunError> {
        let mut folded = self.state.fold(&[])?;
        for batch in batches {
            folded = self.state.fold(std::slice::from_ref(&batch?))?;
        }
        self.is_folded = true;
        Ok(folded)
    }
}

impl Drop for PendingFold {
    fn drop(&mut self) {
        if !self.is_folded {
            self.state.is_void.store(true, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests;
