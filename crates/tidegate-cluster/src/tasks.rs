//! The tasks of statements that ran over executors lately, and what became of their regions.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use parking_lot::Mutex;
use tidegate::RegionReport;
use tidegate::spread::TaskReport;

use crate::join::Placed;

/// Tasks that are remembered.
const REMEMBERED: usize = 4_096;
/// Statements of which regions are remembered.
const STATEMENTS_MAX: usize = 1_000;
/// Regions of a statement that are remembered.
const REGIONS_MAX: usize = 1_000;

/// The state of a task that nothing is known of yet.
const RUNNING: &str = "running";

/// What is remembered of tasks.
#[derive(Debug)]
pub(crate) struct Tasks {
    /// What the numbers of this scheduler's statements begin with where others hear them: an executor may
    /// have several schedulers.
    prefix: String,
    reports: Mutex<VecDeque<TaskReport>>,
    ended: Mutex<BTreeMap<String, u64>>,
    regions: Mutex<BTreeMap<u64, Vec<(String, RegionReport)>>>,
}

impl Tasks {
    /// Makes the tasks of a scheduler, of which no other has these words.
    pub(crate) fn new(random: &str) -> Self {
        Self {
            prefix: format!("{random}-"),
            reports: Mutex::default(),
            ended: Mutex::default(),
            regions: Mutex::default(),
        }
    }

    /// Returns what the words for this scheduler's statements begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Writes a statement's number for executors.
    pub(crate) fn word_of(&self, statement: u64) -> String {
        format!("{}{statement}", self.prefix)
    }

    /// Notes that a task begins.
    pub(crate) fn begin(&self, report: TaskReport) {
        let mut reports = self.reports.lock();
        if reports.len() == REMEMBERED {
            reports.pop_front();
        }
        let state = RUNNING.into();
        reports.push_back(TaskReport { state, ..report });
    }

    /// Notes how those tasks end that run still and are meant.
    pub(crate) fn end(&self, state: &str, is_meant: impl Fn(&TaskReport) -> bool) {
        let mut reports = self.reports.lock();
        for report in reports.iter_mut() {
            if report.state == RUNNING && is_meant(report) {
                report.state = state.into();
                report.ended = Some(SystemTime::now());
                *self.ended.lock().entry(state.into()).or_default() += 1;
            }
        }
    }

    /// Notes what an executor tells of a task's regions; returns the task's statement if it is of these tasks.
    pub(crate) fn place(&self, executor: &str, placed: &Placed) -> Option<u64> {
        let number = placed.statement.strip_prefix(&self.prefix)?;
        let statement = number.parse().ok()?;
        let Ok(told) = serde_json::from_slice::<Vec<RegionReport>>(&placed.regions) else {
            tracing::warn!(executor, "an executor tells of regions in other words");
            return None;
        };
        if told.is_empty() {
            return Some(statement);
        }
        let mut all = self.regions.lock();
        let regions = all.entry(statement).or_default();
        let room = REGIONS_MAX.saturating_sub(regions.len());
        let told = told.into_iter().take(room);
        regions.extend(told.map(|region| (executor.to_string(), region)));
        while all.len() > STATEMENTS_MAX {
            all.pop_first();
        }
        Some(statement)
    }

    /// Returns what executors told of a statement's regions.
    pub(crate) fn regions(&self, statement: u64) -> Vec<(String, RegionReport)> {
        let regions = self.regions.lock();
        regions.get(&statement).cloned().unwrap_or_default()
    }

    /// Counts the tasks that ended, by their state.
    pub(crate) fn ended(&self) -> Vec<(String, u64)> {
        let ended = self.ended.lock();
        ended
            .iter()
            .map(|(state, count)| (state.clone(), *count))
            .collect()
    }

    /// Reports the tasks, oldest first.
    pub(crate) fn reports(&self) -> Vec<TaskReport> {
        self.reports.lock().iter().cloned().collect()
    }
}
