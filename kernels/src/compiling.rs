//! Compiling beside a device's thread, and who hears of it.
//!
//! A device's thread must not wait for a compiler, or every other run on the device waits too:
//! a `CompileQueue` has kernels made on threads of the compiler's, and the device works for others meanwhile. [`Waiting`] tells whoever
//! shares the device's time between queries. Where nothing but time passes until a program is compiled, as
//! on a simulated device, what is asked of a run stands in a `Line`, which is held until then.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tidegate_device::Threads;

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

    pub(crate) fn set(&self, waits: bool) {
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

/// What is asked of one run, in order; held while its program is compiled.
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

    /// Goes on with the line; returns how many steps wait.
    pub(crate) fn release(&self) -> usize {
        let mut steps = self.steps.lock();
        steps.is_held = false;
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

/// Texts that are to be compiled: each once at a time, whoever asks.
pub(crate) struct CompileQueue<T> {
    threads: Threads,
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
    /// Threads that are in the compiler.
    num_busy: usize,
    is_closed: bool,
}

impl<T: 'static> CompileQueue<T> {
    /// Compiles by this, on these threads; whoever drops the queue waits for those in the compiler,
    /// `patience` at the most: a process that ends meanwhile may crash there.
    pub(crate) fn new(
        threads: Threads,
        compile: impl Fn(&str) -> T + Send + Sync + 'static,
        patience: Duration,
    ) -> Self {
        let state = State {
            waiters: HashMap::new(),
            queue: VecDeque::new(),
            num_busy: 0,
            is_closed: false,
        };
        Self {
            threads,
            office: Arc::new(Office {
                compile: Box::new(compile),
                state: Mutex::new(state),
                compiled: Condvar::new(),
            }),
            patience,
        }
    }

    /// Has a text compiled, and calls `then` on the thread that did it; drops it if the queue is closed
    /// before. Does not block, unless the system gives no thread.
    pub(crate) fn ask(&self, text: &Arc<str>, then: Waiter<T>) {
        let mut state = self.office.state.lock();
        if state.is_closed {
            return;
        }
        if let Some(waiters) = state.waiters.get_mut(text) {
            waiters.push(then);
            return;
        }
        state.waiters.insert(Arc::clone(text), vec![then]);
        state.queue.push_back(Arc::clone(text));
        drop(state);
        let office = Arc::clone(&self.office);
        self.threads.run(move || office.compile_next());
    }
}

impl<T> Office<T> {
    /// Compiles the first text, unless the queue was closed.
    fn compile_next(&self) {
        let mut state = self.state.lock();
        let Some(text) = state.queue.pop_front() else {
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

impl<T> CompileQueue<T> {
    /// Closes the queue: what waits is not compiled any more, nor what is asked for later, of which nobody
    /// hears. Those in the compiler are waited for, but not for ever.
    pub(crate) fn close(&self) {
        let deadline = Instant::now() + self.patience;
        let mut state = self.office.state.lock();
        state.is_closed = true;
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

impl<T> Drop for CompileQueue<T> {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests;
