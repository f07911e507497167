//! Compiling beside a device's thread, and how work that lacks its kernels waits.
//!
//! A device's thread must not wait for a compiler, or every other run on the device waits too. What is
//! asked of a run stands in a `Line`. Where the first of it lacks kernels, `CompileThreads` make them,
//! and the line is held until they are there; the device works for others meanwhile. [`Waiting`] tells
//! whoever shares the device's time between queries.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Threads that compile at once for one device.
const THREADS_MAX: usize = 4;

/// Whether a run waits for its kernels, for whoever wants to hear of it.
#[derive(Debug, Default)]
pub struct Waiting(Mutex<WaitState>);

#[derive(Debug, Default)]
struct WaitState {
    waits: bool,
    listeners: Vec<Waker>,
}

impl Waiting {
    /// Ends once the run waits for kernels, or does not, as `waits` says.
    pub async fn until(&self, waits: bool) {
        poll_fn(|ctx| {
            let mut state = self.0.lock();
            if state.waits == waits {
                return Poll::Ready(());
            }
            let is_known = |known: &Waker| known.will_wake(ctx.waker());
            if !state.listeners.iter().any(is_known) {
                state.listeners.push(ctx.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    fn set(&self, waits: bool) {
        let listeners = {
            let mut state = self.0.lock();
            state.waits = waits;
            std::mem::take(&mut state.listeners)
        };
        for listener in listeners {
            listener.wake();
        }
    }
}

/// What is asked of one run, in order; held while the first of it lacks kernels.
#[derive(Debug)]
pub(crate) struct Line<S> {
    steps: Mutex<Steps<S>>,
    waiting: Arc<Waiting>,
}

#[derive(Debug)]
struct Steps<S> {
    queue: VecDeque<S>,
    is_held: bool,
}

impl<S> Default for Line<S> {
    fn default() -> Self {
        let queue = VecDeque::new();
        Self {
            steps: Mutex::new(Steps {
                queue,
                is_held: false,
            }),
            waiting: Arc::default(),
        }
    }
}

impl<S> Line<S> {
    /// Tells whether the line is held.
    pub(crate) fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// Puts a step behind all others.
    pub(crate) fn push(&self, step: S) {
        self.steps.lock().queue.push_back(step);
    }

    /// Takes the first step if it is ready; `None` if it is not, there is none, or the line is held. For
    /// one thread at a time.
    pub(crate) fn next_if(&self, is_ready: impl FnOnce(&S) -> bool) -> Option<S> {
        let mut steps = self.steps.lock();
        if steps.is_held || !steps.queue.front().is_some_and(is_ready) {
            return None;
        }
        steps.queue.pop_front()
    }

    /// Does all steps while nobody else takes or adds any, unless the line is held.
    pub(crate) fn drain(&self, mut run: impl FnMut(S)) {
        let mut steps = self.steps.lock();
        while !steps.is_held
            && let Some(step) = steps.queue.pop_front()
        {
            run(step);
        }
    }

    /// Holds the line; returns false if it was held.
    pub(crate) fn hold(&self) -> bool {
        let mut steps = self.steps.lock();
        self.waiting.set(true);
        !std::mem::replace(&mut steps.is_held, true)
    }

    /// Puts a step back in front and holds the line.
    pub(crate) fn put_back(&self, step: S) {
        let mut steps = self.steps.lock();
        steps.queue.push_front(step);
        steps.is_held = true;
        self.waiting.set(true);
    }

    /// Goes on with the line, whose first step hears why; returns how many steps wait.
    pub(crate) fn release(&self, tell: impl FnOnce(&mut S)) -> usize {
        let mut steps = self.steps.lock();
        steps.is_held = false;
        if let Some(first) = steps.queue.front_mut() {
            tell(first);
        }
        self.waiting.set(false);
        steps.queue.len()
    }

    /// Drops all steps.
    pub(crate) fn clear(&self) {
        let dropped = std::mem::take(&mut self.steps.lock().queue);
        drop(dropped);
    }
}

type Compile<T> = dyn Fn(&str) -> T + Send + Sync;
/// Gets what came of it; `None` if the compiler panicked.
type Waiter<T> = Box<dyn FnOnce(Option<&T>) + Send>;

/// Threads that compile texts: each text once at a time, whoever asks.
pub(crate) struct CompileThreads<T> {
    office: Arc<Office<T>>,
    patience: Duration,
}

struct Office<T> {
    compile: Box<Compile<T>>,
    state: Mutex<State<T>>,
    compiled: Condvar,
}

struct State<T> {
    /// Who waits, by the texts that wait or are being compiled.
    waiters: HashMap<Arc<str>, Vec<Waiter<T>>>,
    queue: VecDeque<Arc<str>>,
    num_threads: usize,
    /// Threads that are in the compiler.
    num_busy: usize,
}

impl<T: 'static> CompileThreads<T> {
    /// Compiles by this; whoever drops the threads waits for those in the compiler, `patience` at the
    /// most: a process that ends meanwhile may crash there.
    pub(crate) fn new(
        compile: impl Fn(&str) -> T + Send + Sync + 'static,
        patience: Duration,
    ) -> Self {
        let state = State {
            waiters: HashMap::new(),
            queue: VecDeque::new(),
            num_threads: 0,
            num_busy: 0,
        };
        Self {
            office: Arc::new(Office {
                compile: Box::new(compile),
                state: Mutex::new(state),
                compiled: Condvar::new(),
            }),
            patience,
        }
    }

    /// Has a text compiled, and calls `then` on the thread that did it. Does not block, unless the system
    /// gives no thread.
    pub(crate) fn ask(&self, text: &Arc<str>, then: Waiter<T>) {
        let mut state = self.office.state.lock();
        if let Some(waiters) = state.waiters.get_mut(text) {
            waiters.push(then);
            return;
        }
        state.waiters.insert(Arc::clone(text), vec![then]);
        state.queue.push_back(Arc::clone(text));
        if state.num_threads == THREADS_MAX {
            return;
        }
        state.num_threads += 1;
        drop(state);
        let office = Arc::clone(&self.office);
        let thread = thread::Builder::new().name("tidegate-kernels".to_owned());
        if thread.spawn(move || office.work()).is_err() {
            self.office.work();
        }
    }
}

impl<T> Office<T> {
    /// Compiles until nothing waits.
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            let Some(text) = state.queue.pop_front() else {
                state.num_threads -= 1;
                return;
            };
            state.num_busy += 1;
            drop(state);
            let outcome = catch_unwind(AssertUnwindSafe(|| (self.compile)(&text)));
            let mut state = self.state.lock();
            state.num_busy -= 1;
            let waiters = state.waiters.remove(&text);
            drop(state);
            self.compiled.notify_all();
            for waiter in waiters.into_iter().flatten() {
                waiter(outcome.as_ref().ok());
            }
        }
    }
}

impl<T> Drop for CompileThreads<T> {
    fn drop(&mut self) {
        let deadline = Instant::now() + self.patience;
        let mut state = self.office.state.lock();
        let waiting = std::mem::take(&mut state.queue);
        let unheard: Vec<_> = waiting
            .iter()
            .filter_map(|text| state.waiters.remove(text))
            .collect();
        while state.num_busy > 0 {
            let waited = self.office.compiled.wait_until(&mut state, deadline);
            if waited.timed_out() {
                break;
            }
        }
        drop(state);
        drop(unheard);
    }
}

#[cfg(test)]
mod tests;
