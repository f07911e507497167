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
use tidegate_pipeline::Pipeline;

use super::{LaneMachine, Shared};
use crate::backend::{FoldReport, PipelineRun, RunError};
use crate::execution::{Execution, FinishLimits, Leaving};
use crate::stored::StoredMorsel;

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
    pub(super) fn new(shared: &Arc<Shared>, pipeline: Arc<Pipeline>) -> Result<Self, RunError> {
        let execution = Execution::new(shared.device.budget(), pipeline, &shared.options)?;
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
        // What is left to do is not the device's.
        async move { pending.await??.leave().await }.boxed()
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
        Ok(FoldReport {
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            bytes,
            device_seconds: began.elapsed().as_secs_f64(),
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
        })
    }

    fn fold_stored(
        &self,
        shared: &Shared,
        lane: &Lane<'_>,
        morsels: &[StoredMorsel],
    ) -> Result<FoldReport, RunError> {
        self.check()?;
        let mut slot = self.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        let from = lane.mark()?;
        execution.fold_stored(&LaneMachine::new(shared, lane), morsels)?;
        let to = lane.mark()?;
        Ok(FoldReport {
            rows: morsels.iter().map(|morsel| morsel.num_rows).sum(),
            bytes: 0,
            device_seconds: lane.elapsed_seconds(&from, &to)?,
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
