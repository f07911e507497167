//! The tasks of statements that ran over executors lately.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tidegate::spread::TaskReport;

/// Tasks that are remembered.
const REMEMBERED: usize = 4_096;

/// The state of a task that nothing is known of yet.
const RUNNING: &str = "running";

/// What is remembered of tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<VecDeque<TaskReport>>);

impl Tasks {
    /// Notes that a task begins.
    pub(crate) fn begin(&self, report: TaskReport) {
        let mut reports = self.0.lock();
        if reports.len() == REMEMBERED {
            reports.pop_front();
        }
        let state = RUNNING.into();
        reports.push_back(TaskReport { state, ..report });
    }

    /// Notes how those tasks end that run still and are meant.
    pub(crate) fn end(&self, state: &str, is_meant: impl Fn(&TaskReport) -> bool) {
        let mut reports = self.0.lock();
        for report in reports.iter_mut() {
            if report.state == RUNNING && is_meant(report) {
                report.state = state.into();
            }
        }
    }

    /// Reports the tasks, oldest first.
    pub(crate) fn reports(&self) -> Vec<TaskReport> {
        self.0.lock().iter().cloned().collect()
    }
}
