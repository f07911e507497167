//! One scan's morsels, each claimed exactly once.
//!
//! A scan consists of *pieces* (a file or a byte range of one, a partition of a memory table, the
//! stream of a pulled source). A piece is *listed* once its morsels are known; nobody can claim
//! from it before. The host claims guided runs from the front of a piece (half of what remains,
//! because opening a file costs more than a row group is worth); devices claim single morsels from
//! the back of the last piece. A piece belongs to the whole scan, or to one partition, and then
//! counts only while that partition is polled.
//!
//! Where several devices hold parts of the scan, each takes what it [holds](Held) first, and leaves
//! to the others what they hold for as long as they take part.

mod held;
mod pieces;

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tidegate_device::DeviceId;
use tokio::sync::Notify;

use crate::place::{Place, RecordedPlacement, Replay, Rest};
pub use held::Held;
use pieces::{Piece, Pieces, Slot, State};

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
    /// Returns the number by which a pattern of places knows the morsel.
    pub(crate) fn number(self) -> usize {
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
    Replay(Replay),
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

/// The morsels of one scan, and who has which.
#[derive(Debug)]
pub struct MorselQueue {
    policy: ClaimPolicy,
    /// The host stays out of it, whatever the policy was.
    kept_from_host: AtomicBool,
    /// Who holds what, if several devices do.
    held: OnceLock<Held>,
    pieces: Mutex<Pieces>,
    changed: Notify,
}

impl MorselQueue {
    /// Makes a queue of unlisted pieces; `partitions` gives each piece's owner, if it has one.
    pub fn new(policy: ClaimPolicy, partitions: Vec<Option<usize>>) -> Self {
        Self {
            policy,
            kept_from_host: AtomicBool::new(false),
            held: OnceLock::new(),
            pieces: Mutex::new(Pieces {
                pieces: partitions.into_iter().map(Piece::new).collect(),
                polled: BTreeSet::new(),
                present: BTreeSet::new(),
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

    /// Says which devices hold which of its morsels, before the first claim. A second call changes
    /// nothing.
    pub fn share_out(&self, held: Held) {
        // The first one counts.
        let _ = self.held.set(held);
    }

    /// Returns whether devices share out what they hold.
    pub fn is_shared_out(&self) -> bool {
        self.held.get().is_some()
    }

    /// Notes that a device takes part.
    pub fn join(&self, device: DeviceId) {
        self.pieces.lock().present.insert(device);
    }

    /// Notes that a device takes no part any more: what it holds is anybody's.
    pub fn leave(&self, device: DeviceId) {
        self.pieces.lock().present.remove(&device);
        self.changed.notify_waiters();
    }

    /// Returns whether something waits that this device leaves to others.
    pub fn leaves_to_others(&self, device: DeviceId) -> bool {
        let Some(held) = self.held.get() else {
            return false;
        };
        let guard = self.pieces.lock();
        let mut pieces = guard.pieces.iter().enumerate();
        pieces.any(|(piece, entry)| {
            let mut span = entry.front..entry.back;
            let is_left = |index| {
                let id = MorselId { piece, index };
                entry.waits(index) && held.is_left_to_others(id, device, &guard.present)
            };
            guard.is_open(entry) && span.any(is_left)
        })
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
        let Pieces { pieces, polled, .. } = &mut *guard;
        polled.extend(pieces.iter().filter_map(|piece| piece.partition));
    }

    /// Makes the morsels of a piece known. A second call for a piece changes nothing.
    pub fn list(&self, piece: usize, sizes: impl IntoIterator<Item = MorselSize>) {
        let mut guard = self.pieces.lock();
        let entry = &mut guard.pieces[piece];
        if entry.slots.is_none() {
            entry.slots = Some(Vec::new());
            for size in sizes {
                entry.push(size, State::Waiting);
            }
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
        let entry = &mut guard.pieces[piece];
        let index = entry.slots.as_ref().map_or(0, Vec::len);
        let state = if to_host { State::Host } else { State::Waiting };
        entry.push(size, state);
        drop(guard);
        self.changed.notify_waiters();
        MorselId { piece, index }
    }

    /// Returns whether a recorded placement puts the next morsel appended to a piece on a device;
    /// `None` if nothing is recorded.
    pub fn replayed(&self, piece: usize) -> Option<bool> {
        match &self.policy {
            ClaimPolicy::Replay(replay) => Some(!replay.on_host(self.next(piece))),
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
        self.pieces.lock().pieces[piece].waiting.num_morsels as usize
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
        let entry = &mut guard.pieces[piece];
        let for_host = |index: usize| match &self.policy {
            ClaimPolicy::Shared | ClaimPolicy::DeviceOnly => true,
            ClaimPolicy::Replay(replay) => replay.on_host(MorselId { piece, index }),
        };
        let span = entry.front..entry.back;
        let waiting = match &self.policy {
            ClaimPolicy::Replay(_) => span
                .clone()
                .filter(|&index| entry.waits(index) && for_host(index))
                .count(),
            _ => entry.waiting.num_morsels as usize,
        };
        let mut wanted = waiting.div_ceil(2).min(limit);
        let mut run = Vec::with_capacity(wanted);
        for index in span {
            if wanted == 0 {
                break;
            }
            if entry.waits(index)
                && for_host(index)
                && let Some(size) = entry.take(index, State::Host)
            {
                let id = MorselId { piece, index };
                run.push(Morsel { id, size });
                wanted -= 1;
            }
        }
        run
    }

    /// Returns what nobody has claimed of the open pieces. A piece that is not listed yet counts as
    /// large as those that are.
    pub fn rest(&self) -> Rest {
        self.pieces.lock().rest()
    }

    /// Claims the last waiting morsel for a device, if `accepts` it: of those that it holds, else of
    /// those that it does not leave to others. `accepts` also gets what waits, that morsel included.
    pub fn claim_for_device(
        &self,
        device: DeviceId,
        accepts: impl FnOnce(&Morsel, Rest) -> bool,
    ) -> DeviceClaim {
        self.claim_last(device, false, accepts)
    }

    /// As [`MorselQueue::claim_for_device`], but if nothing else is left also of what others hold.
    pub fn claim_for_helper(
        &self,
        device: DeviceId,
        accepts: impl FnOnce(&Morsel, Rest) -> bool,
    ) -> DeviceClaim {
        self.claim_last(device, true, accepts)
    }

    fn claim_last(
        &self,
        device: DeviceId,
        also_of_others: bool,
        accepts: impl FnOnce(&Morsel, Rest) -> bool,
    ) -> DeviceClaim {
        let mut guard = self.pieces.lock();
        let (mut may_come, mut of_others) = (false, None);
        let mut found = self.own_of(&guard, device).next();
        for (piece, entry) in guard.pieces.iter().enumerate().rev() {
            if found.is_some() {
                break;
            }
            if !guard.is_open(entry) {
                may_come = true;
                continue;
            }
            if entry.slots.is_none() {
                return DeviceClaim::Unlisted(piece);
            }
            may_come |= entry.growing;
            for index in (entry.front..entry.back).rev() {
                let id = MorselId { piece, index };
                if !entry.waits(index) || !self.allows(device, id) {
                    continue;
                }
                if !self.is_left_to_others(&guard, id, device) {
                    found = Some(id);
                    break;
                }
                of_others = of_others.or(also_of_others.then_some(id));
            }
        }
        found = found.or(of_others);
        let Some(id) = found else {
            return if may_come {
                DeviceClaim::Later
            } else {
                DeviceClaim::Empty
            };
        };
        let rest = guard.rest();
        let slots = guard.pieces[id.piece].slots.as_ref();
        let Some(size) = slots.map(|slots| slots[id.index].size) else {
            return DeviceClaim::Empty;
        };
        let morsel = Morsel { id, size };
        if !accepts(&morsel, rest) {
            return DeviceClaim::Declined;
        }
        guard.pieces[id.piece].take(id.index, State::Device(device));
        if guard.pieces[id.piece].waiting.num_morsels == 0 {
            // Whoever left this to devices need not wait longer.
            self.changed.notify_waiters();
        }
        DeviceClaim::Morsel(morsel)
    }

    /// Returns the waiting morsels that a device holds, the last first.
    fn own_of(&self, pieces: &Pieces, device: DeviceId) -> impl Iterator<Item = MorselId> {
        let held = self.held.get().map_or(&[][..], |held| held.of(device));
        let may_be_claimed = move |id: &MorselId| {
            let piece = &pieces.pieces[id.piece];
            pieces.is_open(piece) && piece.waits(id.index) && self.allows(device, *id)
        };
        held.iter().rev().copied().filter(may_be_claimed)
    }

    fn is_left_to_others(&self, pieces: &Pieces, id: MorselId, device: DeviceId) -> bool {
        let held = self.held.get();
        held.is_some_and(|held| held.is_left_to_others(id, device, &pieces.present))
    }

    fn allows(&self, device: DeviceId, id: MorselId) -> bool {
        match &self.policy {
            ClaimPolicy::Replay(replay) => replay.on_device(id, device),
            _ => true,
        }
    }

    /// Claims waiting morsels for a device from the back, as long as `accepts` takes the next; stops
    /// at a piece that is not listed. Where devices share out what they hold, only what it holds.
    pub fn claim_run_for_device(
        &self,
        device: DeviceId,
        accepts: impl FnMut(&Morsel) -> bool,
    ) -> Vec<Morsel> {
        let mut guard = self.pieces.lock();
        let run = self.take_run(&mut guard, device, accepts);
        let is_empty = |id: MorselId| guard.pieces[id.piece].waiting.num_morsels == 0;
        if run.iter().any(|morsel| is_empty(morsel.id)) {
            // Whoever left this to devices need not wait longer.
            self.changed.notify_waiters();
        }
        run
    }

    fn take_run(
        &self,
        guard: &mut Pieces,
        device: DeviceId,
        mut accepts: impl FnMut(&Morsel) -> bool,
    ) -> Vec<Morsel> {
        let mut run = Vec::new();
        if self.is_shared_out() {
            let own: Vec<MorselId> = self.own_of(guard, device).collect();
            for id in own {
                let entry = &mut guard.pieces[id.piece];
                let Some(size) = entry.slots.as_ref().map(|slots| slots[id.index].size) else {
                    return run;
                };
                let morsel = Morsel { id, size };
                if !accepts(&morsel) {
                    return run;
                }
                entry.take(id.index, State::Device(device));
                run.push(morsel);
            }
            return run;
        }
        let Pieces { pieces, polled, .. } = guard;
        for (piece, entry) in pieces.iter_mut().enumerate().rev() {
            if entry
                .partition
                .is_some_and(|owner| !polled.contains(&owner))
            {
                continue;
            }
            if entry.slots.is_none() {
                return run;
            }
            for index in (entry.front..entry.back).rev() {
                let id = MorselId { piece, index };
                if !entry.waits(index) || !self.allows(device, id) {
                    continue;
                }
                let Some(size) = entry.slots.as_ref().map(|slots| slots[index].size) else {
                    return run;
                };
                let morsel = Morsel { id, size };
                if !accepts(&morsel) {
                    return run;
                }
                entry.take(index, State::Device(device));
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

    /// Marks morsels as done: their rows have left this device.
    pub fn commit(&self, device: DeviceId, morsels: &[MorselId]) {
        self.set(morsels, State::Committed(device));
    }

    /// Gives morsels back, to be run on the host in the tail.
    pub fn give_back(&self, morsels: &[MorselId]) {
        self.set(morsels, State::Returned);
    }

    /// Takes for the host everything that was given back and, with `also_waiting`, what nobody has
    /// claimed of the open pieces; in order.
    pub fn take_rest(&self, also_waiting: bool) -> Vec<Morsel> {
        let mut guard = self.pieces.lock();
        let Pieces { pieces, polled, .. } = &mut *guard;
        let mut rest = Vec::new();
        for (piece, entry) in pieces.iter_mut().enumerate() {
            let open = entry.partition.is_none_or(|owner| polled.contains(&owner));
            for index in 0..entry.slots.as_ref().map_or(0, Vec::len) {
                let id = MorselId { piece, index };
                if also_waiting && open && entry.waits(index) {
                    let taken = entry.take(index, State::Host);
                    rest.extend(taken.map(|size| Morsel { id, size }));
                } else if let Some(slot) = entry.slots.as_mut().map(|slots| &mut slots[index])
                    && slot.state == State::Returned
                {
                    slot.state = State::Host;
                    let size = slot.size;
                    rest.push(Morsel { id, size });
                }
            }
        }
        rest
    }

    /// Records which morsel ran where, once all have; what nobody has claimed counts as the host's.
    /// `None` if that is too much to be remembered.
    pub fn record(&self) -> Option<RecordedPlacement> {
        let guard = self.pieces.lock();
        let places = guard.pieces.iter().map(|piece| {
            let slots = piece.slots.iter().flatten();
            let place = |slot: &Slot| match slot.state {
                State::Device(device) | State::Committed(device) => Place::Device(device),
                State::Waiting | State::Host | State::Returned => Place::Host,
            };
            slots.map(place).collect()
        });
        RecordedPlacement::of(places)
    }

    /// Returns the open pieces that nobody has listed yet.
    pub fn unlisted(&self) -> Vec<usize> {
        let guard = self.pieces.lock();
        let entries = guard.pieces.iter().enumerate();
        entries
            .filter(|(_, entry)| entry.slots.is_none() && guard.is_open(entry))
            .map(|(piece, _)| piece)
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
