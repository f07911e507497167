//! Pinned memory that any thread of the host fills for a device: what loads a table writes its
//! values where the device copies them from, so that they are written once.
//!
//! A [`Slot`] is taken, filled, and given to the device's thread with
//! [`Lane::upload_slot`](super::Lane::upload_slot), which comes back to it when the copy is done.
//! Slots are pinned when they are needed. Whoever finds none free makes one, so that threads which begin
//! together do that side by side; beyond a few, it first waits as long as pinning would take. The
//! device's thread never waits for a slot, and of pinning does only what the driver has to do.

#![expect(
    unsafe_code,
    reason = "a slot is memory that the device's thread owns and another thread fills"
)]

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::device::CudaDevice;
use super::driver::{Pages, Stream};
use super::fault::Fault;
use super::staging::Piece;
use crate::error::DeviceError;

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 8 << 20;
/// How long one thread takes to make a slot at 2.4 GB/s, measured on an H200's host.
const PINNING: Duration = Duration::from_micros(3_500);
/// Slots that are made without waiting: as many as threads that keep a link busy.
const NUM_SLOTS_AT_ONCE: usize = 16;

/// The free slots of a device, and how many there are.
pub(super) struct Slots {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    free: Vec<RawSlot>,
    /// Slots that are pinned, or were asked for.
    num_slots: usize,
    num_slots_max: usize,
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
    Pin,
    Fail(DeviceError),
    Wait,
}

impl Slots {
    pub(super) fn new(num_slots_max: usize) -> Self {
        Self {
            state: Mutex::new(State {
                free: Vec::new(),
                num_slots: 0,
                num_slots_max: num_slots_max.max(1),
                failure: None,
            }),
            changed: Condvar::new(),
        }
    }

    /// Takes a free slot, waiting for one; `pin` asks the device's thread for one more.
    fn take(
        &self,
        check_alive: impl Fn() -> Result<(), DeviceError>,
        pin: impl Fn(),
    ) -> Result<RawSlot, DeviceError> {
        let began = Instant::now();
        let mut has_asked = false;
        let mut state = self.state.lock();
        loop {
            let is_patient = began.elapsed() < PINNING;
            match state.turn(is_patient, has_asked) {
                Turn::Take(slot) => return Ok(slot),
                Turn::Fail(error) => return Err(error),
                Turn::Pin => {
                    state.num_slots += 1;
                    has_asked = true;
                    drop(state);
                    pin();
                    state = self.state.lock();
                }
                Turn::Wait => {
                    check_alive()?;
                    self.changed.wait_for(&mut state, PINNING);
                }
            }
        }
    }

    /// Takes a slot in that is free now, new or used.
    pub(super) fn put(&self, slot: RawSlot) {
        self.state.lock().free.push(slot);
        self.changed.notify_one();
    }

    /// Is told that a slot that was asked for cannot be pinned. If there are others, they have to do.
    pub(super) fn cannot_pin(&self, error: DeviceError) {
        let state = &mut *self.state.lock();
        state.num_slots -= 1;
        if state.num_slots == 0 {
            state.failure = Some(error);
        } else {
            state.num_slots_max = state.num_slots;
        }
        self.changed.notify_all();
    }

    /// Returns how many slots are pinned or about to be.
    #[cfg(test)]
    pub(super) fn num_slots(&self) -> usize {
        self.state.lock().num_slots
    }
}

impl State {
    fn turn(&mut self, is_patient: bool, has_asked: bool) -> Turn {
        if let Some(slot) = self.free.pop() {
            return Turn::Take(slot);
        }
        if let Some(error) = self.failure.take() {
            return Turn::Fail(error);
        }
        let may_grow = !has_asked && self.num_slots < self.num_slots_max;
        // What is not pinned yet cannot come back soon.
        if may_grow && (self.num_slots < NUM_SLOTS_AT_ONCE || !is_patient) {
            return Turn::Pin;
        }
        Turn::Wait
    }
}

impl RawSlot {
    pub(super) fn of(index: usize, piece: &Piece) -> Self {
        let start = piece.memory.start();
        Self { index, start }
    }
}

/// Pinned host memory of a device, to be filled. Dropped, it is free again.
pub struct Slot {
    device: CudaDevice,
    raw: RawSlot,
    /// Whether it goes back to the free ones by itself.
    is_ours: bool,
}

impl Slot {
    /// Takes a slot of the device, waiting for one.
    pub(super) fn take(device: &CudaDevice) -> Result<Self, DeviceError> {
        let pin = || match Pages::new(SLOT_BYTES) {
            // Whoever waits hears of it from the slots.
            Some(pages) => drop(device.submit(move |lane| lane.pin_slot(pages))),
            None => device.slots().cannot_pin(DeviceError::Refused {
                device: device.info().id,
                what: "pin host memory".to_owned(),
                why: format!("the host has no {} MiB left", SLOT_BYTES >> 20),
            }),
        };
        let raw = device.slots().take(|| device.check_alive(), pin)?;
        Ok(Self {
            device: device.clone(),
            raw,
            is_ours: true,
        })
    }

    pub(super) fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// Leaves the slot to the device's thread, which gives it back.
    pub(super) fn into_raw(mut self) -> RawSlot {
        self.is_ours = false;
        self.raw
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
            self.device.slots().put(self.raw);
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
    /// Slots that copies read, in the order of these copies.
    in_flight: std::collections::VecDeque<RawSlot>,
}

impl Pieces {
    /// Pins the pages of one more.
    pub(super) fn pin(&mut self, pages: Pages, stream: &Stream) -> Result<RawSlot, Fault> {
        let piece = Piece::of(pages, SLOT_BYTES, stream)?;
        let slot = RawSlot::of(self.all.len(), &piece);
        self.all.push(piece);
        Ok(slot)
    }

    pub(super) fn piece(&self, slot: RawSlot) -> &Piece {
        &self.all[slot.index]
    }

    /// Takes a slot whose event was recorded behind the copy that reads it.
    pub(super) fn is_read(&mut self, slot: RawSlot) {
        self.in_flight.push_back(slot);
    }

    pub(super) fn any_in_flight(&self) -> bool {
        !self.in_flight.is_empty()
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
mod tests {
    use std::cell::Cell;
    use std::ptr::NonNull;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{NUM_SLOTS_AT_ONCE, PINNING, RawSlot, Slots};
    use crate::error::DeviceError;
    use crate::info::DeviceId;

    fn raw(index: usize) -> RawSlot {
        let start = NonNull::dangling();
        RawSlot { index, start }
    }

    fn lost() -> DeviceError {
        DeviceError::Lost {
            device: DeviceId(0),
            why: "a test".into(),
        }
    }

    #[test]
    fn slots_are_pinned_when_they_are_needed() {
        let slots = Slots::new(NUM_SLOTS_AT_ONCE + 1);
        let pinned = Cell::new(0);
        let take = || {
            let pin = || {
                pinned.set(pinned.get() + 1);
                slots.put(raw(pinned.get()));
            };
            slots.take(|| Ok(()), pin).unwrap().index
        };
        for expected in 1..=NUM_SLOTS_AT_ONCE {
            assert_eq!(take(), expected);
        }
        slots.put(raw(1));
        assert_eq!(take(), 1);
        // One more only after a while.
        let began = Instant::now();
        assert_eq!(take(), NUM_SLOTS_AT_ONCE + 1);
        assert!(began.elapsed() >= PINNING);
        assert_eq!(pinned.get(), NUM_SLOTS_AT_ONCE + 1);
        assert_eq!(slots.num_slots(), NUM_SLOTS_AT_ONCE + 1);
    }

    #[test]
    fn whoever_waits_gets_the_slot_that_comes_back() {
        let slots = Arc::new(Slots::new(1));
        let first = slots.take(|| Ok(()), || slots.put(raw(7))).unwrap();
        let waiting = Arc::clone(&slots);
        let thread = thread::spawn(move || {
            let taken = waiting.take(|| Ok(()), || panic!("there is a slot already"));
            taken.unwrap().index
        });
        thread::sleep(Duration::from_millis(10));
        slots.put(first);
        assert_eq!(thread.join().unwrap(), 7);
    }

    #[test]
    fn a_host_with_nothing_to_pin_is_an_error_unless_there_are_slots() {
        let slots = Slots::new(4);
        let error = slots.take(|| Ok(()), || slots.cannot_pin(lost()));
        assert_eq!(error.unwrap_err(), lost());
        let first = slots.take(|| Ok(()), || slots.put(raw(1))).unwrap();
        let pin = || {
            slots.cannot_pin(lost());
            // The one that there is comes back.
            slots.put(first);
        };
        assert_eq!(slots.take(|| Ok(()), pin).unwrap().index, 1);
        assert_eq!(slots.num_slots(), 1);
    }

    #[test]
    fn a_lost_device_is_not_waited_for() {
        let slots = Slots::new(1);
        let error = slots.take(|| Err(lost()), || ());
        assert_eq!(error.unwrap_err(), lost());
    }
}
