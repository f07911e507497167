//! Compilations under way that no query waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// How many compilations are under way, and whether more may begin; for any number of threads.
#[derive(Debug, Default)]
pub(super) struct Compilations {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    count: usize,
    is_closed: bool,
}

/// A compilation under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Compilations>);

impl Compilations {
    /// Counts a compilation; `None` if none may begin any more.
    pub(super) fn begin(self: &Arc<Self>) -> Option<UnderWay> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        state.count += 1;
        Some(UnderWay(Arc::clone(self)))
    }

    /// Lets none begin any more, and waits until none is under way, or so long; returns whether none is.
    pub(super) fn end(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.state.lock();
        state.is_closed = true;
        while state.count > 0 {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
        state.count == 0
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state.lock().count -= 1;
        self.0.changed.notify_all();
    }
}
