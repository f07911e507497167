//! What whoever operates the process wants to know: queries, sessions, memory, and what the cache does.

use std::any::Any;
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};

use super::{Client, Session};
use crate::error::Error;
use crate::memory::StatementPool;
use crate::query::{LoggedQuery, QueryReport};
use crate::runtime::Runtime;

/// A client's session.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Counts up from 1 in a process.
    pub id: u64,
    /// The client's name.
    pub user: Arc<str>,
    /// Whether the client may see and stop everyone's queries.
    pub is_admin: bool,
    /// When the session began.
    pub opened: SystemTime,
    /// When it last planned a query.
    pub last_query: Option<SystemTime>,
    /// Queries that it has planned.
    pub queries: u64,
    /// Those of them that run.
    pub running: u64,
}

/// What somebody takes of a memory budget, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    tier: &'static str,
    /// The device whose memory it is; `None` for the host's and for files.
    pub device: Option<String>,
    /// Who takes it.
    pub consumer: String,
    /// What is taken now.
    pub used: u64,
    /// What may be taken.
    pub limit: Option<u64>,
    /// The most that was taken at once.
    pub peak: Option<u64>,
}

impl MemoryReport {
    /// Returns the tier that the memory is in.
    pub fn tier(&self) -> &'static str {
        self.tier
    }
}

/// What the column cache has done since the process began, in chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheActivity {
    /// Chunks that queries found in host memory.
    pub host_hits: u64,
    /// Chunks that queries found on disk.
    pub disk_hits: u64,
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
        let history = self.runtime.history();
        history.last_reports_for(self.client().as_deref(), ended_max)
    }

    /// Lists the queries that have ended, as far as the session's client may see them; oldest first.
    pub fn query_log(&self) -> Vec<Arc<LoggedQuery>> {
        let history = self.runtime.history();
        history.logged_for(self.client().as_deref())
    }

    /// Lists the clients' sessions, as far as the session's client may see them; oldest first.
    pub fn client_sessions(&self) -> Vec<SessionReport> {
        sessions(&self.runtime, self.client().as_deref())
    }

    /// Tells a query to stop, as `KILL QUERY` does; it does so at its next batch.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Sql`] if it does not run, or the session's client may not stop it.
    pub fn kill(&self, query_id: u64) -> Result<(), Error> {
        let history = self.runtime.history();
        history.kill(query_id, self.client().as_deref())
    }

    /// Reports the memory of the host and of each device.
    pub fn memory(&self) -> Vec<MemoryReport> {
        memory(&self.runtime, &self.ctx.runtime_env().memory_pool)
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
            disk_hits: host.disk_hits,
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

pub(crate) fn sessions(runtime: &Runtime, client: Option<&Client>) -> Vec<SessionReport> {
    let running = runtime.history().sessions_that_run();
    let clients = runtime.clients().visible_to(client);
    let report = |client: &Arc<Client>| {
        let asking = client.asking();
        let is_own = |session: &&u64| **session == client.id;
        SessionReport {
            id: client.id,
            user: Arc::clone(&client.user),
            is_admin: client.is_admin,
            opened: client.opened,
            last_query: asking.last,
            queries: asking.statements,
            running: running.iter().filter(is_own).count() as u64,
        }
    };
    clients.iter().map(report).collect()
}

pub(crate) fn memory(runtime: &Runtime, pool: &Arc<dyn MemoryPool>) -> Vec<MemoryReport> {
    let mut reports = host_memory(runtime, pool);
    for device in runtime.devices() {
        let (id, budget) = (device.info().id, device.budget());
        let report = |consumer: &str, used, limit, peak| MemoryReport {
            tier: "device",
            device: Some(id.to_string()),
            consumer: consumer.into(),
            used,
            limit,
            peak,
        };
        let limit = Some(budget.limit());
        reports.push(report("all", budget.used(), limit, Some(budget.peak())));
        let tables = runtime.cache().on_device(id);
        let cached = tables.iter().map(|table| table.device_bytes()).sum();
        reports.push(report("column cache", cached, None, None));
    }
    reports
}

fn host_memory(runtime: &Runtime, pool: &Arc<dyn MemoryPool>) -> Vec<MemoryReport> {
    let limit = match pool.memory_limit() {
        MemoryLimit::Finite(bytes) => Some(bytes as u64),
        _ => None,
    };
    let report = |consumer: &str, used, limit, peak| MemoryReport {
        tier: "host",
        device: None,
        consumer: consumer.into(),
        used,
        limit,
        peak,
    };
    let (tier, pinned) = (runtime.cache().host(), runtime.cache().pinned());
    let mut reports = vec![
        report("statements", pool.reserved() as u64, limit, None),
        report("column cache", tier.used(), Some(tier.limit()), None),
    ];
    if !runtime.devices().is_empty() {
        reports.push(MemoryReport {
            tier: "pinned",
            ..report("column cache", pinned.used(), Some(pinned.limit()), None)
        });
    }
    if tier.disk_limit() > 0 {
        reports.push(MemoryReport {
            tier: "disk",
            ..report(
                "column cache",
                tier.disk_used(),
                Some(tier.disk_limit()),
                None,
            )
        });
    }
    let pool: &dyn Any = pool.as_ref();
    let consumers = pool
        .downcast_ref::<StatementPool>()
        .map(StatementPool::consumers);
    for held in consumers.into_iter().flatten() {
        let consumer = format!("statements: {}", held.name);
        reports.push(report(&consumer, held.used, None, Some(held.peak)));
    }
    reports
}
