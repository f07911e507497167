//! What is asked of a run: steps, done one after the other by a task on the device's thread.
//!
//! A step is a future over the device's thread. It begins once, and waits where it has to: for rows that are
//! still encoded and copied, and for kernels that are compiled. The thread does what others ask for
//! meanwhile, and the steps behind it wait.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::LocalBoxFuture;
use parking_lot::Mutex;
use tidegate_device::{DeviceError, panic_text};

use super::run::RunState;
use super::{LaneMachine, Shared};
use crate::backend::RunError;
use crate::compiling::Waiting;

/// A step, with where its result goes.
type Step = Box<dyn for<'l> FnOnce(LaneMachine<'l>) -> LocalBoxFuture<'l, ()> + Send>;

/// The steps of one run.
#[derive(Default)]
pub(super) struct Steps {
    queue: Mutex<Queue>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Queue {
    steps: VecDeque<Step>,
    /// A task does them.
    has_task: bool,
}

impl Steps {
    /// Tells whether the run waits for kernels.
    pub(super) fn waiting(&self) -> &Arc<Waiting> {
        &self.waiting
    }

    /// Drops the steps that have not begun.
    pub(super) fn clear(&self) {
        let dropped = std::mem::take(&mut self.queue.lock().steps);
        drop(dropped);
    }

    /// Puts a step behind all others. Returns whether a task has to be begun for them.
    fn push(&self, step: Step) -> bool {
        let mut queue = self.queue.lock();
        queue.steps.push_back(step);
        !std::mem::replace(&mut queue.has_task, true)
    }

    /// Takes the first step; if there is none, the task is over.
    fn next(&self) -> Option<Step> {
        let mut queue = self.queue.lock();
        let next = queue.steps.pop_front();
        queue.has_task = next.is_some();
        next
    }
}

/// Asks for a step of a run. The run is void unless it succeeds, also if the device is lost before it comes
/// to it.
pub(super) fn ask<T: Send + 'static>(
    shared: &Arc<Shared>,
    steps: &Arc<Steps>,
    state: &Arc<RunState>,
    work: impl for<'l> FnOnce(Arc<RunState>, LaneMachine<'l>) -> LocalBoxFuture<'l, Result<T, RunError>>
    + Send
    + 'static,
) -> oneshot::Receiver<Result<T, RunError>> {
    let (sender, receiver) = oneshot::channel();
    let answer = Answer {
        state: Arc::clone(state),
        sender: Some(sender),
    };
    let device = shared.device.info().id;
    let step: Step = Box::new(move |machine| {
        async move {
            let state = Arc::clone(&answer.state);
            // What it held of the run is gone with it, and the run is void.
            let run = AssertUnwindSafe(async { work(state, machine).await });
            let done = run.catch_unwind().await;
            answer.give(done.unwrap_or_else(|panic| {
                Err(RunError::Device(DeviceError::LaunchFailed {
                    device,
                    launch: 0,
                    why: format!("its work panicked: {}", panic_text(panic.as_ref())),
                }))
            }));
        }
        .boxed_local()
    });
    if steps.push(step) {
        begin(shared, steps);
    }
    receiver
}

/// Begins a task that does the steps there are.
fn begin(shared: &Arc<Shared>, steps: &Arc<Steps>) {
    let (kept, waiting) = (Arc::clone(shared), Arc::clone(steps.waiting()));
    let mut doing = Doing(Some(Arc::clone(steps)));
    let task = shared.device.spawn(move |lane| {
        async move {
            while let Some(step) = doing.next() {
                step(LaneMachine::new(&kept, lane, Arc::clone(&waiting))).await;
            }
        }
        .boxed_local()
    });
    // Whoever asked for a step hears of it.
    drop(task);
}

/// Steps that a task does. If it does not come to their end nobody else will: they are dropped.
struct Doing(Option<Arc<Steps>>);

impl Doing {
    fn next(&mut self) -> Option<Step> {
        let next = self.0.as_ref()?.next();
        if next.is_none() {
            self.0 = None;
        }
        next
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        if let Some(steps) = self.0.take() {
            steps.queue.lock().has_task = false;
            steps.clear();
        }
    }
}

/// Where the result of a step goes.
struct Answer<T> {
    state: Arc<RunState>,
    /// `None` once the result was delivered.
    sender: Option<oneshot::Sender<Result<T, RunError>>>,
}

impl<T> Answer<T> {
    fn give(mut self, result: Result<T, RunError>) {
        if result.is_err() {
            self.state.make_void();
        }
        if let Some(sender) = self.sender.take() {
            // Nobody waiting is no failure: the step was to be done all the same.
            let _ = sender.send(result);
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.state.make_void();
        }
    }
}
