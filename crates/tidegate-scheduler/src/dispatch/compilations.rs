//! How many compilations are under way that no query waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Compilations under way, for any number of threads.
#[derive(Debug, Default)]
pub(super) struct Compilations {
    count: Mutex<usize>,
    changed: Condvar,
}

/// A compilation under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Compilations>);

impl Compilations {
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        *self.count.lock() += 1;
        UnderWay(Arc::clone(self))
    }

    /// Waits until none is under way, or so long; returns whether none is.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut count = self.count.lock();
        while *count > 0 {
            if self.changed.wait_until(&mut count, deadline).timed_out() {
                break;
            }
        }
        *count == 0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        *self.0.count.lock() -= 1;
        self.0.changed.notify_all();
    }
}
