//! The tasks of statements that ran over executors lately.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate::spread::TaskReport;

/// Tasks that are remembered.
const REMEMBERED: usize = 4_096;

/// What is remembered of tasks, and counted of all.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    reports: Mutex<VecDeque<(u64, TaskReport)>>,
    next: AtomicU64,
}

/// One task; whoever drops it without a word cancelled it.
#[derive(Debug)]
pub(crate) struct RunningTask {
    tasks: Arc<Tasks>,
    id: u64,
    has_ended: bool,
}

impl Tasks {
    /// Notes that a task begins.
    pub(crate) fn begin(self: &Arc<Self>, report: TaskReport) -> RunningTask {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut reports = self.reports.lock();
        if reports.len() == REMEMBERED {
            reports.pop_front();
        }
        let state = "running".into();
        reports.push_back((id, TaskReport { state, ..report }));
        RunningTask {
            tasks: Arc::clone(self),
            id,
            has_ended: false,
        }
    }

    /// Reports the tasks, oldest first.
    pub(crate) fn reports(&self) -> Vec<TaskReport> {
        let reports = self.reports.lock();
        reports.iter().map(|(_, report)| report.clone()).collect()
    }

    fn set(&self, id: u64, state: &str) {
        let mut reports = self.reports.lock();
        let known = reports.iter_mut().find(|(known, _)| *known == id);
        if let Some((_, report)) = known {
            report.state = state.into();
        }
    }
}

impl RunningTask {
    /// Notes how the task ended.
    pub(crate) fn end(&mut self, state: &str) {
        if !self.has_ended {
            self.has_ended = true;
            self.tasks.set(self.id, state);
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.end("cancelled");
    }
}
