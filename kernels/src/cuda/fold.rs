//! A fold of rows that were sent to a GPU: launched by a step on the device's thread, and ended when its
//! flags are there.
//!
//! Where one launch is all, the step does not wait for it: the next morsel is copied, and folded, while this
//! one is. Its rows' memory and what is promised for it are kept until the flags say that they are in. If
//! they say otherwise the run is void, as after any fold that fails.

use std::sync::Arc;
use std::time::Instant;

use futures::channel::oneshot;
use parking_lot::Mutex;
use tidegate_device::cuda::ReadBack;
use tidegate_device::{DeviceError, Reservation};

use super::run::RunState;
use super::{LaneMachine, Shared};
use crate::backend::{FoldReport, RunError};
use crate::engine::outcome_of;
use crate::load::{Filled, Intake};

/// What a fold takes: rows, and what is promised for them.
pub(super) type Loaded = (Filled<Shared>, Reservation);

/// How a fold ends.
pub(super) type Outcome = Result<FoldReport, RunError>;

/// A fold that is to be launched.
pub(super) struct Fold {
    pub(super) shared: Arc<Shared>,
    pub(super) intake: Arc<Intake>,
    pub(super) rows: u64,
}

/// A fold that was launched; unless it ends well its run is void.
struct Launched {
    state: Arc<RunState>,
    shared: Arc<Shared>,
    _loaded: Loaded,
    report: FoldReport,
    began: Instant,
    /// `None` once it was told how the fold has ended.
    sender: Option<oneshot::Sender<Outcome>>,
}

impl Fold {
    /// Launches the fold; returns where its outcome arrives.
    pub(super) async fn launch(
        self,
        state: Arc<RunState>,
        machine: &LaneMachine<'_>,
        loaded: Loaded,
    ) -> Result<oneshot::Receiver<Outcome>, RunError> {
        let mut execution = state.take()?;
        let began = Instant::now();
        let filled = &loaded.0;
        let buffer = filled.memory.filled(machine.lane())?;
        execution.learn(machine, &self.intake, filled.load.facts())?;
        let launched: Arc<Mutex<Option<Launched>>> = Arc::default();
        let own = Arc::clone(&launched);
        machine.tell_later(Box::new(move |told| {
            if let Some(launched) = own.lock().take() {
                launched.end(told);
            }
        }));
        let chunks = filled.load.chunks(buffer.address());
        let folded = execution.fold_chunks(machine, &chunks).await;
        let is_later = machine.is_told_later();
        folded?;
        let mut report = FoldReport {
            rows: self.rows,
            bytes: filled.load.bytes(),
            phases: execution.take_phases(),
            state_bytes: execution.state_bytes(),
            state_fits: execution.state_fits(),
            ..FoldReport::default()
        };
        // A table that was ended on the way may have waited for kernels too.
        let waited = machine.waited().as_secs_f64();
        report.phases.compile = report.phases.compile.max(waited);
        report.phases.upload = filled.seconds;
        let (sender, outcome) = oneshot::channel();
        if is_later {
            state.put_back(execution);
            *launched.lock() = Some(Launched {
                state,
                shared: self.shared,
                _loaded: loaded,
                report,
                began,
                sender: Some(sender),
            });
            return Ok(outcome);
        }
        let kernel = machine.seconds_since_launch()?;
        state.put_back(execution);
        // The device's thread has waited for copies too.
        let waiting = began.elapsed().as_secs_f64() - report.phases.compile - kernel;
        drop(loaded);
        // Nobody waiting is no failure: the fold was to be done all the same.
        let _ = sender.send(Ok(report.taking(waiting, kernel)));
        Ok(outcome)
    }
}

impl FoldReport {
    /// Adds what copies and kernels took.
    fn taking(mut self, copies: f64, kernel: f64) -> Self {
        self.phases.upload += copies.max(0.0);
        self.phases.kernel = kernel;
        self.device_seconds = self.phases.upload + kernel;
        self
    }
}

impl Launched {
    /// Ends the fold by what its flags say.
    fn end(mut self, told: Result<ReadBack, DeviceError>) {
        let outcome = told.map_err(RunError::from).and_then(|told| {
            let device = self.shared.device.info().id;
            if let Some(flags) = told.bytes.first_chunk() {
                outcome_of(device, flags)?;
            }
            // Its rows were encoded while the device had those before, so that the longer of the two counts.
            let busy = self.shared.folding.tell(self.began);
            let encoding = std::mem::take(&mut self.report.phases.upload);
            let copies = busy.max(encoding) - told.seconds;
            Ok(self.report.taking(copies, told.seconds))
        });
        if outcome.is_err() {
            self.state.make_void();
        }
        let sender = self.sender.take();
        // Whoever hears of it finds free what the fold held.
        drop(self);
        if let Some(sender) = sender {
            let _ = sender.send(outcome);
        }
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.state.make_void();
        }
    }
}
