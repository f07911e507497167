//! The handle of a device.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use futures::future::LocalBoxFuture;

use super::affinity::Nearness;
use super::device_thread;
use super::facts::CudaFacts;
use super::job;
use super::lane::Lane;
use super::options::CudaOptions;
use super::shared::{Command, LoadingCounters, MemoryCounters, Shared};
use super::slots::{Slot, Slots};
use crate::error::DeviceError;
use crate::faults::{FaultPlan, Operation};
use crate::info::DeviceInfo;
use crate::memory::{MemoryBudget, Reservation};
use crate::pending::Pending;

/// How long the last handle waits for the device's thread: a process that ends while it is in the
/// driver may crash there.
const END_MAX: Duration = Duration::from_secs(5);

/// A device of the NVIDIA driver. Clones are handles to the same one; when the last is dropped, the
/// device's thread does what was submitted, gives everything back, and ends. That is waited for, but
/// for some seconds at the most.
#[derive(Clone)]
pub struct CudaDevice(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl CudaDevice {
    /// Opens the device of this index, as the driver counts, and starts its thread. Blocks until
    /// the device is ready, which may take a second.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], with the reason why it cannot be opened.
    pub fn open(
        ordinal: u32,
        info: DeviceInfo,
        options: &CudaOptions,
    ) -> Result<Self, DeviceError> {
        let device = info.id;
        let lost = |why: String| DeviceError::Lost { device, why };
        let (sender, opened) = mpsc::channel();
        let options = options.clone();
        let thread = thread::Builder::new()
            .name(format!("tidegate-cuda-{}", device.0))
            .spawn(move || device_thread::run(ordinal, info, &options, &sender))
            .map_err(|error| lost(format!("its thread did not start ({error})")))?;
        let shared = opened
            .recv()
            .unwrap_or_else(|_| Err("its thread ended before it was open".to_owned()))
            .map_err(lost)?;
        Ok(Self(Arc::new(Handle {
            shared,
            thread: Some(thread),
        })))
    }

    /// Returns what the device is called.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.shared.info
    }

    /// Returns the numbers that a kernel's shape depends on.
    pub fn facts(&self) -> &CudaFacts {
        &self.0.shared.facts
    }

    /// Returns where the device's thread runs.
    pub fn nearness(&self) -> &Nearness {
        &self.0.shared.nearness
    }

    /// Returns the memory budget. Buffers do not draw on it by themselves: reserve first, then
    /// allocate.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.0.shared.budget
    }

    /// Promises `bytes` of the budget.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] for lack of bytes or by the fault plan, [`DeviceError::Lost`] if
    /// the device is.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.check_alive()?;
        if self.0.shared.faults.meet(Operation::Reservation).is_some() {
            return Err(self.budget().shortage(bytes));
        }
        self.budget().reserve(bytes)
    }

    /// Plans these faults in place of all others; what is asked of the driver from now on is counted
    /// from 1. A call that fails is not made: the k-th launch, taking of memory (reservations here
    /// count too), copy or filling of memory, and recording of or waiting for an event.
    pub fn plan_faults(&self, plan: FaultPlan) {
        self.0.shared.faults.plan(plan);
    }

    /// Returns how many planned faults happened.
    pub fn planned_faults_met(&self) -> u64 {
        self.0.shared.faults.met()
    }

    /// Returns whether the device was lost.
    pub fn is_lost(&self) -> bool {
        self.check_alive().is_err()
    }

    /// Checks that the device was not lost.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], with the cause.
    pub fn check_alive(&self) -> Result<(), DeviceError> {
        self.0.shared.check_alive()
    }

    /// Returns how much memory the device's buffers hold.
    pub fn memory(&self) -> MemoryCounters {
        self.0.shared.memory()
    }

    /// Returns what loading columns took so far.
    pub fn loading(&self) -> LoadingCounters {
        self.0.shared.loading()
    }

    /// Takes pinned memory to be filled for the device; blocks until some is free. Not to be called
    /// on the device's thread, which frees it, nor by someone who keeps another slot.
    ///
    /// # Errors
    /// [`DeviceError::Lost`], or what keeps the host from pinning any memory.
    pub fn slot(&self) -> Result<Slot, DeviceError> {
        let began = Instant::now();
        let slot = Slot::take(self);
        let seconds = began.elapsed().as_secs_f64();
        self.0
            .shared
            .count_loading(|loading| loading.wait_seconds += seconds);
        slot
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.0.shared.slots
    }

    /// Runs `work` on the device's thread, after everything submitted before. The future may be
    /// dropped; the work still runs.
    ///
    /// `work` returns when its launches are queued, not when they are done, unless it waits for
    /// them; the device computes while the next work is prepared.
    pub fn submit<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Lane<'_>) -> T + Send + 'static,
    ) -> Pending<T> {
        let shared = &self.0.shared;
        let (job, pending) = job::job(shared.info.id, work);
        if let Err(lost) = shared.check_alive() {
            job.fail(lost);
        } else if let Err(Command::Work(job)) = shared.commands.post(Command::Work(job)) {
            job.fail(shared.lose("its thread ended".to_owned()));
        }
        pending
    }

    /// Begins a task on the device's thread, after everything submitted before. Where it waits, the thread
    /// does what else is submitted; once woken it goes on behind what was submitted by then. The future may
    /// be dropped; the task still runs. A task does not keep the thread from ending: if it may still wait
    /// when the last handle is dropped, it has to hold a handle itself.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl for<'l> FnOnce(Lane<'l>) -> LocalBoxFuture<'l, T> + Send + 'static,
    ) -> Pending<T> {
        let shared = &self.0.shared;
        let (task, pending) = job::task(shared.info.id, task);
        if let Err(lost) = shared.check_alive() {
            task.fail(lost);
        } else if let Err(Command::Task(task)) = shared.commands.post(Command::Task(task)) {
            task.fail(shared.lose("its thread ended".to_owned()));
        }
        pending
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.commands.close();
        if let Some(thread) = self.thread.take() {
            join_within(thread, END_MAX);
        }
    }
}

/// Waits for a thread, unless it is this one; returns whether it has ended in time.
fn join_within(thread: JoinHandle<()>, limit: Duration) -> bool {
    if thread.thread().id() == thread::current().id() {
        // Work that the thread has just done held the last handle: it ends by itself.
        return false;
    }
    let deadline = Instant::now() + limit;
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(Duration::from_micros(200));
    }
    thread.join().is_ok()
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice")
            .field("info", self.info())
            .field("facts", self.facts())
            .field("memory", &self.memory())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
