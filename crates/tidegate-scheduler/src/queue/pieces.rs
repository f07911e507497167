//! The pieces of a scan, and the state of each of their morsels.

use std::collections::BTreeSet;

use tidegate_device::DeviceId;

use super::MorselSize;
use crate::place::Rest;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    Host,
    Device(DeviceId),
    Committed(DeviceId),
    Returned,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) size: MorselSize,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) struct Piece {
    /// The partition whose stream reads this piece; `None` if any may.
    pub(super) partition: Option<usize>,
    pub(super) slots: Option<Vec<Slot>>,
    /// More morsels may be appended.
    pub(super) growing: bool,
    /// What nobody has claimed; a morsel never waits again.
    pub(super) waiting: Rest,
    /// All that is known of the piece.
    pub(super) known: Rest,
    /// No morsel before this one waits.
    pub(super) front: usize,
    /// Neither this one nor any after it waits.
    pub(super) back: usize,
}

impl Piece {
    pub(super) fn new(partition: Option<usize>) -> Self {
        Self {
            partition,
            slots: None,
            growing: false,
            waiting: Rest::default(),
            known: Rest::default(),
            front: 0,
            back: 0,
        }
    }

    pub(super) fn push(&mut self, size: MorselSize, state: State) {
        let slots = self.slots.get_or_insert_default();
        slots.push(Slot { size, state });
        self.known.add(size);
        if state == State::Waiting {
            self.waiting.add(size);
            self.back = slots.len();
        }
    }

    pub(super) fn waits(&self, index: usize) -> bool {
        let slot = self.slots.as_ref().and_then(|slots| slots.get(index));
        slot.is_some_and(|slot| slot.state == State::Waiting)
    }

    /// Gives a waiting morsel to somebody.
    pub(super) fn take(&mut self, index: usize, state: State) -> Option<MorselSize> {
        let slot = self.slots.as_mut()?.get_mut(index)?;
        slot.state = state;
        let size = slot.size;
        self.waiting.subtract(size);
        while self.front < self.back && !self.waits(self.front) {
            self.front += 1;
        }
        while self.front < self.back && !self.waits(self.back - 1) {
            self.back -= 1;
        }
        Some(size)
    }
}

#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) pieces: Vec<Piece>,
    pub(super) polled: BTreeSet<usize>,
    /// Devices that take part.
    pub(super) present: BTreeSet<DeviceId>,
}

impl Pieces {
    pub(super) fn is_open(&self, piece: &Piece) -> bool {
        piece
            .partition
            .is_none_or(|owner| self.polled.contains(&owner))
    }

    pub(super) fn rest(&self) -> Rest {
        let (mut rest, mut known) = (Rest::default(), Rest::default());
        let (mut listed, mut unlisted) = (0, 0);
        for piece in self.pieces.iter().filter(|piece| self.is_open(piece)) {
            if piece.slots.is_none() {
                unlisted += 1;
                continue;
            }
            listed += 1;
            rest += piece.waiting;
            known += piece.known;
        }
        if unlisted > 0 && listed > 0 {
            rest += known.scaled(unlisted as f64 / listed as f64);
        }
        rest
    }
}
