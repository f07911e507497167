//! A run of a GPU: an execution that steps on the device's thread fold into.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::{BoxFuture, LocalBoxFuture, ready};
use parking_lot::Mutex;
use tidegate_device::Reservation;
use tidegate_device::cuda::{DeviceBuffer, SLOT_BYTES};
use tidegate_pipeline::{EvalError, Pipeline};

use super::fold::{Fold, Loaded};
use super::steps::{Steps, ask};
use super::{LaneMachine, Shared, User};
use crate::backend::{Finished, FoldReport, Phases, PipelineRun, RunError, Sample};
use crate::compiling::Waiting;
use crate::execution::{Execution, FinishLimits, Leaving};
use crate::generated::GeneratedRun;
use crate::load::{Intake, Order};
use crate::program::{ProgramOptions, SlotFacts};
use crate::stored::StoredRun;

pub(super) struct CudaRun {
    shared: Arc<Shared>,
    /// Keeps the compiler at work for it.
    _user: Arc<User>,
    state: Arc<RunState>,
    steps: Arc<Steps>,
    /// What of batches is encoded.
    intake: Arc<Intake>,
    is_finished: bool,
}

/// What a run shares with its steps on the device's thread, which alone takes the lock.
pub(super) struct RunState {
    /// `None` while a step has it, and once the run is finished or has failed.
    execution: Mutex<Option<Execution<DeviceBuffer>>>,
    is_void: AtomicBool,
}

impl CudaRun {
    pub(super) fn new(
        user: &Arc<User>,
        pipeline: Arc<Pipeline>,
        options: &ProgramOptions,
    ) -> Result<Self, RunError> {
        let shared = user.shared();
        let declared = shared.declared_program(&pipeline).map_err(|why| {
            RunError::Eval(EvalError::Internal {
                what: format!("a refused pipeline was opened: {why}"),
            })
        })?;
        let budget = shared.device.budget();
        let execution = Execution::of(budget, pipeline, options, &declared)?;
        Ok(Self {
            shared: Arc::clone(shared),
            _user: Arc::clone(user),
            intake: Arc::new(execution.intake()),
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
        work: impl for<'l> FnOnce(
            Arc<RunState>,
            LaneMachine<'l>,
        ) -> LocalBoxFuture<'l, Result<T, RunError>>
        + Send
        + 'static,
    ) -> BoxFuture<'static, Result<T, RunError>> {
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        let result = ask(&self.shared, &self.steps, &self.state, work);
        async move {
            let result = result.await.unwrap_or(Err(RunError::Void));
            // What a lost device says is not to be believed.
            let result = shared
                .device
                .check_alive()
                .map_err(RunError::from)
                .and(result);
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
    user: &Arc<User>,
    pipeline: Arc<Pipeline>,
    options: &ProgramOptions,
    sample: Sample,
) -> BoxFuture<'static, Result<(), RunError>> {
    let mut run = match CudaRun::new(user, pipeline, options) {
        Ok(run) => run,
        Err(error) => return ready(Err(error)).boxed(),
    };
    // What was begun is done, whoever keeps the future.
    run.is_finished = true;
    let intake = Arc::clone(&run.intake);
    let (learnt, to_learn) = oneshot::channel::<Result<Vec<SlotFacts>, RunError>>();
    // What is looked at is let go of before anybody waits for a compiler.
    let sample = match sample {
        Sample::Loaded(batches) => {
            let intake = Arc::clone(&intake);
            run.shared.encoders.run(move || {
                let encoded = intake.encode(&batches, SLOT_BYTES);
                drop(batches);
                // Nobody may wait for it any more.
                let _ = learnt.send(encoded.map(|(load, _)| load.facts()));
            });
            None
        }
        other => Some(other),
    };
    run.ask(move |state, machine| {
        async move {
            let mut execution = state.take()?;
            match sample {
                Some(sample) => execution.survey(&machine, &sample)?,
                None => {
                    let facts = to_learn.await.unwrap_or(Err(RunError::Void))?;
                    execution.learn(&machine, &intake, facts)?;
                }
            }
            execution.compile(&machine, &FinishLimits::default()).await
        }
        .boxed_local()
    })
}

impl PipelineRun for CudaRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let fold = Fold {
            shared: Arc::clone(&self.shared),
            intake: Arc::clone(&self.intake),
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
        };
        let (arrived, to_arrive) = oneshot::channel::<Result<Loaded, RunError>>();
        let launched = self.ask(move |state, machine| {
            async move {
                let loaded = to_arrive.await.unwrap_or(Err(RunError::Void))?;
                fold.launch(state, &machine, loaded).await
            }
            .boxed_local()
        });
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        Order::begin(
            &self.shared,
            &self.intake,
            batches,
            move || state.check().is_ok(),
            move |filled| {
                // Nobody may wait for it any more.
                let _ = arrived.send(filled.map(|filled| (filled, input)));
            },
        );
        async move {
            let outcome = launched.await?.await;
            // What a lost device says is not to be believed.
            shared.device.check_alive()?;
            outcome.unwrap_or(Err(RunError::Void))
        }
        .boxed()
    }

    fn fold_stored(
        &mut self,
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.ask(move |state, machine| {
            async move {
                let mut report = state.fold_in_place(&machine, InPlace::Stored(&run)).await?;
                // The kernels waited for them, so that nobody waits here.
                report.phases.upload += machine.seconds_of(run.moving());
                Ok(report)
            }
            .boxed_local()
        })
    }

    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.ask(move |state, machine| {
            async move {
                state
                    .fold_in_place(&machine, InPlace::Generated(&run))
                    .await
            }
            .boxed_local()
        })
    }

    fn waiting(&self) -> Option<Arc<Waiting>> {
        Some(Arc::clone(self.steps.waiting()))
    }

    fn finish(mut self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>> {
        self.is_finished = true;
        let finishing = self.ask(move |state, machine| {
            async move {
                let began = Instant::now();
                let leaving = state.finish(&machine).await?;
                Ok((leaving, began, machine.waited()))
            }
            .boxed_local()
        });
        async move {
            let (leaving, began, waited) = finishing.await?;
            // What is left to do is not the device's.
            let batches = leaving.leave().await?;
            let phases = Phases {
                compile: waited.as_secs_f64(),
                download: began.elapsed().saturating_sub(waited).as_secs_f64(),
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

    pub(super) fn check(&self) -> Result<(), RunError> {
        if self.is_void.load(Ordering::Acquire) {
            return Err(RunError::Void);
        }
        Ok(())
    }

    /// Takes the execution for a step, which puts it back if it succeeds.
    pub(super) fn take(&self) -> Result<Execution<DeviceBuffer>, RunError> {
        self.check()?;
        self.execution.lock().take().ok_or(RunError::Void)
    }

    pub(super) fn put_back(&self, execution: Execution<DeviceBuffer>) {
        *self.execution.lock() = Some(execution);
    }

    /// Folds rows that need not be moved.
    async fn fold_in_place(
        &self,
        machine: &LaneMachine<'_>,
        rows: InPlace<'_>,
    ) -> Result<FoldReport, RunError> {
        let mut execution = self.take()?;
        match rows {
            InPlace::Stored(run) => execution.fold_stored(machine, run).await?,
            InPlace::Generated(run) => execution.fold_generated(machine, run).await?,
        }
        let device_seconds = machine.seconds_since_launch()?;
        let mut phases = execution.take_phases();
        phases.kernel = device_seconds;
        phases.compile = phases.compile.max(machine.waited().as_secs_f64());
        let report = FoldReport {
            rows: rows.num_rows(),
            bytes: 0,
            device_seconds,
            phases,
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
        };
        self.put_back(execution);
        Ok(report)
    }

    async fn finish(&self, machine: &LaneMachine<'_>) -> Result<Leaving, RunError> {
        // Nothing leaves before all rows are known to be in.
        machine.lane().settle_readings()?;
        let execution = self.take()?;
        execution.finish(machine, &FinishLimits::default()).await
    }
}

/// Rows that are on the device, or are made there.
#[derive(Clone, Copy)]
enum InPlace<'a> {
    Stored(&'a StoredRun),
    Generated(&'a GeneratedRun),
}

impl InPlace<'_> {
    fn num_rows(self) -> u64 {
        match self {
            Self::Stored(run) => run.num_rows(),
            Self::Generated(run) => run.num_rows(),
        }
    }
}
