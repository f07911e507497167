//! What a device's thread and everyone who holds something of the device share.

use std::mem;
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};

use parking_lot::Mutex;

use super::affinity::Nearness;
use super::commands::CommandQueue;
use super::driver::{Event, Image, Pinned};
use super::facts::CudaFacts;
use super::job::{Job, Start};
use super::slots::Slots;
use crate::error::DeviceError;
use crate::faults::Faults;
use crate::info::DeviceInfo;
use crate::memory::MemoryBudget;

/// The device memory that buffers hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryCounters {
    /// Bytes of the buffers that there are.
    pub live_bytes: u64,
    /// The most bytes that there ever were at once.
    pub peak_bytes: u64,
    /// Buffers that there are, empty ones not counted.
    pub live_buffers: u64,
}

/// What loading columns took since the device was opened, in total of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadingCounters {
    /// Bytes that were copied from slots to the device.
    pub copied_bytes: u64,
    /// Copies of these.
    pub copies: u64,
    /// Bytes of all slots.
    pub slot_bytes: u64,
    /// Seconds that host threads waited for a free slot.
    pub wait_seconds: f64,
    /// Seconds that the device's thread took to pin slots.
    pub pin_seconds: f64,
    /// Seconds that the device's thread took to take device memory.
    pub alloc_seconds: f64,
    /// Seconds that the device's thread took to queue the copies.
    pub queue_seconds: f64,
}

/// What comes to the device's thread.
pub(super) enum Command {
    Work(Box<dyn Job>),
    Task(Box<dyn Start>),
    /// A task may go on.
    Wake(u64),
    Garbage(Garbage),
}

/// What was dropped and is to be given back on the device's thread.
pub(super) enum Garbage {
    /// The address of memory of the pool.
    Memory(u64),
    Image(Image),
    Event(Event),
    /// Pinned memory that no copy uses.
    Pinned(Pinned),
}

pub(super) struct Shared {
    pub(super) info: DeviceInfo,
    pub(super) facts: CudaFacts,
    /// Where the device's thread runs.
    pub(super) nearness: Nearness,
    pub(super) budget: Arc<MemoryBudget>,
    pub(super) faults: Arc<Faults>,
    pub(super) commands: CommandQueue<Command>,
    /// What the device's thread itself dropped while it did some work.
    dropped_here: Mutex<Vec<Garbage>>,
    counters: Mutex<MemoryCounters>,
    pub(super) slots: Slots,
    loading: Mutex<LoadingCounters>,
    lost: OnceLock<String>,
    device_thread: ThreadId,
}

impl Shared {
    /// Makes the shared part; called on the device's thread.
    pub(super) fn new(
        info: DeviceInfo,
        facts: CudaFacts,
        nearness: Nearness,
        budget: Arc<MemoryBudget>,
        faults: Arc<Faults>,
        num_slots_max: usize,
    ) -> Self {
        Self {
            info,
            facts,
            nearness,
            budget,
            faults,
            commands: CommandQueue::new(),
            dropped_here: Mutex::default(),
            counters: Mutex::default(),
            slots: Slots::of_host(num_slots_max),
            loading: Mutex::default(),
            lost: OnceLock::new(),
            device_thread: thread::current().id(),
        }
    }

    pub(super) fn check_alive(&self) -> Result<(), DeviceError> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => Err(self.lost_error(why)),
        }
    }

    /// Marks the device as lost; the first cause stays.
    pub(super) fn lose(&self, why: String) -> DeviceError {
        self.lost_error(self.lost.get_or_init(|| why))
    }

    fn lost_error(&self, why: &str) -> DeviceError {
        DeviceError::Lost {
            device: self.info.id,
            why: why.to_owned(),
        }
    }

    pub(super) fn refuse(&self, what: impl Into<String>, why: impl Into<String>) -> DeviceError {
        DeviceError::Refused {
            device: self.info.id,
            what: what.into(),
            why: why.into(),
        }
    }

    /// Has something given back: in turn with the work that waits, or, if the work that is being
    /// done drops it, before the next allocation. After the end of the thread it is forgotten.
    pub(super) fn discard(&self, garbage: Garbage) {
        if thread::current().id() == self.device_thread {
            self.dropped_here.lock().push(garbage);
            return;
        }
        if let Err(command) = self.commands.post(Command::Garbage(garbage)) {
            // Its context is gone, and it with it.
            mem::forget(command);
        }
    }

    pub(super) fn take_dropped_here(&self) -> Vec<Garbage> {
        mem::take(&mut *self.dropped_here.lock())
    }

    pub(super) fn memory(&self) -> MemoryCounters {
        *self.counters.lock()
    }

    pub(super) fn loading(&self) -> LoadingCounters {
        *self.loading.lock()
    }

    pub(super) fn count_loading(&self, count: impl FnOnce(&mut LoadingCounters)) {
        count(&mut self.loading.lock());
    }

    pub(super) fn count_buffer(&self, bytes: u64) {
        let counters = &mut *self.counters.lock();
        counters.live_bytes += bytes;
        counters.peak_bytes = counters.peak_bytes.max(counters.live_bytes);
        counters.live_buffers += 1;
    }

    pub(super) fn uncount_buffer(&self, bytes: u64) {
        let counters = &mut *self.counters.lock();
        counters.live_bytes = counters.live_bytes.saturating_sub(bytes);
        counters.live_buffers = counters.live_buffers.saturating_sub(1);
    }
}
