//! What is remembered of queries: the last thousand, and those that run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use parking_lot::Mutex;
use serde::Serialize;

use crate::error::{Error, ErrorKind};
use crate::region::report::RegionReport;

/// Queries remembered.
const QUERIES_MAX: usize = 1_000;

/// The queries of a process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    next_id: AtomicU64,
    records: Mutex<VecDeque<Arc<Record>>>,
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryState {
    /// It has a plan.
    Planned,
    /// Its rows are being made.
    Running,
    /// All its rows have left.
    Finished,
    /// It ended with an error.
    Failed,
    /// Nobody wanted the rest of its rows.
    Cancelled,
}

impl fmt::Display for QueryState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Finished => "finished",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}

/// One query, as told afterwards or meanwhile.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    /// Counts up from 1 in a process.
    pub id: u64,
    /// The statement, where it came as text.
    pub sql: Option<Arc<str>>,
    /// How far it has come.
    pub state: QueryState,
    /// When it was planned.
    pub started: SystemTime,
    /// Seconds from its first stream to its end, or until now.
    pub seconds: f64,
    /// Rows that have left.
    pub rows: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// What ran where, region by region, from the root of the plan down.
    pub regions: Vec<RegionReport>,
}

impl fmt::Display for QueryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.regions.is_empty() {
            return writeln!(f, "placement: no region; the whole query ran on the host");
        }
        for (index, region) in self.regions.iter().enumerate() {
            write!(f, "placement of region {}: {region}", index + 1)?;
        }
        Ok(())
    }
}

/// The books of one query.
#[derive(Debug)]
pub(crate) struct Record {
    id: u64,
    sql: Option<Arc<str>>,
    started: SystemTime,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    state: QueryState,
    clock: Option<Instant>,
    seconds: f64,
    rows: u64,
    streams_left: usize,
    streams_live: usize,
    error: Option<String>,
    regions: Vec<RegionReport>,
}

impl History {
    /// Remembers a query that has just been planned.
    pub(super) fn planned(&self, sql: Option<Arc<str>>) -> Arc<Record> {
        let record = Arc::new(Record {
            id: self.next_id.fetch_add(1, Ordering::Relaxed) + 1,
            sql,
            started: SystemTime::now(),
            progress: Mutex::new(Progress {
                state: QueryState::Planned,
                clock: None,
                seconds: 0.0,
                rows: 0,
                streams_left: 0,
                streams_live: 0,
                error: None,
                regions: Vec::new(),
            }),
        });
        let mut records = self.records.lock();
        if records.len() == QUERIES_MAX {
            records.pop_front();
        }
        records.push_back(Arc::clone(&record));
        record
    }

    /// Reports every query remembered, oldest first.
    pub(crate) fn reports(&self) -> Vec<QueryReport> {
        let records: Vec<Arc<Record>> = self.records.lock().iter().cloned().collect();
        records.iter().map(|record| record.report()).collect()
    }

    /// Reports the query that ended last.
    pub(crate) fn last(&self) -> Option<QueryReport> {
        let records = self.records.lock();
        let ended = records.iter().rev().map(|record| record.report());
        ended
            .into_iter()
            .find(|report| !matches!(report.state, QueryState::Planned | QueryState::Running))
    }
}

impl Record {
    /// Starts the clock with the first stream.
    pub(super) fn begin(&self, num_partitions: usize) {
        let mut progress = self.progress.lock();
        if progress.clock.is_none() {
            progress.clock = Some(Instant::now());
            progress.state = QueryState::Running;
            progress.streams_left = num_partitions;
        }
        progress.streams_live += 1;
    }

    pub(super) fn count(&self, num_rows: usize) {
        self.progress.lock().rows += num_rows as u64;
    }

    /// Ends a stream that gave all its rows; with the last one the query is finished.
    pub(super) fn end_stream(&self, regions: impl FnOnce() -> Vec<RegionReport>) {
        let mut progress = self.progress.lock();
        progress.streams_live -= 1;
        progress.streams_left = progress.streams_left.saturating_sub(1);
        if progress.streams_left == 0 {
            progress.close(QueryState::Finished, regions);
        }
    }

    /// Ends a stream that was dropped; with the last live one the query is cancelled.
    pub(super) fn drop_stream(&self, regions: impl FnOnce() -> Vec<RegionReport>) {
        let mut progress = self.progress.lock();
        progress.streams_live -= 1;
        if progress.streams_live == 0 {
            progress.close(QueryState::Cancelled, regions);
        }
    }

    pub(super) fn fail(&self, error: Error, regions: impl FnOnce() -> Vec<RegionReport>) {
        let mut progress = self.progress.lock();
        progress.streams_live -= 1;
        let cancelled = error.kind() == ErrorKind::Cancelled;
        progress.error.get_or_insert_with(|| error.to_string());
        let state = if cancelled {
            QueryState::Cancelled
        } else {
            QueryState::Failed
        };
        progress.close(state, regions);
    }

    fn report(&self) -> QueryReport {
        let progress = self.progress.lock();
        let seconds = match progress.state {
            QueryState::Running => progress
                .clock
                .map_or(0.0, |clock| clock.elapsed().as_secs_f64()),
            _ => progress.seconds,
        };
        QueryReport {
            id: self.id,
            sql: self.sql.clone(),
            state: progress.state,
            started: self.started,
            seconds,
            rows: progress.rows,
            error: progress.error.clone(),
            regions: progress.regions.clone(),
        }
    }
}

impl Progress {
    /// Writes the end down, once: a failure is not undone by the streams that end after it.
    fn close(&mut self, state: QueryState, regions: impl FnOnce() -> Vec<RegionReport>) {
        if matches!(self.state, QueryState::Planned | QueryState::Running) {
            self.state = state;
            self.seconds = self
                .clock
                .map_or(0.0, |clock| clock.elapsed().as_secs_f64());
            self.regions = regions();
        }
    }
}
