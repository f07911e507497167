//! What whoever operates the process wants to know: queries, sessions, memory, and what the cache does.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};

use super::Session;
use crate::clients::Client;
use crate::error::Error;
use crate::query::{History, LoggedQuery, QueryReport};
use crate::system::reports::{self, MemoryReport, SessionReport};

/// What the column cache has done since the process began, in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheActivity {
    /// Chunks that queries found in host memory.
    pub host_hits: u64,
    /// Chunks of Parquet files that queries had to read.
    pub host_misses: u64,
    /// Chunks that left host memory for others or for statements.
    pub host_evictions: u64,
    /// Chunks that queries found on devices.
    pub device_hits: u64,
    /// Chunks that queries brought to a device from pinned memory for one fold.
    pub pinned_hits: u64,
    /// Chunks that went back from pinned memory to a device to stay.
    pub pinned_promotions: u64,
    /// Chunks that left a device, or found no room there, and stayed in pinned memory.
    pub pinned_demotions: u64,
    /// Chunks that left pinned memory for others or for statements.
    pub pinned_evictions: u64,
}

/// Bytes of host memory that somebody outside statements holds; they come back when it is dropped.
#[derive(Debug)]
#[must_use = "the bytes come back at once if it is dropped"]
pub struct HeldMemory {
    _held: MemoryReservation,
}

impl Session {
    /// Takes bytes from the memory limit, for what a door keeps between statements; `consumer` says
    /// what that is, in messages and in `system.memory`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::ResourcesExhausted`] if they are not to be had.
    pub fn hold_memory(&self, consumer: &str, bytes: usize) -> Result<HeldMemory, Error> {
        let pool = &self.ctx.runtime_env().memory_pool;
        let held = MemoryConsumer::new(consumer).register(pool);
        held.try_grow(bytes)?;
        Ok(HeldMemory { _held: held })
    }

    /// Has the allocator give back to the system what statements have freed. It blocks for milliseconds, and
    /// later statements ask the system for their memory again.
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

    /// Lists the queries that have ended, as far as the session's client may see them; oldest first.
    pub fn query_log(&self) -> Vec<Arc<LoggedQuery>> {
        let history = History::of(&self.runtime);
        history.logged_for(self.client().as_deref())
    }

    /// Lists the clients' sessions, as far as the session's client may see them; oldest first.
    pub fn client_sessions(&self) -> Vec<SessionReport> {
        reports::sessions(&self.runtime, self.client().as_deref())
    }

    /// Tells a query to stop, as `KILL QUERY` does; it does so at its next batch.
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

    /// Names the devices, each with what it is.
    pub fn device_names(&self) -> Vec<(String, String)> {
        let devices = self.runtime.devices().iter().map(|device| device.info());
        devices
            .map(|info| (info.id.to_string(), info.to_string()))
            .collect()
    }

    /// Tells what the column cache has done.
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
