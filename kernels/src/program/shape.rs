//! How many rows a thread reads at once, and how many make a tile.

use super::slots::{Slot, SlotFacts};

/// Bytes of loads that a thread has in flight, and the fewer for rows of less than 16 bytes, whose
/// decoding takes registers. On an H200 the Q6 shape over packed columns takes 1.05 ms with 32 bytes,
/// 1.12 with 64 and 1.4 with 128; a million groups of plain columns 7.0 ms with 32 and 6.2 with 64.
const LOAD_BYTES: u32 = 64;
const LOAD_BYTES_NARROW: u32 = 32;

/// Rows of a tile of 256 threads; and where a block keeps all groups itself, so that nothing but the
/// balance of blocks asks for smaller ones. On an H200 Q1 over packed columns takes 1.65 ms with these
/// and 1.77 with the smaller tiles.
pub(super) const ROWS_PER_TILE: u32 = 4096;
pub(super) const ROWS_PER_LARGE_TILE: u32 = 16384;

/// How a tile is cut up among threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) threads: u32,
    /// Consecutive rows that a thread reads at once.
    pub(super) rows: u32,
    /// Such runs of rows in flight.
    pub(super) unroll: u32,
    /// Steps of a tile.
    steps: u32,
    /// A warp's rows of a step are consecutive; else a block's.
    pub(super) warp_by_warp: bool,
}

impl Shape {
    pub(super) fn of(
        slots: &[(Slot, SlotFacts)],
        threads: u32,
        load_bytes: Option<u32>,
        rows_per_tile: u32,
    ) -> Self {
        let width = slots
            .iter()
            .map(|(_, facts)| widest(facts))
            .max()
            .unwrap_or(8);
        let rows = (16 / width).clamp(2, 8);
        let row_bytes = row_bytes(slots);
        let suits = if row_bytes < 16 {
            LOAD_BYTES_NARROW
        } else {
            LOAD_BYTES
        };
        let load_bytes = load_bytes.unwrap_or(suits);
        let unroll = (load_bytes / (row_bytes * rows).max(1)).clamp(1, 4);
        let unroll = 1 << unroll.ilog2();
        let step = threads * rows * unroll;
        let steps = (rows_per_tile * threads / 256 / step).max(1);
        Self {
            threads,
            rows,
            unroll,
            steps,
            warp_by_warp: false,
        }
    }

    /// A tile of one step, of which each thread has so many rows, an even number or one.
    pub(super) fn of_rows(slots: &[(Slot, SlotFacts)], threads: u32, rows: u32) -> Self {
        let shape = Self::of(slots, threads, None, ROWS_PER_TILE);
        // Consecutive rows are a power of two, so that none of a packet's is beyond a whole group of 32.
        let run = shape.rows.min(1 << rows.trailing_zeros());
        Self {
            rows: run,
            unroll: rows / run,
            steps: 1,
            ..shape
        }
    }

    /// Rows by bunches, each made from its position.
    pub(super) fn of_bunches(threads: u32, rows: u32, unroll: u32, tile_rows: u32) -> Self {
        Self {
            threads,
            rows,
            unroll,
            steps: (tile_rows / (256 * rows * unroll)).max(1),
            warp_by_warp: false,
        }
    }

    /// A tile of one step, in which each warp has consecutive rows.
    pub(super) fn of_one_step(slots: &[(Slot, SlotFacts)], threads: u32) -> Self {
        let shape = Self::of(slots, threads, None, ROWS_PER_TILE);
        // About 256 bytes of a thread's registers hold what it has read.
        let bytes = slots.iter().map(|(_, facts)| widest(facts)).sum::<u32>() * shape.rows;
        let unroll = (256 / bytes.max(1)).clamp(1, (32 / shape.rows).min(8));
        Self {
            unroll: 1 << unroll.ilog2(),
            steps: 1,
            warp_by_warp: true,
            ..shape
        }
    }

    pub(super) fn tile_rows(&self) -> u32 {
        self.threads * self.rows * self.unroll * self.steps
    }
}

/// Returns the bytes that a row's raw values take at most.
pub(super) fn row_bytes(slots: &[(Slot, SlotFacts)]) -> u32 {
    slots.iter().map(|(_, facts)| widest(facts)).sum()
}

/// Returns the bytes of the widest raw value of a slot.
fn widest(facts: &SlotFacts) -> u32 {
    facts.widths.iter().copied().max().unwrap_or(8).max(1)
}
