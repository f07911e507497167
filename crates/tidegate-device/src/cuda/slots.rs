//! Pinned memory that any thread of the host fills for a device: what loads a table writes its
//! values where the device copies them from, so that they are written once.
//!
//! A [`Slot`] is taken, filled, and given to the device's thread with
//! [`Lane::upload_slot`](super::Lane::upload_slot), which comes back to it when the copy is done.
//! The device's own thread takes slots too, for what it uploads itself. Slots are pinned when they are needed,
//! many at a time. Whoever finds none free has more pinned, if few
//! are on their way to the device: then it is not the link that is waited for. The device's thread never
//! waits for a slot, and of pinning does only what the driver has to do.

#![expect(
    unsafe_code,
    reason = "a slot is memory that the device's thread owns and another thread fills"
)]

use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::device::CudaDevice;
use super::driver::{Event, Pages, Pinned, Stream};
use super::fault::Fault;
use crate::error::DeviceError;

/// Bytes of a slot. On an H200's host 16 threads that fill slots of 4 MiB keep the link at 51 GB/s; with
/// 1 MiB it is 43, for each copy takes the device's thread some time, and with 16 MiB 48.
pub const SLOT_BYTES: usize = 4 << 20;
/// The most slots that are pinned at once: 64 MiB, whose pages 8 threads touch. That takes 5 ms on an H200's
/// host, where 8 MiB pinned by each of many threads took 2 of the device's thread.
const NUM_AT_ONCE_MAX: usize = 16;
/// Filled slots that keep the link busy for as long as filling one takes, 0.6 ms.
const NUM_FILLED: usize = 8;
/// How often whoever waits for a slot looks whether the device is still there.
const PATIENCE: Duration = Duration::from_millis(4);

/// The free slots of a device, and how many there are.
pub(super) struct Slots {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: Vec<RawSlot>,
    /// Slots that are pinned.
    num_slots: usize,
    num_slots_max: usize,
    /// Slots that are pinned together.
    num_at_once: usize,
    /// Slots that were filled and are not free again.
    num_filled: usize,
    /// Whether more are being pinned.
    is_growing: bool,
    /// Why no slot could be pinned when there was none; the next who waits takes it.
    failure: Option<DeviceError>,
}

/// A slot's name and memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawSlot {
    pub(super) index: usize,
    start: NonNull<u8>,
}

// SAFETY: it is the address of memory that lives as long as the device's thread, and whoever has the
// value alone touches that memory: it is the free list, one `Slot`, or the device's copy.
unsafe impl Send for RawSlot {}

/// What whoever wants a slot does next.
enum Turn {
    Take(RawSlot),
    /// Have so many pinned.
    Pin(usize),
    Fail(DeviceError),
    Wait,
}

impl Slots {
    /// Makes as many at once as this host has cores, within bounds: so many threads may fill some.
    pub(super) fn of_host(num_slots_max: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::new(num_slots_max, cores.clamp(2, NUM_AT_ONCE_MAX))
    }

    fn new(num_slots_max: usize, num_at_once: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free: Vec::new(),
                num_slots: 0,
                num_slots_max: num_slots_max.max(1),
                num_at_once,
                num_filled: 0,
                is_growing: false,
                failure: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Takes a free slot, waiting for one; `pin` asks the device's thread for so many more.
    fn take(
        &self,
        check_alive: impl Fn() -> Result<(), DeviceError>,
        pin: impl Fn(usize),
    ) -> Result<RawSlot, DeviceError> {
        let mut state = self.state.lock();
        loop {
            match state.turn() {
                Turn::Take(slot) => return Ok(slot),
                Turn::Fail(error) => return Err(error),
                Turn::Pin(num_slots) => {
                    drop(state);
                    pin(num_slots);
                    state = self.state.lock();
                }
                Turn::Wait => {
                    check_alive()?;
                    self.changed.wait_for(&mut state, PATIENCE);
                }
            }
        }
    }

    /// Takes new slots in.
    pub(super) fn put_new(&self, slots: Vec<RawSlot>) {
        let state = &mut *self.state.lock();
        state.is_growing = false;
        state.num_slots += slots.len();
        state.free.extend(slots);
        self.changed.notify_all();
    }

    /// Takes a free slot, if there is one.
    pub(super) fn try_take(&self) -> Option<RawSlot> {
        self.state.lock().free.pop()
    }

    /// Counts a new slot, which was taken at once.
    pub(super) fn add_taken(&self) {
        self.state.lock().num_slots += 1;
    }

    /// Is told that a slot that was filled is taken again.
    pub(super) fn take_back(&self) {
        self.state.lock().num_filled -= 1;
    }

    /// Counts a slot that was filled.
    pub(super) fn fill(&self) {
        self.state.lock().num_filled += 1;
    }

    /// Takes a slot in that is free again.
    pub(super) fn put(&self, slot: RawSlot, was_filled: bool) {
        let state = &mut *self.state.lock();
        state.num_filled -= usize::from(was_filled);
        state.free.push(slot);
        self.changed.notify_one();
    }

    /// Is told that a slot that was filled is never free again, for nobody knows when it is read.
    pub(super) fn forget(&self, _slot: RawSlot) {
        let state = &mut *self.state.lock();
        state.num_filled -= 1;
        state.num_slots -= 1;
    }

    /// Is told that slots that were asked for cannot be pinned. If there are others, they have to do.
    pub(super) fn cannot_pin(&self, error: DeviceError) {
        let state = &mut *self.state.lock();
        state.is_growing = false;
        if state.num_slots == 0 {
            state.failure = Some(error);
        } else {
            state.num_slots_max = state.num_slots;
        }
        self.changed.notify_all();
    }

    /// Returns how many slots are pinned.
    #[cfg(test)]
    pub(super) fn num_slots(&self) -> usize {
        self.state.lock().num_slots
    }
}

impl State {
    fn turn(&mut self) -> Turn {
        if let Some(slot) = self.free.pop() {
            return Turn::Take(slot);
        }
        if let Some(error) = self.failure.take() {
            return Turn::Fail(error);
        }
        let missing = self.num_slots_max.saturating_sub(self.num_slots);
        if self.is_growing || missing == 0 || self.num_filled >= NUM_FILLED {
            return Turn::Wait;
        }
        self.is_growing = true;
        Turn::Pin(missing.min(self.num_at_once))
    }
}

/// Pinned host memory of a device, to be filled. Dropped, it is free again.
pub struct Slot {
    device: CudaDevice,
    raw: RawSlot,
    /// Whether it goes back to the free ones by itself.
    is_ours: bool,
    is_filled: bool,
}

impl Slot {
    /// Takes a slot of the device, waiting for one.
    pub(super) fn take(device: &CudaDevice) -> Result<Self, DeviceError> {
        let pin = |num_slots: usize| match Pages::shared(num_slots * SLOT_BYTES) {
            // Whoever waits hears of it from the slots.
            Some(pages) => drop(device.submit(move |lane| lane.pin_slots(pages))),
            None => device.slots().cannot_pin(DeviceError::Refused {
                device: device.info().id,
                what: "pin host memory".to_owned(),
                why: format!(
                    "the host has no {} MiB left",
                    (num_slots * SLOT_BYTES) >> 20
                ),
            }),
        };
        let raw = device.slots().take(|| device.check_alive(), pin)?;
        Ok(Self {
            device: device.clone(),
            raw,
            is_ours: true,
            is_filled: false,
        })
    }

    pub(super) fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// Says that nothing more is written to it, so that others who wait for a slot know that this one is
    /// with the device.
    pub fn filled(mut self) -> Self {
        if !self.is_filled {
            self.is_filled = true;
            self.device.slots().fill();
        }
        self
    }

    /// Leaves the slot to the device's thread, which gives it back as one that was filled.
    pub(super) fn into_raw(self) -> RawSlot {
        let mut slot = self.filled();
        slot.is_ours = false;
        slot.raw
    }
}

impl Deref for Slot {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory was pinned with so many bytes, which came with contents, and
        // lives as long as the device's thread, which the handle in here keeps; nobody else has the
        // slot, so nobody writes to it.
        unsafe { slice::from_raw_parts(self.raw.start.as_ptr(), SLOT_BYTES) }
    }
}

impl DerefMut for Slot {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.raw.start.as_ptr(), SLOT_BYTES) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.is_ours {
            self.device.slots().put(self.raw, self.is_filled);
        }
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let index = self.raw.index;
        write!(f, "slot {index} of {}", self.device.info().id)
    }
}

/// The device's side of its slots: their memory, and which of them a copy still reads.
#[derive(Default)]
pub(super) struct Pieces {
    all: Vec<Piece>,
    /// Memory that was pinned at once, of several slots each.
    pinned: Vec<Pinned>,
    /// Slots that copies read, in the order of these copies.
    in_flight: VecDeque<RawSlot>,
}

/// A slot's memory, and the event after which the device does not need it.
pub(super) struct Piece {
    /// Its number among those that were pinned.
    pinned: usize,
    offset: usize,
    pub(super) event: Event,
}

impl Pieces {
    /// Pins pages, and makes slots of them.
    pub(super) fn pin(&mut self, pages: Pages, stream: &Stream) -> Result<Vec<RawSlot>, Fault> {
        let num_slots = pages.len() / SLOT_BYTES;
        let events = (0..num_slots).map(|_| Event::order(stream));
        let events = events.collect::<Result<Vec<_>, Fault>>()?;
        let memory = Pinned::of(pages, num_slots * SLOT_BYTES)?;
        let slots = events.into_iter().enumerate().map(|(number, event)| {
            let offset = number * SLOT_BYTES;
            // SAFETY: the memory has so many slots.
            let start = unsafe { memory.start().add(offset) };
            let index = self.all.len();
            self.all.push(Piece {
                pinned: self.pinned.len(),
                offset,
                event,
            });
            RawSlot { index, start }
        });
        let slots = slots.collect();
        self.pinned.push(memory);
        Ok(slots)
    }

    pub(super) fn piece(&self, slot: RawSlot) -> &Piece {
        &self.all[slot.index]
    }

    /// Returns what is at the front of a slot.
    ///
    /// # Safety
    /// Whoever filled the slot has given it up, and nobody writes to it while the slice lives.
    ///
    /// # Panics
    /// If a slot is not so long.
    pub(super) unsafe fn front(&self, slot: RawSlot, bytes: usize) -> &[u8] {
        assert!(bytes <= SLOT_BYTES, "a copy from a slot ends outside of it");
        let piece = self.piece(slot);
        // SAFETY: the caller vouches for the slot, and slots are apart from each other.
        unsafe { self.pinned[piece.pinned].range(piece.offset, bytes) }
    }

    /// Returns what is at the front of a slot, to be written.
    ///
    /// # Safety
    /// Nobody else reads or writes the slot while the slice lives.
    ///
    /// # Panics
    /// If a slot is not so long.
    #[expect(clippy::mut_from_ref, reason = "the caller vouches for the slot")]
    pub(super) unsafe fn front_mut(&self, slot: RawSlot, bytes: usize) -> &mut [u8] {
        assert!(bytes <= SLOT_BYTES, "a slot ends before what is written");
        // SAFETY: the slot has so many bytes, which came with contents; the caller vouches that it is alone
        // with them.
        unsafe { slice::from_raw_parts_mut(slot.start.as_ptr(), bytes) }
    }

    /// Takes a slot whose event was recorded behind the copy that reads it.
    pub(super) fn is_read(&mut self, slot: RawSlot) {
        self.in_flight.push_back(slot);
    }

    pub(super) fn any_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Waits for the slot that was sent first, and takes it; `None` if none is read.
    pub(super) fn wait_for_oldest(&mut self) -> Result<Option<RawSlot>, Fault> {
        let Some(oldest) = self.in_flight.front() else {
            return Ok(None);
        };
        self.all[oldest.index].event.wait()?;
        Ok(self.in_flight.pop_front())
    }

    /// Returns a slot whose copy is done.
    pub(super) fn next_done(&mut self) -> Result<Option<RawSlot>, Fault> {
        match self.in_flight.front() {
            Some(slot) if self.all[slot.index].event.is_done()? => Ok(self.in_flight.pop_front()),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests;
