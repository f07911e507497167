//! Host memory: how much statements may hold, and who is told no.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};
use sysinfo::System;

/// Share of the machine's or cgroup's memory that statements may hold by default.
const DEFAULT_SHARE: f64 = 0.7;

/// Consumers named in an error.
const TOP_CONSUMERS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(2);

/// A memory limit and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostLimit {
    pub(crate) bytes: u64,
    pub(crate) origin: String,
}

impl HostLimit {
    /// Takes 70 % of what the cgroup allows, or of what the machine has.
    pub(crate) fn of_machine() -> Self {
        let mut system = System::new();
        system.refresh_memory();
        let machine = system.total_memory();
        let cgroup = system.cgroup_limits().map(|limits| limits.total_memory);
        let (total, whose) = match cgroup {
            Some(bytes) if bytes > 0 && bytes < machine => (bytes, "the cgroup's limit"),
            _ => (machine, "the machine's memory"),
        };
        let bytes = (total as f64 * DEFAULT_SHARE) as u64;
        Self {
            bytes,
            origin: format!("70 % of {whose}, {total} bytes"),
        }
    }
}

/// The host memory pool of a session: fair among whoever can spill, and one that says what to do.
///
/// A `RepartitionExec` is never refused. In DataFusion 55.2 it can deadlock once two of its inputs
/// have spilled (<https://github.com/apache/datafusion/issues/24883>); what it holds is charged, so
/// that others spill in its stead. Remove this with the DataFusion release that has #24891.
#[derive(Debug)]
pub(crate) struct StatementPool {
    inner: TrackConsumersPool<FairSpillPool>,
    limit: usize,
}

impl StatementPool {
    pub(crate) fn new(limit_bytes: u64) -> Arc<Self> {
        let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let inner = TrackConsumersPool::new(FairSpillPool::new(limit), TOP_CONSUMERS);
        Arc::new(Self { inner, limit })
    }
}

impl fmt::Display for StatementPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "statement pool of {} bytes", self.limit)
    }
}

impl MemoryPool for StatementPool {
    fn name(&self) -> &str {
        "tidegate"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer().name();
        if consumer.starts_with("RepartitionExec[") && !consumer.contains("Merge") {
            self.inner.grow(reservation, additional);
            return Ok(());
        }
        self.inner
            .try_grow(reservation, additional)
            .map_err(|error| match error {
                DataFusionError::ResourcesExhausted(message) => {
                    DataFusionError::ResourcesExhausted(format!(
                        "{message}; raise tidegate.memory_limit (now {} MB), or lower \
                     datafusion.execution.target_partitions so that fewer operators share it",
                        self.limit >> 20
                    ))
                }
                other => other,
            })
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

/// Says how much room a spill folder's file system has, if that can be found out.
pub(crate) fn describe_folder(folder: &Path) -> String {
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() => format!("{}", folder.display()),
        Ok(_) => format!("{} (not a folder)", folder.display()),
        Err(error) => format!("{} ({error})", folder.display()),
    }
}

#[cfg(test)]
mod tests;
