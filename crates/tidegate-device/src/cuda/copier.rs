//! Threads that copy host memory together: one alone does not keep up with the link.

#![expect(unsafe_code, reason = "threads copy ranges that they are lent")]

use std::ptr;
use std::sync::mpsc;
use std::thread;

use crate::threads::Threads;

/// Less than this is copied by the caller alone.
const SHARED_BYTES_MIN: usize = 1 << 20;
/// Threads beside the caller: about 8 reach the rate of a PCIe 5 link.
const NUM_THREADS_MAX: usize = 7;

/// The threads; they start with the first copy that is worth it, and end when this is dropped.
#[derive(Default)]
pub(super) struct Copier {
    /// With how many there may be.
    threads: Option<(Threads, usize)>,
}

/// A copy for one thread.
struct CopyTask {
    from: *const u8,
    to: *mut u8,
    bytes: usize,
}

// SAFETY: a task is two ranges that the copier's caller lends until all tasks are done or dropped; nobody
// else writes to either meanwhile.
unsafe impl Send for CopyTask {}

impl CopyTask {
    fn copy(self) {
        // SAFETY: both pointers are to as many bytes, borrowed by the caller of `Copier::copy`, who waits for
        // this task; the slices that they were cut from do not overlap.
        unsafe { ptr::copy_nonoverlapping(self.from, self.to, self.bytes) };
    }
}

impl Copier {
    /// Copies `from` to `to`, which must have the same length, and returns when all is copied.
    ///
    /// # Panics
    /// If the lengths differ.
    pub(super) fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        assert_eq!(from.len(), to.len(), "a copy has two sides of one length");
        if from.len() < SHARED_BYTES_MIN {
            to.copy_from_slice(from);
            return;
        }
        let (threads, num_threads) = self.threads.get_or_insert_with(|| {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let num_threads = NUM_THREADS_MAX.min(cores / 2);
            (Threads::new("tidegate-copy", num_threads), num_threads)
        });
        let share = share_bytes(from.len(), *num_threads + 1);
        let mut shares = from.chunks(share).zip(to.chunks_mut(share));
        let mine = shares.next();
        let (report, reports) = mpsc::channel::<()>();
        for (from, to) in shares {
            let task = CopyTask {
                from: from.as_ptr(),
                to: to.as_mut_ptr(),
                bytes: to.len(),
            };
            let report = report.clone();
            threads.run(move || {
                task.copy();
                drop(report);
            });
        }
        if let Some((from, to)) = mine {
            to.copy_from_slice(from);
        }
        drop(report);
        // Nothing is sent: it ends when every task has let go of its report.
        let _ = reports.recv();
    }
}

/// Cuts so many bytes into at most `num_shares` of whole cache lines.
fn share_bytes(bytes: usize, num_shares: usize) -> usize {
    bytes.div_ceil(num_shares.max(1)).next_multiple_of(64)
}

#[cfg(test)]
mod tests {
    use super::{Copier, SHARED_BYTES_MIN, share_bytes};

    #[test]
    fn every_byte_is_copied() {
        let mut copier = Copier::default();
        for bytes in [0, 1, SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, 5_000_001] {
            let from: Vec<u8> = (0..bytes).map(|i| (i * 31 % 251) as u8).collect();
            let mut to = vec![0; bytes];
            copier.copy(&from, &mut to);
            assert!(from == to, "{bytes}");
        }
    }

    #[test]
    fn shares_suffice() {
        for num_shares in 1..9 {
            for bytes in [1, 63, 64, 65, 1 << 20, (1 << 20) + 1] {
                assert!(share_bytes(bytes, num_shares) * num_shares >= bytes);
                assert_eq!(share_bytes(bytes, num_shares) % 64, 0);
            }
        }
    }
}
