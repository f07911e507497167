//! Host memory that is about to be pinned.
//!
//! The time that pinning takes goes into the pages: the system gives each when it is first touched, and
//! clears it before. So the pages are large ones where there are any, and they are touched by whoever
//! wants the memory, by several threads if it is much. What is left for the driver is to look them up:
//! on an H200's host 0.03 ms a megabyte, where `cuMemHostAlloc`, which also touches the pages, takes 0.4.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::thread;

/// Memory of at least this size is taken in large pages.
const LARGE_PAGE: usize = 2 << 20;
const SMALL_PAGE: usize = 4 << 10;
/// What a thread of its own is worth.
const SHARE_BYTES_MIN: usize = 2 << 20;
/// Threads that touch pages together: the system's rate does not grow much beyond.
const NUM_THREADS_MAX: usize = 8;

/// Zeroed memory of the process whose pages are all there.
pub(in crate::cuda) struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, which any thread may use and free.
unsafe impl Send for Pages {}
// SAFETY: a shared reference only tells the address and the size.
unsafe impl Sync for Pages {}

impl Pages {
    /// Takes memory that several threads touch, if it is much; `None` if the system has none.
    pub(in crate::cuda) fn shared(bytes: usize) -> Option<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let worth = bytes / SHARE_BYTES_MIN;
        Self::touched_by(bytes, worth.min(cores / 2).clamp(1, NUM_THREADS_MAX))
    }

    fn touched_by(bytes: usize, num_threads: usize) -> Option<Self> {
        let page = if bytes < LARGE_PAGE {
            SMALL_PAGE
        } else {
            LARGE_PAGE
        };
        // Whole pages, so that no page is pinned that something else lies in too.
        let bytes = bytes.max(1).checked_next_multiple_of(page)?;
        let layout = Layout::from_size_align(bytes, page).ok()?;
        // SAFETY: the size is not 0.
        let start = NonNull::new(unsafe { alloc::alloc(layout) })?;
        let pages = Self { start, layout };
        pages.ask_for_large();
        pages.clear(num_threads);
        Some(pages)
    }

    /// Asks for large pages; a system without them gives others.
    #[cfg(target_os = "linux")]
    fn ask_for_large(&self) {
        if self.layout.align() == LARGE_PAGE {
            let start = self.start.as_ptr().cast();
            // SAFETY: the range is memory of this value, which the advice leaves as it is.
            let _ = unsafe { libc::madvise(start, self.layout.size(), libc::MADV_HUGEPAGE) };
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn ask_for_large(&self) {}

    /// Writes zeros, each thread to a share of whole pages.
    fn clear(&self, num_threads: usize) {
        let share = self.layout.size().div_ceil(num_threads);
        let share = share.next_multiple_of(self.layout.align());
        let shares = (0..self.layout.size()).step_by(share);
        let clear = |offset: usize| {
            let bytes = share.min(self.layout.size() - offset);
            // SAFETY: the range lies in this value's memory, and is written by this call alone.
            unsafe { self.start.as_ptr().add(offset).write_bytes(0, bytes) };
        };
        thread::scope(|scope| {
            for offset in shares.skip(1) {
                let clear = &clear;
                let thread = thread::Builder::new().name("tidegate-pages".to_owned());
                if thread.spawn_scoped(scope, move || clear(offset)).is_err() {
                    clear(offset);
                }
            }
            clear(0);
        });
    }

    /// Returns where it begins.
    pub(in crate::cuda) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns how many bytes it has: what was asked for, up to whole pages.
    pub(in crate::cuda) fn len(&self) -> usize {
        self.layout.size()
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the memory was taken with this layout, for this value.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests;
