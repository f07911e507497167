//! What is tried, in order, when device memory is short.
//!
//! Evict what is only cached, wait a bounded time for what is in use, split the work so that less is
//! needed at once, let the state leave as partial rows, and leave the work to the host. Every step is
//! decided here; a feeder only does what it is told and asks again. Each rung is left after at most
//! one fruitless try, so a shortage ends after a bounded time.

use std::fmt::Debug;
use std::time::Duration;

use tidegate_device::DeviceId;

/// How long one shortage may be waited out, while others hold the memory.
pub const WAIT_MAX: Duration = Duration::from_millis(250);

/// Pieces of fewer rows are not split further.
pub const SPLIT_ROWS_MIN: u64 = 8192;

/// What can make room on a device: chunks that are only cached.
///
/// # Contract
/// `evict` frees what no kernel reads and nobody has pinned, at once; the bytes that come back to
/// the device's budget may be fewer than were asked for, and are what it returns.
pub trait Evict: Send + Sync + Debug {
    /// Frees up to so many bytes of a device, or little more; returns how many.
    fn evict(&self, device: DeviceId, bytes: u64) -> u64;
}

/// Holds nothing that could be evicted.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingCached;

impl Evict for NothingCached {
    fn evict(&self, _: DeviceId, _: u64) -> u64 {
        0
    }
}

/// What is known when a device has no room for the next work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// Bytes that are wanted and could not be promised.
    pub wanted_bytes: u64,
    /// Bytes of the limit that nobody was promised.
    pub free_bytes: u64,
    /// The most that may ever be promised.
    pub limit_bytes: u64,
    /// Folds of the same run are in flight, whose input will come back.
    pub in_flight: bool,
    /// Others hold memory of the device.
    pub others_hold: bool,
    /// Rows of the work, if it can be cut; zero if not.
    pub divisible_rows: u64,
    /// The run has folded something, which may leave as partial rows.
    pub may_flush: bool,
}

/// The next thing to do about a shortage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// Evict so many bytes of cached chunks.
    Evict(u64),
    /// Wait for the oldest fold of this run.
    AwaitFold,
    /// Wait for others, for so long at most.
    AwaitOthers(Duration),
    /// Cut the work in two, and go on with the first half.
    Split,
    /// Let the state leave as partial rows.
    Flush,
    /// Leave the work to the host.
    Host,
}

/// One shortage, from its first rung to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ladder {
    evicted: bool,
    waited: Duration,
    flushed: bool,
}

impl Ladder {
    /// Returns what to do next. What could never fit is not waited for.
    pub fn next(&mut self, shortage: &Shortage) -> Rung {
        let Shortage {
            wanted_bytes,
            free_bytes,
            limit_bytes,
            ..
        } = *shortage;
        let impossible = wanted_bytes > limit_bytes;
        if !self.evicted && !impossible {
            self.evicted = true;
            return Rung::Evict(wanted_bytes.saturating_sub(free_bytes));
        }
        if shortage.in_flight {
            return Rung::AwaitFold;
        }
        if !impossible && shortage.others_hold && self.waited < WAIT_MAX {
            // Often at first, as most waits are short.
            let step = (self.waited / 2).clamp(Duration::from_millis(1), Duration::from_millis(20));
            self.waited += step;
            return Rung::AwaitOthers(step);
        }
        if shortage.divisible_rows >= 2 * SPLIT_ROWS_MIN {
            return Rung::Split;
        }
        if shortage.may_flush && !self.flushed {
            self.flushed = true;
            return Rung::Flush;
        }
        Rung::Host
    }
}

#[cfg(test)]
mod tests;
