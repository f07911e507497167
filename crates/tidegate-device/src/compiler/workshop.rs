//! Threads that compile, kept from one program to the next.
//!
//! A compilation takes tens of megabytes in small pieces. The memory of a new thread grows by some
//! two hundred calls of the system for that, each of which stops all other threads that change the
//! address space, and thousands of pages are new to it. The C library gives the memory back when the
//! compilation ends, so the next one would pay again: a thread keeps memory for one ([`Kept`]).

use std::hint::black_box;
use std::sync::mpsc::{self, Sender};
use std::thread;

use parking_lot::Mutex;

/// The stack of a thread: NVRTC recurses as deep as the source nests.
const STACK_BYTES: usize = 32 << 20;
/// Threads that are kept while they have nothing to do.
const NUM_IDLE_MAX: usize = 4;

/// Memory that a thread keeps for compilations, and how much of it is touched beforehand: a kernel of
/// few groups takes 12 MiB, the kernels that sort rows by partition 30.
const KEPT_BYTES: usize = 32 << 20;
const TOUCHED_BYTES: usize = 16 << 20;
/// Pieces that the C library takes from the thread's own memory rather than from the system.
const PIECE_BYTES: usize = 64 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// Any number of threads, of which a few stay; they end when this is dropped.
#[derive(Default)]
pub(super) struct Workshop {
    /// The one that worked last is the last.
    idle: Mutex<Vec<Sender<Job>>>,
}

impl Workshop {
    /// Does work on a thread that has nothing else to do, and waits for it.
    ///
    /// # Errors
    /// Why there is no result: no thread could be started, or the work panicked.
    pub(super) fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let idle = self.idle.lock().pop();
        let thread = match idle {
            Some(thread) => thread,
            None => start()?,
        };
        let (reply, done) = mpsc::channel();
        let job: Job = Box::new(move || {
            // Whoever asked waits for it.
            let _ = reply.send(work());
        });
        let panicked = || "its thread panicked".to_owned();
        thread.send(job).map_err(|_| panicked())?;
        let result = done.recv().map_err(|_| panicked())?;
        let mut idle = self.idle.lock();
        if idle.len() < NUM_IDLE_MAX {
            idle.push(thread);
        }
        Ok(result)
    }
}

fn start() -> Result<Sender<Job>, String> {
    let (sender, jobs) = mpsc::channel::<Job>();
    thread::Builder::new()
        .name("tidegate-compile".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let _kept = Kept::new();
            while let Ok(job) = jobs.recv() {
                job();
            }
        })
        .map_err(|error| format!("its thread did not start ({error})"))?;
    Ok(sender)
}

/// Holds the end of a range of the calling thread's memory, all of which is free otherwise. An
/// allocator gives memory back to the system from the end only, so what lies before stays.
struct Kept {
    _end: Vec<u8>,
}

impl Kept {
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
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::thread;

    use super::{NUM_IDLE_MAX, Workshop};

    #[test]
    fn one_thread_does_one_job_after_the_other() {
        let workshop = Workshop::default();
        let threads: HashSet<_> = (0..5)
            .map(|_| workshop.run(|| thread::current().id()).unwrap())
            .collect();
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&thread::current().id()));
    }

    #[test]
    fn jobs_at_once_have_threads_of_their_own_and_few_stay() {
        let workshop = Workshop::default();
        let together = std::sync::Arc::new(Barrier::new(NUM_IDLE_MAX + 2));
        thread::scope(|scope| {
            for _ in 0..NUM_IDLE_MAX + 2 {
                let together = std::sync::Arc::clone(&together);
                let workshop = &workshop;
                scope.spawn(move || workshop.run(move || together.wait().is_leader()).unwrap());
            }
        });
        assert_eq!(workshop.idle.lock().len(), NUM_IDLE_MAX);
    }

    #[test]
    fn a_panic_is_an_error_and_its_thread_is_not_used_again() {
        let workshop = Workshop::default();
        let error = workshop.run::<()>(|| panic!("a test"));
        assert_eq!(error, Err("its thread panicked".to_owned()));
        assert_eq!(workshop.run(|| 7), Ok(7));
    }
}
