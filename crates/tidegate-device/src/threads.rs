//! Threads that do what they are given, in its order.
//!
//! They begin when there is work, and then wait for more: what begins a thread for each piece of work spends
//! the time there that several threads gain.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::thread;

use parking_lot::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// A few threads with one queue. Clones share them; they end when the last is dropped and all is done.
#[derive(Clone)]
pub struct Threads(Arc<Handle>);

/// Whoever may give work.
struct Handle(Arc<Shared>);

struct Shared {
    name: &'static str,
    num_threads_max: usize,
    stack_bytes: Option<usize>,
    begin: fn() -> Kept,
    state: Mutex<State>,
    changed: Condvar,
}

/// What a thread keeps while it lives.
pub(crate) type Kept = Option<Box<dyn std::any::Any>>;

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    num_threads: usize,
    /// Threads that wait for a job.
    num_idle: usize,
    is_closed: bool,
}

impl Threads {
    /// Makes so many threads at the most, at least one, of this name.
    pub fn new(name: &'static str, num_threads_max: usize) -> Self {
        Self::with(name, num_threads_max, None, || None)
    }

    /// The same, with stacks of so many bytes; each thread begins with `begin`.
    pub(crate) fn with(
        name: &'static str,
        num_threads_max: usize,
        stack_bytes: Option<usize>,
        begin: fn() -> Kept,
    ) -> Self {
        Self(Arc::new(Handle(Arc::new(Shared {
            name,
            num_threads_max: num_threads_max.max(1),
            stack_bytes,
            begin,
            state: Mutex::default(),
            changed: Condvar::new(),
        }))))
    }

    /// Has a job done, after those that were given before. Does not block, unless the system gives no
    /// thread: then it is done here. A job that panics has told so to whoever waits for it, by what it
    /// dropped.
    pub fn run(&self, job: impl FnOnce() + Send + 'static) {
        let shared = &self.0.0;
        let mut state = shared.state.lock();
        state.jobs.push_back(Box::new(job));
        if state.num_idle >= state.jobs.len() || state.num_threads == shared.num_threads_max {
            drop(state);
            shared.changed.notify_one();
            return;
        }
        state.num_threads += 1;
        drop(state);
        if shared.start() {
            return;
        }
        let mut state = shared.state.lock();
        state.num_threads -= 1;
        let is_alone = state.num_threads == 0;
        drop(state);
        while is_alone && let Some(job) = shared.next_at_once() {
            do_it(job);
        }
    }

    /// Has work done, and waits for it. Not to be called by one of the threads, which are few.
    ///
    /// # Errors
    /// Why there is no result: the work panicked.
    pub fn wait_for<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let (reply, done) = mpsc::channel();
        self.run(move || {
            // Whoever asked waits for it.
            let _ = reply.send(work());
        });
        done.recv().map_err(|_| "its thread panicked".to_owned())
    }

    /// Returns whether all that was given is done.
    pub fn are_idle(&self) -> bool {
        let state = self.0.0.state.lock();
        state.jobs.is_empty() && state.num_idle == state.num_threads
    }
}

impl Shared {
    /// Starts a thread; returns false if the system gives none.
    fn start(self: &Arc<Self>) -> bool {
        let own = Arc::clone(self);
        let mut thread = thread::Builder::new().name(self.name.to_owned());
        if let Some(bytes) = self.stack_bytes {
            thread = thread.stack_size(bytes);
        }
        thread.spawn(move || own.work()).is_ok()
    }

    fn work(&self) {
        let _kept = (self.begin)();
        while let Some(job) = self.next() {
            do_it(job);
        }
    }

    fn next_at_once(&self) -> Option<Job> {
        self.state.lock().jobs.pop_front()
    }

    /// Waits for the next job; `None` if none will come.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.num_idle += 1;
            self.changed.wait(&mut state);
            state.num_idle -= 1;
        }
    }
}

fn do_it(job: Job) {
    let _ = catch_unwind(AssertUnwindSafe(job));
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.state.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
