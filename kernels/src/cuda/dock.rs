//! The host's side of a GPU: slots of pinned memory, and what they are copied to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tidegate_device::cuda::{DeviceBuffer, Lane, SLOT_BYTES, Slot};
use tidegate_device::{DeviceError, DeviceId, Threads};

use super::Shared;
use crate::load::{Clock, Dock};

/// Memory of the device that its thread takes when the first copy to it comes.
pub(crate) struct Memory {
    device: DeviceId,
    bytes: u64,
    taken: OnceLock<Result<Arc<DeviceBuffer>, DeviceError>>,
    num_sent: AtomicUsize,
    num_copied: AtomicUsize,
    failure: Mutex<Option<DeviceError>>,
}

impl Memory {
    fn take(&self, lane: &Lane<'_>) -> Result<&Arc<DeviceBuffer>, DeviceError> {
        let take = || lane.alloc_for_slots(self.bytes).map(Arc::new);
        self.taken.get_or_init(take).as_ref().map_err(Clone::clone)
    }

    fn copy(&self, lane: &Lane<'_>, offset: usize, slot: Slot, bytes: usize) {
        let buffer = self.take(lane);
        let copied = buffer.and_then(|buffer| lane.upload_slot(buffer, offset as u64, slot, bytes));
        match copied {
            Ok(()) => {
                self.num_copied.fetch_add(1, Ordering::AcqRel);
            }
            Err(error) => {
                self.failure.lock().get_or_insert(error);
            }
        }
    }

    /// Returns the memory, for work that comes behind all copies to it.
    ///
    /// # Errors
    /// What went wrong with one of them.
    pub(crate) fn filled(&self, lane: &Lane<'_>) -> Result<Arc<DeviceBuffer>, DeviceError> {
        if let Some(error) = self.failure.lock().clone() {
            return Err(error);
        }
        if self.num_copied.load(Ordering::Acquire) != self.num_sent.load(Ordering::Acquire) {
            return Err(DeviceError::LaunchFailed {
                device: self.device,
                launch: 0,
                why: "a copy to the device did not come to its end".into(),
            });
        }
        self.take(lane).map(Arc::clone)
    }
}

/// Calls what it holds when it is dropped.
struct CalledOnce(Option<Box<dyn FnOnce() + Send>>);

impl Drop for CalledOnce {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then();
        }
    }
}

impl Dock for Shared {
    type Slot = Slot;
    type Memory = Memory;

    fn threads(&self) -> &Threads {
        &self.encoders
    }

    fn clock(&self) -> &Clock {
        &self.encoding
    }

    fn slot_bytes(&self) -> usize {
        SLOT_BYTES
    }

    fn slot(&self) -> Result<Slot, DeviceError> {
        self.device.slot()
    }

    fn memory(&self, bytes: u64) -> Memory {
        Memory {
            device: self.device.info().id,
            bytes,
            taken: OnceLock::new(),
            num_sent: AtomicUsize::new(0),
            num_copied: AtomicUsize::new(0),
            failure: Mutex::default(),
        }
    }

    fn send(&self, memory: &Arc<Memory>, offset: usize, slot: Slot, bytes: usize) {
        memory.num_sent.fetch_add(1, Ordering::AcqRel);
        let (memory, slot) = (Arc::clone(memory), slot.filled());
        // Whoever uses the memory hears what came of it.
        drop(
            self.device
                .submit(move |lane| memory.copy(lane, offset, slot, bytes)),
        );
    }

    fn behind_copies(&self, then: Box<dyn FnOnce() + Send>) {
        let then = CalledOnce(Some(then));
        // Whatever becomes of the work, it is called.
        drop(self.device.submit(move |_| drop(then)));
    }

    fn failure(&self, memory: &Memory) -> Option<DeviceError> {
        memory.failure.lock().clone()
    }
}
