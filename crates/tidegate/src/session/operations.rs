//! What whoever operates the process wants to know: queries, sessions, memory, and what the cache does.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use super::Session;
use crate::clients::Client;
use crate::error::{Error, ErrorKind};
use crate::query::{History, LaneWork, LoggedQuery, QueryProfile, QueryProgress, QueryReport};
use crate::spread::{ClusterActivity, ExecutorReport, TaskReport, planner_of};
use crate::system::reports::{self, MemoryReport, SessionReport};

/// Activity of the column cache since the process began, in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheActivity {
    /// Chunks that queries found in host memory.
    pub host_hits: u64,
    /// Chunks of Parquet files that queries had to read.
    pub host_misses: u64,
    /// Chunks evicted from host memory, for others or for statements.
    pub host_evictions: u64,
    /// Chunks that queries found on devices.
    pub device_hits: u64,
    /// Chunks that queries uploaded from pinned memory for one fold.
    pub pinned_hits: u64,
    /// Chunks promoted from pinned memory to a device.
    pub pinned_promotions: u64,
    /// Chunks that were evicted from a device or did not fit it, and stayed in pinned memory.
    pub pinned_demotions: u64,
    /// Chunks evicted from pinned memory, for others or for statements.
    pub pinned_evictions: u64,
}

/// Host memory that is held outside statements; it is released on drop.
#[derive(Debug)]
#[must_use = "the bytes come back at once if it is dropped"]
pub struct HeldMemory {
    _held: MemoryReservation,
}

impl Session {
    /// Reserves bytes of the memory limit for data that is kept between statements; `consumer`
    /// names it in messages and in `system.memory`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::ResourcesExhausted`] if they are not to be had.
    pub fn hold_memory(&self, consumer: &str, bytes: usize) -> Result<HeldMemory, Error> {
        let pool = &self.ctx.runtime_env().memory_pool;
        let held = MemoryConsumer::new(consumer).register(pool);
        held.try_grow(bytes)?;
        Ok(HeldMemory { _held: held })
    }

    /// Asks the allocator to return freed memory to the system. It blocks for milliseconds, and
    /// later statements must ask the system for memory again.
    pub fn release_memory(&self) {
        tidegate_device::trim_heap();
    }

    fn client(&self) -> Option<Arc<Client>> {
        Client::of(&self.ctx.copied_config())
    }

    /// Reports the queries that have not ended, and so many that ended last, as far as the session's
    /// client may see them; oldest first.
    pub fn visible_reports(&self, ended_max: usize) -> Vec<QueryReport> {
        let history = History::of(&self.runtime);
        history.last_reports_for(self.client().as_deref(), ended_max)
    }

    /// Keeps of each query that begins from now on, in this process, which operators worked when: as often
    /// as [`Session::work`] is called, and at its end.
    pub fn watch_work(&self) {
        History::of(&self.runtime).watch();
    }

    /// Returns what all queries of the process have done since this was called last, by lane; nothing before
    /// [`Session::watch_work`].
    pub fn work(&self) -> Vec<LaneWork> {
        History::of(&self.runtime).step().take()
    }

    /// Tells how a query runs or ran, as far as the session's client may see it; `None` if it is not
    /// remembered.
    pub fn profile(&self, query_id: u64) -> Option<(QueryReport, QueryProfile)> {
        let history = History::of(&self.runtime);
        history.profile(query_id, self.client().as_deref())
    }

    /// Tells how far a query has come; `None` if it does not run.
    pub fn query_progress(&self, query_id: u64) -> Option<QueryProgress> {
        History::of(&self.runtime).progress_of_id(query_id)
    }

    /// Lists the queries that have ended, as far as the session's client may see them; oldest first.
    pub fn query_log(&self) -> Vec<Arc<LoggedQuery>> {
        let history = History::of(&self.runtime);
        history.logged_for(self.client().as_deref())
    }

    /// Reports the executors that the session's statements may run over, and what the cluster has done so
    /// far; `None` for a session without a cluster.
    pub fn cluster(&self) -> Option<(Vec<ExecutorReport>, ClusterActivity)> {
        let planner = planner_of(&self.ctx.copied_config())?;
        Some((planner.executors(), planner.activity()))
    }

    /// Reports the tasks of statements that ran over executors lately, oldest first; [`LoggedQuery::statement`] is a
    /// query's statement.
    pub fn cluster_tasks(&self) -> Vec<TaskReport> {
        let planner = planner_of(&self.ctx.copied_config());
        planner.map_or_else(Vec::new, |planner| planner.tasks())
    }

    /// Tells an executor of the cluster to finish its tasks, take no others, and end.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Denied`] if the session's client is no administrator,
    /// [`crate::ErrorKind::NotFound`] if there is no executor of this name.
    pub fn drain(&self, executor: &str) -> Result<(), Error> {
        if self.client().is_some_and(|client| !client.is_admin) {
            let message = "only an administrator may drain an executor";
            return Err(Error::new(ErrorKind::Denied, message));
        }
        let planner = planner_of(&self.ctx.copied_config());
        match planner.is_some_and(|planner| planner.drain(executor)) {
            true => Ok(()),
            false => {
                let message =
                    format!("there is no executor {executor}: system.executors lists them");
                Err(Error::new(ErrorKind::NotFound, message))
            }
        }
    }

    /// Lists the clients' sessions, as far as the session's client may see them; oldest first.
    pub fn client_sessions(&self) -> Vec<SessionReport> {
        reports::sessions(&self.runtime, self.client().as_deref())
    }

    /// Cancels a query, as `KILL QUERY` does; it stops at its next batch.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] if it does not run, or the session's client may not stop it.
    pub fn kill(&self, query_id: u64) -> Result<(), Error> {
        let history = History::of(&self.runtime);
        history.kill(query_id, self.client().as_deref())
    }

    /// Reports the memory of the host and of each device.
    pub fn memory(&self) -> Vec<MemoryReport> {
        reports::memory(&self.runtime, &self.ctx.runtime_env().memory_pool)
    }

    /// Lists the devices with their descriptions.
    pub fn device_names(&self) -> Vec<(String, String)> {
        let devices = self.runtime.devices().iter().map(|device| device.info());
        devices
            .map(|info| (info.id.to_string(), info.to_string()))
            .collect()
    }

    /// Returns the activity of the column cache.
    pub fn cache_activity(&self) -> CacheActivity {
        let cache = self.runtime.cache();
        let (host, pinned) = (cache.host().activity(), cache.pinned().activity());
        CacheActivity {
            host_hits: host.hits,
            host_misses: host.misses,
            host_evictions: host.evictions,
            device_hits: cache.device_hits(),
            pinned_hits: pinned.hits,
            pinned_promotions: pinned.promotions,
            pinned_demotions: pinned.demotions,
            pinned_evictions: pinned.evictions,
        }
    }
}
