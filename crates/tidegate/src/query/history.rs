//! What is remembered of queries: the last thousand, and those that run.

mod record;

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use datafusion::catalog::Session;
use parking_lot::Mutex;
use serde::Serialize;
use tidegate_scheduler::{PlaceStats, RecordedRegion};

use super::log::{LoggedQuery, QueryLog, QueryWatcher, shortened};
use super::profile::Watched;
use super::{CancelHandle, QueryProfile, QueryProgress};
use crate::clients::{Client, Owner};
use crate::error::{Error, ErrorKind};
use crate::region::Region;
use crate::region::report::RegionReport;
use crate::region::verdict::verdict;
use crate::runtime::Runtime;
use crate::statements::StatementContext;
use record::Progress;

pub(crate) use record::Record;

/// Queries remembered.
const QUERIES_MAX: usize = 1_000;

/// Queries of which is remembered who worked when.
const PROFILES_MAX: usize = 100;

/// Bytes of each one's text that are remembered.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// The queries of a process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct History {
    next_id: AtomicU64,
    records: Mutex<VecDeque<Arc<Record>>>,
    log: Arc<QueryLog>,
    watched: Arc<Watched>,
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
    /// Its number among the statements that run over executors; `None` if it does not.
    pub statement: Option<u64>,
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

/// How a query was planned.
struct Planned {
    took: Duration,
    /// Its number among those that run over executors.
    statement: Option<u64>,
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

impl History {
    /// Returns what is remembered of the queries of a runtime.
    pub(crate) fn of(runtime: &Runtime) -> Arc<Self> {
        runtime.shared()
    }

    /// Remembers a query that has just been planned; over executors as the statement of this number.
    pub(crate) fn planned(
        &self,
        asked: Asked,
        planned_in: Duration,
        statement: Option<u64>,
    ) -> Arc<Record> {
        let planned = Planned {
            took: planned_in,
            statement,
        };
        self.remember(asked, planned, QueryState::Planned, None)
    }

    /// Remembers a statement that failed before it was planned, unless it has been since `began`: its own query
    /// may have failed.
    pub(crate) fn failed(&self, mut asked: Asked, began: SystemTime, error: &Error) {
        asked.sql = asked.sql.map(|sql| shortened(sql, TEXT_BYTES_MAX));
        let known = self.records.lock();
        let mut since = known
            .iter()
            .rev()
            .take_while(|record| record.started >= began);
        let is_known = since.any(|record| record.asked.sql == asked.sql);
        drop(known);
        if is_known {
            return;
        }
        let planned_in = began.elapsed().unwrap_or_default();
        let state = match error.kind() {
            ErrorKind::Cancelled | ErrorKind::TimedOut => QueryState::Cancelled,
            _ => QueryState::Failed,
        };
        let planned = Planned {
            took: planned_in,
            statement: None,
        };
        self.remember(asked, planned, state, Some(error.to_string()));
    }

    fn remember(
        &self,
        mut asked: Asked,
        planned: Planned,
        state: QueryState,
        error: Option<String>,
    ) -> Arc<Record> {
        asked.sql = asked.sql.map(|sql| shortened(sql, TEXT_BYTES_MAX));
        let record = Arc::new(Record {
            id: self.next_id.fetch_add(1, Ordering::Relaxed) + 1,
            asked,
            started: SystemTime::now(),
            planned_in: planned.took,
            statement: planned.statement,
            progress: Mutex::new(Progress {
                state,
                clock: None,
                seconds: 0.0,
                rows: 0,
                waited: Duration::ZERO,
                peak_bytes: 0,
                streams_left: 0,
                streams_live: 0,
                error,
                rows_left_out: 0,
                note: None,
                regions: Regions::Told(Vec::new()),
                plan: None,
                trace: None,
                operators: None,
            }),
            log: Arc::clone(&self.log),
            watched: Arc::clone(&self.watched),
        });
        let mut records = self.records.lock();
        if records.len() == QUERIES_MAX {
            records.pop_front();
        }
        records.push_back(Arc::clone(&record));
        let old = records.len().checked_sub(PROFILES_MAX + 1);
        if let Some(old) = old.and_then(|place| records.get(place)) {
            old.forget_profile();
        }
        record
    }

    /// Watches all queries that begin from now on.
    pub(crate) fn watch(&self) {
        self.watched.turn_on();
    }

    /// Reads what the queries that run have done since this was called last.
    pub(crate) fn step(&self) -> &Watched {
        let running: Vec<Arc<Record>> = {
            let records = self.records.lock();
            let running = records.iter().filter(|record| !record.has_ended());
            running.cloned().collect()
        };
        running.iter().for_each(|record| record.step());
        &self.watched
    }

    /// Tells of a query that a client may see how it runs, or ran.
    pub(crate) fn profile(
        &self,
        id: u64,
        client: Option<&Client>,
    ) -> Option<(QueryReport, QueryProfile)> {
        let record = {
            let records = self.records.lock();
            let mut of_id = records.iter().filter(|record| record.id == id);
            Arc::clone(of_id.next()?)
        };
        let owner = record.asked.owner.as_ref().map(|owner| &*owner.user);
        if client.is_some_and(|client| !client.oversees(owner)) {
            return None;
        }
        let report = record.report();
        let profile = record.profile(&report);
        Some((report, profile))
    }

    /// Tells how far a query has come.
    pub(crate) fn progress_of_id(&self, id: u64) -> Option<QueryProgress> {
        let records = self.records.lock();
        let record = records.iter().find(|record| record.id == id).cloned();
        drop(records);
        record?.progress()
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

impl Runtime {
    /// Tells somebody of each query that ends from now on, as long as they are there.
    pub fn watch_queries(&self, watcher: Weak<dyn QueryWatcher>) {
        History::of(self).log().watch(watcher);
    }
}
