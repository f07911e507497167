//! The host tier: column chunks in host memory, ranked by the time they save.
//!
//! A chunk's value is the time that reading it again would take, times how often it was read
//! lately, per byte. Uses decay: 64 scans without one halve them. Three rules keep one pass over a
//! large table from flushing what is hot:
//!
//! - A chunk is admitted if there is room, or if it saves much more than what it displaces.
//! - What was read once lately displaces nothing that was read twice.
//! - Uses are counted for chunks that were not admitted too, so that they can be admitted later.
//!
//! Statements come first: the memory they need is taken from here ([`HostTier::give_back`]). Chunks
//! of `CACHE TABLE` are never evicted. A chunk's bytes count until its last reader is done.

pub(super) mod account;
mod blocks;
mod chunk;
mod segment;
mod slots;
mod texts;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::cache::{ChunkKey, ColumnReport};
use account::Account;
use slots::{FIRST_PACE, ONCE, State};

pub use account::{HostBytes, HostMemory};
pub use blocks::BlocksBuilder;
pub use chunk::{ChunkBuilder, ChunkReader, HostChunk};
pub use segment::Segment;

/// The number of a scan; scans are the tier's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScanNumber(u64);

/// Column chunks in host memory.
#[derive(Debug, Default)]
pub struct HostTier {
    pub(super) account: Arc<Account>,
    state: Mutex<State>,
}

/// What a chunk is called in reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkLabel {
    /// Where it comes from.
    pub source: Arc<str>,
    /// The column's name.
    pub column: Arc<str>,
}

/// What a scan finds of one row group.
#[derive(Debug)]
pub enum Found {
    /// All columns that it asked for.
    All(Vec<Arc<HostChunk>>),
    /// Which of the columns are in memory.
    Some(Vec<bool>),
}

/// What is read, and might come in.
#[derive(Clone, Copy, Debug)]
pub struct Bid {
    /// How often it was read lately.
    pub uses: f64,
    /// Seconds that reading a byte of it again takes.
    pub pace: f64,
}

/// A chunk that was read.
#[derive(Debug)]
pub struct Offer {
    /// What it was read from.
    pub key: ChunkKey,
    /// What it is called.
    pub label: ChunkLabel,
    /// How often it was read lately.
    pub uses: f64,
    /// Its values.
    pub chunk: HostChunk,
    /// Seconds that reading it took.
    pub seconds: f64,
}

/// What has come and gone since the process began; it only counts up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierActivity {
    /// Chunks that queries found here.
    pub hits: u64,
    /// Chunks that queries looked for and had to read.
    pub misses: u64,
    /// Chunks that went for others, or for statements that needed the memory.
    pub evictions: u64,
}

impl HostTier {
    /// Returns the most bytes that the tier may take.
    pub fn limit(&self) -> u64 {
        self.account.limit()
    }

    /// Changes the limit, and lets go of what is over it, but for the tables of `CACHE TABLE`.
    pub fn set_limit(&self, bytes: u64) {
        self.account.set_limit(bytes);
        self.give_back(self.used().saturating_sub(bytes));
    }

    /// Returns the bytes that are taken, with those of chunks in the making and of chunks that queries
    /// still read.
    pub fn used(&self) -> u64 {
        self.account.used()
    }

    /// Takes a pool of statements into account, as long as it lives.
    pub fn watch(&self, pool: Weak<dyn HostMemory>) {
        self.account.watch(pool);
    }

    /// Returns whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.used() == 0
    }

    /// Counts a scan.
    pub fn begin_scan(&self) -> ScanNumber {
        let mut state = self.state.lock();
        state.scans += 1;
        ScanNumber(state.scans)
    }

    /// Looks for one row group's chunks of these columns, and counts a use of each.
    pub fn look(
        &self,
        scan: ScanNumber,
        source: &Arc<str>,
        columns: &[Arc<str>],
        part: u64,
    ) -> Found {
        let mut state = self.state.lock();
        state.forget_some();
        let mut found = Vec::with_capacity(columns.len());
        for column in columns {
            let slot = state.slot(source, column, part);
            slot.touch(scan.0);
            found.push(slot.chunk.clone());
        }
        if !found.is_empty() && found.iter().all(Option::is_some) {
            for column in columns {
                state.slot(source, column, part).hits += 1;
            }
            state.activity.hits += columns.len() as u64;
            return Found::All(found.into_iter().flatten().collect());
        }
        // The row group is read as a whole.
        state.activity.misses += columns.len() as u64;
        Found::Some(found.iter().map(Option::is_some).collect())
    }

    /// Tells what has come and gone.
    pub fn activity(&self) -> TierActivity {
        self.state.lock().activity
    }

    /// Returns a chunk without counting a use.
    pub fn peek(&self, key: &ChunkKey) -> Option<Arc<HostChunk>> {
        let state = self.state.lock();
        let column = state.sources.get(&key.source)?.get(&key.column)?;
        column.parts.get(&key.part)?.chunk.clone()
    }

    /// Counts uses elsewhere of chunks, if anything of their sources was read through the tier.
    pub fn credit(&self, keys: &[ChunkKey], uses: f64) {
        let mut state = self.state.lock();
        let now = state.scans;
        for key in keys {
            if state.sources.contains_key(&key.source) {
                let slot = state.slot(&key.source, &key.column, key.part);
                slot.uses = slot.recent_uses(now).max(uses);
                slot.last_use = now;
            }
        }
    }

    /// Returns how often a part of these columns was read lately: of the column that was read least.
    pub fn uses(&self, source: &Arc<str>, columns: &[Arc<str>], part: u64) -> f64 {
        let state = self.state.lock();
        let of = state.sources.get(source);
        let uses = columns.iter().map(|column| {
            let slot = of.and_then(|of| of.get(column)?.parts.get(&part));
            slot.map_or(0.0, |slot| slot.recent_uses(state.scans))
        });
        uses.fold(f64::INFINITY, f64::min).max(ONCE)
    }

    /// Returns whether so many bytes would find room, without making any.
    pub fn would_take(&self, bytes: u64, bid: Bid) -> bool {
        let state = self.state.lock();
        let need = self.lacking(bytes);
        need == 0 || state.victims(Some(bid), need).is_some()
    }

    /// Returns the bid of what was read so often lately, and takes as long to read as most does.
    pub fn bid(&self, uses: f64) -> Bid {
        let pace = self.state.lock().pace.unwrap_or(FIRST_PACE);
        Bid { uses, pace }
    }

    /// Takes so many bytes, in place of chunks that save less than the bid if need be; `None`, and
    /// nothing has gone, if there is no room.
    pub fn charge(&self, bytes: u64, bid: Bid) -> Option<HostBytes> {
        let mut state = self.state.lock();
        self.make_room(&mut state, bytes, Some(bid))
            .then(|| self.account.take(bytes))
    }

    /// Takes bytes for a table of `CACHE TABLE`, in place of any chunk of no such table; `None` if
    /// that is not enough.
    pub fn charge_table(&self, bytes: u64) -> Option<HostBytes> {
        let mut state = self.state.lock();
        self.make_room(&mut state, bytes, None)
            .then(|| self.account.take(bytes))
    }

    /// Adds bytes to some that were taken.
    pub fn grow(&self, charge: &mut HostBytes, bytes: u64, bid: Option<Bid>) -> bool {
        let more = match bid {
            Some(bid) => self.charge(bytes, bid),
            None => self.charge_table(bytes),
        };
        more.map(|more| charge.merge(more)).is_some()
    }

    /// Keeps a chunk, whose bytes were taken before.
    pub fn keep(&self, offer: Offer) {
        self.put(offer, None);
    }

    /// Keeps chunks as a table of `CACHE TABLE`.
    pub fn keep_table(&self, name: &str, chunks: Vec<Offer>) {
        self.state.lock().tables.insert(name.to_string());
        for offer in chunks {
            self.put(offer, Some(name));
        }
    }

    /// Lets a table of `CACHE TABLE` go; returns the bytes that come back once no query reads them,
    /// or `None` if there is no such table.
    pub fn remove_table(&self, name: &str) -> Option<u64> {
        let mut state = self.state.lock();
        if !state.tables.remove(name) {
            return None;
        }
        let mut bytes = 0;
        let mut gone = Vec::new();
        for slot in state.slots_mut().filter(|slot| !slot.tables.is_empty()) {
            let before = slot.tables.len();
            slot.tables.retain(|table| table != name);
            if slot.tables.is_empty() && before > 0 {
                let chunk = slot.chunk.take();
                bytes += chunk.as_ref().map_or(0, |chunk| chunk.host_bytes());
                gone.extend(chunk);
            }
        }
        Some(bytes)
    }

    /// Returns the names of the tables of `CACHE TABLE`, sorted.
    pub fn tables(&self) -> Vec<String> {
        self.state.lock().tables.iter().cloned().collect()
    }

    /// Lets go of all that was read from a source that is no more what it was.
    pub fn forget(&self, source: &str) {
        let mut state = self.state.lock();
        let gone = state.sources.remove(source);
        let slots = gone.iter().flat_map(HashMap::values);
        state.num_slots -= slots.map(|column| column.parts.len()).sum::<usize>();
    }

    /// Returns whether anything of a source is kept.
    pub fn holds(&self, source: &str) -> bool {
        let state = self.state.lock();
        let columns = state
            .sources
            .get(source)
            .into_iter()
            .flat_map(HashMap::values);
        columns
            .flat_map(|column| column.parts.values())
            .any(|slot| slot.chunk.is_some())
    }

    /// Lets go of at least so many bytes, the chunks that save least first, as far as there are any
    /// that no query reads and no table of `CACHE TABLE` keeps; returns how many.
    pub fn give_back(&self, bytes: u64) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let mut state = self.state.lock();
        let mut victims = state.candidates(None);
        victims.sort_by(|left, right| left.value.total_cmp(&right.value));
        let mut freed = 0;
        for victim in victims {
            if freed >= bytes {
                break;
            }
            freed += victim.bytes;
            state.evict(&victim.key);
        }
        freed
    }

    /// Returns the bytes that tables of `CACHE TABLE` keep.
    pub fn table_bytes(&self) -> u64 {
        let state = self.state.lock();
        let kept = state.slots().filter(|slot| !slot.tables.is_empty());
        kept.filter_map(|slot| slot.chunk.as_ref())
            .map(|chunk| chunk.host_bytes())
            .sum()
    }

    /// Reports every column of which a chunk is kept, sorted by table and column.
    pub fn reports(&self) -> Vec<ColumnReport> {
        let state = self.state.lock();
        let mut reports: BTreeMap<(String, String), ColumnReport> = BTreeMap::new();
        for column in state.sources.values().flat_map(HashMap::values) {
            let Some(label) = &column.label else {
                continue;
            };
            for slot in column.parts.values() {
                let Some(chunk) = &slot.chunk else {
                    continue;
                };
                let table = slot.tables.first().map_or(&*label.source, String::as_str);
                let of = (table.to_string(), label.column.to_string());
                let report = reports.entry(of.clone()).or_insert_with(|| ColumnReport {
                    table: of.0,
                    column: of.1,
                    tier: "host",
                    is_kept: !slot.tables.is_empty(),
                    encoding: chunk.encoding().to_string(),
                    ..ColumnReport::default()
                });
                report.num_chunks += 1;
                report.num_rows += chunk.num_rows();
                report.host_bytes += chunk.host_bytes();
                report.plain_bytes += chunk.plain_bytes();
                report.hits += slot.hits;
            }
        }
        reports.into_values().collect()
    }

    /// Returns the bytes that are missing for so many more.
    fn lacking(&self, bytes: u64) -> u64 {
        let wanted = self.account.used().saturating_add(bytes);
        wanted.saturating_sub(self.account.allowed())
    }

    fn make_room(&self, state: &mut State, bytes: u64, bid: Option<Bid>) -> bool {
        let need = self.lacking(bytes);
        if need == 0 {
            return true;
        }
        let Some(victims) = state.victims(bid, need) else {
            return false;
        };
        for victim in &victims {
            state.evict(&victim.key);
        }
        self.lacking(bytes) == 0
    }

    fn put(&self, offer: Offer, table: Option<&str>) {
        let mut state = self.state.lock();
        let Offer {
            key,
            label,
            chunk,
            seconds,
            ..
        } = offer;
        let pace = seconds / chunk.host_bytes().max(1) as f64;
        let known = state.pace.unwrap_or(pace);
        state.pace = Some(known + (pace - known) / 8.0);
        let slot = state.slot(&key.source, &key.column, key.part);
        slot.seconds = seconds;
        // Who comes second with the same values gives way.
        if slot.chunk.is_none() || table.is_some() {
            slot.chunk = Some(Arc::new(chunk));
        }
        if let Some(table) = table
            && !slot.tables.iter().any(|known| known == table)
        {
            slot.tables.push(table.to_string());
        }
        let column = state.sources.get_mut(&key.source);
        if let Some(column) = column.and_then(|columns| columns.get_mut(&key.column)) {
            column.label.get_or_insert(label);
        }
    }
}

#[cfg(test)]
mod tests;
