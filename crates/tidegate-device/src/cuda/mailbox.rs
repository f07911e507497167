//! The queue before a device's thread: work in order, and what was dropped elsewhere.
//!
//! One lock over the queue; it is never held while work runs. After the end nothing is taken any
//! more, and whoever posts gets the letter back.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// What the thread does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<L> {
    Letter(L),
    /// Nothing came for as long as was waited.
    Idle,
    /// Nothing waits, and nothing will come.
    End,
}

/// A queue with one reader.
pub(super) struct Mailbox<L> {
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

impl<L> Mailbox<L> {
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

    /// Puts a letter behind all others, or gives it back after the end.
    pub(super) fn post(&self, letter: L) -> Result<(), L> {
        let mut state = self.state.lock();
        if state.has_ended {
            return Err(letter);
        }
        state.waiting.push_back(letter);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Lets the reader end once nothing waits.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Takes the first letter, waiting for one as long as `patience` says.
    pub(super) fn next(&self, patience: Option<Duration>) -> Next<L> {
        let deadline = patience.map(|patience| Instant::now() + patience);
        let mut state = self.state.lock();
        loop {
            if let Some(letter) = state.waiting.pop_front() {
                return Next::Letter(letter);
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

    /// Takes the first letter if it waits and is of this kind.
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
