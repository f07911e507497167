//! The pinned memory that the device's thread keeps for itself: few bytes on their way to the device, and
//! what arrives from there.

use super::crew::Crew;
use super::driver::{Event, Pinned, Stream};
use super::fault::Fault;
use super::ring::{Ring, Source};

/// What one copy from the device moves at the most.
pub(super) const PIECE_BYTES: usize = 16 << 20;
/// Uploads of fewer bytes go straight to the compute stream, others through slots.
pub(super) const SMALL_BYTES: usize = 64 << 10;

const SMALL_PIECE_BYTES: usize = 256 << 10;
const NUM_SMALL_PIECES: usize = 4;

/// Pinned memory, with the event after which the device does not need it.
pub(super) struct Piece {
    pub(super) memory: Pinned,
    pub(super) event: Event,
}

impl Piece {
    pub(super) fn new(bytes: usize, stream: &Stream) -> Result<Self, Fault> {
        Ok(Self {
            event: Event::order(stream)?,
            memory: Pinned::new(bytes)?,
        })
    }
}

/// It starts with none.
pub(super) struct Staging {
    pub(super) crew: Crew,
    /// Uploads on the compute stream.
    pub(super) small: Ring<Piece>,
    landing: Landing,
}

/// Where downloads arrive.
#[derive(Default)]
struct Landing {
    small: Option<Piece>,
    /// One is filled while the other is copied from.
    large: [Option<Piece>; 2],
}

impl Default for Staging {
    fn default() -> Self {
        Self {
            crew: Crew::default(),
            small: Ring::new(SMALL_PIECE_BYTES, NUM_SMALL_PIECES),
            landing: Landing::default(),
        }
    }
}

impl Staging {
    /// Returns memory for downloads of at most [`SMALL_BYTES`].
    pub(super) fn small_landing(&mut self, stream: &Stream) -> Result<&Piece, Fault> {
        ready(&mut self.landing.small, SMALL_BYTES, stream)
    }

    /// Returns two pieces of [`PIECE_BYTES`] for downloads, and who copies from them.
    pub(super) fn large_landing(
        &mut self,
        stream: &Stream,
    ) -> Result<([&Piece; 2], &mut Crew), Fault> {
        let [even, odd] = &mut self.landing.large;
        let pieces = [
            ready(even, PIECE_BYTES, stream)?,
            ready(odd, PIECE_BYTES, stream)?,
        ];
        Ok((pieces, &mut self.crew))
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

/// The stream that copies from a ring's pieces.
pub(super) struct Reader<'a>(pub(super) &'a Stream);

impl Source for Reader<'_> {
    type Piece = Piece;

    fn pin(&self, bytes: usize) -> Result<Piece, Fault> {
        Piece::new(bytes, self.0)
    }

    fn seal(&self, piece: &Piece) -> Result<(), Fault> {
        piece.event.record(self.0)
    }

    fn is_done(&self, piece: &Piece) -> Result<bool, Fault> {
        piece.event.is_done()
    }

    fn wait(&self, piece: &Piece) -> Result<(), Fault> {
        piece.event.wait()
    }
}
