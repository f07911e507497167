//! A run of a GPU: an execution that steps on the device's thread fold into.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tidegate_device::Reservation;
use tidegate_device::cuda::DeviceBuffer;
use tidegate_pipeline::{EvalError, Pipeline};

use super::steps::{Asked, Steps, post};
use super::{LaneMachine, Shared};
use crate::backend::{Finished, FoldReport, Phases, PipelineRun, RunError, Sample};
use crate::compiling::Waiting;
use crate::engine::Machine;
use crate::execution::{Execution, FinishLimits, Leaving, Moved};
use crate::generated::GeneratedRun;
use crate::program::ProgramOptions;
use crate::stored::StoredRun;

pub(super) struct CudaRun {
    shared: Arc<Shared>,
    state: Arc<RunState>,
    steps: Arc<Steps>,
    is_finished: bool,
}

/// What a run shares with its steps on the device's thread, which alone takes the lock.
pub(super) struct RunState {
    /// `None` once the run is finished.
    execution: Mutex<Option<Execution<DeviceBuffer>>>,
    is_void: AtomicBool,
}

impl CudaRun {
    pub(super) fn new(
        shared: &Arc<Shared>,
        pipeline: Arc<Pipeline>,
        options: &ProgramOptions,
    ) -> Result<Self, RunError> {
        let declared = shared.declared_program(&pipeline).map_err(|why| {
            RunError::Eval(EvalError::Internal {
                what: format!("a refused pipeline was opened: {why}"),
            })
        })?;
        let budget = shared.device.budget();
        let execution = Execution::of(budget, pipeline, options, &declared)?;
        Ok(Self {
            shared: Arc::clone(shared),
            state: Arc::new(RunState {
                execution: Mutex::new(Some(execution)),
                is_void: AtomicBool::new(false),
            }),
            steps: Arc::default(),
            is_finished: false,
        })
    }

    /// Asks for a step on the device's thread. Unless it succeeds the run is void, also if the device is
    /// lost before it comes to it.
    fn ask<T: Send + 'static>(
        &self,
        work: impl FnMut(&RunState, &LaneMachine<'_, '_>, Duration) -> Result<T, RunError>
        + Send
        + 'static,
    ) -> BoxFuture<'static, Result<T, RunError>> {
        let (step, receiver) = Asked::of(&self.state, work);
        self.steps.push(step);
        let posted = post(&self.shared, &self.steps);
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        async move {
            let result = match receiver.await {
                Ok(result) => shared.device.check_alive().map_or_else(
                    // What a lost device says is not to be believed.
                    |lost| Err(lost.into()),
                    |()| result,
                ),
                Err(oneshot::Canceled) => match posted.await {
                    Ok(()) => Err(RunError::Void),
                    Err(error) => Err(error.into()),
                },
            };
            if result.is_err() {
                state.make_void();
            }
            result
        }
        .boxed()
    }
}

/// Compiles and loads what a run over such rows needs.
pub(super) fn compile(
    shared: &Arc<Shared>,
    pipeline: Arc<Pipeline>,
    options: &ProgramOptions,
    sample: Sample,
) -> BoxFuture<'static, Result<(), RunError>> {
    let mut run = match CudaRun::new(shared, pipeline, options) {
        Ok(run) => run,
        Err(error) => return ready(Err(error)).boxed(),
    };
    // What was begun is done, whoever keeps the future.
    run.is_finished = true;
    let mut sample = Some(sample);
    run.ask(move |state, machine, _| {
        let mut slot = state.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        // It is let go of before anybody waits for a compiler.
        if let Some(sample) = sample.take() {
            execution.survey(machine, &sample)?;
        }
        execution.compile(machine, &FinishLimits::default())
    })
}

impl PipelineRun for CudaRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let (mut batches, mut input, mut moved) = (batches, Some(input), None);
        self.ask(move |state, machine, waited| {
            let folded = state.fold(machine, &mut batches, &mut moved, rows, waited);
            if folded.is_ok() || !machine.lacks_kernels() {
                moved = None;
                drop(input.take());
            }
            folded
        })
    }

    fn fold_stored(
        &mut self,
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.ask(move |state, machine, waited| {
            let fold = |execution: &mut Execution<DeviceBuffer>, machine: &LaneMachine<'_, '_>| {
                execution.fold_stored(machine, &run)
            };
            let mut report = state.fold_in_place(machine, run.num_rows(), waited, fold)?;
            // The kernels waited for them, so that nobody waits here.
            report.phases.upload += machine.seconds_of(run.moving());
            Ok(report)
        })
    }

    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.ask(move |state, machine, waited| {
            let fold = |execution: &mut Execution<DeviceBuffer>, machine: &LaneMachine<'_, '_>| {
                execution.fold_generated(machine, &run)
            };
            state.fold_in_place(machine, run.num_rows(), waited, fold)
        })
    }

    fn waiting(&self) -> Option<Arc<Waiting>> {
        Some(Arc::clone(self.steps.waiting()))
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>> {
        self.is_finished = true;
        let finishing = self.ask(move |state, machine, waited| {
            let began = Instant::now();
            Ok((state.finish(machine)?, began, waited))
        });
        async move {
            let (leaving, began, waited) = finishing.await?;
            // What is left to do is not the device's.
            let batches = leaving.leave().await?;
            let phases = Phases {
                compile: waited.as_secs_f64(),
                download: began.elapsed().as_secs_f64(),
                ..Phases::default()
            };
            Ok(Finished { batches, phases })
        }
        .boxed()
    }
}

impl Drop for CudaRun {
    fn drop(&mut self) {
        if !self.is_finished {
            self.state.make_void();
            self.steps.clear();
        }
    }
}

impl RunState {
    pub(super) fn make_void(&self) {
        self.is_void.store(true, Ordering::Release);
    }

    fn check(&self) -> Result<(), RunError> {
        if self.is_void.load(Ordering::Acquire) {
            return Err(RunError::Void);
        }
        Ok(())
    }

    /// Moves batches in, unless they were, and folds them.
    fn fold(
        &self,
        machine: &LaneMachine<'_, '_>,
        batches: &mut Vec<RecordBatch>,
        moved: &mut Option<Moved<DeviceBuffer>>,
        rows: u64,
        waited: Duration,
    ) -> Result<FoldReport, RunError> {
        self.check()?;
        let mut slot = self.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        let moved = match moved {
            Some(moved) => moved,
            None => moved.insert(execution.move_in(machine, &std::mem::take(batches))?),
        };
        let began = Instant::now();
        execution.fold_moved(machine, moved)?;
        let launched = began.elapsed().as_secs_f64();
        let mut phases = execution.take_phases();
        phases.kernel = (launched - phases.compile).max(0.0);
        phases.compile += waited.as_secs_f64();
        Ok(FoldReport {
            rows,
            bytes: moved.bytes,
            device_seconds: phases.upload + phases.kernel,
            phases,
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
        })
    }

    /// Folds rows that need not be moved.
    fn fold_in_place(
        &self,
        machine: &LaneMachine<'_, '_>,
        rows: u64,
        waited: Duration,
        fold: impl Fn(&mut Execution<DeviceBuffer>, &LaneMachine<'_, '_>) -> Result<(), RunError>,
    ) -> Result<FoldReport, RunError> {
        self.check()?;
        let mut slot = self.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        fold(execution, machine)?;
        let device_seconds = machine.seconds_since_launch()?;
        let mut phases = execution.take_phases();
        phases.kernel = device_seconds;
        phases.compile += waited.as_secs_f64();
        Ok(FoldReport {
            rows,
            bytes: 0,
            device_seconds,
            phases,
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
        })
    }

    fn finish(&self, machine: &LaneMachine<'_, '_>) -> Result<Leaving, RunError> {
        self.check()?;
        let mut slot = self.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        let leaving = execution.end(machine, &FinishLimits::default());
        if leaving.is_ok() || !machine.lacks_kernels() {
            *slot = None;
        }
        leaving
    }
}
