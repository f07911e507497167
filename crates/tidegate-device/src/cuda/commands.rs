//! The queue before a device's thread: work in order, and what was dropped elsewhere.
//!
//! One lock over the queue; it is never held while work runs. After the end nothing is taken any
//! more, and whoever posts gets the command back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// What the thread does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<L> {
    Command(L),
    /// Nothing came for as long as was waited.
    Idle,
    /// Nothing waits, and nothing will come.
    End,
}

/// A queue with one reader.
pub(super) struct CommandQueue<L> {
    state: Mutex<State<L>>,
    changed: Condvar,
}

struct State<L> {
    waiting: VecDeque<L>,
    /// Nobody is left who could post work.
    is_closed: bool,
    /// The reader is gone.
    has_ended: bool,
}

impl<L> CommandQueue<L> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                is_closed: false,
                has_ended: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Puts a command behind all others, or gives it back after the end.
    pub(super) fn post(&self, command: L) -> Result<(), L> {
        let mut state = self.state.lock();
        if state.has_ended {
            return Err(command);
        }
        state.waiting.push_back(command);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Lets the reader end once nothing waits.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Takes the first command, waiting for one as long as `timeout` says.
    pub(super) fn next(&self, timeout: Option<Duration>) -> Next<L> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.state.lock();
        loop {
            if let Some(command) = state.waiting.pop_front() {
                return Next::Command(command);
            }
            if state.is_closed {
                return Next::End;
            }
            match deadline {
                None => self.changed.wait(&mut state),
                Some(deadline) => {
                    let waited = self.changed.wait_until(&mut state, deadline);
                    if waited.timed_out() && state.waiting.is_empty() && !state.is_closed {
                        return Next::Idle;
                    }
                }
            }
        }
    }

    /// Takes the first command if it waits and is of this kind.
    pub(super) fn next_if(&self, is_wanted: impl FnOnce(&L) -> bool) -> Option<L> {
        let mut state = self.state.lock();
        if !state.waiting.front().is_some_and(is_wanted) {
            return None;
        }
        state.waiting.pop_front()
    }

    /// Ends the queue, and returns what still waited.
    pub(super) fn end(&self) -> VecDeque<L> {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.is_closed = true;
        std::mem::take(&mut state.waiting)
    }
}

#[cfg(test)]
mod tests;
