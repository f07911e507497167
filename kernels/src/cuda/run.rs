//! A run of a GPU: an execution that work on the device's thread folds into.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tidegate_device::Reservation;
use tidegate_device::cuda::{DeviceBuffer, Lane};
use tidegate_pipeline::{EvalError, Pipeline};

use super::{LaneMachine, Shared};
use crate::backend::{Finished, FoldReport, Phases, PipelineRun, RunError};
use crate::execution::{Execution, FinishLimits, Leaving};
use crate::generated::GeneratedRun;
use crate::program::ProgramOptions;
use crate::stored::StoredRun;

pub(super) struct CudaRun {
    shared: Arc<Shared>,
    state: Arc<RunState>,
    is_finished: bool,
}

/// What a run shares with its work on the device's thread, which alone takes the lock.
struct RunState {
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
            is_finished: false,
        })
    }

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

/// Compiles and loads, on the device's thread, what a run over rows like these needs.
pub(super) fn compile(
    shared: &Arc<Shared>,
    pipeline: Arc<Pipeline>,
    options: ProgramOptions,
    rows: Vec<RecordBatch>,
) -> BoxFuture<'static, Result<(), RunError>> {
    let kept = Arc::clone(shared);
    let pending = shared.device.submit(move |lane| {
        let budget = kept.device.budget();
        let execution = Execution::new(budget, pipeline, &options)?;
        let machine = LaneMachine::new(&kept, lane);
        execution.compile(&machine, rows, &FinishLimits::default())
    });
    async move { pending.await? }.boxed()
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
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.submit(move |state, shared, lane| {
            state.fold_in_place(shared, lane, run.num_rows(), |execution, machine| {
                execution.fold_stored(machine, &run)
            })
        })
    }

    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.submit(move |state, shared, lane| {
            state.fold_in_place(shared, lane, run.num_rows(), |execution, machine| {
                execution.fold_generated(machine, &run)
            })
        })
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>> {
        self.is_finished = true;
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        let pending = self.shared.device.submit(move |lane| {
            let began = Instant::now();
            let leaving = state.finish(&shared, lane)?;
            Ok::<_, RunError>((leaving, began))
        });
        async move {
            let (leaving, began) = pending.await??;
            // What is left to do is not the device's.
            let batches = leaving.leave().await?;
            let phases = Phases {
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
        let mut slot = self.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        let began = Instant::now();
        let bytes = execution.fold(&LaneMachine::new(shared, lane), batches)?;
        let device_seconds = began.elapsed().as_secs_f64();
        let mut phases = execution.take_phases();
        phases.kernel = (device_seconds - phases.upload - phases.compile).max(0.0);
        Ok(FoldReport {
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            bytes,
            device_seconds,
            phases,
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
        })
    }

    /// Folds rows that need not be moved.
    fn fold_in_place(
        &self,
        shared: &Shared,
        lane: &Lane<'_>,
        rows: u64,
        fold: impl FnOnce(&mut Execution<DeviceBuffer>, &LaneMachine<'_, '_>) -> Result<(), RunError>,
    ) -> Result<FoldReport, RunError> {
        self.check()?;
        let mut slot = self.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        let machine = LaneMachine::new(shared, lane);
        fold(execution, &machine)?;
        let to = lane.mark()?;
        let device_seconds = match machine.take_launched() {
            Some(from) => lane.elapsed_seconds(&from, &to)?,
            None => 0.0,
        };
        let mut phases = execution.take_phases();
        phases.kernel = device_seconds;
        Ok(FoldReport {
            rows,
            bytes: 0,
            device_seconds,
            phases,
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
        })
    }

    fn finish(&self, shared: &Shared, lane: &Lane<'_>) -> Result<Leaving, RunError> {
        self.check()?;
        let execution = self.execution.lock().take().ok_or(RunError::Void)?;
        execution.finish(&LaneMachine::new(shared, lane), &FinishLimits::default())
    }
}
