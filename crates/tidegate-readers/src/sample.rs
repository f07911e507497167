//! Which pieces of a file are looked at: its head, places in its middle, its tail.

use std::ops::Range;

/// Bytes of the head that are looked at first.
pub const HEAD_BYTES: u64 = 256 << 10;
/// The most bytes of the head that are looked at, where it is cut within its first row.
pub const HEAD_BYTES_MAX: u64 = 64 << 20;
/// Bytes of each other piece.
const PIECE_BYTES: u64 = 32 << 10;
/// Pieces between head and tail.
const MIDDLE_PIECES: u64 = 8;

/// Bytes of a file, from its head.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The pieces, by offset; the first is the head.
    pub pieces: Vec<Piece>,
    /// Whether the head is all of the file.
    pub is_whole: bool,
}

/// A piece of a file.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it ends where the file does.
    pub is_last: bool,
}

/// Returns which bytes of a file of this size to look at, beside `head` bytes from its start; each piece begins at an
/// even offset.
pub fn pieces_of(size: u64, head: u64) -> Vec<Range<u64>> {
    if size <= head.saturating_add((MIDDLE_PIECES + 1) * PIECE_BYTES) {
        return std::iter::once(0..size).collect();
    }
    let mut pieces: Vec<_> = std::iter::once(0..head).collect();
    let step = (size - head - PIECE_BYTES) / (MIDDLE_PIECES + 1);
    for piece in 1..=MIDDLE_PIECES {
        let start = (head + piece * step) & !1;
        pieces.push(start..start + PIECE_BYTES);
    }
    let tail = (size - PIECE_BYTES) & !1;
    pieces.push(tail..size);
    // Pieces of a file that is little larger than the sample may touch.
    for index in 1..pieces.len() {
        let before = pieces[index - 1].end;
        let piece = &mut pieces[index];
        piece.start = piece.start.max(before);
    }
    pieces.retain(|piece| piece.start < piece.end);
    pieces
}

impl Sample {
    /// Makes the sample of a whole file.
    pub fn whole(bytes: Vec<u8>) -> Self {
        Self {
            pieces: vec![Piece {
                offset: 0,
                bytes,
                is_last: true,
            }],
            is_whole: true,
        }
    }

    /// Makes a sample of the beginning of a file, of which the rest cannot be reached.
    pub fn head(bytes: Vec<u8>) -> Self {
        Self {
            pieces: vec![Piece {
                offset: 0,
                bytes,
                is_last: false,
            }],
            is_whole: false,
        }
    }

    /// Makes a sample of a file's pieces, as [`pieces_of`] gives their places.
    pub fn of(size: u64, pieces: impl IntoIterator<Item = (Range<u64>, Vec<u8>)>) -> Self {
        let pieces: Vec<Piece> = pieces
            .into_iter()
            .map(|(range, bytes)| Piece {
                offset: range.start,
                is_last: range.end >= size,
                bytes,
            })
            .collect();
        let is_whole = matches!(pieces.as_slice(), [head] if head.is_last && head.offset == 0);
        Self { pieces, is_whole }
    }
}
