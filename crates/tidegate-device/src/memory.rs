//! A device's memory as a budget: bytes are promised before work starts and come back on drop.
//!
//! The budget counts, it does not allocate. Every change is one short critical section over three
//! numbers, so `used` never passes `limit` through a reservation, however many threads ask.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::error::DeviceError;
use crate::info::DeviceId;

/// Whatever can make room in a device's memory for what grows there.
///
/// # Contract
/// `make_room` is called on any thread, the device's included, and with no lock of the budget held. It
/// never waits, and takes nothing from whoever uses it.
pub trait MakeRoom: Send + Sync + Debug {
    /// Lets go of so many bytes of a device, or little more; returns how many.
    fn make_room(&self, device: DeviceId, bytes: u64) -> u64;
}

/// How many bytes of one device may be promised at once.
#[derive(Debug)]
pub struct MemoryBudget {
    device: DeviceId,
    account: Mutex<Account>,
    gives_way: OnceLock<Weak<dyn MakeRoom>>,
}

#[derive(Debug)]
struct Account {
    limit: u64,
    used: u64,
    peak: u64,
}

impl MemoryBudget {
    /// Makes a budget of which nothing is promised yet.
    pub fn new(device: DeviceId, limit_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            device,
            account: Mutex::new(Account {
                limit: limit_bytes,
                used: 0,
                peak: 0,
            }),
            gives_way: OnceLock::new(),
        })
    }

    /// Asks this for room before a reservation is refused that grows; the first one set stays.
    pub fn set_gives_way(&self, gives_way: Weak<dyn MakeRoom>) {
        // Whoever came first keeps the place.
        let _ = self.gives_way.set(gives_way);
    }

    /// Returns the device whose memory this is.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Promises `bytes`, at once or not at all; never blocks for memory.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; it [is impossible](DeviceError::is_impossible) if the whole
    /// limit would not do.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation, DeviceError> {
        self.take(bytes)?;
        Ok(Reservation {
            budget: Arc::clone(self),
            bytes,
        })
    }

    /// Returns the most bytes that may be promised at once.
    pub fn limit(&self) -> u64 {
        self.account.lock().limit
    }

    /// Returns the bytes promised now; more than the limit only after the limit was lowered.
    pub fn used(&self) -> u64 {
        self.account.lock().used
    }

    /// Returns the bytes that can still be promised.
    pub fn free(&self) -> u64 {
        let account = self.account.lock();
        account.limit.saturating_sub(account.used)
    }

    /// Returns the most bytes that were ever promised at once.
    pub fn peak(&self) -> u64 {
        self.account.lock().peak
    }

    /// Changes the limit. What is promised already stays promised, also above the new limit.
    pub fn set_limit(&self, limit_bytes: u64) {
        self.account.lock().limit = limit_bytes;
    }

    /// Describes a refusal of `wanted` bytes with the numbers of this moment.
    pub(crate) fn shortage(&self, wanted: u64) -> DeviceError {
        self.account.lock().shortage(self.device, wanted)
    }

    fn take(&self, bytes: u64) -> Result<(), DeviceError> {
        let mut account = self.account.lock();
        let used = account.used.checked_add(bytes);
        let Some(used) = used.filter(|used| bytes == 0 || *used <= account.limit) else {
            return Err(account.shortage(self.device, bytes));
        };
        account.used = used;
        account.peak = account.peak.max(used);
        Ok(())
    }

    /// As `take`, after asking for the room that lacks.
    fn take_more(&self, bytes: u64) -> Result<(), DeviceError> {
        let refused = match self.take(bytes) {
            Err(refused) if !refused.is_impossible() => refused,
            taken => return taken,
        };
        let Some(gives_way) = self.gives_way.get().and_then(Weak::upgrade) else {
            return Err(refused);
        };
        gives_way.make_room(self.device, bytes.saturating_sub(self.free()));
        self.take(bytes)
    }

    fn give_back(&self, bytes: u64) {
        let mut account = self.account.lock();
        debug_assert!(
            bytes <= account.used,
            "more bytes come back than were promised"
        );
        account.used = account.used.saturating_sub(bytes);
    }
}

impl Account {
    fn shortage(&self, device: DeviceId, wanted: u64) -> DeviceError {
        DeviceError::OutOfMemory {
            device,
            wanted,
            free: self.limit.saturating_sub(self.used),
            limit: self.limit,
        }
    }
}

/// Bytes promised from a [`MemoryBudget`]; they go back when this is dropped.
#[derive(Debug)]
#[must_use = "the bytes go back at once if the reservation is dropped"]
pub struct Reservation {
    budget: Arc<MemoryBudget>,
    bytes: u64,
}

impl Reservation {
    /// Returns how many bytes are promised.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Grows or shrinks to `bytes`; shrinking always works. What gives way goes before this is refused.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], and nothing is changed: for the bytes to be added, or for all
    /// of them if they are more than the whole limit.
    pub fn resize(&mut self, bytes: u64) -> Result<(), DeviceError> {
        if bytes <= self.bytes {
            self.budget.give_back(self.bytes - bytes);
        } else if bytes > self.budget.limit() {
            return Err(self.budget.shortage(bytes));
        } else {
            self.budget.take_more(bytes - self.bytes)?;
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Moves `bytes` of this reservation into one of their own, or returns `None`, changing
    /// nothing, if there are not so many.
    pub fn split(&mut self, bytes: u64) -> Option<Reservation> {
        self.bytes = self.bytes.checked_sub(bytes)?;
        Some(Reservation {
            budget: Arc::clone(&self.budget),
            bytes,
        })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests;
