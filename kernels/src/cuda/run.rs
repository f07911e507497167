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
use tidegate_device::cuda::{DeviceBuffer, Pending, SLOT_BYTES};
use tidegate_pipeline::{EvalError, Pipeline};

use super::fold::{Fold, Loaded};
use super::steps::{Asked, Steps, post};
use super::{LaneMachine, Shared};
use crate::backend::{Finished, FoldReport, Phases, PipelineRun, RunError, Sample};
use crate::compiling::Waiting;
use crate::engine::Machine;
use crate::execution::{Execution, FinishLimits, Leaving};
use crate::generated::GeneratedRun;
use crate::load::{Intake, Order};
use crate::program::{ProgramOptions, SlotFacts};
use crate::stored::StoredRun;

pub(super) struct CudaRun {
    shared: Arc<Shared>,
    state: Arc<RunState>,
    steps: Arc<Steps>,
    /// What of batches is encoded.
    intake: Arc<Intake>,
    is_finished: bool,
}

/// What a run shares with its steps on the device's thread, which alone takes the lock.
pub(super) struct RunState {
    /// `None` once the run is finished.
    pub(super) execution: Mutex<Option<Execution<DeviceBuffer>>>,
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
        work: impl FnMut(&RunState, &LaneMachine<'_, '_>, Duration) -> Result<T, RunError>
        + Send
        + 'static,
    ) -> BoxFuture<'static, Result<T, RunError>> {
        let is_ready = Arc::new(AtomicBool::new(true));
        let (step, receiver) = Asked::of(&self.state, is_ready, work);
        self.steps.push(step);
        let posted = post(&self.shared, &self.steps);
        self.hear(receiver, Some(posted))
    }

    /// Asks for a step that takes what arrives later. It keeps its place before steps that are asked for
    /// meanwhile.
    fn ask_with<A: Send + 'static, T: Send + 'static>(
        &self,
        mut work: impl FnMut(
            &RunState,
            &LaneMachine<'_, '_>,
            Duration,
            &mut Option<A>,
        ) -> Result<T, RunError>
        + Send
        + 'static,
    ) -> (Arrival<A>, BoxFuture<'static, Result<T, RunError>>) {
        let arrival = Arrival {
            shared: Arc::clone(&self.shared),
            steps: Arc::clone(&self.steps),
            is_ready: Arc::default(),
            place: Arc::default(),
        };
        let (place, mut held) = (Arc::clone(&arrival.place), None);
        let take = move |state: &RunState, machine: &LaneMachine<'_, '_>, waited: Duration| {
            if held.is_none() {
                held = Some(place.lock().take().unwrap_or(Err(RunError::Void))?);
            }
            let done = work(state, machine, waited, &mut held);
            if done.is_ok() || !machine.lacks_kernels() {
                held = None;
            }
            done
        };
        let (step, receiver) = Asked::of(&self.state, Arc::clone(&arrival.is_ready), take);
        self.steps.push(step);
        (arrival, self.hear(receiver, None))
    }

    /// Waits for the result of a step.
    fn hear<T: Send + 'static>(
        &self,
        receiver: oneshot::Receiver<Result<T, RunError>>,
        posted: Option<Pending<()>>,
    ) -> BoxFuture<'static, Result<T, RunError>> {
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        async move {
            let result = match receiver.await {
                Ok(result) => result,
                Err(oneshot::Canceled) => match posted {
                    Some(posted) => match posted.await {
                        Ok(()) => Err(RunError::Void),
                        Err(error) => Err(error.into()),
                    },
                    None => Err(RunError::Void),
                },
            };
            // What a lost device says is not to be believed.
            let result = match shared.device.check_alive() {
                Ok(()) => result,
                Err(lost) => Err(lost.into()),
            };
            if result.is_err() {
                state.make_void();
            }
            result
        }
        .boxed()
    }
}

/// Where a step waits for what it takes.
struct Arrival<A> {
    shared: Arc<Shared>,
    steps: Arc<Steps>,
    is_ready: Arc<AtomicBool>,
    place: Arc<Mutex<Option<Result<A, RunError>>>>,
}

impl<A> Arrival<A> {
    /// Lets the step begin, with this or with what kept it from arriving.
    fn deliver(self, arrived: Result<A, RunError>) {
        *self.place.lock() = Some(arrived);
    }
}

/// Whatever became of it, the step is not waited for in vain.
impl<A> Drop for Arrival<A> {
    fn drop(&mut self) {
        self.is_ready.store(true, Ordering::Release);
        // Whoever asked for the step hears of it.
        drop(post(&self.shared, &self.steps));
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
    // What is looked at is let go of before anybody waits for a compiler.
    let Sample::Loaded(batches) = sample else {
        let mut sample = Some(sample);
        return run.ask(move |state, machine, _| {
            let mut slot = state.execution.lock();
            let execution = slot.as_mut().ok_or(RunError::Void)?;
            if let Some(sample) = sample.take() {
                execution.survey(machine, &sample)?;
            }
            execution.compile(machine, &FinishLimits::default())
        });
    };
    let (intake, mut has_learnt) = (Arc::clone(&run.intake), false);
    let of_run = Arc::clone(&intake);
    let look = move |state: &RunState,
                     machine: &LaneMachine<'_, '_>,
                     _: Duration,
                     facts: &mut Option<Vec<SlotFacts>>| {
        let mut slot = state.execution.lock();
        let execution = slot.as_mut().ok_or(RunError::Void)?;
        if !std::mem::replace(&mut has_learnt, true) {
            execution.learn(machine, &of_run, facts.clone().unwrap_or_default())?;
        }
        execution.compile(machine, &FinishLimits::default())
    };
    let (arrival, compiled) = run.ask_with(look);
    shared.encoders.run(move || {
        let encoded = intake.encode(&batches, SLOT_BYTES);
        drop(batches);
        arrival.deliver(encoded.map(|(load, _)| load.facts()));
    });
    compiled
}

impl PipelineRun for CudaRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let mut fold = Fold {
            state: Arc::clone(&self.state),
            shared: Arc::clone(&self.shared),
            intake: Arc::clone(&self.intake),
            rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
            has_learnt: false,
        };
        let (arrival, launched) =
            self.ask_with(move |_, machine, waited, loaded: &mut Option<Loaded>| {
                fold.launch(machine, waited, loaded)
            });
        let (shared, state) = (Arc::clone(&self.shared), Arc::clone(&self.state));
        Order::begin(
            &self.shared,
            &self.intake,
            batches,
            move || state.check().is_ok(),
            move |filled| arrival.deliver(filled.map(|filled| (filled, input))),
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

    pub(super) fn check(&self) -> Result<(), RunError> {
        if self.is_void.load(Ordering::Acquire) {
            return Err(RunError::Void);
        }
        Ok(())
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
        // Nothing leaves before all rows are known to be in.
        machine.lane().settle_readings()?;
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
