//! Pinned host memory that is filled, copied from, and filled again, in turn.
//!
//! The ring is made of pieces. One is current and is given out from its start to its end; then it is
//! sealed, which marks the moment after which the device needs it no more, and the piece sealed
//! longest ago becomes current again. If that one is still needed, there are two ways out: wait, or
//! pin one more piece. Pinning is slow, so the ring waits first, for as long as pinning would take,
//! and then pins: at most twice the time of the better choice is lost.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use super::fault::Fault;

/// Where each part begins.
const ALIGNMENT: usize = 256;
/// Less than this is left over at the end of a piece if more is wanted.
const LEFT_OVER_BYTES: usize = 1 << 20;
/// Pieces that are pinned without waiting.
const NUM_PIECES_AT_ONCE: usize = 2;
/// Bytes pinned in a second by the threads that share it, measured on an H200's host.
const PINNED_BYTES_PER_SECOND: f64 = 12e9;
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// Makes pieces, and knows when the device is done with one.
pub(super) trait Source {
    type Piece;
    fn pin(&self, bytes: usize) -> Result<Self::Piece, Fault>;
    /// Marks the moment after which nothing that was asked of the device so far needs the piece.
    fn seal(&self, piece: &Self::Piece) -> Result<(), Fault>;
    fn is_done(&self, piece: &Self::Piece) -> Result<bool, Fault>;
    fn wait(&self, piece: &Self::Piece) -> Result<(), Fault>;
}

/// The ring; it starts with no memory at all.
pub(super) struct Ring<P> {
    piece_bytes: usize,
    num_pieces_max: usize,
    num_pieces: usize,
    current: Option<Current<P>>,
    /// Sealed pieces, the oldest first.
    sealed: VecDeque<P>,
}

struct Current<P> {
    piece: P,
    used: usize,
}

/// A part of a piece that is the caller's until the piece is sealed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a, P> {
    pub(super) piece: &'a P,
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

impl<P> Ring<P> {
    pub(super) fn new(piece_bytes: usize, num_pieces_max: usize) -> Self {
        Self {
            piece_bytes,
            num_pieces_max,
            num_pieces: 0,
            current: None,
            sealed: VecDeque::new(),
        }
    }

    /// Gives out a part of as many bytes as are wanted, or fewer, but at least one.
    pub(super) fn claim<S: Source<Piece = P>>(
        &mut self,
        source: &S,
        wanted: usize,
    ) -> Result<Part<'_, P>, Fault> {
        let mut current = match self.take_current(source, wanted)? {
            Some(current) => current,
            None => Current {
                piece: self.next_piece(source)?,
                used: 0,
            },
        };
        let offset = current.used;
        let bytes = wanted.min(self.piece_bytes - offset);
        current.used = (offset + bytes)
            .next_multiple_of(ALIGNMENT)
            .min(self.piece_bytes);
        let current = self.current.insert(current);
        Ok(Part {
            piece: &current.piece,
            offset,
            bytes,
        })
    }

    /// Takes the current piece if it has room, or seals it.
    fn take_current<S: Source<Piece = P>>(
        &mut self,
        source: &S,
        wanted: usize,
    ) -> Result<Option<Current<P>>, Fault> {
        let Some(current) = &self.current else {
            return Ok(None);
        };
        if has_room(self.piece_bytes - current.used, wanted) {
            return Ok(self.current.take());
        }
        source.seal(&current.piece)?;
        let sealed = self.current.take().map(|current| current.piece);
        self.sealed.extend(sealed);
        Ok(None)
    }

    fn next_piece<S: Source<Piece = P>>(&mut self, source: &S) -> Result<P, Fault> {
        let may_grow = self.num_pieces < self.num_pieces_max;
        let patience = if self.num_pieces < NUM_PIECES_AT_ONCE {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(self.piece_bytes as f64 / PINNED_BYTES_PER_SECOND)
        };
        if may_grow && !self.oldest_is_done(source, patience)? {
            match source.pin(self.piece_bytes) {
                Ok(piece) => {
                    self.num_pieces += 1;
                    return Ok(piece);
                }
                Err(fault) if self.sealed.is_empty() => return Err(fault),
                // The host has no more to pin: go on with what there is.
                Err(_) => self.num_pieces_max = self.num_pieces,
            }
        }
        match self.sealed.front() {
            Some(oldest) => source.wait(oldest)?,
            // Only if the ring may have no piece at all.
            None => return source.pin(self.piece_bytes),
        }
        match self.sealed.pop_front() {
            Some(oldest) => Ok(oldest),
            None => source.pin(self.piece_bytes),
        }
    }

    /// Waits for the oldest piece, but not longer than this.
    fn oldest_is_done<S: Source<Piece = P>>(
        &self,
        source: &S,
        patience: Duration,
    ) -> Result<bool, Fault> {
        let Some(oldest) = self.sealed.front() else {
            return Ok(false);
        };
        let deadline = Instant::now() + patience;
        loop {
            if source.is_done(oldest)? {
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Tells whether a piece with so many bytes left is gone on with.
fn has_room(left: usize, wanted: usize) -> bool {
    left >= wanted.clamp(1, LEFT_OVER_BYTES)
}

#[cfg(test)]
mod tests;
