//! Threads that compile, kept from one program to the next.
//!
//! A compilation takes tens of megabytes in small pieces. The memory of a new thread grows by some
//! two hundred calls of the system for that, each of which stops all other threads that change the
//! address space, and thousands of pages are new to it. The C library gives the memory back when the
//! compilation ends, so the next one would pay again: a thread keeps memory for one ([`Memory`]).

use std::cell::Cell;
use std::hint::black_box;

use crate::threads::Threads;

/// Programs that are compiled at once.
const NUM_THREADS_MAX: usize = 4;
/// The stack of a thread: NVRTC recurses as deep as the source nests.
const STACK_BYTES: usize = 32 << 20;

/// Memory that a thread keeps for compilations, and how much of it is touched beforehand: a kernel of
/// few groups takes 12 MiB, the kernels that sort rows by partition 30.
const KEPT_BYTES: usize = 32 << 20;
const TOUCHED_BYTES: usize = 16 << 20;
/// Pieces that the C library takes from the thread's own memory rather than from the system.
const PIECE_BYTES: usize = 64 << 10;

thread_local! {
    static COMPILES: Cell<bool> = const { Cell::new(false) };
}

/// Makes the threads of a compiler.
pub(super) fn threads() -> Threads {
    Threads::with(
        "tidegate-compile",
        NUM_THREADS_MAX,
        Some(STACK_BYTES),
        || {
            COMPILES.set(true);
            Some(Box::new(Memory::new()))
        },
    )
}

/// Returns whether the calling thread is one that compiles.
pub(super) fn is_one() -> bool {
    COMPILES.get()
}

/// Holds the end of a range of the calling thread's memory, all of which is free otherwise. An
/// allocator gives memory back to the system from the end only, so what lies before stays.
struct Memory {
    _end: Vec<u8>,
}

impl Memory {
    fn new() -> Self {
        let num_pieces = KEPT_BYTES / PIECE_BYTES;
        let mut pieces: Vec<Vec<u8>> = Vec::with_capacity(num_pieces);
        for place in 0..num_pieces {
            let mut piece = Vec::with_capacity(PIECE_BYTES);
            if place < TOUCHED_BYTES / PIECE_BYTES {
                piece.resize(PIECE_BYTES, 1);
            }
            pieces.push(black_box(piece));
        }
        Self {
            _end: black_box(vec![1; 4096]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{is_one, threads};

    #[test]
    fn a_thread_knows_that_it_compiles() {
        let threads = threads();
        assert_eq!(threads.wait_for(is_one), Ok(true));
        assert!(!is_one());
    }
}
