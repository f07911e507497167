//! Tasks by name, written in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::executor::Executor;
use super::node::Handle;
use super::{BodyError, Task, TaskError, TaskRef};

/// The most names of a circle that a message shows.
const SHOWN_MAX: usize = 8;

/// Why a graph was not run.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GraphError {
    /// Tasks need each other in a circle.
    #[error("the tasks need each other in a circle: {path}")]
    Cycle {
        /// The names, each needing the next.
        path: String,
    },
    /// A task needs one that is not there.
    #[error("task {task} needs {missing}, which is no task of the graph")]
    Unknown {
        /// The task.
        task: Arc<str>,
        /// What it names.
        missing: Arc<str>,
    },
    /// Two tasks have one name.
    #[error("two tasks are called {task}")]
    Twice {
        /// The name.
        task: Arc<str>,
    },
    /// A task was refused.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// Stands for the type of a value that a graph does not know.
#[derive(Debug)]
pub struct Erased;

/// Tasks that were submitted, by name.
type Submitted = BTreeMap<Arc<str>, TaskRef>;

/// The values that a task of a graph needs.
#[derive(Clone, Debug, Default)]
pub struct Inputs(Arc<OnceLock<Submitted>>);

impl Inputs {
    /// Returns the value of a task that this one needs.
    ///
    /// # Errors
    /// Fails for a name that this task did not say it needs, and for another type than the value has.
    pub fn get<T: Send + Sync + 'static>(&self, name: &str) -> Result<Arc<T>, BodyError> {
        let Some(task) = self.0.get().and_then(|needed| needed.get(name)) else {
            return Err(format!("it does not say that it needs {name}").into());
        };
        match Handle::<T>::new(task.clone()).result() {
            Some(result) => Ok(result?),
            None => Err(format!("the value of {name} is not there yet").into()),
        }
    }
}

struct NamedTask {
    needs: BTreeSet<Arc<str>>,
    inputs: Inputs,
    task: Task<Erased>,
}

/// Tasks by name, with what each needs. Nothing runs before [`TaskGraph::submit`].
#[derive(Default)]
pub struct TaskGraph {
    tasks: BTreeMap<Arc<str>, NamedTask>,
    twice: Option<Arc<str>>,
}

impl fmt::Debug for TaskGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tasks.keys()).finish()
    }
}

impl TaskGraph {
    /// Makes a graph without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a closure that needs the values of the tasks named, which may be added later. It runs on a
    /// thread where it may block.
    pub fn add<T, E>(
        &mut self,
        name: impl Into<Arc<str>>,
        needs: impl IntoIterator<Item = impl Into<Arc<str>>>,
        mut body: impl FnMut(&Inputs) -> Result<T, E> + Send + 'static,
    ) -> &mut Self
    where
        T: Send + Sync + 'static,
        E: Into<BodyError>,
    {
        let name = name.into();
        let inputs = Inputs::default();
        let own = inputs.clone();
        let task = Task::call(move |_| body(&own)).named(Arc::clone(&name));
        let named = NamedTask {
            needs: needs.into_iter().map(Into::into).collect(),
            inputs,
            task: task.erased(),
        };
        if self.tasks.insert(Arc::clone(&name), named).is_some() {
            self.twice.get_or_insert(name);
        }
        self
    }

    /// Submits every task, each after those that it needs.
    ///
    /// # Errors
    /// A [`GraphError`]. Then none of the tasks was submitted; but where one is refused
    /// ([`GraphError::Task`]), those that it comes after were.
    pub fn submit(self, executor: &Executor) -> Result<GraphHandles, GraphError> {
        if let Some(task) = self.twice {
            return Err(GraphError::Twice { task });
        }
        let order = order(&self.tasks)?;
        let mut tasks = self.tasks;
        let mut submitted = Submitted::new();
        for name in order {
            let Some(named) = tasks.remove(&name) else {
                continue;
            };
            let needed: Submitted = named
                .needs
                .iter()
                .filter_map(|need| Some((Arc::clone(need), submitted.get(need)?.clone())))
                .collect();
            let task = named.task.after(needed.values());
            // The cell is the task's own, and this is the one place that fills it.
            let _ = named.inputs.0.set(needed);
            submitted.insert(name, executor.submit(task)?.task().clone());
        }
        Ok(GraphHandles(submitted))
    }
}

/// Orders the tasks so that each comes after those that it needs.
fn order(tasks: &BTreeMap<Arc<str>, NamedTask>) -> Result<Vec<Arc<str>>, GraphError> {
    let mut missing: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
    let mut needed_by: BTreeMap<&Arc<str>, Vec<&Arc<str>>> = BTreeMap::new();
    for (name, named) in tasks {
        for need in &named.needs {
            if !tasks.contains_key(need) {
                return Err(GraphError::Unknown {
                    task: Arc::clone(name),
                    missing: Arc::clone(need),
                });
            }
            needed_by.entry(need).or_default().push(name);
        }
        missing.insert(name, named.needs.len());
    }
    let mut order: Vec<Arc<str>> = Vec::with_capacity(tasks.len());
    let mut free: Vec<&Arc<str>> = missing
        .iter()
        .filter(|(_, count)| **count == 0)
        .map(|(name, _)| *name)
        .collect();
    while let Some(name) = free.pop() {
        order.push(Arc::clone(name));
        missing.remove(name);
        for dependent in needed_by.get(name).into_iter().flatten() {
            if let Some(count) = missing.get_mut(dependent) {
                *count -= 1;
                if *count == 0 {
                    free.push(dependent);
                }
            }
        }
    }
    match missing.keys().next() {
        None => Ok(order),
        Some(first) => Err(GraphError::Cycle {
            path: circle(first, tasks, &missing),
        }),
    }
}

/// Finds a circle among the tasks that are left, every one of which needs another that is left.
fn circle(
    first: &Arc<str>,
    tasks: &BTreeMap<Arc<str>, NamedTask>,
    left: &BTreeMap<&Arc<str>, usize>,
) -> String {
    let mut walked: Vec<Arc<str>> = vec![Arc::clone(first)];
    loop {
        let last = walked.last().and_then(|last| tasks.get(last));
        let next = last.and_then(|named| named.needs.iter().find(|need| left.contains_key(need)));
        let Some(next) = next else {
            return first.to_string();
        };
        if let Some(start) = walked.iter().position(|name| name == next) {
            let mut names: Vec<&str> = walked[start..].iter().map(AsRef::as_ref).collect();
            if names.len() > SHOWN_MAX {
                names.truncate(SHOWN_MAX);
                names.push("…");
            }
            names.push(next);
            return names.join(" → ");
        }
        walked.push(Arc::clone(next));
    }
}

/// Handles of a graph's tasks, by name.
#[derive(Clone, Debug)]
pub struct GraphHandles(Submitted);

impl GraphHandles {
    /// Returns the handle of a task whose value is a `T`; `None` if there is no such task. Awaiting it
    /// fails if the value is none.
    pub fn get<T>(&self, name: &str) -> Option<Handle<T>> {
        self.0.get(name).cloned().map(Handle::new)
    }

    /// Returns the names of the tasks.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(AsRef::as_ref)
    }
}
