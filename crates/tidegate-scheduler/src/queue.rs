//! One scan's morsels, each claimed exactly once.
//!
//! A scan comes in *pieces* (a file or byte range of one, a partition of a memory table, the stream
//! of a pulled source). A piece is *listed* once its morsels are known; until then nobody can claim
//! from it. The host claims from the front of a piece in guided runs (half of what remains, for
//! opening a file costs more than a row group is worth); devices claim single morsels from the back
//! of the last piece. Pieces belong either to the whole scan, or to one partition, and then count
//! only while that partition is polled.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_device::DeviceId;
use tokio::sync::Notify;

use crate::place::PlacementPattern;

/// What is known about one morsel before it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MorselSize {
    /// Rows, or the source's estimate.
    pub num_rows: u64,
    /// Bytes of the columns that the pipeline reads, an estimate.
    pub num_bytes: u64,
}

/// A morsel's address: which piece of the scan, and which morsel of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MorselId {
    /// The piece.
    pub piece: usize,
    /// The morsel's position in the piece.
    pub index: usize,
}

impl MorselId {
    /// Returns the number by which a recorded placement knows the morsel.
    fn number(self) -> usize {
        self.piece + self.index
    }
}

/// A morsel that somebody has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Morsel {
    /// Its address.
    pub id: MorselId,
    /// Its size.
    pub size: MorselSize,
}

/// Who may claim what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimPolicy {
    /// The host takes what it gets to; a device what it decides to.
    Shared,
    /// Devices only.
    DeviceOnly,
    /// As recorded.
    Replay(PlacementPattern),
}

/// What a device's claim found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceClaim {
    /// This morsel is the device's.
    Morsel(Morsel),
    /// This piece must be listed first.
    Unlisted(usize),
    /// Nothing now; more may come: wait for [`MorselQueue::changed`].
    Later,
    /// The device declined what is left.
    Declined,
    /// Nothing is left.
    Empty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Host,
    Device(DeviceId),
    Committed,
    Returned,
}

#[derive(Debug)]
struct Slot {
    size: MorselSize,
    state: State,
}

#[derive(Debug)]
struct Piece {
    /// The partition whose stream reads this piece; `None` if any may.
    partition: Option<usize>,
    slots: Option<Vec<Slot>>,
    /// More morsels may be appended.
    growing: bool,
}

#[derive(Debug)]
struct Pieces {
    pieces: Vec<Piece>,
    polled: BTreeSet<usize>,
}

/// The morsels of one scan, and who has which.
#[derive(Debug)]
pub struct MorselQueue {
    policy: ClaimPolicy,
    /// The host stays out of it, whatever the policy was.
    kept_from_host: AtomicBool,
    pieces: Mutex<Pieces>,
    changed: Notify,
}

impl MorselQueue {
    /// Makes a queue of unlisted pieces; `partitions` gives each piece's owner, if it has one.
    pub fn new(policy: ClaimPolicy, partitions: Vec<Option<usize>>) -> Self {
        let piece = |partition| Piece {
            partition,
            slots: None,
            growing: false,
        };
        Self {
            policy,
            kept_from_host: AtomicBool::new(false),
            pieces: Mutex::new(Pieces {
                pieces: partitions.into_iter().map(piece).collect(),
                polled: BTreeSet::new(),
            }),
            changed: Notify::new(),
        }
    }

    /// Returns who may claim.
    pub fn policy(&self) -> &ClaimPolicy {
        &self.policy
    }

    /// Leaves everything that still waits to devices.
    pub fn keep_from_host(&self) {
        self.kept_from_host.store(true, Ordering::Release);
    }

    /// Returns whether only devices may claim.
    pub fn is_for_devices(&self) -> bool {
        self.policy == ClaimPolicy::DeviceOnly || self.kept_from_host.load(Ordering::Acquire)
    }

    /// Counts the pieces that belong to `partition` in from now on.
    pub fn open_partition(&self, partition: usize) {
        self.pieces.lock().polled.insert(partition);
        self.changed.notify_waiters();
    }

    /// Wakes whoever waits for a change.
    pub fn wake(&self) {
        self.changed.notify_waiters();
    }

    /// Counts every piece in.
    pub fn open_all(&self) {
        let mut guard = self.pieces.lock();
        let Pieces { pieces, polled } = &mut *guard;
        polled.extend(pieces.iter().filter_map(|piece| piece.partition));
    }

    /// Makes the morsels of a piece known. A second call for a piece changes nothing.
    pub fn list(&self, piece: usize, sizes: impl IntoIterator<Item = MorselSize>) {
        let mut guard = self.pieces.lock();
        let entry = &mut guard.pieces[piece];
        if entry.slots.is_none() {
            let slot = |size| Slot {
                size,
                state: State::Waiting,
            };
            entry.slots = Some(sizes.into_iter().map(slot).collect());
        }
        drop(guard);
        self.changed.notify_waiters();
    }

    /// Returns whether a piece's morsels are known.
    pub fn is_listed(&self, piece: usize) -> bool {
        self.pieces.lock().pieces[piece].slots.is_some()
    }

    /// Declares a piece to grow by [`MorselQueue::append`] until [`MorselQueue::close`].
    pub fn grow(&self, piece: usize) {
        let mut guard = self.pieces.lock();
        guard.pieces[piece].slots.get_or_insert_default();
        guard.pieces[piece].growing = true;
    }

    /// Adds a morsel to a growing piece and returns its address. With `to_host` it is the host's at
    /// once, else it waits for a device.
    pub fn append(&self, piece: usize, size: MorselSize, to_host: bool) -> MorselId {
        let mut guard = self.pieces.lock();
        let slots = guard.pieces[piece].slots.get_or_insert_default();
        let index = slots.len();
        let state = if to_host { State::Host } else { State::Waiting };
        slots.push(Slot { size, state });
        drop(guard);
        self.changed.notify_waiters();
        MorselId { piece, index }
    }

    /// Returns whether a recorded placement puts the next morsel appended to a piece on a device;
    /// `None` if nothing is recorded.
    pub fn replayed(&self, piece: usize) -> Option<bool> {
        match &self.policy {
            ClaimPolicy::Replay(pattern) => Some(pattern.on_device(self.next(piece).number())),
            _ => None,
        }
    }

    /// Returns the address that the next morsel appended to a piece will have.
    pub fn next(&self, piece: usize) -> MorselId {
        let guard = self.pieces.lock();
        let index = guard.pieces[piece].slots.as_ref().map_or(0, Vec::len);
        MorselId { piece, index }
    }

    /// Returns how many morsels of a piece nobody has claimed.
    pub fn waiting(&self, piece: usize) -> usize {
        let guard = self.pieces.lock();
        let slots = guard.pieces[piece].slots.iter().flatten();
        slots.filter(|slot| slot.state == State::Waiting).count()
    }

    /// Says that a growing piece has all its morsels.
    pub fn close(&self, piece: usize) {
        self.pieces.lock().pieces[piece].growing = false;
        self.changed.notify_waiters();
    }

    /// Waits until the queue changes after the call to this function.
    pub fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Claims a guided run of a listed piece for the host: half of what waits there, at least one, at
    /// most `limit`, in order. Empty if nothing is left for the host.
    pub fn claim_for_host(&self, piece: usize, limit: usize) -> Vec<Morsel> {
        if self.is_for_devices() {
            return Vec::new();
        }
        let mut guard = self.pieces.lock();
        let Some(slots) = guard.pieces[piece].slots.as_mut() else {
            return Vec::new();
        };
        let for_host = |index: usize| match &self.policy {
            ClaimPolicy::Shared | ClaimPolicy::DeviceOnly => true,
            ClaimPolicy::Replay(pattern) => !pattern.on_device(MorselId { piece, index }.number()),
        };
        let waiting: Vec<usize> = (0..slots.len())
            .filter(|&index| slots[index].state == State::Waiting && for_host(index))
            .collect();
        waiting
            .iter()
            .take(waiting.len().div_ceil(2).min(limit))
            .map(|&index| {
                slots[index].state = State::Host;
                Morsel {
                    id: MorselId { piece, index },
                    size: slots[index].size,
                }
            })
            .collect()
    }

    /// Claims the last waiting morsel for a device, if `accepts` it; `accepts` also gets the rows
    /// that wait, that morsel's included.
    pub fn claim_for_device(
        &self,
        device: DeviceId,
        accepts: impl FnOnce(&Morsel, u64) -> bool,
    ) -> DeviceClaim {
        let mut guard = self.pieces.lock();
        let Pieces { pieces, polled } = &mut *guard;
        let is_open = |piece: &Piece| piece.partition.is_none_or(|owner| polled.contains(&owner));
        let mut may_come = false;
        let mut found = None;
        let mut rows_waiting = 0;
        for (number, piece) in pieces.iter().enumerate().rev() {
            if !is_open(piece) {
                may_come = true;
                continue;
            }
            let Some(slots) = &piece.slots else {
                if found.is_none() {
                    return DeviceClaim::Unlisted(number);
                }
                continue;
            };
            may_come |= piece.growing;
            for (index, slot) in slots.iter().enumerate().rev() {
                if slot.state != State::Waiting {
                    continue;
                }
                rows_waiting += slot.size.num_rows;
                let id = MorselId {
                    piece: number,
                    index,
                };
                let allowed = match &self.policy {
                    ClaimPolicy::Replay(pattern) => pattern.on_device(id.number()),
                    _ => true,
                };
                if allowed && found.is_none() {
                    found = Some(Morsel {
                        id,
                        size: slot.size,
                    });
                }
            }
        }
        match found {
            Some(morsel) if accepts(&morsel, rows_waiting) => {
                if let Some(slots) = &mut pieces[morsel.id.piece].slots {
                    slots[morsel.id.index].state = State::Device(device);
                }
                DeviceClaim::Morsel(morsel)
            }
            Some(_) => DeviceClaim::Declined,
            None if may_come => DeviceClaim::Later,
            None => DeviceClaim::Empty,
        }
    }

    /// Claims waiting morsels for a device from the back, as long as `accepts` takes the next; stops
    /// at a piece that is not listed.
    pub fn claim_run_for_device(
        &self,
        device: DeviceId,
        mut accepts: impl FnMut(&Morsel) -> bool,
    ) -> Vec<Morsel> {
        let mut guard = self.pieces.lock();
        let Pieces { pieces, polled } = &mut *guard;
        let mut run = Vec::new();
        for (piece, entry) in pieces.iter_mut().enumerate().rev() {
            if entry
                .partition
                .is_some_and(|owner| !polled.contains(&owner))
            {
                continue;
            }
            let Some(slots) = &mut entry.slots else {
                return run;
            };
            for (index, slot) in slots.iter_mut().enumerate().rev() {
                let id = MorselId { piece, index };
                let allowed = match &self.policy {
                    ClaimPolicy::Replay(pattern) => pattern.on_device(id.number()),
                    _ => true,
                };
                if slot.state != State::Waiting || !allowed {
                    continue;
                }
                let morsel = Morsel {
                    id,
                    size: slot.size,
                };
                if !accepts(&morsel) {
                    return run;
                }
                slot.state = State::Device(device);
                run.push(morsel);
            }
        }
        run
    }

    /// Returns every morsel that is known, whoever has it.
    pub fn morsels(&self) -> Vec<Morsel> {
        let guard = self.pieces.lock();
        let mut morsels = Vec::new();
        for (piece, entry) in guard.pieces.iter().enumerate() {
            let slots = entry.slots.iter().flatten().enumerate();
            morsels.extend(slots.map(|(index, slot)| Morsel {
                id: MorselId { piece, index },
                size: slot.size,
            }));
        }
        morsels
    }

    /// Returns how many pieces there are.
    pub fn num_pieces(&self) -> usize {
        self.pieces.lock().pieces.len()
    }

    /// Marks morsels as done: their rows have left the device.
    pub fn commit(&self, morsels: &[MorselId]) {
        self.set(morsels, State::Committed);
    }

    /// Gives morsels back, to be run on the host in the tail.
    pub fn give_back(&self, morsels: &[MorselId]) {
        self.set(morsels, State::Returned);
    }

    /// Takes for the host everything that was given back and, with `also_waiting`, what nobody has
    /// claimed of the open pieces; in order.
    pub fn take_rest(&self, also_waiting: bool) -> Vec<Morsel> {
        let mut guard = self.pieces.lock();
        let Pieces { pieces, polled } = &mut *guard;
        let mut rest = Vec::new();
        for (number, piece) in pieces.iter_mut().enumerate() {
            let open = piece.partition.is_none_or(|owner| polled.contains(&owner));
            for (index, slot) in piece.slots.iter_mut().flatten().enumerate() {
                let waits = also_waiting && open && slot.state == State::Waiting;
                if waits || slot.state == State::Returned {
                    slot.state = State::Host;
                    let id = MorselId {
                        piece: number,
                        index,
                    };
                    rest.push(Morsel {
                        id,
                        size: slot.size,
                    });
                }
            }
        }
        rest
    }

    /// Returns the open pieces that nobody has listed yet.
    pub fn unlisted(&self) -> Vec<usize> {
        let guard = self.pieces.lock();
        let open = |piece: &Piece| {
            piece
                .partition
                .is_none_or(|owner| guard.polled.contains(&owner))
        };
        (0..guard.pieces.len())
            .filter(|&number| guard.pieces[number].slots.is_none() && open(&guard.pieces[number]))
            .collect()
    }

    fn set(&self, morsels: &[MorselId], state: State) {
        let mut guard = self.pieces.lock();
        for id in morsels {
            if let Some(slots) = &mut guard.pieces[id.piece].slots {
                slots[id.index].state = state;
            }
        }
    }
}

#[cfg(test)]
mod tests;
