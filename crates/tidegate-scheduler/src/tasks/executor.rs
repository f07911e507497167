//! Runs tasks on the threads of a tokio runtime.
//!
//! Threads that may block drain the ready tasks one after the other, so that a short task costs a
//! lock and no thread; a thread that finds none for a while ends. Futures are spawned.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{AbortHandle, Abortable};
use parking_lot::{Condvar, Mutex};
use tidegate_device::panic_text;
use tokio::runtime::Handle as Runtime;

use super::node::{Handle, Node, Phase, TaskContext, TaskRef};
use super::ready::{Choice, Ready};
use super::{BodyError, Task, TaskError, TaskMemory, Value, Work};

/// How long a thread without a task stays.
const IDLE: Duration = Duration::from_millis(20);

/// How often memory that others hold is asked for again.
const MEMORY_POLL: Duration = Duration::from_millis(20);

/// What an executor gives to tasks.
#[derive(Clone)]
pub struct ExecutorOptions {
    /// Slots by name.
    pub slots: HashMap<Arc<str>, u32>,
    /// What tasks reserve from.
    pub memory: Arc<dyn TaskMemory>,
    /// How long a task waits for memory before it fails.
    pub memory_wait: Duration,
}

impl Grant {
    fn new(node: Arc<Node>, memory: Option<Box<dyn Any + Send>>) -> Self {
        Self {
            node,
            memory,
            is_future: false,
        }
    }
}

impl fmt::Debug for ExecutorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutorOptions")
            .field("slots", &self.slots)
            .field("memory_wait", &self.memory_wait)
            .finish_non_exhaustive()
    }
}

/// Runs tasks. Clones are the same executor.
#[derive(Clone)]
pub struct Executor(Arc<Inner>);

struct Inner {
    options: ExecutorOptions,
    threads_max: usize,
    next: AtomicU64,
    queue: Mutex<Queue>,
    wanted: Condvar,
}

struct Queue {
    ready: Ready,
    threads: usize,
    /// Threads that wait and were not called.
    idle: usize,
    /// Calls that no thread has heard yet.
    calls: usize,
    /// A look at memory that others hold is on its way.
    polls_memory: bool,
}

impl Queue {
    fn push(&mut self, node: Arc<Node>) {
        {
            let mut state = node.state.lock();
            // It may have been cancelled on the way.
            if state.result.is_some() {
                return;
            }
            state.phase = Phase::Ready;
        }
        self.ready.push(node);
    }
}

/// What a task holds while it runs.
struct Grant {
    node: Arc<Node>,
    memory: Option<Box<dyn Any + Send>>,
    /// It runs on no thread of the executor's.
    is_future: bool,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Executor").field(&self.0.options).finish()
    }
}

impl Executor {
    /// Makes an executor.
    pub fn new(options: ExecutorOptions) -> Self {
        let ready = Ready::new(&options.slots);
        let slots: u32 = options.slots.values().sum();
        Self(Arc::new(Inner {
            options,
            threads_max: (slots as usize).max(1),
            next: AtomicU64::new(0),
            queue: Mutex::new(Queue {
                ready,
                threads: 0,
                idle: 0,
                calls: 0,
                polls_memory: false,
            }),
            wanted: Condvar::new(),
        }))
    }

    /// Returns the slots that there are, by name.
    pub fn slots(&self) -> &HashMap<Arc<str>, u32> {
        &self.0.options.slots
    }

    /// Hands a task over. It runs on the tokio runtime of whoever calls this.
    ///
    /// # Errors
    /// [`TaskError::NoRoom`] if it needs more than there is at all, [`TaskError::NoRuntime`] outside of
    /// a runtime.
    pub fn submit<T>(&self, task: Task<T>) -> Result<Handle<T>, TaskError> {
        self.check(&task)?;
        let runtime = Runtime::try_current().map_err(|_| TaskError::NoRuntime {
            task: Arc::clone(&task.name),
        })?;
        let mut task = task;
        let after = std::mem::take(&mut task.after);
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let node = Arc::new(Node::new(task, number, runtime.clone()));
        // One more than there are, so that it cannot begin before all of them know of it.
        node.state.lock().missing = after.len() + 1;
        let mut failed = None;
        for other in &after {
            let mut state = other.node.state.lock();
            match &state.result {
                None => state.dependents.push(Arc::clone(&node)),
                Some(Ok(_)) => node.state.lock().missing -= 1,
                Some(Err(error)) => failed = Some(error.clone()),
            }
        }
        let handle = Handle::new(TaskRef {
            node: Arc::clone(&node),
            executor: self.clone(),
        });
        match failed {
            Some(cause) => self.end(&runtime, &node, Err(not_run(&node, &cause)), None),
            None => {
                let is_ready = {
                    let mut state = node.state.lock();
                    state.missing -= 1;
                    state.missing == 0 && state.result.is_none()
                };
                if is_ready {
                    self.enqueue(&runtime, [node]);
                }
            }
        }
        Ok(handle)
    }

    fn check<T>(&self, task: &Task<T>) -> Result<(), TaskError> {
        let no_room = |what: String| {
            let task = Arc::clone(&task.name);
            Err(TaskError::NoRoom { task, what })
        };
        for (name, count) in &task.needs.slots {
            match self.0.options.slots.get(name) {
                Some(all) if count <= all => {}
                Some(all) => {
                    return no_room(format!(
                        "{count} slots of {name}, and there are {all} in all"
                    ));
                }
                None => {
                    let mut known: Vec<&str> =
                        self.0.options.slots.keys().map(AsRef::as_ref).collect();
                    known.sort_unstable();
                    return no_room(format!(
                        "{count} slots of {name}, and there are none of that name, but of {}",
                        known.join(", ")
                    ));
                }
            }
        }
        let (wanted, limit) = (task.needs.memory_bytes, self.0.options.memory.limit_bytes());
        if wanted > limit {
            return no_room(format!(
                "{wanted} bytes, and the limit is {limit}: raise tidegate.memory_limit, or do it in \
                 smaller pieces"
            ));
        }
        Ok(())
    }

    /// Makes tasks ready.
    fn enqueue(&self, runtime: &Runtime, nodes: impl IntoIterator<Item = Arc<Node>>) {
        let mut queue = self.0.queue.lock();
        let mut added = 0_usize;
        for node in nodes {
            queue.push(node);
            added += 1;
        }
        if added > 0 {
            self.call_thread(runtime, &mut queue);
        }
    }

    /// Wakes a thread or starts one, which calls the next if there is more to do than its own.
    fn call_thread(&self, runtime: &Runtime, queue: &mut Queue) {
        if queue.idle > 0 {
            queue.idle -= 1;
            queue.calls += 1;
            self.0.wanted.notify_one();
        } else if queue.threads < self.0.threads_max {
            queue.threads += 1;
            let (executor, own) = (self.clone(), runtime.clone());
            runtime.spawn_blocking(move || executor.drain(&own));
        }
    }

    /// Runs tasks until there have been none for a while.
    fn drain(&self, runtime: &Runtime) {
        let mut queue = self.0.queue.lock();
        loop {
            if let Some(grant) = self.take(runtime, &mut queue) {
                if queue.ready.has_room() {
                    self.call_thread(runtime, &mut queue);
                }
                drop(queue);
                self.run(runtime, grant);
                queue = self.0.queue.lock();
                continue;
            }
            queue.idle += 1;
            let until = Instant::now() + IDLE;
            while queue.calls == 0 {
                if self.0.wanted.wait_until(&mut queue, until).timed_out() {
                    break;
                }
            }
            if queue.calls == 0 {
                queue.idle -= 1;
                queue.threads -= 1;
                return;
            }
            // Whoever called has taken it out of the idle ones.
            queue.calls -= 1;
        }
    }

    /// Takes the next task with what it needs.
    fn take(&self, runtime: &Runtime, queue: &mut Queue) -> Option<Grant> {
        let mut without_memory = false;
        loop {
            let node = match queue.ready.choose(without_memory) {
                Choice::Nothing => return None,
                Choice::Run(node) => return Some(Grant::new(node, None)),
                Choice::Reserve(node) => node,
            };
            let (memory, bytes) = (&self.0.options.memory, node.needs.memory_bytes);
            if let Some(reserved) = memory.try_reserve(&node.name, bytes) {
                node.state.lock().short_since = None;
                return Some(Grant::new(node, Some(reserved)));
            }
            queue.ready.release(&node.needs);
            let since = *node
                .state
                .lock()
                .short_since
                .get_or_insert_with(Instant::now);
            if since.elapsed() >= self.0.options.memory_wait {
                self.fail_for_memory(runtime, &node);
                continue;
            }
            queue.ready.push(node);
            without_memory = true;
            self.poll_memory(runtime, queue);
        }
    }

    fn fail_for_memory(&self, runtime: &Runtime, node: &Arc<Node>) {
        let what = format!(
            "{} bytes, and they were not free for {} s: raise tidegate.memory_limit, or run less \
             beside it",
            node.needs.memory_bytes,
            self.0.options.memory_wait.as_secs()
        );
        let task = Arc::clone(&node.name);
        let (executor, own, node) = (self.clone(), runtime.clone(), Arc::clone(node));
        // The queue is locked here.
        runtime.spawn(async move {
            executor.end(&own, &node, Err(TaskError::NoRoom { task, what }), None);
        });
    }

    /// Looks again in a while: who holds the memory may be no task.
    fn poll_memory(&self, runtime: &Runtime, queue: &mut Queue) {
        if std::mem::replace(&mut queue.polls_memory, true) {
            return;
        }
        let (executor, own) = (self.clone(), runtime.clone());
        runtime.spawn(async move {
            tokio::time::sleep(MEMORY_POLL).await;
            let mut queue = executor.0.queue.lock();
            queue.polls_memory = false;
            if !queue.ready.is_empty() {
                executor.call_thread(&own, &mut queue);
            }
        });
    }

    fn run(&self, runtime: &Runtime, mut grant: Grant) {
        let node = Arc::clone(&grant.node);
        let work = {
            let mut state = node.state.lock();
            // It has ended if it was cancelled on the way.
            if state.result.is_none() {
                state.phase = Phase::Running;
                state.attempts += 1;
            }
            state.work.take()
        };
        let Some(work) = work else {
            return self.give_back(runtime, grant, []);
        };
        if node.is_cancelled() {
            let task = Arc::clone(&node.name);
            return self.end(
                runtime,
                &node,
                Err(TaskError::Cancelled { task }),
                Some(grant),
            );
        }
        let context = TaskContext(Arc::clone(&node));
        match work {
            Work::Call(mut body) => {
                let ended = catch_unwind(AssertUnwindSafe(|| body(&context)));
                self.ended(runtime, grant, Work::Call(body), ended);
            }
            Work::Future(mut body) => {
                let made = catch_unwind(AssertUnwindSafe(|| body(context)));
                let running = match made {
                    Ok(running) => running,
                    Err(panic) => {
                        return self.ended(runtime, grant, Work::Future(body), Err(panic));
                    }
                };
                let (abort, registration) = AbortHandle::new_pair();
                node.state.lock().abort = Some(abort.clone());
                if node.is_cancelled() {
                    abort.abort();
                }
                grant.is_future = true;
                let (executor, own) = (self.clone(), runtime.clone());
                runtime.spawn(async move {
                    let running = AssertUnwindSafe(running).catch_unwind();
                    let ended = match Abortable::new(running, registration).await {
                        Ok(ended) => ended,
                        Err(_) => Ok(Err("cancelled".into())),
                    };
                    executor.ended(&own, grant, Work::Future(body), ended);
                });
            }
        }
    }

    /// Notes how a body ended, or has it run again.
    fn ended(
        &self,
        runtime: &Runtime,
        grant: Grant,
        work: Work,
        ended: Result<Result<Value, BodyError>, Box<dyn Any + Send>>,
    ) {
        let node = Arc::clone(&grant.node);
        let task = Arc::clone(&node.name);
        let result = match ended {
            _ if node.is_cancelled() => Err(TaskError::Cancelled { task }),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(cause)) => Err(TaskError::Failed {
                task,
                cause: Arc::from(cause),
            }),
            Err(panic) => Err(TaskError::Panicked {
                task,
                message: panic_text(panic.as_ref()).into(),
            }),
        };
        let again = result.is_err() && !node.is_cancelled() && {
            let mut state = node.state.lock();
            let again = state.attempts <= node.retries;
            if again {
                state.work = Some(work);
                state.abort = None;
                state.phase = Phase::Ready;
            }
            again
        };
        if !again {
            return self.end(runtime, &node, result, Some(grant));
        }
        if node.retry_delay.is_zero() {
            return self.give_back(runtime, grant, [node]);
        }
        self.give_back(runtime, grant, []);
        let (executor, own) = (self.clone(), runtime.clone());
        runtime.spawn(async move {
            tokio::time::sleep(node.retry_delay).await;
            executor.enqueue(&own, [node]);
        });
    }

    /// Frees what a task held, and makes others ready.
    fn give_back<I>(&self, runtime: &Runtime, grant: Grant, ready: I)
    where
        I: IntoIterator<Item = Arc<Node>>,
    {
        let is_future = grant.is_future;
        drop(grant.memory);
        let mut queue = self.0.queue.lock();
        queue.ready.release(&grant.node.needs);
        for node in ready {
            queue.push(node);
        }
        // The thread of a closure goes on to the next task itself.
        if is_future && queue.ready.has_room() {
            self.call_thread(runtime, &mut queue);
        }
    }

    /// Gives a task its result, once; those that need it become ready or fail, without recursion
    /// however long a chain of them is.
    fn end(
        &self,
        runtime: &Runtime,
        node: &Arc<Node>,
        result: Result<Value, TaskError>,
        mut grant: Option<Grant>,
    ) {
        // Whoever sees the result finds the memory free.
        if let Some(grant) = &mut grant {
            grant.memory = None;
        }
        let mut ready = Vec::new();
        let mut ended = vec![(Arc::clone(node), result)];
        while let Some((node, result)) = ended.pop() {
            let (dependents, wakers, work) = {
                let mut state = node.state.lock();
                if state.result.is_some() {
                    continue;
                }
                state.phase = match result {
                    Ok(_) => Phase::Done,
                    Err(_) => Phase::Failed,
                };
                state.result = Some(result.clone());
                state.abort = None;
                (
                    std::mem::take(&mut state.dependents),
                    std::mem::take(&mut state.wakers),
                    state.work.take(),
                )
            };
            drop(work);
            for waker in wakers {
                waker.wake();
            }
            for dependent in dependents {
                match &result {
                    Err(cause) => {
                        let error = not_run(&dependent, cause);
                        ended.push((dependent, Err(error)));
                    }
                    Ok(_) => {
                        let mut state = dependent.state.lock();
                        state.missing -= 1;
                        let is_ready = state.missing == 0 && state.result.is_none();
                        drop(state);
                        if is_ready {
                            ready.push(dependent);
                        }
                    }
                }
            }
        }
        match grant {
            Some(grant) => self.give_back(runtime, grant, ready),
            None if ready.is_empty() => {}
            None => self.enqueue(runtime, ready),
        }
    }

    /// Cancels a task.
    pub(super) fn cancel(&self, node: &Arc<Node>) {
        node.cancelled.store(true, Ordering::Release);
        let (abort, is_running) = {
            let state = node.state.lock();
            (state.abort.clone(), state.phase == Phase::Running)
        };
        if let Some(abort) = abort {
            abort.abort();
        }
        // What runs ends by itself, and gives back what it holds then.
        if !is_running {
            let task = Arc::clone(&node.name);
            self.end(
                &node.runtime,
                node,
                Err(TaskError::Cancelled { task }),
                None,
            );
        }
    }
}

fn not_run(node: &Node, cause: &TaskError) -> TaskError {
    TaskError::NotRun {
        task: Arc::clone(&node.name),
        cause: Box::new(cause.root().clone()),
    }
}
