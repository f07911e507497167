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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::Calibration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_waits_for_a_moment_without_statements_but_not_for_ever() {
        let looked = Arc::new(AtomicUsize::new(0));
        for idle_at in [2, usize::MAX] {
            let (sender, measured) = mpsc::channel();
            let looks = Arc::clone(&looked);
            looked.store(0, Ordering::Relaxed);
            let _calibration = Calibration::begin(
                move || looks.fetch_add(1, Ordering::Relaxed) + 1 >= idle_at,
                move || sender.send(()).unwrap(),
            );
            measured.recv_timeout(LONG).unwrap();
            assert!(looked.load(Ordering::Relaxed) >= 2);
        }
    }

    #[test]
    fn what_has_not_begun_does_not_and_what_has_is_waited_for() {
        let began = Arc::new(AtomicUsize::new(0));
        let begin = Arc::clone(&began);
        drop(Calibration::begin(
            || false,
            move || {
                begin.fetch_add(1, Ordering::Relaxed);
            },
        ));
        assert_eq!(began.load(Ordering::Relaxed), 0);

        let (sender, measuring) = mpsc::channel();
        let ended = Arc::new(AtomicUsize::new(0));
        let end = Arc::clone(&ended);
        let calibration = Calibration::begin(
            || true,
            move || {
                sender.send(()).unwrap();
                thread::sleep(Duration::from_millis(50));
                end.fetch_add(1, Ordering::Relaxed);
            },
        );
        measuring.recv_timeout(LONG).unwrap();
        drop(calibration);
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }
}
