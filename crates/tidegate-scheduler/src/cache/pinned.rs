//! The pinned tier: column chunks in page-locked host memory, in the encoding of devices.
//!
//! A chunk is copied in the background, while it is still on its device or on its way past one that
//! has no room for it. Evicting it from the device therefore only drops it: nobody waits for a
//! copy, and a copied chunk returns without being read or encoded again. A feeder uploads such a
//! chunk for one fold; it returns to stay if it was read often enough and there is room.
//!
//! Chunks that were copied from one table share its dictionaries; they form a [`PinnedGroup`] and
//! are found by what they were read from. A chunk's value is the time that reading and encoding it
//! took, times how often it was read lately, per byte; one that is also on a device would save that
//! only once it is evicted there, and counts a quarter. A new chunk must save much more than what
//! it displaces. The memory is the host's: statements get it first.

mod group;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef};
use parking_lot::Mutex;
use tidegate_device::DeviceId;
use tidegate_kernels::{ColumnDictionary, PinnedColumn, StoredColumn};

use super::host::account::Account;
use super::{CachedChunk, CachedTable, ChunkKey, ColumnReport, HostBytes};
use crate::queue::MorselSize;
use group::{Group, Held};

/// How much more than what goes a chunk must save to come in its place.
const HYSTERESIS: f64 = 1.5;

/// What a chunk that is on a device too saves, of what it would save if it were not.
const COPY_SHARE: f64 = 0.25;

/// Column chunks in pinned memory.
#[derive(Debug, Default)]
pub struct PinnedTier {
    pub(super) account: Arc<Account>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts reads: the clock.
    reads: u64,
    groups: BTreeMap<PinnedGroup, Group>,
    /// Groups that there were so far, to number them.
    num_groups: u64,
    activity: PinnedActivity,
}

/// Names chunks that were copied from one table, and share its dictionaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PinnedGroup {
    /// Names the rows and columns, as [`super::Kept::Automatic`] does.
    pub what: u64,
    /// The device that encoded them; any other of its kind can take them.
    pub device: DeviceId,
}

/// What is said of a group by whoever adds to it.
#[derive(Clone, Debug)]
pub struct GroupLabel {
    /// The table's name.
    pub name: String,
    /// The columns' names.
    pub columns: Vec<String>,
    /// The columns' dictionaries.
    pub dictionaries: Vec<Arc<ColumnDictionary>>,
    /// An array of the memory table that was read, if it is one: the chunks are of no use without it.
    pub reads: Option<Weak<dyn Array>>,
    /// How often all of it was read lately.
    pub uses: f64,
    /// Seconds that reading and encoding a byte of it took.
    pub pace: f64,
}

/// One column chunk in pinned memory.
#[derive(Debug)]
pub struct PinnedChunk {
    column: Arc<PinnedColumn>,
    /// Where it is on a device to stay, if it is.
    on_device: Mutex<Weak<StoredColumn>>,
    hits: AtomicU64,
    /// Keeps alive what the key is the address of.
    anchor: Vec<ArrayRef>,
    bytes: HostBytes,
}

/// The chunks of one morsel, in the order in which they were asked for.
#[derive(Clone, Debug)]
pub struct PinnedMorsel {
    /// What they belong to.
    pub group: PinnedGroup,
    /// Those with the same number have codes of the same dictionaries.
    pub codes: u64,
    /// At least one.
    pub chunks: Vec<Arc<PinnedChunk>>,
}

/// What has come and gone since the process began; it only counts up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedActivity {
    /// Chunks that queries brought to a device from here for one fold.
    pub hits: u64,
    /// Chunks that went back to a device to stay there.
    pub promotions: u64,
    /// Chunks that left a device, or found no room there, and stayed here.
    pub demotions: u64,
    /// Chunks that went for others, or for statements that needed the memory.
    pub evictions: u64,
}

impl PinnedChunk {
    /// Makes a chunk of a copy of one on a device, whose bytes were taken before.
    pub fn new(copy: PinnedColumn, of: &CachedChunk, bytes: HostBytes) -> Self {
        Self {
            column: Arc::new(copy),
            on_device: Mutex::new(Arc::downgrade(&of.stored)),
            hits: AtomicU64::new(0),
            anchor: of.anchor.clone(),
            bytes,
        }
    }

    /// Returns the values, to be brought to a device.
    pub fn column(&self) -> &Arc<PinnedColumn> {
        &self.column
    }

    /// Makes the chunk of a table of what has come back to a device to stay.
    pub fn came_back(&self, stored: StoredColumn) -> CachedChunk {
        let stored = Arc::new(stored);
        *self.on_device.lock() = Arc::downgrade(&stored);
        CachedChunk {
            stored,
            anchor: self.anchor.clone(),
        }
    }

    fn is_on_device(&self) -> bool {
        self.on_device.lock().strong_count() > 0
    }
}

impl PinnedMorsel {
    /// Returns how many rows it has.
    pub fn num_rows(&self) -> u64 {
        let first = self.chunks.first();
        first.map_or(0, |chunk| chunk.column.num_rows())
    }

    /// Returns the bytes that move when it goes to a device.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.column.bytes()).sum()
    }

    /// Returns both.
    pub(crate) fn size(&self) -> MorselSize {
        MorselSize {
            num_rows: self.num_rows(),
            num_bytes: self.bytes(),
        }
    }
}

impl GroupLabel {
    /// Describes a table that is on a device, and was read so often lately.
    pub fn of(table: &CachedTable, uses: f64) -> Self {
        let seconds = match table.kept() {
            super::Kept::Automatic { seconds, .. } => seconds,
            super::Kept::ByStatement => 0.0,
        };
        Self {
            name: table.name().to_string(),
            columns: table.columns.iter().map(|of| of.name.clone()).collect(),
            dictionaries: table.dictionaries.clone(),
            reads: table.reads(),
            uses,
            pace: seconds / table.device_bytes().max(1) as f64,
        }
    }

    fn value(&self, is_copy: bool) -> f64 {
        self.uses * self.pace * if is_copy { COPY_SHARE } else { 1.0 }
    }
}

impl PinnedTier {
    /// Returns the most bytes that the tier may take; with 0 there is none.
    pub fn limit(&self) -> u64 {
        self.account.limit()
    }

    /// Changes the limit, and lets go of what is over it.
    pub fn set_limit(&self, bytes: u64) {
        self.account.set_limit(bytes);
        self.give_back(self.used().saturating_sub(bytes), false);
    }

    /// Returns the bytes that are taken, with those of chunks that are being copied.
    pub fn used(&self) -> u64 {
        self.account.used()
    }

    /// Returns whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.state.lock().groups.is_empty()
    }

    /// Takes so many bytes for a chunk of a group, in place of chunks that save much less if need be;
    /// `None`, and nothing has gone, if there is no room. `is_copy` tells that the chunk stays on its
    /// device too.
    pub fn charge(&self, bytes: u64, label: &GroupLabel, is_copy: bool) -> Option<HostBytes> {
        if self.limit() == 0 {
            return None;
        }
        let mut state = self.state.lock();
        let wanted = self.account.used().saturating_add(bytes);
        let lacking = wanted.saturating_sub(self.account.allowed());
        let mut gone = Vec::new();
        if lacking > 0 {
            gone = state.evict(lacking, label.value(is_copy) / HYSTERESIS, false, true);
            if gone.is_empty() {
                return None;
            }
        }
        let taken = self.account.take(bytes);
        drop(state);
        drop(gone);
        Some(taken)
    }

    /// Keeps the chunks of a morsel, one for each of the group's columns, in order. Chunks of the same
    /// group with other dictionaries go.
    pub fn keep(
        &self,
        group: PinnedGroup,
        label: &GroupLabel,
        morsel: Vec<(ChunkKey, PinnedChunk)>,
    ) {
        let mut state = self.state.lock();
        let now = state.reads;
        let left_device = morsel.iter().filter(|(_, chunk)| !chunk.is_on_device());
        state.activity.demotions += left_device.count() as u64;
        let known = state.groups.remove(&group);
        let (known, other) = match known {
            Some(known) if known.shares(&label.dictionaries) => (Some(known), None),
            other => (None, other),
        };
        let mut of = known.unwrap_or_else(|| {
            state.num_groups += 1;
            Group::new(state.num_groups, label.clone(), now)
        });
        of.refresh(label.uses, label.pace, now);
        let replaced = of.insert(morsel);
        state.groups.insert(group, of);
        drop(state);
        drop((other, replaced));
    }

    /// Returns the dictionaries of a group's columns, if there is such a group.
    pub fn dictionaries(&self, group: PinnedGroup) -> Option<Vec<Arc<ColumnDictionary>>> {
        let state = self.state.lock();
        let of = state.groups.get(&group)?;
        Some(of.label.dictionaries.clone())
    }

    /// Finds the chunks of a morsel by their keys, all in one group.
    pub fn find(&self, keys: &[ChunkKey]) -> Option<PinnedMorsel> {
        let state = self.state.lock();
        let mut groups = state.groups.iter();
        groups.find_map(|(group, of)| of.find(*group, keys))
    }

    /// Finds the chunks of a morsel in a group.
    pub fn find_in(&self, group: PinnedGroup, keys: &[ChunkKey]) -> Option<PinnedMorsel> {
        let state = self.state.lock();
        state.groups.get(&group)?.find(group, keys)
    }

    /// Counts that a query folded a morsel from here.
    pub fn hit(&self, morsel: &PinnedMorsel) {
        let mut state = self.state.lock();
        let now = state.reads;
        state.activity.hits += morsel.chunks.len() as u64;
        for chunk in &morsel.chunks {
            chunk.hits.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(of) = state.groups.get_mut(&morsel.group) {
            of.used_one(now);
        }
    }

    /// Counts that a morsel went back to a device to stay.
    pub fn went_back(&self, morsel: &PinnedMorsel) {
        self.state.lock().activity.promotions += morsel.chunks.len() as u64;
    }

    /// Is told that chunks of a table that was read so often have left its device.
    pub(super) fn have_left<'a>(
        &self,
        group: PinnedGroup,
        keys: impl Iterator<Item = &'a ChunkKey>,
        uses: f64,
    ) {
        let mut state = self.state.lock();
        let now = state.reads;
        let Some(of) = state.groups.get_mut(&group) else {
            return;
        };
        of.refresh(uses, of.label.pace, now);
        let stay = keys.filter(|key| of.has(key)).count();
        state.activity.demotions += stay as u64;
    }

    /// Counts a read, here or elsewhere, and lets go of chunks of memory tables that are gone, and of what
    /// was over the limit when queries read it.
    pub(super) fn begin_read(&self) {
        self.state.lock().reads += 1;
        self.drop_orphans();
        self.give_back(self.used().saturating_sub(self.limit()), false);
    }

    /// Lets go of chunks of memory tables that are gone.
    pub(super) fn drop_orphans(&self) {
        let mut state = self.state.lock();
        let gone = state.groups.extract_if(.., |_, of| of.is_orphan());
        let gone: Vec<_> = gone.collect();
        drop(state);
        drop(gone);
    }

    /// Lets go of all that was read from a source that is no more what it was.
    pub fn forget(&self, source: &str) {
        let gone = self.state.lock().take(|of| of.source_is(source));
        drop(gone);
    }

    /// Lets go of what a table of `CACHE TABLE` has on devices to stay; what these have of it are these
    /// tables.
    pub(super) fn is_covered_by(&self, tables: &[Arc<CachedTable>]) {
        let mut state = self.state.lock();
        let is_covered = |group: &PinnedGroup, of: &mut Group| {
            let has = |key: &ChunkKey| tables.iter().any(|table| table.get(key).is_some());
            let mut devices = tables.iter().map(|table| table.device);
            devices.any(|device| device == group.device) && of.keys().all(has)
        };
        let gone: Vec<_> = state.groups.extract_if(.., is_covered).collect();
        drop(state);
        drop(gone);
    }

    /// Lets go of at least so many bytes, those first that save least, as far as there are any that no
    /// query reads; returns how many. With `only_copies`, of what is on a device too.
    pub fn give_back(&self, bytes: u64, only_copies: bool) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let mut state = self.state.lock();
        let gone = state.evict(bytes, f64::INFINITY, only_copies, false);
        drop(state);
        let chunks = gone.iter().flat_map(|morsel| &morsel.chunks);
        chunks.map(|(_, chunk)| chunk.bytes.get()).sum()
    }

    /// Tells what has come and gone.
    pub fn activity(&self) -> PinnedActivity {
        self.state.lock().activity
    }

    /// Reports every column, sorted by table and column.
    pub fn reports(&self) -> Vec<ColumnReport> {
        let state = self.state.lock();
        let mut reports: BTreeMap<(String, String), ColumnReport> = BTreeMap::new();
        for of in state.groups.values() {
            for (column, chunk) in of.chunks() {
                let names = (of.label.name.clone(), of.label.columns[column].clone());
                let report = reports
                    .entry(names.clone())
                    .or_insert_with(|| ColumnReport {
                        table: names.0,
                        column: names.1,
                        tier: "pinned",
                        encoding: chunk.column.encoding().to_string(),
                        ..ColumnReport::default()
                    });
                report.num_chunks += 1;
                report.num_rows += chunk.column.num_rows();
                report.host_bytes += chunk.column.bytes();
                report.plain_bytes += chunk.column.plain_bytes();
                report.hits += chunk.hits.load(Ordering::Relaxed);
            }
        }
        reports.into_values().collect()
    }
}

impl State {
    /// Takes out morsels that save less than `below` for each byte, the least first, until so many
    /// bytes come free; with `all_or_none`, none if there are not so many.
    fn evict(&mut self, bytes: u64, below: f64, only_copies: bool, all_or_none: bool) -> Vec<Held> {
        let now = self.reads;
        let mut victims: Vec<(f64, u64, PinnedGroup, u64)> = Vec::new();
        for (group, of) in &self.groups {
            for (number, held) in of.morsels() {
                if held.is_read() || (only_copies && !held.is_on_device()) {
                    continue;
                }
                let value = of.value(held, now);
                if value < below {
                    victims.push((value, held.bytes(), *group, number));
                }
            }
        }
        let available: u64 = victims.iter().map(|(_, bytes, ..)| bytes).sum();
        if all_or_none && available < bytes {
            return Vec::new();
        }
        victims.sort_by(|left, right| left.0.total_cmp(&right.0));
        let (mut freed, mut gone) = (0, Vec::new());
        for (_, size, group, number) in victims {
            if freed >= bytes {
                break;
            }
            freed += size;
            let of = self.groups.get_mut(&group);
            gone.extend(of.and_then(|of| of.remove(number)));
        }
        self.groups.retain(|_, of| !of.is_empty());
        let chunks: usize = gone.iter().map(|held| held.chunks.len()).sum();
        self.activity.evictions += chunks as u64;
        gone
    }

    /// Takes out the morsels of which a chunk is meant.
    fn take(&mut self, is_meant: impl Fn(&Held) -> bool) -> Vec<Held> {
        let mut gone = Vec::new();
        for of in self.groups.values_mut() {
            let numbers = of.morsels().filter(|(_, held)| is_meant(held));
            let numbers: Vec<u64> = numbers.map(|(number, _)| number).collect();
            gone.extend(numbers.into_iter().filter_map(|number| of.remove(number)));
        }
        self.groups.retain(|_, of| !of.is_empty());
        gone
    }
}

/// Chunks by key: the number of their morsel, and their place in it.
type Places = HashMap<ChunkKey, (u64, usize)>;

#[cfg(test)]
mod tests;
