//! Tables that are loaded to a device automatically, and evicted again.
//!
//! A region that a device could have run reports what it has read. What was read twice lately is
//! worth loading in the background, one table at a time, as far as there is memory that no query
//! needs ([`ColumnCache::wants`]). Its value is the time that reading and moving it took, times how
//! often all of it was read lately, per byte; it displaces what is worth much less. Uses decay: 64
//! reads without one halve them.
//!
//! When a query needs memory, automatic chunks are evicted, lowest value first ([`Evict`]); what
//! remains of a table still serves. Chunks that a query is reading are dropped when it has read
//! them. Those with a copy in the pinned tier are found there afterwards. A table of `CACHE TABLE`
//! is never evicted.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tidegate_device::{DeviceId, MakeRoom};
use tidegate_kernels::StoredColumn;

use super::pinned::PinnedGroup;
use super::{CachedTable, ColumnCache, Kept};
use crate::ladder::Evict;

/// Reads, faded, from which on something is brought to a device.
const READS_MIN: f64 = 1.5;

/// Reads without one in which earlier ones fade to a half.
const HALF_LIFE_READS: f64 = 64.0;

/// How much more than what goes something must save to come in its place.
const HYSTERESIS: f64 = 1.5;

/// Things of which reads are remembered; those read longest ago go first.
const WANTS_MAX: usize = 4096;

/// Reads for which something that found no room is not tried again.
const RETRY_READS: u64 = 32;

/// What is remembered of reads.
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// Counts reads: the clock.
    reads: u64,
    wants: HashMap<u64, Want>,
    /// Something is on its way to a device.
    under_way: bool,
    /// What the tables on devices were used for, by what they hold and where.
    uses: HashMap<(u64, DeviceId), Uses>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Want {
    reads: f64,
    last: u64,
    not_before: u64,
}

/// How often all of a table was read lately.
#[derive(Clone, Copy, Debug, Default)]
struct Uses {
    times: f64,
    last: u64,
    /// Hits of its chunks that are counted in.
    hits: u64,
}

/// Leave to bring something to a device; nothing else comes until this is dropped.
#[derive(Debug)]
pub struct Promotion {
    cache: Arc<ColumnCache>,
    what: u64,
    shortages: u64,
}

impl Drop for Promotion {
    fn drop(&mut self) {
        self.cache.demand.lock().under_way = false;
    }
}

impl Promotion {
    /// Returns what is to come.
    pub fn what(&self) -> u64 {
        self.what
    }

    /// Returns whether it may go on: no query has met a shortage since it began.
    pub fn may_go_on(&self) -> bool {
        self.cache.shortages.load(Ordering::Relaxed) == self.shortages
    }

    /// Returns how often what is to come was read lately.
    pub fn uses(&self) -> f64 {
        let demand = self.cache.demand.lock();
        let want = demand.wants.get(&self.what).copied().unwrap_or_default();
        want.at(demand.reads)
    }

    /// Makes room for so many bytes in place of other automatic tables that save much less than what took
    /// `seconds` to bring `done_bytes`; returns how many came free.
    pub fn displace(&self, device: DeviceId, bytes: u64, seconds: f64, done_bytes: u64) -> u64 {
        let value = self.uses() * seconds / done_bytes.max(1) as f64;
        let but = Some(self.what);
        self.cache
            .evict_below(device, bytes, value / HYSTERESIS, but)
    }

    /// Keeps the tables, one for each device that takes part: together they hold what was wanted.
    pub fn keep(self, tables: Vec<CachedTable>) {
        let now = {
            let mut demand = self.cache.demand.lock();
            let now = demand.reads;
            let want = demand.wants.remove(&self.what).unwrap_or_default();
            for table in &tables {
                let before = self.cache.automatic(self.what, table.device);
                let uses = Uses {
                    times: want.at(now),
                    last: now,
                    hits: before.map_or(0, |before| before.hits()),
                };
                demand.uses.insert((self.what, table.device), uses);
            }
            now
        };
        for table in tables {
            self.cache.insert(table);
        }
        self.cache.refresh(now);
    }

    /// Gives it up: there is no room, or it cannot be kept.
    pub fn give_up(self) {
        let mut demand = self.cache.demand.lock();
        let not_before = demand.reads + RETRY_READS;
        if let Some(want) = demand.wants.get_mut(&self.what) {
            want.not_before = not_before;
        }
    }
}

fn faded(times: f64, since: u64) -> f64 {
    times * (-(since as f64) / HALF_LIFE_READS).exp2()
}

impl Want {
    fn at(&self, now: u64) -> f64 {
        faded(self.reads, now.saturating_sub(self.last))
    }
}

impl CachedTable {
    /// Returns whether it came by itself.
    pub(super) fn is_automatic(&self) -> bool {
        matches!(self.kept, Kept::Automatic { .. })
    }

    /// Returns whether this table has all chunks of another on the same device.
    pub(super) fn has_all_of(&self, other: &Self) -> bool {
        let mut keys = other.morsels.iter().flat_map(|morsel| &morsel.keys);
        self.device == other.device && keys.all(|key| self.get(key).is_some())
    }

    /// Makes a table of the first morsels of this one, which leaves out chunks of at least so many
    /// bytes; `None` if no morsel is left.
    fn without(&self, bytes: u64) -> Option<Self> {
        let mut gone = 0;
        let mut num_kept = self.morsels.len();
        while num_kept > 0 && gone < bytes {
            num_kept -= 1;
            let columns = self.morsels[num_kept].columns.iter();
            gone += columns.map(|column| column.device_bytes()).sum::<u64>();
        }
        if num_kept == 0 {
            return None;
        }
        let names = self.columns.iter().map(|column| column.name.clone());
        let mut less = Self::new(&self.name, self.device, names);
        less.dictionaries = self.dictionaries.clone();
        if let Kept::Automatic { what, seconds } = self.kept {
            let share = num_kept as f64 / self.morsels.len() as f64;
            less.kept = Kept::Automatic {
                what,
                seconds: seconds * share,
            };
        }
        less.some_of = self.reads();
        for morsel in &self.morsels[..num_kept] {
            let chunk = |key| {
                self.get(key)
                    .map(|(_, chunk)| (Clone::clone(key), chunk.clone()))
            };
            less.insert_morsel(morsel.keys.iter().filter_map(chunk).collect());
        }
        less.count_on(self);
        Some(less)
    }

    fn num_chunks(&self) -> u64 {
        (self.morsels.len() * self.columns.len()) as u64
    }

    /// Returns the address of an array of the memory table that it has rows of, how many hold that
    /// array, and whether this table is one of them.
    fn held_array(&self) -> Option<(usize, usize, bool)> {
        let array = self.reads()?;
        let holds = self.scan_or_share().is_some();
        Some((
            array.as_ptr().cast::<()>().addr(),
            array.strong_count(),
            holds,
        ))
    }
}

impl ColumnCache {
    /// Counts a read of what a number names, by a region that a device could run; returns leave to
    /// bring it to a device, if it was read often and nothing else is on its way.
    pub fn wants(self: &Arc<Self>, what: u64) -> Option<Promotion> {
        self.pinned.begin_read();
        let mut demand = self.demand.lock();
        demand.reads += 1;
        let now = demand.reads;
        if demand.wants.len() >= WANTS_MAX && !demand.wants.contains_key(&what) {
            let oldest = demand.wants.iter().min_by_key(|(_, want)| want.last);
            if let Some(oldest) = oldest.map(|(what, _)| *what) {
                demand.wants.remove(&oldest);
            }
        }
        let want = demand.wants.entry(what).or_default();
        want.reads = want.at(now) + 1.0;
        want.last = now;
        if want.reads < READS_MIN || want.not_before > now || demand.under_way {
            return None;
        }
        demand.under_way = true;
        Some(Promotion {
            cache: Arc::clone(self),
            what,
            shortages: self.shortages.load(Ordering::Relaxed),
        })
    }

    /// Counts a read that a device answered from what it holds, and lets go of tables whose rows
    /// nobody has but they.
    pub fn note_read(&self) {
        let now = {
            let mut demand = self.demand.lock();
            demand.reads += 1;
            demand.reads
        };
        self.refresh(now);
        self.drop_orphans();
        self.pinned.begin_read();
    }

    /// Lets go of what is kept of memory tables whose rows nobody else has.
    pub fn let_go_of_orphans(&self) {
        self.drop_orphans();
        self.pinned.drop_orphans();
    }

    /// Returns whether a table of `CACHE TABLE` is on a device.
    pub fn keeps_on(&self, device: DeviceId) -> bool {
        let tables = self.tables.read();
        let mut here = tables.values().filter(|table| table.device == device);
        here.any(|table| !table.is_automatic())
    }

    /// Counts in what tables were used for since the last time.
    fn refresh(&self, now: u64) {
        let tables = self.tables.read();
        let mut demand = self.demand.lock();
        let mut known = HashMap::with_capacity(demand.uses.len());
        for table in tables.values() {
            let Kept::Automatic { what, .. } = table.kept else {
                continue;
            };
            let known_as = (what, table.device);
            let mut uses = demand.uses.get(&known_as).copied().unwrap_or_default();
            let (hits, chunks) = (table.hits(), table.num_chunks().max(1));
            let more = hits.saturating_sub(uses.hits) as f64 / chunks as f64;
            if more > 0.0 {
                uses.times = faded(uses.times, now.saturating_sub(uses.last)) + more;
                uses.last = now;
                uses.hits = hits;
            }
            known.insert(known_as, uses);
        }
        demand.uses = known;
    }

    /// Lets go of automatic tables over memory tables that nobody else holds.
    fn drop_orphans(&self) {
        let mut tables = self.tables.write();
        let mut holders: HashMap<usize, usize> = HashMap::new();
        for table in tables.values() {
            if let Some((address, _, true)) = table.held_array() {
                *holders.entry(address).or_default() += 1;
            }
        }
        let is_orphan = |table: &CachedTable| {
            table.is_automatic()
                && table.held_array().is_some_and(|(address, held, _)| {
                    held <= holders.get(&address).copied().unwrap_or(0)
                })
        };
        let before = tables.len();
        let mut gone = Vec::new();
        tables.retain(|_, table| {
            let stays = !is_orphan(table);
            if !stays {
                gone.push(Arc::clone(table));
            }
            stays
        });
        if tables.len() < before {
            self.version.fetch_add(1, Ordering::Release);
        }
        // What they hold is given back without the lock.
        drop(tables);
        gone.iter().for_each(|table| self.retire(Some(table)));
    }

    /// Returns how often all of an automatic table was read lately.
    pub fn uses_of(&self, what: u64, device: DeviceId) -> f64 {
        let demand = self.demand.lock();
        let uses = demand.uses.get(&(what, device)).copied();
        let uses = uses.unwrap_or_default();
        faded(uses.times, demand.reads.saturating_sub(uses.last))
    }

    /// Evicts chunks of automatic tables `but` one that save less than `below` for each byte, the least
    /// first, until so many bytes came free; returns how many did.
    fn evict_below(&self, device: DeviceId, bytes: u64, below: f64, but: Option<u64>) -> u64 {
        let now = self.demand.lock().reads;
        self.refresh(now);
        let mut candidates: Vec<(f64, f64, Arc<CachedTable>)> = Vec::new();
        for table in self.on_device(device) {
            let Kept::Automatic { what, seconds } = table.kept else {
                continue;
            };
            if but == Some(what) {
                continue;
            }
            let times = self.uses_of(what, device);
            let value = times * seconds / table.device_bytes().max(1) as f64;
            if value < below {
                candidates.push((value, times, table));
            }
        }
        candidates.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut freed = 0;
        for (_, times, table) in candidates {
            if freed >= bytes {
                break;
            }
            freed += self.shrink(table, bytes - freed, times);
        }
        freed
    }

    /// Takes chunks of so many bytes out of a table that was used so often; returns how many came free
    /// at once. What goes has a better claim to the host tier from now on.
    fn shrink(&self, table: Arc<CachedTable>, bytes: u64, times: f64) -> u64 {
        let less = table.without(bytes);
        let num_left = less.as_ref().map_or(0, |less| less.morsels.len());
        for morsel in &table.morsels[num_left..] {
            self.host.credit(&morsel.keys, times);
        }
        if let Kept::Automatic { what, .. } = table.kept {
            let device = table.device;
            let gone = table.morsels[num_left..].iter();
            let keys = gone.flat_map(|morsel| &morsel.keys);
            self.pinned
                .have_left(PinnedGroup { what, device }, keys, times);
        }
        let stored = table.morsels.iter().flat_map(|morsel| &morsel.columns);
        let stored: Vec<(u64, Weak<StoredColumn>)> = stored
            .map(|stored| (stored.device_bytes(), Arc::downgrade(stored)))
            .collect();
        {
            let mut tables = self.tables.write();
            let key = table.key();
            if !tables
                .get(&key)
                .is_some_and(|known| Arc::ptr_eq(known, &table))
            {
                return 0;
            }
            match less {
                Some(less) => tables.insert(key, Arc::new(less)),
                None => {
                    self.retire(Some(&table));
                    tables.remove(&key)
                }
            };
            self.version.fetch_add(1, Ordering::Release);
        }
        drop(table);
        let gone = stored.iter().filter(|(_, chunk)| chunk.strong_count() == 0);
        gone.map(|(bytes, _)| bytes).sum()
    }
}

impl Evict for ColumnCache {
    fn evict(&self, device: DeviceId, bytes: u64) -> u64 {
        let freed = self.evict_below(device, bytes, f64::INFINITY, None);
        if freed < bytes {
            self.shortages.fetch_add(1, Ordering::Relaxed);
        }
        freed
    }
}

impl MakeRoom for ColumnCache {
    fn make_room(&self, device: DeviceId, bytes: u64) -> u64 {
        self.evict(device, bytes)
    }
}

#[cfg(test)]
mod tests;
