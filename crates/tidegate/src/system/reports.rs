//! Reports of sessions and of memory, as the system tables show them.

use std::any::Any;
use std::sync::Arc;
use std::time::SystemTime;

use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};

use crate::clients::{Client, Clients};
use crate::memory::StatementPool;
use crate::query::History;
use crate::runtime::Runtime;

/// A client's session.
#[derive(Clone, Debug)]
pub struct SessionReport {
    /// Counts up from 1 in a process.
    pub id: u64,
    /// The client's name.
    pub user: Arc<str>,
    /// Whether the client may see and cancel everyone's queries.
    pub is_admin: bool,
    /// When the session began.
    pub opened: SystemTime,
    /// When it last planned a query.
    pub last_query: Option<SystemTime>,
    /// Queries that it has planned.
    pub queries: u64,
    /// Those of them that are running.
    pub running: u64,
}

/// One consumer of a memory budget, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReport {
    tier: &'static str,
    /// The device whose memory it is; `None` for the host's and for files.
    pub device: Option<String>,
    /// The consumer's name.
    pub consumer: String,
    /// Bytes used now.
    pub used: u64,
    /// The limit.
    pub limit: Option<u64>,
    /// Peak bytes used.
    pub peak: Option<u64>,
}

impl MemoryReport {
    /// Returns the tier that the memory is in.
    pub fn tier(&self) -> &'static str {
        self.tier
    }
}

/// Reports the sessions that a client may see.
pub(crate) fn sessions(runtime: &Runtime, client: Option<&Client>) -> Vec<SessionReport> {
    let running = History::of(runtime).sessions_that_run();
    let clients = Clients::of(runtime).visible_to(client);
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

/// Reports the memory of the host and of each device.
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
