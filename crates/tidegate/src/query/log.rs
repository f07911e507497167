//! The log of queries that have ended: one compact entry each, and whoever wants to be told.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use tidegate_scheduler::{Place, PlaceStats};

use super::QueryState;

/// Entries kept.
const ENTRIES_MAX: usize = 10_000;

/// Bytes of a statement or an error that an entry keeps.
const TEXT_BYTES_MAX: usize = 2 << 10;

/// One query that has ended.
#[derive(Clone, Debug)]
pub struct LoggedQuery {
    /// Its number, as in [`super::QueryReport::id`].
    pub id: u64,
    /// The session of the client that it was for; `None` for the process itself.
    pub session: Option<u64>,
    /// The client it was for; `None` for the process itself.
    pub user: Option<Arc<str>>,
    /// The beginning of the statement, where it came as text.
    pub sql: Option<Arc<str>>,
    /// How it ended.
    pub state: QueryState,
    /// When it was planned.
    pub started: SystemTime,
    /// Planning time in seconds.
    pub plan_seconds: f64,
    /// Seconds from its first stream to its end.
    pub seconds: f64,
    /// Seconds that it waited for admission.
    pub admission_seconds: f64,
    /// Rows returned.
    pub rows: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Its number among the statements that run over executors; `None` if it does not.
    pub statement: Option<u64>,
    /// The trace that its caller named (W3C Trace Context's `traceparent`).
    pub trace_parent: Option<Arc<str>>,
    /// Statistics of its regions, place by place.
    pub place_stats: Vec<PlaceStats>,
}

/// Which side ran a query's regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryPlacement {
    /// The host alone.
    Host,
    /// Devices alone.
    Device,
    /// Both.
    Mixed,
}

impl fmt::Display for QueryPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host => "host",
            Self::Device => "device",
            Self::Mixed => "mixed",
        })
    }
}

impl LoggedQuery {
    /// Returns which side ran the query's regions; the host, if it has none.
    pub fn placement(&self) -> QueryPlacement {
        let ran = |on_host: bool| {
            let mut stats = self.place_stats.iter();
            stats.any(|stats| stats.morsels > 0 && (stats.place == Place::Host) == on_host)
        };
        match (ran(true), ran(false)) {
            (_, false) => QueryPlacement::Host,
            (false, true) => QueryPlacement::Device,
            (true, true) => QueryPlacement::Mixed,
        }
    }

    /// Adds up what the host did, or what devices did.
    pub fn work(&self, on_host: bool) -> Work {
        let mut work = Work::default();
        let side = |stats: &&PlaceStats| (stats.place == Place::Host) == on_host;
        for stats in self.place_stats.iter().filter(side) {
            work.morsels += stats.morsels;
            work.rows += stats.rows;
            work.bytes += stats.bytes;
        }
        work
    }
}

/// How much was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Morsels.
    pub morsels: u64,
    /// Their rows, as read.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Is notified of each query that ends.
///
/// # Contract
/// It is called on the thread on which the query ended; it must return quickly and not panic.
pub trait QueryWatcher: Send + Sync {
    /// Handles a query that has ended.
    fn ended(&self, query: &LoggedQuery);
}

/// The queries that have ended, oldest first.
#[derive(Default)]
pub(crate) struct QueryLog {
    entries: Mutex<VecDeque<Arc<LoggedQuery>>>,
    watchers: RwLock<Vec<Weak<dyn QueryWatcher>>>,
}

impl fmt::Debug for QueryLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryLog").finish_non_exhaustive()
    }
}

impl QueryLog {
    pub(crate) fn watch(&self, watcher: Weak<dyn QueryWatcher>) {
        let mut watchers = self.watchers.write();
        watchers.retain(|watcher| watcher.strong_count() > 0);
        watchers.push(watcher);
    }

    pub(super) fn add(&self, mut query: LoggedQuery) {
        query.sql = query.sql.map(|sql| shortened(sql, TEXT_BYTES_MAX));
        query.error = query.error.map(|error| {
            let end = cut(&error, TEXT_BYTES_MAX);
            error[..end].to_string()
        });
        for watcher in self.watchers.read().iter().filter_map(Weak::upgrade) {
            watcher.ended(&query);
        }
        let mut entries = self.entries.lock();
        if entries.len() == ENTRIES_MAX {
            entries.pop_front();
        }
        entries.push_back(Arc::new(query));
    }

    pub(crate) fn entries(&self) -> Vec<Arc<LoggedQuery>> {
        self.entries.lock().iter().cloned().collect()
    }
}

/// Returns the end of as much of a text as fits into so many bytes, between two characters.
fn cut(text: &str, bytes_max: usize) -> usize {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    end
}

/// Returns a text, or its beginning if it has more than so many bytes.
pub(super) fn shortened(text: Arc<str>, bytes_max: usize) -> Arc<str> {
    match cut(&text, bytes_max) {
        end if end < text.len() => format!("{}…", &text[..end]).into(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(&*shortened("SELECT 1".into(), 8), "SELECT 1");
        assert_eq!(&*shortened("SELECT 'é'".into(), 9), "SELECT '…");
        assert_eq!(&*shortened("".into(), 0), "");
    }
}
