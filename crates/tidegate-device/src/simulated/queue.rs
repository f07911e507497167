//! The device's own thread: takes work in order, keeps the modelled clock, applies launch faults.
//!
//! One lock guards the queue and the device's fate; it is never held while a task runs. Sleeping
//! out the modelled time waits on the condition variable, so that dropping the device wakes it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::Cost;
use super::parcel::Parcel;
use super::spec::SimulatedSpec;
use crate::error::DeviceError;
use crate::faults::{Fault, FaultPlan, Faults, Operation};
use crate::info::DeviceId;

/// What a simulated device did since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Launches begun, failed ones included.
    pub launches: u64,
    /// Copies that belong to no launch, failed ones included.
    pub copies: u64,
    /// Launches and copies that were done.
    pub events: u64,
    /// Planned faults that were met.
    pub faults: u64,
    /// Bytes moved between host and device.
    pub copied_bytes: u64,
    /// Rows that kernels went over.
    pub rows: u64,
    /// Time spent on work, modelled or real, whichever was longer.
    pub busy_seconds: f64,
}

/// Work waiting for the device.
pub(super) struct Work {
    cost: Cost,
    is_launch: bool,
    submitted: Instant,
    parcel: Box<dyn Parcel>,
}

impl Work {
    pub(super) fn new(cost: Cost, is_launch: bool, parcel: Box<dyn Parcel>) -> Self {
        Self {
            cost,
            is_launch,
            submitted: Instant::now(),
            parcel,
        }
    }
}

/// What the device's thread and its callers share.
pub(super) struct Queue {
    device: DeviceId,
    spec: SimulatedSpec,
    faults: Faults,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    /// Why the device answers no more, once it does not.
    lost: Option<String>,
    closed: bool,
    counters: Counters,
}

impl Queue {
    pub(super) fn new(device: DeviceId, spec: SimulatedSpec) -> Self {
        Self {
            device,
            faults: Faults::new(spec.faults.clone()),
            spec,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn push(&self, work: Work) {
        self.state.lock().waiting.push_back(work);
        self.changed.notify_all();
    }

    /// Makes the thread end as soon as the task that it is running returns.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state
            .lost
            .get_or_insert_with(|| "it was shut down".to_owned());
        drop(state);
        self.changed.notify_all();
    }

    pub(super) fn counters(&self) -> Counters {
        Counters {
            faults: self.faults.met(),
            ..self.state.lock().counters
        }
    }

    pub(super) fn plan_faults(&self, plan: FaultPlan) {
        self.faults.plan(plan);
    }

    /// Counts an operation for the fault plan; returns the fault that happens in its place.
    pub(super) fn meet(&self, operation: Operation) -> Option<Fault> {
        self.faults.meet(operation)
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        self.alive(&self.state.lock())
    }

    /// Serves the queue until the device is closed and nothing waits. Only the device's thread
    /// calls this.
    pub(super) fn serve(&self) {
        // When the work before this ended; the modelled clock stands there.
        let mut clock = Instant::now();
        while let Some(mut work) = self.next() {
            let outcome = self.execute(&mut work, clock);
            clock = outcome.as_ref().map_or_else(|_| Instant::now(), |end| *end);
            work.parcel.deliver(outcome.map(|_| ()));
        }
    }

    fn next(&self) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                return Some(work);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Runs the work, sleeps out the rest of its time, and returns when it ended on the clock.
    fn execute(&self, work: &mut Work, clock: Instant) -> Result<Instant, DeviceError> {
        let launch = self.begin(work.is_launch)?;
        let began = work.submitted.max(clock);
        let started = Instant::now();
        work.parcel
            .run()
            .map_err(|why| self.launch_failed(launch, why))?;
        let worked = started.elapsed();
        let modelled = if work.is_launch {
            self.spec.launch_time(work.cost)
        } else {
            self.spec.copy_time(work.cost.copy_bytes)
        };
        let end = (began + modelled).max(started + worked);
        self.sleep_until(end)?;
        self.count(work.cost, worked.max(modelled));
        if let Some(fault) = self.meet(Operation::Event) {
            return Err(self.launch_failed(launch, planned(fault)));
        }
        Ok(end)
    }

    /// Counts a launch and applies the fault planned for it; returns the launch's number.
    fn begin(&self, is_launch: bool) -> Result<u64, DeviceError> {
        let mut state = self.state.lock();
        self.alive(&state)?;
        if !is_launch {
            state.counters.copies += 1;
            let launch = state.counters.launches;
            return match self.meet(Operation::Copy) {
                None => Ok(launch),
                Some(fault) => Err(self.launch_failed(launch, planned(fault))),
            };
        }
        state.counters.launches += 1;
        let launch = state.counters.launches;
        match self.meet(Operation::Launch) {
            None => Ok(launch),
            Some(fault @ Fault::DeviceLost { .. }) => {
                state.lost = Some(planned(fault));
                self.alive(&state).map(|()| launch)
            }
            Some(fault) => Err(self.launch_failed(launch, planned(fault))),
        }
    }

    fn sleep_until(&self, deadline: Instant) -> Result<(), DeviceError> {
        let mut state = self.state.lock();
        while !state.closed && Instant::now() < deadline {
            self.changed.wait_until(&mut state, deadline);
        }
        // Work cut short by the end of the device has not been done.
        if Instant::now() < deadline {
            return self.alive(&state);
        }
        Ok(())
    }

    /// Counts what was done.
    fn count(&self, cost: Cost, busy: Duration) {
        let counters = &mut self.state.lock().counters;
        counters.events += 1;
        counters.copied_bytes += cost.copy_bytes;
        counters.rows += cost.rows;
        counters.busy_seconds += busy.as_secs_f64();
    }

    fn alive(&self, state: &MutexGuard<'_, State>) -> Result<(), DeviceError> {
        match &state.lost {
            None => Ok(()),
            Some(why) => Err(DeviceError::Lost {
                device: self.device,
                why: why.clone(),
            }),
        }
    }

    fn launch_failed(&self, launch: u64, why: String) -> DeviceError {
        DeviceError::LaunchFailed {
            device: self.device,
            launch,
            why,
        }
    }
}

/// Says that a failure was planned.
fn planned(fault: Fault) -> String {
    format!("the fault plan says {fault}")
}
