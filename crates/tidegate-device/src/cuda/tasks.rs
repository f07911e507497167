//! Tasks on a device's thread: futures over its lane, which wait for something while the thread does other
//! work.
//!
//! A task is polled when it begins and whenever it was woken, always behind what was submitted before. It
//! never leaves the thread, so that it may keep the lane from one poll to the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures::future::LocalBoxFuture;

use super::shared::{Command, Shared};

/// The tasks that have begun and not ended.
pub(super) struct Tasks<'e> {
    shared: Arc<Shared>,
    waiting: HashMap<u64, LocalBoxFuture<'e, ()>>,
    num_begun: u64,
}

impl<'e> Tasks<'e> {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            waiting: HashMap::new(),
            num_begun: 0,
        }
    }

    /// Begins a task, which goes as far as it can.
    pub(super) fn begin(&mut self, task: LocalBoxFuture<'e, ()>) {
        self.num_begun += 1;
        self.poll(self.num_begun, task);
    }

    /// Goes on with a task, unless it has ended.
    pub(super) fn wake(&mut self, number: u64) {
        if let Some(task) = self.waiting.remove(&number) {
            self.poll(number, task);
        }
    }

    fn poll(&mut self, number: u64, mut task: LocalBoxFuture<'e, ()>) {
        let waker = Waker::from(Arc::new(TaskWaker {
            shared: Arc::clone(&self.shared),
            number,
        }));
        if task
            .as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
        {
            self.waiting.insert(number, task);
        }
    }
}

/// Has the thread come back to a task, in turn with everything else.
struct TaskWaker {
    shared: Arc<Shared>,
    number: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        // After the thread's end there are no tasks.
        drop(self.shared.commands.post(Command::Wake(self.number)));
    }
}
