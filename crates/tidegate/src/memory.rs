//! Host memory: how much statements may hold, and who is told no.

mod real;
mod refusals;
mod room;
mod spill;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation, TrackConsumersPool,
};
use sysinfo::System;
use tidegate_scheduler::ColumnCache;
use tidegate_scheduler::cache::host::HostMemory;

use real::{RealMemory, far_too_much, much_too_much, real_limit};
use refusals::Refusals;

pub(crate) use room::describe_folder;
pub(crate) use spill::{SpillFailure, SpillSpace};

/// Share of the machine's or cgroup's memory that statements may hold by default.
const DEFAULT_SHARE: f64 = 0.7;

/// Share of that limit that cached columns may take by default.
const CACHE_SHARE: f64 = 0.3;

/// Share of that limit that copies of devices' columns may take by default.
const PINNED_SHARE: f64 = 0.2;

/// The part of the limit that a consumer must hold to have to spill because of what the process really
/// takes.
const LITTLE_SHARE: usize = 32;

/// The part of the limit that a consumer that cannot spill must hold to be refused before others.
const MUCH_SHARE: usize = 8;

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

/// Returns the bytes that cached columns may take by default.
pub(crate) fn default_cache_limit(memory_limit: u64) -> u64 {
    (memory_limit as f64 * CACHE_SHARE) as u64
}

/// Returns the bytes that copies of columns of devices may take by default.
pub(crate) fn default_pinned_limit(memory_limit: u64) -> u64 {
    (memory_limit as f64 * PINNED_SHARE) as u64
}

/// The host memory pool of a session: fair among whoever can spill, and one that says what to do.
///
/// Cached columns have what statements leave: before a statement gets bytes, as many go from the
/// host and the pinned tier as all have together over the limit. Only tables of `CACHE TABLE` stay.
///
/// A `RepartitionExec` is never refused. In DataFusion 55.2 it can deadlock once two of its inputs
/// have spilled (<https://github.com/apache/datafusion/issues/24883>); what it holds is charged, so
/// that others spill in its stead. Remove this with the DataFusion release that has #24891.
#[derive(Debug)]
pub(crate) struct StatementPool {
    inner: TrackConsumersPool<FairSpillPool>,
    limit: usize,
    cache: Arc<ColumnCache>,
    real: RealMemory,
    /// Merges of sorted rows that are under way or yet to come.
    merges: AtomicUsize,
}

/// What one operator of the statements that run holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Consumer {
    pub(crate) name: String,
    pub(crate) used: u64,
    pub(crate) peak: u64,
}

impl StatementPool {
    /// Makes a pool of which the column cache's host tier has what is left.
    pub(crate) fn new(limit_bytes: u64, cache: &Arc<ColumnCache>) -> Arc<Self> {
        Self::looking(limit_bytes, cache, RealMemory::of_process(limit_bytes))
    }

    fn looking(limit_bytes: u64, cache: &Arc<ColumnCache>, real: RealMemory) -> Arc<Self> {
        let limit = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let inner = TrackConsumersPool::new(FairSpillPool::new(limit), TOP_CONSUMERS);
        let pool = Arc::new(Self {
            inner,
            limit,
            cache: Arc::clone(cache),
            real,
            merges: AtomicUsize::new(0),
        });
        // What is there now is no statement's.
        pool.real.is_idle(cache.host_bytes());
        let memory: Arc<dyn HostMemory> = Arc::clone(&pool) as _;
        cache.watch(&Arc::downgrade(&memory));
        pool
    }

    /// Lists who holds memory, sorted by name; partitions of one operator are one.
    pub(crate) fn consumers(&self) -> Vec<Consumer> {
        let mut consumers: BTreeMap<String, Consumer> = BTreeMap::new();
        for held in self.inner.metrics() {
            let consumer = consumers.entry(held.name.clone()).or_insert(Consumer {
                name: held.name,
                used: 0,
                peak: 0,
            });
            consumer.used += held.reserved as u64;
            consumer.peak += held.peak as u64;
        }
        consumers.into_values().collect()
    }

    /// Takes from the cache what statements lack for so many more bytes; returns what is lacking
    /// still, because tables of `CACHE TABLE` hold it.
    fn take_from_cache(&self, additional: usize) -> u64 {
        let cached = self.cache.host_bytes();
        if cached == 0 {
            return 0;
        }
        let wanted = (self.inner.reserved() as u64).saturating_add(additional as u64);
        let over = wanted
            .saturating_add(cached)
            .saturating_sub(self.limit as u64);
        // What queries are reading comes back when they have read it.
        if over == 0 || self.cache.give_back(over) >= over {
            return 0;
        }
        wanted
            .saturating_add(self.cache.host().table_bytes())
            .saturating_sub(self.limit as u64)
    }

    /// Refuses more if the process really takes too much, whatever was counted. Before that cached
    /// columns go, and what the allocator keeps.
    ///
    /// Whoever can spill and holds something is refused first, and spills; folds, which leave their states to
    /// operators that do; and joins, which are planned again with joins that spill: nothing fails, also where
    /// the memory is not this pool's. Others are refused later, those that hold little last.
    fn check_process(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
        copied: usize,
    ) -> Result<()> {
        let consumer = reservation.consumer();
        let foreseen = match consumer.name() {
            // A table of groups is counted when it has grown, and grows to twice its size.
            name if name.contains("HashAggregateStream") => reservation.size() / 2,
            // While states leave, those who take them hold them as well.
            name if leaves_states(name) => reservation.size(),
            _ => copied,
        };
        let wanted = additional.saturating_add(foreseen);
        let over = self.over(wanted, real_limit);
        if over == 0 || self.cache.give_back(over) >= over {
            return Ok(());
        }
        let name = consumer.name();
        let gives_way = consumer.can_spill() || gathers_rows(name) || leaves_states(name);
        let too_much = match gives_way {
            true => real_limit,
            false if reservation.size() >= self.limit / MUCH_SHARE => much_too_much,
            false => far_too_much,
        };
        let may_be_refused = match gives_way {
            true => reservation.size() >= self.limit / LITTLE_SHARE,
            // Who holds nothing yet is not the one who takes too much.
            false => self.over(wanted, too_much) > 0 && self.inner.reserved() > 0,
        };
        if !may_be_refused || (self.real.trim(!gives_way) && self.over(wanted, too_much) == 0) {
            return Ok(());
        }
        let counted = self.inner.reserved() as u64;
        let Some(real) = self.real.now(counted, self.cache.host_bytes()) else {
            return Ok(());
        };
        let mut top = self.consumers();
        top.sort_by_key(|consumer| Reverse(consumer.used));
        let top: Vec<String> = top
            .iter()
            .take(TOP_CONSUMERS.get())
            .map(|consumer| format!("{} {} bytes", consumer.name, consumer.used))
            .collect();
        Err(DataFusionError::ResourcesExhausted(format!(
            "{} wants {additional} bytes more, and the process takes {} bytes: statements count \
             {counted} of tidegate.memory_limit ({} MB), and use {} in fact; most is held by {}; let \
             fewer statements run at once (tidegate.max_running_queries), or raise the limit",
            consumer.name(),
            real.resident,
            self.limit >> 20,
            real.statements,
            top.join(", ")
        )))
    }

    /// Returns by how many bytes statements and cached columns would really take more than a limit with
    /// so many bytes more.
    fn over(&self, additional: usize, limit: fn(u64, u64) -> u64) -> u64 {
        let cached = self.cache.host_bytes();
        let Some(real) = self.real.now(self.inner.reserved() as u64, cached) else {
            return 0;
        };
        let wanted = real
            .statements
            .saturating_add(cached)
            .saturating_add(additional as u64);
        wanted.saturating_sub(limit(self.limit as u64, real.idle))
    }

    /// Refuses a merge of spilled rows more than its part of half of the limit. It merges as many files at
    /// once as it gets memory for, does with two, and would leave nothing to the operators around it.
    ///
    /// A merge of rows that are not spilled holds up to a batch of each run, which may be all that its sort
    /// holds, and fails if it is refused. So unless little is taken, a sort spills before it holds more than its
    /// merge may.
    fn check_merge(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let held = reservation.size();
        let name = reservation.consumer().name();
        let merges = self.merges.load(Ordering::Relaxed).max(1);
        let part = (self.limit / 2 / merges).max(self.limit / LITTLE_SHARE);
        let part = match () {
            () if held == 0 => return Ok(()),
            () if is_merge(name) => part,
            () if is_sort(name) && self.inner.reserved() > self.limit / MUCH_SHARE => part,
            () => return Ok(()),
        };
        if held.saturating_add(additional) <= part {
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted(format!(
            "{name} wants {additional} bytes more and holds {held}; {merges} merges share half of \
             tidegate.memory_limit ({} MB); raise it, or lower datafusion.execution.target_partitions",
            self.limit >> 20,
        )))
    }

    /// Refuses what would fit now, but not together with the copy that its consumer makes of it.
    fn check_copy(
        &self,
        reservation: &MemoryReservation,
        additional: usize,
        copied: usize,
    ) -> Result<()> {
        let reserved = self.inner.reserved();
        let wanted = reserved.saturating_add(additional).saturating_add(copied);
        if copied == 0 || wanted <= self.limit {
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted(format!(
            "{} wants {additional} bytes more and copies what it holds, {copied} bytes, once it has all of \
             them; of tidegate.memory_limit ({} MB) {reserved} bytes are taken; raise the limit",
            reservation.consumer().name(),
            self.limit >> 20,
        )))
    }

    fn held_by_tables(&self, consumer: &str, additional: usize) -> DataFusionError {
        DataFusionError::ResourcesExhausted(format!(
            "{consumer} wants {additional} bytes more, and of tidegate.memory_limit ({} MB) tables of \
             CACHE TABLE ON HOST hold {} bytes; UNCACHE one (SELECT * FROM system.cache lists \
             them), or raise the limit",
            self.limit >> 20,
            self.cache.host().table_bytes()
        ))
    }
}

impl HostMemory for StatementPool {
    fn left_by_statements(&self) -> u64 {
        self.limit.saturating_sub(self.inner.reserved()) as u64
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
        // Operators register before they begin.
        if self.inner.reserved() == 0 {
            self.real.is_idle(self.cache.host_bytes());
        }
        if is_merge(consumer.name()) {
            self.merges.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        if is_merge(consumer.name()) {
            self.merges.fetch_sub(1, Ordering::Relaxed);
        }
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.take_from_cache(additional);
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer().name();
        let lacking = self.take_from_cache(additional);
        if is_never_refused(consumer) {
            self.inner.grow(reservation, additional);
            return Ok(());
        }
        let copied = copied_at_the_end(reservation, additional);
        self.check_copy(reservation, additional, copied)?;
        self.check_merge(reservation, additional)?;
        self.check_process(reservation, additional, copied)?;
        // What would not fit without those tables either is refused as ever.
        if lacking > 0 && wants_no_more_than(self.limit, self.inner.reserved(), additional) {
            return Err(self.held_by_tables(consumer, additional));
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

/// What one statement takes of its session's pool: counted, and bounded if it has a limit of its own.
#[derive(Debug)]
pub(crate) struct QueryPool {
    inner: Arc<dyn MemoryPool>,
    limit: Option<usize>,
    used: AtomicUsize,
    peak: AtomicUsize,
    refusals: Refusals,
}

impl QueryPool {
    /// Makes the pool of a statement that may hold so many bytes.
    pub(crate) fn new(inner: &Arc<dyn MemoryPool>, limit: Option<u64>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            limit: limit.map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX)),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            refusals: Refusals::default(),
        })
    }

    /// Returns the most bytes that were held at once.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed) as u64
    }

    /// Returns the bytes that are held.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn took(&self, bytes: usize) {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(used, Ordering::Relaxed);
    }

    fn check(&self, consumer: &str, additional: usize) -> Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        let used = self.used.load(Ordering::Relaxed);
        if used.saturating_add(additional) <= limit {
            return Ok(());
        }
        Err(DataFusionError::ResourcesExhausted(format!(
            "{consumer} wants {additional} bytes more, and its statement holds {used} of \
             tidegate.query_memory_limit ({limit} bytes); raise it, or lower \
             datafusion.execution.target_partitions so that fewer operators share it"
        )))
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a statement's part of {}", self.inner)
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "tidegate_query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.refusals.forget(consumer);
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
        self.took(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
        self.used.fetch_sub(shrink, Ordering::Relaxed);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let consumer = reservation.consumer();
        if is_never_refused(consumer.name()) || self.refusals.is_rest(consumer, additional) {
            self.grow(reservation, additional);
            return Ok(());
        }
        let checked = self.check(consumer.name(), additional);
        let given = checked.and_then(|()| self.inner.try_grow(reservation, additional));
        match given {
            Ok(()) => self.took(additional),
            Err(_) => self.refusals.note(consumer, additional),
        }
        given
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

/// Returns whether a consumer gets whatever it asks for; see [`StatementPool`].
fn is_never_refused(consumer: &str) -> bool {
    consumer.starts_with("RepartitionExec[") && !consumer.contains("Merge")
}

/// Returns how many bytes a consumer that wants so many more will copy once it has all of its rows.
///
/// DataFusion's joins concatenate the batches of one side, and aggregates without groups build their value from
/// their state (`array_agg` concatenates its arrays). They count what they hold once; while it is copied, it is
/// there twice.
fn copied_at_the_end(reservation: &MemoryReservation, additional: usize) -> usize {
    let name = reservation.consumer().name();
    match gathers_rows(name) || name.starts_with("AggregateStream[") {
        true => reservation.size().saturating_add(additional),
        false => 0,
    }
}

/// Returns whether a consumer is a side of a join, which is planned again with joins that spill.
fn gathers_rows(consumer: &str) -> bool {
    consumer.starts_with("HashJoinInput") || consumer == "CrossJoinExec"
}

/// Returns whether a consumer leaves what it holds to operators that spill once it is refused more.
fn leaves_states(consumer: &str) -> bool {
    consumer.starts_with("HostFoldExec[")
}

/// Returns whether a consumer sorts rows, and spills them once it is refused more.
fn is_sort(consumer: &str) -> bool {
    consumer.starts_with("ExternalSorter[")
}

/// Returns whether a consumer merges sorted rows.
fn is_merge(consumer: &str) -> bool {
    consumer.starts_with("ExternalSorterMerge")
}

fn wants_no_more_than(limit: usize, reserved: usize, additional: usize) -> bool {
    reserved.saturating_add(additional) <= limit
}

#[cfg(test)]
mod tests;
