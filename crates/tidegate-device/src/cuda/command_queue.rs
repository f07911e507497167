//! The queue before a device's thread: work in order, and what was dropped elsewhere.
//!
//! One lock over the queue; it is never held while work runs. After the end nothing is taken any
//! more, and a command that is posted then is returned.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// What the thread does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next<C> {
    Command(C),
    /// Nothing came for as long as was waited.
    Idle,
    /// Nothing waits, and nothing will come.
    End,
}

/// A queue with one reader.
pub(super) struct CommandQueue<C> {
    state: Mutex<State<C>>,
    changed: Condvar,
}

struct State<C> {
    waiting: VecDeque<C>,
    /// Nobody is left who could post work.
    is_closed: bool,
    /// The reader is gone.
    has_ended: bool,
}

impl<C> CommandQueue<C> {
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
    pub(super) fn post(&self, command: C) -> Result<(), C> {
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

    /// Takes the first command, waiting for one as long as `patience` says.
    pub(super) fn next(&self, patience: Option<Duration>) -> Next<C> {
        let deadline = patience.map(|patience| Instant::now() + patience);
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
    pub(super) fn next_if(&self, is_wanted: impl FnOnce(&C) -> bool) -> Option<C> {
        let mut state = self.state.lock();
        if !state.waiting.front().is_some_and(is_wanted) {
            return None;
        }
        state.waiting.pop_front()
    }

    /// Ends the queue, and returns what still waited.
    pub(super) fn end(&self) -> VecDeque<C> {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.is_closed = true;
        std::mem::take(&mut state.waiting)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    use super::{CommandQueue, Next};

    #[test]
    fn letters_come_in_order() {
        let commands = CommandQueue::new();
        for command in 0..3 {
            commands.post(command).unwrap();
        }
        assert_eq!(commands.next_if(|&command| command == 1), None);
        assert_eq!(commands.next_if(|&command| command == 0), Some(0));
        assert_eq!(commands.next(None), Next::Command(1));
        assert_eq!(commands.next(None), Next::Command(2));
        let patience = Some(Duration::from_millis(1));
        assert_eq!(commands.next(patience), Next::Idle);
    }

    #[test]
    fn a_closed_queue_is_read_to_its_end() {
        let commands = CommandQueue::new();
        commands.post('a').unwrap();
        commands.close();
        commands.post('b').unwrap();
        assert_eq!(commands.next(None), Next::Command('a'));
        assert_eq!(commands.next(None), Next::Command('b'));
        assert_eq!(commands.next(None), Next::End);
    }

    #[test]
    fn after_the_end_letters_come_back() {
        let commands = CommandQueue::new();
        commands.post(1).unwrap();
        assert_eq!(commands.end(), [1]);
        assert_eq!(commands.post(2), Err(2));
        assert_eq!(commands.next(None), Next::End);
    }

    #[test]
    fn closing_wakes_the_reader() {
        let commands = Arc::new(CommandQueue::<u8>::new());
        let reader = Arc::clone(&commands);
        let thread = thread::spawn(move || reader.next(None));
        commands.close();
        assert_eq!(thread.join().unwrap(), Next::End);
    }
}
