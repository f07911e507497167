//! What is remembered of queries: the last thousand, and those that run.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use datafusion::catalog::Session;
use datafusion::physical_plan::ExecutionPlan;
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tidegate_scheduler::{PlaceStats, RecordedRegion};

use super::exec::at_the_end;
use super::log::{LoggedQuery, QueryLog, QueryWatcher, shortened};
use super::{CancelHandle, QueryProgress};
use crate::clients::{Client, Owner};
use crate::error::{Error, ErrorKind};
use crate::files::text::{RowsLeftOut, rows_left_out};
use crate::region::Region;
use crate::region::report::RegionReport;
use crate::region::verdict::verdict;
use crate::runtime::Runtime;
use crate::statements::StatementContext;

/// Queries remembered.
const QUERIES_MAX: usize = 1_000;

/// Bytes of each one's text that are remembered.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The queries of a process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    next_id: AtomicU64,
    records: Mutex<VecDeque<Arc<Record>>>,
    log: Arc<QueryLog>,
}

/// How far a query has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum QueryState {
    /// It is planned.
    Planned,
    /// It is running.
    Running,
    /// All its rows were returned.
    Finished,
    /// It ended with an error.
    Failed,
    /// The rest of its rows was not wanted.
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

/// One query, finished or running.
#[derive(Clone, Debug, Serialize)]
pub struct QueryReport {
    /// Counts up from 1 in a process.
    pub id: u64,
    /// The statement, where it came as text.
    pub sql: Option<Arc<str>>,
    /// The client it was for; `None` for the process itself.
    pub user: Option<Arc<str>>,
    /// That client's session; `None` for the process itself.
    pub session: Option<u64>,
    /// How far it has come.
    pub state: QueryState,
    /// When it was planned.
    pub started: SystemTime,
    /// Planning time in seconds; zero if it was planned before.
    pub plan_seconds: f64,
    /// Seconds from its first stream to its end, or until now.
    pub seconds: f64,
    /// Rows returned.
    pub rows: u64,
    /// Seconds that it waited for admission.
    pub admission_seconds: f64,
    /// The most host memory that its operators held at once, in bytes.
    pub peak_bytes: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Rows of files that it left out because of `ignore_errors`.
    pub rows_left_out: u64,
    /// A remark on how it ran: that it was planned again for lack of memory, or what was wrong with the
    /// first row that it left out.
    pub note: Option<String>,
    /// What ran where, region by region, from the root of the plan down; for a running query, so
    /// far.
    pub regions: Vec<RegionReport>,
}

impl fmt::Display for QueryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.regions.is_empty() {
            return writeln!(f, "placement: no region; the whole query ran on the host");
        }
        writeln!(f, "{}", verdict(&self.regions))?;
        for (index, region) in self.regions.iter().enumerate() {
            write!(f, "placement of region {}: {region}", index + 1)?;
        }
        Ok(())
    }
}

/// Who asked for a query, in which words, and what stops it.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) sql: Option<Arc<str>>,
    /// `None` for the process itself.
    pub(crate) owner: Option<Owner>,
    pub(crate) cancel: CancelHandle,
}

impl Asked {
    /// Reads it from a state that plans a statement.
    pub(super) fn of(session: &dyn Session) -> Self {
        let config = session.config();
        let context = config.get_extension::<StatementContext>();
        let client = Client::of(config);
        let cancel = config.get_extension::<CancelHandle>();
        Self {
            sql: context.map(|context| Arc::clone(&context.shown)),
            owner: client.map(|client| client.asks()),
            cancel: cancel
                .map(|cancel| cancel.as_ref().clone())
                .unwrap_or_default(),
        }
    }
}

/// The record of one query.
#[derive(Debug)]
pub(crate) struct Record {
    id: u64,
    asked: Asked,
    started: SystemTime,
    planned_in: Duration,
    progress: Mutex<Progress>,
    log: Arc<QueryLog>,
}

/// What is known of a query's regions at its end.
#[derive(Debug)]
pub(crate) enum Regions {
    /// As they are told.
    Told(Vec<RegionReport>),
    /// The only region, to be put into words when somebody asks.
    Only(Arc<Region>),
}

impl Regions {
    fn reports(&self) -> Vec<RegionReport> {
        match self {
            Self::Told(reports) => reports.clone(),
            Self::Only(region) => vec![RegionReport::of(region, None)],
        }
    }

    fn place_stats(&self) -> Vec<PlaceStats> {
        match self {
            Self::Told(reports) => {
                let stats = reports.iter().flat_map(|report| &report.place_stats);
                stats.cloned().collect()
            }
            Self::Only(region) => region.counters.place_stats(),
        }
    }
}

#[derive(Debug)]
struct Progress {
    state: QueryState,
    clock: Option<Instant>,
    seconds: f64,
    rows: u64,
    waited: Duration,
    peak_bytes: u64,
    streams_left: usize,
    streams_live: usize,
    error: Option<String>,
    rows_left_out: u64,
    note: Option<String>,
    regions: Regions,
    /// What runs, while it does.
    plan: Option<Weak<dyn ExecutionPlan>>,
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

impl History {
    /// Returns what is remembered of the queries of a runtime.
    pub(crate) fn of(runtime: &Runtime) -> Arc<Self> {
        runtime.shared()
    }

    /// Remembers a query that has just been planned.
    pub(crate) fn planned(&self, mut asked: Asked, planned_in: Duration) -> Arc<Record> {
        asked.sql = asked.sql.map(|sql| shortened(sql, TEXT_BYTES_MAX));
        let record = Arc::new(Record {
            id: self.next_id.fetch_add(1, Ordering::Relaxed) + 1,
            asked,
            started: SystemTime::now(),
            planned_in,
            progress: Mutex::new(Progress {
                state: QueryState::Planned,
                clock: None,
                seconds: 0.0,
                rows: 0,
                waited: Duration::ZERO,
                peak_bytes: 0,
                streams_left: 0,
                streams_live: 0,
                error: None,
                rows_left_out: 0,
                note: None,
                regions: Regions::Told(Vec::new()),
                plan: None,
            }),
            log: Arc::clone(&self.log),
        });
        let mut records = self.records.lock();
        if records.len() == QUERIES_MAX {
            records.pop_front();
        }
        records.push_back(Arc::clone(&record));
        record
    }

    /// Returns the log of the queries that have ended.
    pub(crate) fn log(&self) -> &QueryLog {
        &self.log
    }

    /// Lists the queries that have ended and a client may see, oldest first; all for the process
    /// itself.
    pub(crate) fn logged_for(&self, client: Option<&Client>) -> Vec<Arc<LoggedQuery>> {
        let mut entries = self.log.entries();
        if let Some(client) = client {
            entries.retain(|entry| client.oversees(entry.user.as_deref()));
        }
        entries
    }

    /// Forgets a query that was not run after all.
    pub(crate) fn forget(&self, record: &Arc<Record>) {
        let mut records = self.records.lock();
        let position = records.iter().rposition(|known| Arc::ptr_eq(known, record));
        position.and_then(|position| records.remove(position));
    }

    /// Reports every query remembered, oldest first.
    pub(crate) fn reports(&self) -> Vec<QueryReport> {
        let records: Vec<Arc<Record>> = self.records.lock().iter().cloned().collect();
        records.iter().map(|record| record.report()).collect()
    }

    /// Reports the queries that a client may see, oldest first; all for the process itself.
    pub(crate) fn reports_for(&self, client: Option<&Client>) -> Vec<QueryReport> {
        let mut reports = self.reports();
        if let Some(client) = client {
            reports.retain(|report| client.oversees(report.user.as_deref()));
        }
        reports
    }

    /// As [`History::reports_for`], of those that ended only so many that ended last.
    pub(crate) fn last_reports_for(
        &self,
        client: Option<&Client>,
        ended_max: usize,
    ) -> Vec<QueryReport> {
        let records: Vec<Arc<Record>> = self.records.lock().iter().cloned().collect();
        let visible = |record: &&Arc<Record>| {
            let owner = record.asked.owner.as_ref().map(|owner| &*owner.user);
            client.is_none_or(|client| client.oversees(owner))
        };
        let mut ended = 0;
        let mut reports: Vec<QueryReport> = records
            .iter()
            .rev()
            .filter(visible)
            .filter(|record| {
                ended += usize::from(record.has_ended());
                ended <= ended_max || !record.has_ended()
            })
            .map(|record| record.report())
            .collect();
        reports.reverse();
        reports
    }

    /// Lists the session of each query that runs for a client.
    pub(crate) fn sessions_that_run(&self) -> Vec<u64> {
        let records = self.records.lock();
        let running = records.iter().filter(|record| !record.has_ended());
        let owners = running.filter_map(|record| record.asked.owner.as_ref());
        owners.map(|owner| owner.session).collect()
    }

    /// Cancels a query on behalf of a client or of the process itself.
    pub(crate) fn kill(&self, id: u64, client: Option<&Client>) -> Result<(), Error> {
        let records = self.records.lock();
        let visible = |record: &&Arc<Record>| {
            let owner = record.asked.owner.as_ref().map(|owner| &*owner.user);
            record.id == id && client.is_none_or(|client| client.oversees(owner))
        };
        let Some(record) = records.iter().find(visible) else {
            let message =
                format!("there is no query {id} that you may cancel: system.queries lists yours");
            return Err(Error::new(ErrorKind::Sql, message));
        };
        let state = record.progress.lock().state;
        if !matches!(state, QueryState::Planned | QueryState::Running) {
            let message = format!("query {id} does not run: it has {state}");
            return Err(Error::new(
                ErrorKind::Sql,
                message.replace("has cancelled", "was cancelled"),
            ));
        }
        record.asked.cancel.cancel();
        Ok(())
    }

    /// Returns how each region of a query ran, with its program, from the root down.
    pub(crate) fn recorded(
        &self,
        id: u64,
        client: Option<&Client>,
    ) -> Result<Vec<(String, RecordedRegion)>, Error> {
        let reports = self.reports_for(client);
        let Some(report) = reports.into_iter().find(|report| report.id == id) else {
            let message = format!(
                "query {id} is not remembered: system.queries lists those whose placement can be \
                 replayed; SET tidegate.replay_placement = '' to replay none"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        };
        if report.state != QueryState::Finished {
            let message = format!(
                "query {id} cannot be replayed: it is {} and not finished",
                report.state
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let regions = report.regions.into_iter();
        let recorded = regions.filter_map(|region| Some((region.program?, region.recorded?)));
        Ok(recorded.collect())
    }

    /// Tells how far the query has come that was planned last of those that run, of all or in one
    /// client's session.
    pub(crate) fn progress(&self, client: Option<&Client>) -> Option<QueryProgress> {
        let records: Vec<Arc<Record>> = self.records.lock().iter().rev().cloned().collect();
        let is_own = |record: &&Arc<Record>| {
            let owner = record.asked.owner.as_ref().map(|owner| owner.session);
            client.is_none_or(|client| owner == Some(client.id))
        };
        let mut own = records.iter().filter(is_own);
        own.find_map(|record| record.progress())
    }

    /// Tells how far the query has come that this handle stops.
    pub(crate) fn progress_of(
        &self,
        client: Option<&Client>,
        cancel: &CancelHandle,
    ) -> Option<QueryProgress> {
        let records: Vec<Arc<Record>> = self.records.lock().iter().rev().cloned().collect();
        let is_own = |record: &&Arc<Record>| {
            let owner = record.asked.owner.as_ref().map(|owner| owner.session);
            client.is_none_or(|client| owner == Some(client.id))
        };
        let mut own = records.iter().filter(is_own);
        let found = own.find(|record| record.asked.cancel.is_same(cancel));
        found?.progress()
    }

    /// Reports the query that ended last.
    pub(crate) fn last(&self) -> Option<QueryReport> {
        let records = self.records.lock();
        let mut ended = records.iter().rev().filter(|record| record.has_ended());
        ended.next().map(|record| record.report())
    }
}

impl Record {
    /// Starts the clock with the first stream.
    pub(crate) fn begin(&self, num_partitions: usize) {
        let mut progress = self.progress.lock();
        if progress.clock.is_none() {
            progress.clock = Some(Instant::now());
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

    /// Tells how far the query has come; `None` if it does not run.
    fn progress(&self) -> Option<QueryProgress> {
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
    fn close(
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
            rows: progress.rows,
            error: progress.error.clone(),
            place_stats: progress.regions.place_stats(),
        };
        drop(progress);
        self.log.add(entry);
    }

    fn user(&self) -> Option<Arc<str>> {
        let owner = self.asked.owner.as_ref();
        owner.map(|owner| Arc::clone(&owner.user))
    }

    fn has_ended(&self) -> bool {
        let state = self.progress.lock().state;
        !matches!(state, QueryState::Planned | QueryState::Running)
    }

    fn report(&self) -> QueryReport {
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
            rows_left_out: progress.rows_left_out,
            note: progress.note.clone(),
            regions: match plan {
                Some(plan) => at_the_end(&plan).reports(),
                None => progress.regions.reports(),
            },
        }
    }
}

impl Runtime {
    /// Tells somebody of each query that ends from now on, as long as they are there.
    pub fn watch_queries(&self, watcher: Weak<dyn QueryWatcher>) {
        History::of(self).log().watch(watcher);
    }
}
