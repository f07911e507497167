//! The handle of a device.

use std::fmt;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use super::facts::CudaFacts;
use super::feeder;
use super::lane::Lane;
use super::options::CudaOptions;
use super::pending::{self, Pending};
use super::shared::{Letter, LoadingCounters, MemoryCounters, Shared};
use super::slots::{Slot, Slots};
use crate::error::DeviceError;
use crate::info::DeviceInfo;
use crate::memory::{MemoryBudget, Reservation};

/// A device of the NVIDIA driver. Clones are handles to the same one; when the last is dropped, the
/// device's thread does what was submitted, gives everything back, and ends. Nobody waits for that.
#[derive(Clone)]
pub struct CudaDevice(Arc<Handle>);

struct Handle {
    shared: Arc<Shared>,
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
        thread::Builder::new()
            .name(format!("tidegate-cuda-{}", device.0))
            .spawn(move || feeder::run(ordinal, info, &options, &sender))
            .map_err(|error| lost(format!("its thread did not start ({error})")))?;
        let shared = opened
            .recv()
            .unwrap_or_else(|_| Err("its thread ended before it was open".to_owned()))
            .map_err(lost)?;
        Ok(Self(Arc::new(Handle { shared })))
    }

    /// Returns what the device is called.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.shared.info
    }

    /// Returns the numbers that a kernel's shape depends on.
    pub fn facts(&self) -> &CudaFacts {
        &self.0.shared.facts
    }

    /// Returns the memory budget. Buffers do not draw on it by themselves: reserve first, then
    /// allocate.
    pub fn budget(&self) -> &Arc<MemoryBudget> {
        &self.0.shared.budget
    }

    /// Promises `bytes` of the budget.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] for lack of bytes, [`DeviceError::Lost`] if the device is.
    pub fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.check_alive()?;
        self.budget().reserve(bytes)
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
        let (job, pending) = pending::job(shared.info.id, work);
        if let Err(lost) = shared.check_alive() {
            job.fail(lost);
        } else if let Err(Letter::Work(job)) = shared.mailbox.post(Letter::Work(job)) {
            job.fail(shared.lose("its thread ended".to_owned()));
        }
        pending
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.mailbox.close();
    }
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
