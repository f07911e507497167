//! The pinned memory that the device's thread keeps for itself: few bytes on their way to the device, and
//! what arrives from there.

use std::collections::VecDeque;

use super::copier::Copier;
use super::driver::{Event, Pinned, Stream};
use super::fault::Fault;

/// What one copy from the device moves at the most.
pub(super) const PIECE_BYTES: usize = 16 << 20;
/// Uploads of fewer bytes go straight to the compute stream, others through slots.
pub(super) const SMALL_BYTES: usize = 64 << 10;

const SMALL_PIECE_BYTES: usize = 256 << 10;
const NUM_SMALL_PIECES: usize = 4;
/// Where each upload begins in a small piece.
const ALIGNMENT: usize = 256;

/// Pinned memory, with the event after which the device does not need it.
pub(super) struct Piece {
    pub(super) memory: Pinned,
    pub(super) event: Event,
}

impl Piece {
    fn new(bytes: usize, stream: &Stream) -> Result<Self, Fault> {
        Ok(Self {
            event: Event::order(stream)?,
            memory: Pinned::new(bytes)?,
        })
    }
}

/// It starts with none.
#[derive(Default)]
pub(super) struct Staging {
    pub(super) copier: Copier,
    /// Uploads on the compute stream.
    pub(super) small: SmallPieces,
    landing: Landing,
}

/// Pieces that are filled with small uploads from their start to their end, and again when the device is done
/// with all that it was to copy from them.
#[derive(Default)]
pub(super) struct SmallPieces {
    /// The piece that is being filled, and how much of it is.
    current: Option<(Piece, usize)>,
    /// Full pieces, the oldest first; their events are recorded.
    full: VecDeque<Piece>,
}

impl SmallPieces {
    /// Gives out a place for fewer than [`SMALL_BYTES`]. It is not given out again before what is asked of the
    /// stream until the piece is full has ended.
    pub(super) fn claim(
        &mut self,
        stream: &Stream,
        bytes: usize,
    ) -> Result<(&Pinned, usize), Fault> {
        if let Some((piece, used)) = &self.current
            && used + bytes > SMALL_PIECE_BYTES
        {
            piece.event.record(stream)?;
            let full = self.current.take().map(|(piece, _)| piece);
            self.full.extend(full);
        }
        let (piece, used) = match self.current.take() {
            Some(current) => current,
            None => (self.next(stream)?, 0),
        };
        let end = (used + bytes).next_multiple_of(ALIGNMENT);
        let (piece, _) = self.current.insert((piece, end));
        Ok((&piece.memory, used))
    }

    /// Returns a piece that the device does not need: the oldest, which is waited for only if there are as
    /// many as may be, or the host has no more to pin.
    fn next(&mut self, stream: &Stream) -> Result<Piece, Fault> {
        let Some(oldest) = self.full.front() else {
            return Piece::new(SMALL_PIECE_BYTES, stream);
        };
        if !oldest.event.is_done()?
            && self.full.len() < NUM_SMALL_PIECES
            && let Ok(piece) = Piece::new(SMALL_PIECE_BYTES, stream)
        {
            return Ok(piece);
        }
        oldest.event.wait()?;
        match self.full.pop_front() {
            Some(oldest) => Ok(oldest),
            None => Piece::new(SMALL_PIECE_BYTES, stream),
        }
    }
}

/// Where downloads arrive.
#[derive(Default)]
struct Landing {
    small: Option<Piece>,
    /// One is filled while the other is copied from.
    large: [Option<Piece>; 2],
}

impl Staging {
    /// Returns memory for downloads of at most [`SMALL_BYTES`].
    pub(super) fn small_landing(&mut self, stream: &Stream) -> Result<&Pinned, Fault> {
        let piece = ready(&mut self.landing.small, SMALL_BYTES, stream)?;
        Ok(&piece.memory)
    }

    /// Returns two pieces of [`PIECE_BYTES`] for downloads, each with the event that says that it was filled, and
    /// who copies from them.
    pub(super) fn large_landing(
        &mut self,
        stream: &Stream,
    ) -> Result<([&Piece; 2], &mut Copier), Fault> {
        let [even, odd] = &mut self.landing.large;
        let pieces = [
            ready(even, PIECE_BYTES, stream)?,
            ready(odd, PIECE_BYTES, stream)?,
        ];
        Ok((pieces, &mut self.copier))
    }
}

fn ready<'a>(
    piece: &'a mut Option<Piece>,
    bytes: usize,
    stream: &Stream,
) -> Result<&'a Piece, Fault> {
    match piece {
        Some(piece) => Ok(piece),
        None => Ok(piece.insert(Piece::new(bytes, stream)?)),
    }
}
