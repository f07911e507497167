//! The record of one query: its clock, its counts, and what is told of it.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::{Mutex, MutexGuard};

use super::{Asked, QueryReport, QueryState, Regions};
use crate::error::{Error, ErrorKind};
use crate::files::text::{RowsLeftOut, rows_left_out};
use crate::query::exec::at_the_end;
use crate::query::log::{LoggedQuery, QueryLog};
use crate::query::profile::{OperatorReport, Trace, Watched};
use crate::query::{CancelHandle, QueryProfile, QueryProgress};
use crate::region::verdict::verdict;

/// The record of one query.
#[derive(Debug)]
pub(crate) struct Record {
    pub(super) id: u64,
    pub(super) asked: Asked,
    pub(super) started: SystemTime,
    pub(super) planned_in: Duration,
    pub(super) statement: Option<u64>,
    pub(super) progress: Mutex<Progress>,
    pub(super) log: Arc<QueryLog>,
    pub(super) watched: Arc<Watched>,
}

#[derive(Debug)]
pub(super) struct Progress {
    pub(super) state: QueryState,
    pub(super) clock: Option<Instant>,
    pub(super) seconds: f64,
    pub(super) rows: u64,
    pub(super) waited: Duration,
    pub(super) peak_bytes: u64,
    pub(super) streams_left: usize,
    pub(super) streams_live: usize,
    pub(super) error: Option<String>,
    pub(super) rows_left_out: u64,
    pub(super) note: Option<String>,
    pub(super) regions: Regions,
    /// What runs, while it does.
    pub(super) plan: Option<Weak<dyn ExecutionPlan>>,
    /// Who worked when, if somebody watches.
    pub(super) trace: Option<Trace>,
    /// What ran, once it has.
    pub(super) operators: Option<OperatorReport>,
}

impl Progress {
    /// Notes rows that were left out of files.
    fn leave_out(&mut self, rows: &RowsLeftOut) {
        self.rows_left_out = rows.count;
        let what = match rows.count {
            1 => format!("ignore_errors left out 1 row: {}", rows.first),
            count => format!(
                "ignore_errors left out {count} rows, one of them: {}",
                rows.first
            ),
        };
        self.note = Some(match self.note.take() {
            Some(note) => format!("{note}; {what}"),
            None => what,
        });
    }
}

impl Record {
    /// Starts the clock with the first stream.
    pub(crate) fn begin(&self, num_partitions: usize) {
        let mut progress = self.progress.lock();
        if progress.clock.is_none() {
            let now = Instant::now();
            progress.clock = Some(now);
            progress.trace = self.watched.is_on().then(|| Trace::new(now));
            progress.state = QueryState::Running;
            progress.streams_left = num_partitions;
        }
        progress.streams_live += 1;
    }

    /// Notes what runs, so that it can be asked how far it has come.
    pub(crate) fn runs(&self, plan: &Arc<dyn ExecutionPlan>) {
        let mut progress = self.progress.lock();
        progress.plan.get_or_insert_with(|| Arc::downgrade(plan));
    }

    /// Notes that another plan runs instead, and why.
    pub(crate) fn runs_instead(&self, plan: &Arc<dyn ExecutionPlan>, why: String) {
        let mut progress = self.progress.lock();
        progress.plan = Some(Arc::downgrade(plan));
        progress.note = Some(why);
    }

    /// Reads what it has done since this was called last, if somebody watches.
    pub(super) fn step(&self) {
        let mut progress = self.progress.lock();
        let plan = progress.plan.as_ref().and_then(Weak::upgrade);
        if let (Some(plan), Some(trace)) = (plan, &mut progress.trace) {
            trace.step(&plan, &self.watched);
        }
    }

    pub(super) fn profile(&self, report: &QueryReport) -> QueryProfile {
        let progress = self.progress.lock();
        let plan = progress.plan.as_ref().and_then(Weak::upgrade);
        let operators = match plan {
            Some(plan) => Some(OperatorReport::of(&plan)),
            None => progress.operators.clone(),
        };
        let only = report.regions.first().filter(|_| progress.trace.is_some());
        QueryProfile {
            verdict: verdict(&report.regions),
            plan: operators.or_else(|| only.map(OperatorReport::of_region)),
            began: progress.trace.as_ref().map(Trace::began_at),
            work: progress.trace.as_ref().map_or_else(Vec::new, Trace::pieces),
        }
    }

    pub(super) fn forget_profile(&self) {
        let mut progress = self.progress.lock();
        if !matches!(progress.state, QueryState::Planned | QueryState::Running) {
            progress.trace = None;
            progress.operators = None;
        }
    }

    /// Tells how far the query has come; `None` if it does not run.
    pub(super) fn progress(&self) -> Option<QueryProgress> {
        let progress = self.progress.lock();
        if progress.state != QueryState::Running {
            return None;
        }
        let plan = progress.plan.as_ref().and_then(Weak::upgrade)?;
        let seconds = progress.clock?.elapsed().as_secs_f64();
        drop(progress);
        Some(QueryProgress {
            id: self.id,
            seconds,
            ..QueryProgress::of(&plan)
        })
    }

    pub(crate) fn cancel(&self) -> &CancelHandle {
        &self.asked.cancel
    }

    pub(crate) fn count(&self, num_rows: usize) {
        self.progress.lock().rows += num_rows as u64;
    }

    /// Notes how long it waited to be let in.
    pub(crate) fn waited(&self, time: Duration) {
        self.progress.lock().waited += time;
    }

    /// Notes how much memory it held at the most.
    pub(crate) fn held(&self, peak_bytes: u64) {
        let mut progress = self.progress.lock();
        progress.peak_bytes = progress.peak_bytes.max(peak_bytes);
    }

    /// Ends a stream that gave all its rows; with the last one the query is finished.
    pub(crate) fn end_stream(&self, regions: impl FnOnce() -> Regions) {
        let mut progress = self.progress.lock();
        progress.streams_live -= 1;
        progress.streams_left = progress.streams_left.saturating_sub(1);
        if progress.streams_left == 0 {
            self.close(progress, QueryState::Finished, regions);
        }
    }

    /// Ends a stream that was dropped; with the last live one the query is cancelled.
    pub(crate) fn drop_stream(&self, regions: impl FnOnce() -> Regions) {
        let mut progress = self.progress.lock();
        progress.streams_live -= 1;
        if progress.streams_live == 0 {
            self.close(progress, QueryState::Cancelled, regions);
        }
    }

    pub(crate) fn fail(&self, error: Error, regions: impl FnOnce() -> Regions) {
        let mut progress = self.progress.lock();
        progress.streams_live -= 1;
        let cancelled = matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::TimedOut);
        progress.error.get_or_insert_with(|| error.to_string());
        let state = if cancelled {
            QueryState::Cancelled
        } else {
            QueryState::Failed
        };
        self.close(progress, state, regions);
    }

    /// Writes the end down, once: a failure is not undone by the streams that end after it.
    pub(super) fn close(
        &self,
        mut progress: MutexGuard<'_, Progress>,
        state: QueryState,
        regions: impl FnOnce() -> Regions,
    ) {
        if !matches!(progress.state, QueryState::Planned | QueryState::Running) {
            return;
        }
        let clock = progress.clock;
        progress.state = state;
        progress.seconds = clock.map_or(0.0, |clock| clock.elapsed().as_secs_f64());
        progress.regions = regions();
        let plan = progress.plan.take().as_ref().and_then(Weak::upgrade);
        if let (Some(plan), Some(trace)) = (&plan, &mut progress.trace) {
            trace.step(plan, &self.watched);
            progress.operators = Some(OperatorReport::of(plan));
        }
        if let Some(left_out) = plan.as_ref().and_then(rows_left_out) {
            progress.leave_out(&left_out);
        }
        let entry = LoggedQuery {
            id: self.id,
            session: self.asked.owner.as_ref().map(|owner| owner.session),
            user: self.user(),
            sql: self.asked.sql.clone(),
            state,
            started: self.started,
            plan_seconds: self.planned_in.as_secs_f64(),
            seconds: progress.seconds,
            admission_seconds: progress.waited.as_secs_f64(),
            rows: progress.rows,
            error: progress.error.clone(),
            statement: self.statement,
            trace_parent: self.asked.cancel.trace_parent().cloned(),
            place_stats: progress.regions.place_stats(),
        };
        drop(progress);
        self.log.add(entry);
    }

    pub(super) fn user(&self) -> Option<Arc<str>> {
        let owner = self.asked.owner.as_ref();
        owner.map(|owner| Arc::clone(&owner.user))
    }

    pub(super) fn has_ended(&self) -> bool {
        let state = self.progress.lock().state;
        !matches!(state, QueryState::Planned | QueryState::Running)
    }

    pub(super) fn report(&self) -> QueryReport {
        let progress = self.progress.lock();
        let plan = progress.plan.as_ref().and_then(Weak::upgrade);
        let seconds = match progress.state {
            QueryState::Running => progress
                .clock
                .map_or(0.0, |clock| clock.elapsed().as_secs_f64()),
            _ => progress.seconds,
        };
        QueryReport {
            id: self.id,
            sql: self.asked.sql.clone(),
            user: self.user(),
            session: self.asked.owner.as_ref().map(|owner| owner.session),
            state: progress.state,
            started: self.started,
            plan_seconds: self.planned_in.as_secs_f64(),
            seconds,
            rows: progress.rows,
            admission_seconds: progress.waited.as_secs_f64(),
            peak_bytes: progress.peak_bytes,
            error: progress.error.clone(),
            statement: self.statement,
            rows_left_out: progress.rows_left_out,
            note: progress.note.clone(),
            regions: match plan {
                Some(plan) => at_the_end(&plan).reports(),
                None => progress.regions.reports(),
            },
        }
    }
}
