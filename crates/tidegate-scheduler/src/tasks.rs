//! Tasks: closures and futures that a program submits, run when what they need is available.
//!
//! A [`Task`] says what is to be run, after which others, how often it may fail, and what it needs
//! of the process: slots (`cpu`, `device`, or any that the program named) and memory. An
//! [`Executor`] runs it and returns a [`Handle`], with which its progress is observed, its value
//! awaited or used by later tasks, and the task cancelled. A [`TaskGraph`] names tasks, so that
//! they can be written in any order.
//!
//! # Order
//! Among ready tasks the one with the highest priority runs first, then the one submitted first. If
//! what it needs is in use, tasks that need none of that overtake it; what it waits for is not
//! given to them, so it waits no longer than the running tasks do. A task takes everything that it
//! needs at once and returns it when it ends, so tasks cannot deadlock.
//!
//! # Failure
//! A task that fails or panics is retried as often as it may be. Then its handle has the error, and
//! every task that needs its value fails without running, naming it. All others go on.

mod executor;
mod graph;
mod node;
mod ready;

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;

pub use executor::{Executor, ExecutorOptions};
pub use graph::{Erased, GraphError, GraphHandles, Inputs, TaskGraph};
pub use node::{Handle, Phase, Progress, TaskContext, TaskRef};

/// What a task gave, whatever its type.
pub type Value = Arc<dyn Any + Send + Sync>;

/// Why a body failed.
pub type BodyError = Box<dyn StdError + Send + Sync>;

/// The slots that every task takes one of unless it says otherwise: as many as cores.
pub const CPU_SLOTS: &str = "cpu";

/// The slots of devices: as many as there are.
pub const DEVICE_SLOTS: &str = "device";

/// Why a task has no value.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TaskError {
    /// Its body said so, the last time that it was run.
    #[error("task {task} failed: {cause}")]
    Failed {
        /// The task.
        task: Arc<str>,
        /// What its body said.
        cause: Arc<dyn StdError + Send + Sync>,
    },
    /// Its body panicked, the last time that it was run.
    #[error("task {task} panicked: {message}")]
    Panicked {
        /// The task.
        task: Arc<str>,
        /// What the panic said.
        message: Arc<str>,
    },
    /// Somebody cancelled it.
    #[error("task {task} was cancelled")]
    Cancelled {
        /// The task.
        task: Arc<str>,
    },
    /// A task whose value it needs has none.
    #[error("task {task} was not run: {cause}")]
    NotRun {
        /// The task.
        task: Arc<str>,
        /// What became of the other.
        cause: Box<TaskError>,
    },
    /// It needs more than there is, or waited too long for memory.
    #[error("task {task} needs {what}")]
    NoRoom {
        /// The task.
        task: Arc<str>,
        /// What it needs, what there is, and the way out.
        what: String,
    },
    /// There is no runtime to run it on.
    #[error("task {task}: there is no tokio runtime here: submit it from within one")]
    NoRuntime {
        /// The task.
        task: Arc<str>,
    },
}

impl TaskError {
    /// Returns the error of the task that failed first.
    pub fn root(&self) -> &Self {
        match self {
            Self::NotRun { cause, .. } => cause.root(),
            other => other,
        }
    }
}

/// What a task takes while it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Slots by name.
    pub slots: BTreeMap<Arc<str>, u32>,
    /// Bytes of the memory that statements and tasks share.
    pub memory_bytes: u64,
}

impl Default for Needs {
    fn default() -> Self {
        Self {
            slots: BTreeMap::from([(CPU_SLOTS.into(), 1)]),
            memory_bytes: 0,
        }
    }
}

/// The memory that tasks reserve from.
pub trait TaskMemory: Send + Sync {
    /// Returns the most bytes that can be reserved at all.
    fn limit_bytes(&self) -> u64;

    /// Reserves bytes until what is returned is dropped; `None` while they are not free.
    fn try_reserve(&self, task: &str, bytes: u64) -> Option<Box<dyn Any + Send>>;
}

/// A body that may block, and one that may not.
type CallBody = dyn FnMut(&TaskContext) -> Result<Value, BodyError> + Send;
type FutureBody = dyn FnMut(TaskContext) -> BoxFuture<'static, Result<Value, BodyError>> + Send;

/// What is run: on a thread where it may block, or as a future.
pub(crate) enum Work {
    Call(Box<CallBody>),
    Future(Box<FutureBody>),
}

/// Something to be run, with what it needs. Its value is shared by all who ask for it.
pub struct Task<T> {
    pub(crate) name: Arc<str>,
    pub(crate) work: Work,
    pub(crate) priority: i32,
    pub(crate) retries: u32,
    pub(crate) retry_delay: Duration,
    pub(crate) needs: Needs,
    pub(crate) after: Vec<TaskRef>,
    value: std::marker::PhantomData<fn() -> T>,
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("name", &self.name)
            .field("priority", &self.priority)
            .field("retries", &self.retries)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

impl<T: Send + Sync + 'static> Task<T> {
    /// Makes a task of a closure, which runs on a thread where it may block. It is called once more for
    /// each retry.
    pub fn call<E: Into<BodyError>>(
        mut body: impl FnMut(&TaskContext) -> Result<T, E> + Send + 'static,
    ) -> Self {
        Self::of(Work::Call(Box::new(move |context| {
            let value = body(context).map_err(Into::into)?;
            Ok(Arc::new(value) as Value)
        })))
    }

    /// Makes a task of a future, which must not block. It is made anew for each retry. Cancelling the
    /// task drops the future.
    pub fn future<E, F>(mut body: impl FnMut(TaskContext) -> F + Send + 'static) -> Self
    where
        E: Into<BodyError>,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        Self::of(Work::Future(Box::new(move |context| {
            let running = body(context);
            Box::pin(async move {
                let value = running.await.map_err(Into::into)?;
                Ok(Arc::new(value) as Value)
            })
        })))
    }

    fn of(work: Work) -> Self {
        Self {
            name: "unnamed".into(),
            work,
            priority: 0,
            retries: 0,
            retry_delay: Duration::ZERO,
            needs: Needs::default(),
            after: Vec::new(),
            value: std::marker::PhantomData,
        }
    }
}

impl<T> Task<T> {
    /// Forgets the type of the value.
    pub fn erased(self) -> Task<Erased> {
        Task {
            name: self.name,
            work: self.work,
            priority: self.priority,
            retries: self.retries,
            retry_delay: self.retry_delay,
            needs: self.needs,
            after: self.after,
            value: std::marker::PhantomData,
        }
    }

    /// Gives the task a name, for messages.
    pub fn named(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Runs the task only once these have values.
    pub fn after<'a>(mut self, others: impl IntoIterator<Item = &'a TaskRef>) -> Self {
        self.after.extend(others.into_iter().cloned());
        self
    }

    /// Prefers the task to ready ones of lower priority; the default is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// Runs the task so many times more if it fails or panics.
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Waits before each retry.
    pub fn retry_delay(mut self, delay: Duration) -> Self {
        self.retry_delay = delay;
        self
    }

    /// Takes so many slots of this name while the task runs. A task takes one of `cpu` unless it says
    /// otherwise, also as 0.
    pub fn slots(mut self, name: impl Into<Arc<str>>, count: u32) -> Self {
        let name = name.into();
        match count {
            0 => self.needs.slots.remove(&name),
            count => self.needs.slots.insert(name, count),
        };
        self
    }

    /// Reserves so many bytes before the task runs. They are a promise of the task's, not measured.
    pub fn memory(mut self, bytes: u64) -> Self {
        self.needs.memory_bytes = bytes;
        self
    }
}

#[cfg(test)]
mod tests;
