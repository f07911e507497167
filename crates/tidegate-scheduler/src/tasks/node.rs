//! One task that was submitted, and the handles to it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures::future::AbortHandle;
use parking_lot::Mutex;
use tokio::runtime::Handle as Runtime;

use super::executor::Executor;
use super::{Needs, TaskError, Value, Work};

/// Where a task is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It needs values that are not there yet.
    Waiting,
    /// It runs when what it needs is free, or when the delay before a retry is over.
    Ready,
    /// It runs.
    Running,
    /// It has a value.
    Done,
    /// It has an error.
    Failed,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Where it is in its life.
    pub phase: Phase,
    /// What its body reported as done, in units of its own.
    pub done: u64,
    /// What its body reported as all there is to do; 0 if it did not.
    pub total: u64,
    /// How often its body was begun.
    pub attempts: u32,
}

/// A task as the executor has it.
pub(super) struct Node {
    pub(super) name: Arc<str>,
    pub(super) number: u64,
    pub(super) priority: i32,
    pub(super) retries: u32,
    pub(super) retry_delay: Duration,
    pub(super) needs: Arc<Needs>,
    /// Where it was submitted.
    pub(super) runtime: Runtime,
    pub(super) state: Mutex<State>,
    pub(super) cancelled: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
}

pub(super) struct State {
    pub(super) phase: Phase,
    /// How many values are missing.
    pub(super) missing: usize,
    pub(super) attempts: u32,
    /// Who needs its value.
    pub(super) dependents: Vec<Arc<Node>>,
    pub(super) wakers: Vec<Waker>,
    /// Taken out while it runs.
    pub(super) work: Option<Work>,
    pub(super) abort: Option<AbortHandle>,
    /// Since when it is the first that lacks memory.
    pub(super) short_since: Option<Instant>,
    pub(super) result: Option<Result<Value, TaskError>>,
}

impl Node {
    pub(super) fn new<T>(task: super::Task<T>, number: u64, runtime: Runtime) -> Self {
        Self {
            name: task.name,
            number,
            priority: task.priority,
            retries: task.retries,
            retry_delay: task.retry_delay,
            needs: Arc::new(task.needs),
            runtime,
            state: Mutex::new(State {
                phase: Phase::Waiting,
                missing: 0,
                attempts: 0,
                dependents: Vec::new(),
                wakers: Vec::new(),
                work: Some(task.work),
                abort: None,
                short_since: None,
                result: None,
            }),
            cancelled: AtomicBool::new(false),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    fn progress(&self) -> Progress {
        let state = self.state.lock();
        Progress {
            phase: state.phase,
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
            attempts: state.attempts,
        }
    }
}

/// What a running body has of its task.
#[derive(Clone)]
pub struct TaskContext(pub(super) Arc<Node>);

impl TaskContext {
    /// Returns the task's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Tells how far the body is, in units of its own, for [`Handle::progress`].
    pub fn report(&self, done: u64, total: u64) {
        self.0.done.store(done, Ordering::Relaxed);
        self.0.total.store(total, Ordering::Relaxed);
    }

    /// Tells whether somebody cancelled the task. A closure that runs for long asks now and then, and
    /// returns: what it returns is not used.
    pub fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Returns how often the body was begun, this time included.
    pub fn attempt(&self) -> u32 {
        self.0.state.lock().attempts
    }
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TaskContext").field(&self.0.name).finish()
    }
}

/// A task that was submitted, whatever its value's type.
#[derive(Clone)]
pub struct TaskRef {
    pub(super) node: Arc<Node>,
    pub(super) executor: Executor,
}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRef")
            .field("name", &self.node.name)
            .field("progress", &self.node.progress())
            .finish()
    }
}

/// A submitted task. Awaiting it gives its value, which clones and later tasks share. Dropping it does
/// not cancel the task.
pub struct Handle<T> {
    task: TaskRef,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Self::new(self.task.clone())
    }
}

impl<T> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.task.fmt(f)
    }
}

impl<T> Handle<T> {
    pub(super) fn new(task: TaskRef) -> Self {
        Self {
            task,
            value: PhantomData,
        }
    }

    /// Returns the task without its value's type, for [`super::Task::after`].
    pub fn task(&self) -> &TaskRef {
        &self.task
    }

    /// Tells how far the task is.
    pub fn progress(&self) -> Progress {
        self.task.node.progress()
    }

    /// Cancels the task, and whatever needs its value. One that has not begun does not begin; a future
    /// is dropped; a closure that runs goes on until it asks. One that has ended stays as it is.
    pub fn cancel(&self) {
        self.task.executor.cancel(&self.task.node);
    }
}

impl<T: Send + Sync + 'static> Handle<T> {
    /// Returns what became of the task, if it has ended.
    pub fn result(&self) -> Option<Result<Arc<T>, TaskError>> {
        let state = self.task.node.state.lock();
        let result = state.result.as_ref()?.clone();
        drop(state);
        Some(result.and_then(|value| self.typed(value)))
    }

    fn typed(&self, value: Value) -> Result<Arc<T>, TaskError> {
        let is_wrong = |_| TaskError::Failed {
            task: Arc::clone(&self.task.node.name),
            cause: Arc::from(super::BodyError::from("its value is of another type")),
        };
        value.downcast::<T>().map_err(is_wrong)
    }
}

impl<T: Send + Sync + 'static> Future for Handle<T> {
    type Output = Result<Arc<T>, TaskError>;

    fn poll(self: Pin<&mut Self>, ctx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.task.node.state.lock();
        let Some(result) = state.result.clone() else {
            if !state
                .wakers
                .iter()
                .any(|waker| waker.will_wake(ctx.waker()))
            {
                state.wakers.push(ctx.waker().clone());
            }
            return Poll::Pending;
        };
        drop(state);
        Poll::Ready(result.and_then(|value| self.typed(value)))
    }
}
