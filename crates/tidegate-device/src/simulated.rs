//! A device that is a thread: it runs closures in submission order and takes the time that a real
//! device would be modelled to take.
//!
//! A launch may start when it was submitted and the launch before it has ended. It ends
//! `copy_bytes / copy rate + launch time + rows / row rate` later (times the slow-down), or when
//! its real work is done if that takes longer: the thread sleeps only for what the work left over.
//! Results arrive through a [`Pending`], so a caller never blocks. A [`FaultPlan`] says which
//! launches, copies, reservations and events fail. A device that is lost fails everything from then on.

mod parcel;
mod queue;
mod spec;

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

pub use queue::Counters;
pub use spec::{SimulatedSpec, SpecError};

use crate::error::DeviceError;
use crate::faults::{FaultPlan, Operation};
use crate::info::{DeviceId, DeviceInfo, DeviceKind};
use crate::memory::{MemoryBudget, Reservation};
use crate::pending::Pending;
use parcel::parcel;
use queue::{Queue, Work};

/// What a launch is charged for, beside the launch itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes that cross between host and device.
    pub copy_bytes: u64,
    /// Rows that the kernel goes over.
    pub rows: u64,
}

/// The simulated device. Dropping it ends its thread at once: queued work fails as lost.
pub struct SimulatedDevice {
    info: DeviceInfo,
    spec: SimulatedSpec,
    budget: Arc<MemoryBudget>,
    queue: Arc<Queue>,
    thread: Option<JoinHandle<()>>,
}

impl SimulatedDevice {
    /// Starts the device's thread.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if the system gives no thread.
    pub fn new(id: DeviceId, spec: SimulatedSpec) -> Result<Self, DeviceError> {
        let info = DeviceInfo {
            id,
            kind: DeviceKind::Simulated,
            name: "simulated".to_owned(),
            memory_bytes: spec.memory_bytes,
            rates: spec.rates(),
        };
        let queue = Arc::new(Queue::new(id, spec.clone()));
        let worker = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name(format!("tidegate-simulated-{}", id.0))
            .spawn(move || worker.serve())
            .map_err(|error| DeviceError::Lost {
                device: id,
                why: format!("its thread did not start ({error})"),
            })?;
        Ok(Self {
            budget: MemoryBudget::new(id, spec.memory_bytes),
            info,
            spec,
            queue,
            thread: Some(thread),
        })
    }

    /// Returns what the device is called and how fast it is modelled.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the specification that the device was made from.
    pub fn spec(&self) -> &SimulatedSpec {
        &self.spec
    }

    /// Returns the memory budget. Reserving here directly passes by the fault plan.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.budget
    }

    /// Promises `bytes` of the device's memory; this is what the fault plan counts.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] for lack of bytes or by the fault plan, [`DeviceError::Lost`] if
    /// the device is.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.check_alive()?;
        if self.queue.meet(Operation::Reservation).is_some() {
            return Err(self.budget.shortage(bytes));
        }
        self.budget.reserve(bytes)
    }

    /// Plans these faults in place of those of the specification; what is done from now on is counted
    /// from 1 again.
    pub fn plan_faults(&self, plan: FaultPlan) {
        self.queue.plan_faults(plan);
    }

    /// Queues a launch: `task` runs on the device's thread after all work queued before it, even if
    /// nobody waits for the completion. Returns at once.
    ///
    /// The completion fails with [`DeviceError::LaunchFailed`] if the task panics or the fault plan
    /// says so, and with [`DeviceError::Lost`] if the device is lost or dropped before the end.
    pub fn submit<T, F>(&self, cost: Cost, task: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (parcel, pending) = parcel(self.info.id, None, task);
        self.queue.push(Work::new(cost, true, parcel));
        pending
    }

    /// Does as [`submit`](Self::submit), and keeps the task's memory reserved until the launch has
    /// ended or failed, whether or not anyone waits for that.
    pub fn submit_reserved<T, F>(&self, cost: Cost, memory: Reservation, task: F) -> Pending<T>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (parcel, pending) = parcel(self.info.id, Some(memory), task);
        self.queue.push(Work::new(cost, true, parcel));
        pending
    }

    /// Queues a copy between host and device that belongs to no launch; the fault plan counts it as
    /// such.
    pub fn copy(&self, bytes: u64) -> Pending<()> {
        let (parcel, pending) = parcel(self.info.id, None, || ());
        let cost = Cost {
            copy_bytes: bytes,
            rows: 0,
        };
        self.queue.push(Work::new(cost, false, parcel));
        pending
    }

    /// Returns the time that a launch of this cost is modelled to take on an idle device.
    pub fn modelled_time(&self, cost: Cost) -> Duration {
        self.spec.launch_time(cost)
    }

    /// Checks that the device was not lost.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], with the cause.
    pub fn check_alive(&self) -> Result<(), DeviceError> {
        self.queue.check_alive()
    }

    /// Returns whether the device was lost.
    pub fn is_lost(&self) -> bool {
        self.check_alive().is_err()
    }

    /// Returns what the device did so far.
    pub fn counters(&self) -> Counters {
        self.queue.counters()
    }
}

impl Drop for SimulatedDevice {
    fn drop(&mut self) {
        self.queue.close();
        let Some(handle) = self.thread.take() else {
            return;
        };
        // A task may hold the last reference to its own device; that thread cannot wait for itself.
        if handle.thread().id() != thread::current().id() {
            // Panics of tasks are caught where they happen, so there is no outcome to look at.
            let _ = handle.join();
        }
    }
}

impl fmt::Debug for SimulatedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDevice")
            .field("info", &self.info)
            .field("spec", &self.spec)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
