//! When new GPUs are measured: on a thread of its own, and not beside a statement if it can be helped.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How often it is looked whether a statement runs. Measuring compiles kernels, and two compilations at
/// once take longer each.
const PAUSE: Duration = Duration::from_millis(250);
/// When devices are measured though statements run: those that take long gain by it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A measurement that is to come, or was. Dropped, it does not begin any more; one that has begun is
/// waited for, since a process that ends while it is in the driver or the compiler may crash there.
#[derive(Debug)]
pub(super) struct Calibration {
    end: Arc<End>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct End {
    is_near: Mutex<bool>,
    changed: Condvar,
}

impl Calibration {
    /// Has `measure` called once `is_idle` says so, or else after two seconds.
    pub(super) fn begin(
        is_idle: impl Fn() -> bool + Send + 'static,
        measure: impl FnOnce() + Send + 'static,
    ) -> Self {
        let end = Arc::new(End::default());
        let ends = Arc::clone(&end);
        let wait_and_measure = move || {
            if ends.permits(is_idle) {
                measure();
            }
        };
        let thread = thread::Builder::new().name("tidegate-calibrate".into());
        // Without it the rates start from what is declared, as they would if it failed.
        let thread = thread.spawn(wait_and_measure).ok();
        Self { end, thread }
    }
}

impl End {
    /// Waits for a moment to measure in; returns false if there is none any more.
    fn permits(&self, is_idle: impl Fn() -> bool) -> bool {
        let began = Instant::now();
        let mut is_near = self.is_near.lock();
        loop {
            let pause = Instant::now() + PAUSE;
            while !*is_near {
                if self.changed.wait_until(&mut is_near, pause).timed_out() {
                    break;
                }
            }
            if *is_near {
                return false;
            }
            if is_idle() || began.elapsed() >= PATIENCE {
                return true;
            }
        }
    }
}

impl Drop for Calibration {
    fn drop(&mut self) {
        *self.end.is_near.lock() = true;
        self.end.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // What it panicked of, if it did, is of no interest any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
