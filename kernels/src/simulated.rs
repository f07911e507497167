//! The simulated backend: the reference interpreter on the thread of a simulated device.
//!
//! A fold is one launch that copies its batches in; finishing is one launch and a copy out. Where
//! compiling is modelled, a run waits for its program, and other runs go on meanwhile. The interpreter is far slower than a modelled kernel, so with much data the device takes the
//! interpreter's time and not the model's.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use futures::channel::oneshot;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, TryFutureExt};
use parking_lot::Mutex;
use tidegate_device::{
    Cost, DeviceError, DeviceInfo, FaultPlan, MemoryBudget, Reservation, SimulatedDevice, Threads,
};
use tidegate_pipeline::{EvalError, Interpreter, Pipeline};

use crate::backend::{Finished, FoldReport, Phases, PipelineDevice, PipelineRun, RunError, Sample};
use crate::compiling::{CompileQueue, Line, Waiting};
use crate::generated::GeneratedRun;
use crate::program::Generated;
use crate::stored::{
    ColumnDictionary, Moving, Payload, PinnedColumn, PinnedPayload, Promoted, StoredColumn,
    StoredMorsel, StoredRun, Told,
};
use crate::stream::{DeviceStream, StreamKernel, StreamWork, UnderWay};
use crate::transfer::referenced_bytes;

/// Rows of an array that are made at a time.
const BATCH_ROWS: u64 = 8192;

/// Programs that are compiled at once, as for a GPU.
const COMPILATIONS_MAX: usize = 4;

/// A simulated device that runs pipelines.
#[derive(Clone)]
pub struct SimulatedPipelineDevice {
    device: Arc<SimulatedDevice>,
    compiled: Option<Arc<Compiled>>,
}

/// The programs of a device that compiles.
struct Compiled {
    /// Those that are compiled.
    programs: Mutex<HashSet<Arc<str>>>,
    queue: CompileQueue<()>,
}

impl Compiled {
    fn new(compile: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            programs: Mutex::default(),
            // Whoever sleeps or waits for a test does no harm at the end.
            queue: CompileQueue::new(
                Threads::new("tidegate-kernels", COMPILATIONS_MAX),
                compile,
                Duration::ZERO,
            ),
        }
    }

    fn has(&self, program: &Arc<str>) -> bool {
        self.programs.lock().contains(program)
    }

    /// Compiles a program unless that was done, and calls `then`, at once or on another thread.
    fn compile(self: &Arc<Self>, program: &Arc<str>, then: impl FnOnce() + Send + 'static) {
        if self.has(program) {
            return then();
        }
        let (compiled, own) = (Arc::downgrade(self), Arc::clone(program));
        let then = move |_: Option<&()>| {
            if let Some(compiled) = compiled.upgrade() {
                compiled.programs.lock().insert(own);
            }
            then();
        };
        self.queue.ask(program, Box::new(then));
    }
}

impl SimulatedPipelineDevice {
    /// Makes the device run pipelines; compiling one takes the time of its specification.
    pub fn new(device: SimulatedDevice) -> Self {
        let time = device.spec().compile_time();
        let compiles = !time.is_zero();
        Self {
            device: Arc::new(device),
            compiled: compiles.then(|| Arc::new(Compiled::new(move |_| thread::sleep(time)))),
        }
    }

    /// As [`new`](Self::new), with whatever happens while a pipeline is compiled, which is given as text;
    /// on a thread of its own.
    pub fn with_compiler(
        device: SimulatedDevice,
        compile: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            device: Arc::new(device),
            compiled: Some(Arc::new(Compiled::new(compile))),
        }
    }

    /// Returns the device underneath, for its counters and its specification.
    pub fn device(&self) -> &SimulatedDevice {
        &self.device
    }
}

impl fmt::Debug for SimulatedPipelineDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedPipelineDevice")
            .field("device", &self.device)
            .field("compiles", &self.compiled.is_some())
            .finish()
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
        let program = pipeline.to_string().into();
        let state = State {
            interpreter: Interpreter::new(pipeline)?,
            // State is no input: growing it by resize passes by the fault plan's count.
            memory: self.device.budget().reserve(0)?,
        };
        Ok(Box::new(SimulatedRun {
            device: Arc::clone(&self.device),
            compiled: self.compiled.clone(),
            program,
            line: Arc::default(),
            has_folds: false,
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
            Ok(StoredColumn {
                device: device.info().id,
                num_rows: arrays.iter().map(|array| array.len() as u64).sum(),
                device_bytes: bytes,
                plain_bytes: bytes,
                encoding: "plain".into(),
                dictionary: None,
                encode_seconds: 0.0,
                payload: Payload::Arrays(arrays),
                memory,
            })
        }
        .boxed()
    }

    fn compiles(&self) -> bool {
        self.compiled.is_some()
    }

    fn compile(
        &self,
        pipeline: Arc<Pipeline>,
        _: Sample,
    ) -> BoxFuture<'static, Result<(), RunError>> {
        let Some(compiled) = &self.compiled else {
            return ready(Ok(())).boxed();
        };
        let (sender, receiver) = oneshot::channel();
        compiled.compile(&pipeline.to_string().into(), move || {
            // Nobody may wait for it.
            let _ = sender.send(());
        });
        let device = Arc::clone(&self.device);
        async move {
            let compiled = receiver.await;
            device.check_alive()?;
            compiled.map_err(|oneshot::Canceled| RunError::Void)
        }
        .boxed()
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

    fn promote(&self, pinned: Arc<PinnedColumn>) -> BoxFuture<'static, Result<Promoted, RunError>> {
        let device = Arc::clone(&self.device);
        let refused = self.has_no_tier("promote a column of a GPU");
        async move {
            let PinnedPayload::Arrays(arrays) = &pinned.payload else {
                return Err(refused.into());
            };
            let memory = device.reserve(pinned.bytes)?;
            device.copy(pinned.bytes).await?;
            let payload = Payload::Arrays(arrays.clone());
            let copy = device.spec().copy_time(pinned.bytes);
            Ok(Promoted {
                column: pinned.stored(device.info().id, payload, memory),
                moving: Moving(Told::Seconds(copy.as_secs_f64())),
            })
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
        _: Vec<StreamKernel>,
        work: StreamWork,
    ) -> UnderWay {
        let (id, reserved) = (self.device.info().id, memory.bytes());
        let done = self.device.submit_reserved(cost, memory, move || {
            work(&DeviceStream::simulated(id, reserved));
        });
        UnderWay {
            done: done.boxed(),
            waiting: None,
        }
    }

    fn is_lost(&self) -> bool {
        self.device.is_lost()
    }
}

/// What is asked of the device once a run's program is compiled, after so long.
type Step = Box<dyn FnOnce(Duration) + Send>;

struct SimulatedRun {
    device: Arc<SimulatedDevice>,
    compiled: Option<Arc<Compiled>>,
    program: Arc<str>,
    line: Arc<Line<Step>>,
    has_folds: bool,
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

/// A launch that has ended: what it gave, and what it took.
struct Launched<T> {
    result: T,
    compile: Duration,
    queue: Duration,
    work: Duration,
}

impl SimulatedRun {
    /// Submits a launch after those asked for before, whether or not the future is polled: now, or once the
    /// program is compiled.
    fn ask<T: Send + 'static>(
        &self,
        cost: Cost,
        input: Option<Reservation>,
        launch: impl FnOnce() -> Result<T, RunError> + Send + 'static,
    ) -> impl Future<Output = Result<Launched<T>, RunError>> + Send + 'static {
        let (sender, receiver) = oneshot::channel();
        let device = Arc::clone(&self.device);
        self.line.push(Box::new(move |compile| {
            let submitted = Instant::now();
            let launch = move || {
                let began = Instant::now();
                let result = launch()?;
                Ok::<_, RunError>(Launched {
                    result,
                    compile,
                    queue: began - submitted,
                    work: began.elapsed(),
                })
            };
            let completion = match input {
                Some(input) => device.submit_reserved(cost, input, launch),
                None => device.submit(cost, launch),
            };
            // Nobody waiting is no failure: the launch was to be made all the same.
            let _ = sender.send(completion);
        }));
        self.go_on();
        async move {
            let completion = receiver.await.map_err(|oneshot::Canceled| RunError::Void)?;
            completion.await?
        }
    }

    /// Submits what waits, if the program is compiled, or when it will be.
    fn go_on(&self) {
        let lacks = |compiled: &&Arc<Compiled>| self.has_folds && !compiled.has(&self.program);
        let Some(compiled) = self.compiled.as_ref().filter(lacks) else {
            return self.line.drain(|step| step(Duration::ZERO));
        };
        if !self.line.hold() {
            return;
        }
        let (line, began) = (Arc::clone(&self.line), Instant::now());
        compiled.compile(&self.program, move || {
            line.release();
            let mut took = began.elapsed();
            // The first of them is why it was compiled.
            line.drain(|step| step(std::mem::take(&mut took)));
        });
    }

    /// Folds rows as a launch of this cost.
    fn fold_as(
        &mut self,
        cost: Cost,
        input: Option<Reservation>,
        fold: impl FnOnce(PendingFold) -> Result<(u64, bool), RunError> + Send + 'static,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.has_folds = true;
        let modelled = self.device.modelled_time(cost);
        let pending = PendingFold::new(&self.state);
        let folding = self.ask(cost, input, move || fold(pending));
        async move {
            let folded = folding.await?;
            let (state_bytes, state_fits) = folded.result;
            let device_seconds = folded.work.max(modelled).as_secs_f64();
            let phases = Phases {
                compile: folded.compile.as_secs_f64(),
                queue: folded.queue.as_secs_f64(),
                kernel: device_seconds,
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
}

/// Returns what copies took, as far as that can be told.
fn seconds_of(moving: &[Moving]) -> f64 {
    let seconds = |Moving(told): &Moving| match told {
        Told::Seconds(seconds) => *seconds,
        Told::Never | Told::Between(..) => 0.0,
    };
    moving.iter().map(seconds).sum()
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
        self.fold_as(cost, Some(input), move |pending| pending.run(&batches))
    }

    fn fold_stored(
        &mut self,
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let schema = Arc::clone(&self.input);
        let moved = seconds_of(run.moving());
        let folding = self.fold_as(in_place(run.num_rows()), None, move |pending| {
            let mut batches = Vec::new();
            for morsel in run.morsels() {
                batches.extend(stored_batches(morsel, &schema)?);
            }
            pending.run(&batches)
        });
        let with_upload = move |mut report: FoldReport| {
            report.phases.upload += moved;
            report
        };
        folding.map_ok(with_upload).boxed()
    }

    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let schema = Arc::clone(&self.input);
        self.fold_as(in_place(run.num_rows()), None, move |pending| {
            let parts = run.parts.iter();
            let batches = parts.flat_map(|part| run.batches(part, &schema, BATCH_ROWS));
            pending.run_each(batches)
        })
    }

    fn waiting(&self) -> Option<Arc<Waiting>> {
        Some(Arc::clone(self.line.waiting()))
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>> {
        self.is_finished = true;
        let state = Arc::clone(&self.state);
        let finishing = self.ask(Cost::default(), None, move || {
            let began = Instant::now();
            Ok((state.finish()?, began))
        });
        let device = Arc::clone(&self.device);
        async move {
            let finished = finishing.await?;
            let ((batches, memory), began) = finished.result;
            device
                .copy(batches.iter().map(referenced_bytes).sum())
                .await?;
            drop(memory);
            let phases = Phases {
                compile: finished.compile.as_secs_f64(),
                download: began.elapsed().as_secs_f64(),
                ..Phases::default()
            };
            Ok(Finished { batches, phases })
        }
        .boxed()
    }
}

/// Returns the cost of a fold of rows that need not be moved.
fn in_place(rows: u64) -> Cost {
    Cost {
        copy_bytes: 0,
        rows,
    }
}

impl Drop for SimulatedRun {
    fn drop(&mut self) {
        if !self.is_finished {
            self.state.is_void.store(true, Ordering::Release);
            self.line.clear();
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
