//! What is asked of a run, step after step on the device's thread, which waits for no compiler.
//!
//! A step waits in its run's line until what it takes has arrived. One that lacks kernels goes back to the front of its run's line, which is held: the thread turns to
//! other runs, while [`CompileThreads`](crate::compiling::CompileThreads) compile. Then the step begins
//! again. It is written so that until it has its kernels it changes nothing that it would not change in
//! the same way again, and says so to its machine.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use futures::channel::oneshot;
use parking_lot::Mutex;
use tidegate_device::cuda::{Lane, Pending};

use super::run::RunState;
use super::{Image, LaneMachine, Shared, panicked};
use crate::backend::RunError;
use crate::compiling::Line;
use crate::engine::Machine;

/// The steps of one run.
pub(super) type Steps = Line<Box<dyn Step>>;

/// Sources with what came of compiling them.
pub(super) type Images = Vec<(Arc<str>, Image)>;

/// A step of any type of result.
pub(super) trait Step: Send {
    /// Returns whether all that it takes is there.
    fn is_ready(&self) -> bool {
        true
    }

    /// Does the step and delivers its result, or returns the sources that must be compiled first.
    fn attempt(&mut self, shared: &Shared, lane: &Lane<'_>) -> Vec<Arc<str>>;

    /// Hears what came of the sources that it lacked.
    fn hear(&mut self, images: Images);
}

/// A step, with where its result goes.
pub(super) struct Asked<T, F> {
    state: Arc<RunState>,
    /// Set once the step may be done.
    is_ready: Arc<AtomicBool>,
    /// Gets the time that was waited for the compiler.
    work: F,
    /// `None` once the result was delivered.
    sender: Option<oneshot::Sender<Result<T, RunError>>>,
    images: Images,
    put_back: Option<Instant>,
    waited: Duration,
}

impl<T, F> Asked<T, F>
where
    T: Send + 'static,
    F: FnMut(&RunState, &LaneMachine<'_, '_>, Duration) -> Result<T, RunError> + Send + 'static,
{
    /// Makes a step of a run, to be done once it is ready; the run is void unless it succeeds.
    pub(super) fn of(
        state: &Arc<RunState>,
        is_ready: Arc<AtomicBool>,
        work: F,
    ) -> (Box<dyn Step>, oneshot::Receiver<Result<T, RunError>>) {
        let (sender, receiver) = oneshot::channel();
        let asked = Self {
            state: Arc::clone(state),
            is_ready,
            work,
            sender: Some(sender),
            images: Images::new(),
            put_back: None,
            waited: Duration::ZERO,
        };
        (Box::new(asked), receiver)
    }
}

impl<T, F> Step for Asked<T, F>
where
    T: Send,
    F: FnMut(&RunState, &LaneMachine<'_, '_>, Duration) -> Result<T, RunError> + Send,
{
    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    fn attempt(&mut self, shared: &Shared, lane: &Lane<'_>) -> Vec<Arc<str>> {
        if let Some(since) = self.put_back.take() {
            self.waited += since.elapsed();
        }
        let machine = LaneMachine::not_waiting(shared, lane, &self.images);
        let result = (self.work)(&self.state, &machine, self.waited);
        if result.is_err() && machine.lacks_kernels() {
            self.put_back = Some(Instant::now());
            return machine.into_lacking();
        }
        if result.is_err() {
            self.state.make_void();
        }
        if let Some(sender) = self.sender.take() {
            // Nobody waiting is no failure: the step was to be done all the same.
            let _ = sender.send(result);
        }
        Vec::new()
    }

    fn hear(&mut self, images: Images) {
        self.images.extend(images);
    }
}

impl<T, F> Drop for Asked<T, F> {
    fn drop(&mut self) {
        if self.sender.is_some() {
            self.state.make_void();
        }
    }
}

/// Has the device's thread do the steps of a line that are ready. The result is only whether that could
/// be.
pub(super) fn post(shared: &Arc<Shared>, steps: &Arc<Steps>) -> Pending<()> {
    let (kept, posted) = (Arc::clone(shared), Posted(Some(Arc::clone(steps))));
    shared.device.submit(move |lane| {
        let Some(steps) = posted.arrived() else {
            return;
        };
        let _doing = Doing(&steps);
        while let Some(mut step) = steps.next_if(|step| step.is_ready()) {
            let lacking = step.attempt(&kept, lane);
            if !lacking.is_empty() {
                steps.put_back(step);
                return compile(&kept, &steps, lacking);
            }
        }
    })
}

/// A line on its way to the device's thread. If it does not get there, its steps are dropped.
struct Posted(Option<Arc<Steps>>);

impl Posted {
    fn arrived(mut self) -> Option<Arc<Steps>> {
        self.0.take()
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        if let Some(steps) = &self.0 {
            steps.clear();
        }
    }
}

/// A line whose steps are being done. If one of them panics, nobody comes for those behind it: they are
/// dropped, as its run is void.
struct Doing<'a>(&'a Steps);

impl Drop for Doing<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.clear();
        }
    }
}

/// Compiles sources elsewhere, and goes on with the line then.
fn compile(shared: &Arc<Shared>, steps: &Arc<Steps>, lacking: Vec<Arc<str>>) {
    let held = Arc::new(Held {
        shared: Arc::downgrade(shared),
        steps: Arc::clone(steps),
        images: Mutex::default(),
    });
    for text in lacking {
        let (held, own) = (Arc::clone(&held), Arc::clone(&text));
        let then = move |image: Option<&Image>| {
            let image = image.cloned().unwrap_or_else(|| Err(panicked()));
            held.images.lock().push((own, image));
        };
        shared.compile_threads.ask(&text, Box::new(then));
    }
}

/// A line that is held until this is dropped, by the last who compiles for it.
struct Held {
    shared: Weak<Shared>,
    steps: Arc<Steps>,
    images: Mutex<Images>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else {
            return self.steps.clear();
        };
        let images = std::mem::take(self.images.get_mut());
        self.steps.release(|step| step.hear(images));
        // Whoever asked for a step hears of it.
        drop(post(&shared, &self.steps));
    }
}
