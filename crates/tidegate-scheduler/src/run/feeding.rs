//! Threads for the feeders of regions that the host shares, and for whatever waits for devices.
//!
//! The host's streams occupy every thread of their runtime for many milliseconds at a time. A
//! feeder among them would run only after they are done.

use std::sync::OnceLock;
use std::thread;

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads that feed devices, at the most; they mostly wait.
const THREADS_MAX: usize = 4;

/// Returns where feeders run: the process's threads for them, or if the system gives none the caller's
/// runtime. Must be called within a tokio runtime.
pub(crate) fn threads() -> Handle {
    static THREADS: OnceLock<Option<Runtime>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Builder::new_multi_thread()
            .worker_threads(cores.clamp(1, THREADS_MAX))
            .thread_name("tidegate-feeder")
            .enable_all()
            .build()
            .ok()
    });
    match threads {
        Some(runtime) => runtime.handle().clone(),
        None => Handle::current(),
    }
}
