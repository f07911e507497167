//! Column chunks that stay on a device from one query to the next.
//!
//! A chunk is found by what it was read from, its [`ChunkKey`], never by the name of a table:
//! queries find it under any name, and a file that was replaced has other keys. Chunks belong to
//! the [`CachedTable`] for which they were loaded, and are dropped with it. All chunks of a run
//! come from one such table, so that the codes of a string column share a dictionary.
//!
//! A table that holds all of a scan also knows the scan's rows, and has one run over all of them
//! for queries that read these (`whole`).
//!
//! A table of `CACHE TABLE` is never evicted; one that does not fit is not cached. What is read
//! often is loaded automatically and evicted when its memory is needed, [`automatic`]. What a
//! device does not hold may be in pinned memory in the device's encoding, [`pinned`], or in the
//! host tier, [`host`].

pub mod automatic;
pub mod host;
pub mod pinned;

mod whole;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use arrow_array::{Array, ArrayRef};
use parking_lot::{Mutex, RwLock};
use tidegate_device::DeviceId;
use tidegate_kernels::{ColumnDictionary, StoredColumn};

pub use host::HostBytes;
use host::HostMemory;
use whole::{MorselChunks, Whole};
pub use whole::{ScanKey, ScanRows, WholeRun};

/// Names what a column chunk was read from.
///
/// # Contract
/// Two chunks of one key hold the same values in the same order, as the same type. A source that can
/// change puts into the key whatever changes with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChunkKey {
    /// The file, generator or memory, and the state of it.
    pub source: Arc<str>,
    /// The column, and how it is read.
    pub column: Arc<str>,
    /// The row group, or the morsel of a source that cuts itself.
    pub part: u64,
}

/// One column chunk on a device.
#[derive(Clone, Debug)]
pub struct CachedChunk {
    /// Its values.
    pub stored: Arc<StoredColumn>,
    /// Keeps alive what the key is the address of.
    pub anchor: Vec<ArrayRef>,
}

/// Why a table is on a device, and how long it stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kept {
    /// `CACHE TABLE` named it; it stays until `UNCACHE TABLE`.
    ByStatement,
    /// It was read often; it goes for what needs the memory.
    Automatic {
        /// Names the rows and columns.
        what: u64,
        /// Seconds that reading all of it and bringing it to the device took.
        seconds: f64,
    },
}

/// A table, or some columns of one, on a device.
#[derive(Debug)]
pub struct CachedTable {
    name: String,
    kept: Kept,
    device: DeviceId,
    columns: Vec<CachedColumn>,
    /// The dictionaries of the columns' codes.
    dictionaries: Vec<Arc<ColumnDictionary>>,
    /// By source and column, the two texts of a key.
    chunks: HashMap<(Arc<str>, Arc<str>), Chunks>,
    /// The chunks that came as whole morsels.
    morsels: Vec<MorselChunks>,
    /// The scan that the morsels are, if they are all of one.
    whole: Option<Whole>,
    /// The scan of which other devices hold the rest.
    shared: Option<ScanKey>,
    /// An array of the memory table that it has some rows of, if it is one.
    some_of: Option<Weak<dyn Array>>,
}

#[derive(Debug)]
struct CachedColumn {
    name: String,
    /// Goes on in a table that takes the place of this one.
    hits: Arc<AtomicU64>,
}

/// The chunks of one column of one source.
#[derive(Debug)]
struct Chunks {
    /// The column's number in the table.
    column: usize,
    by_part: HashMap<u64, CachedChunk>,
}

/// What a tier has of one column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnReport {
    /// The table of `CACHE TABLE` that keeps it, or else where it comes from.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// `device`, `pinned` or `host`.
    pub tier: &'static str,
    /// The device that has it.
    pub device: Option<DeviceId>,
    /// `CACHE TABLE` named it.
    pub is_kept: bool,
    /// The encoding of most of its chunks; empty if there are none.
    pub encoding: String,
    /// Chunks.
    pub num_chunks: u64,
    /// Rows.
    pub num_rows: u64,
    /// Bytes on the device.
    pub device_bytes: u64,
    /// Bytes in memory of the host.
    pub host_bytes: u64,
    /// Bytes as Arrow arrays.
    pub plain_bytes: u64,
    /// Chunks that queries took from here.
    pub hits: u64,
}

impl CachedTable {
    /// Makes a table without chunks, to stay until it is let go of.
    pub fn new(name: &str, device: DeviceId, columns: impl IntoIterator<Item = String>) -> Self {
        let column = |name| CachedColumn {
            name,
            hits: Arc::default(),
        };
        let columns: Vec<CachedColumn> = columns.into_iter().map(column).collect();
        Self {
            name: name.to_string(),
            kept: Kept::ByStatement,
            device,
            dictionaries: columns.iter().map(|_| ColumnDictionary::new()).collect(),
            columns,
            chunks: HashMap::new(),
            morsels: Vec::new(),
            whole: None,
            shared: None,
            some_of: None,
        }
    }

    /// Returns what the table is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the device that holds it.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Returns why it is there.
    pub fn kept(&self) -> Kept {
        self.kept
    }

    /// Says why it is there.
    pub fn keep(&mut self, kept: Kept) {
        self.kept = kept;
    }

    /// Returns the dictionary that all chunks of column number `column` share.
    pub fn dictionary(&self, column: usize) -> &Arc<ColumnDictionary> {
        &self.dictionaries[column]
    }

    /// Shares the dictionary of column number `column` with that of another table, before the first
    /// chunk comes; chunks of that one may then be chunks of this one.
    pub fn adopt(&mut self, column: usize, dictionary: Arc<ColumnDictionary>) {
        self.dictionaries[column] = dictionary;
    }

    /// Returns under which name, and for which device, the cache keeps it.
    fn key(&self) -> TableKey {
        match self.kept {
            Kept::ByStatement => (self.name.clone(), self.device),
            Kept::Automatic { what, .. } => automatic_key(what, self.device),
        }
    }

    /// Adds a chunk to column number `column`.
    pub fn insert(&mut self, column: usize, key: ChunkKey, chunk: CachedChunk) {
        let chunks = self.chunks.entry((key.source, key.column));
        let chunks = chunks.or_insert_with(|| Chunks {
            column,
            by_part: HashMap::new(),
        });
        chunks.by_part.insert(key.part, chunk);
    }

    /// Adds the chunks of a morsel, one for each of the table's columns, in order.
    pub fn insert_morsel(&mut self, chunks: Vec<(ChunkKey, CachedChunk)>) {
        let stored = chunks.iter().map(|(_, chunk)| Arc::clone(&chunk.stored));
        self.morsels.push(MorselChunks {
            columns: stored.collect(),
            keys: chunks.iter().map(|(key, _)| key.clone()).collect(),
        });
        for (column, (key, chunk)) in chunks.into_iter().enumerate() {
            self.insert(column, key, chunk);
        }
    }

    /// Declares the morsels to be all of a scan that reads the table's columns, in order.
    pub fn holds_all_of(&mut self, scan: ScanKey) {
        self.whole = Some(Whole::new(scan));
    }

    /// Declares the morsels to be some of a scan whose others are on other devices.
    pub fn holds_share_of(&mut self, scan: ScanKey) {
        self.shared = Some(scan);
    }

    /// Declares the morsels to be some of a scan whose others are not on devices.
    pub fn holds_some_of(&mut self, scan: &ScanKey) {
        self.some_of = scan.an_array().map(Arc::downgrade);
    }

    /// Returns an array of the memory table that it has rows of, if it is one.
    pub fn reads(&self) -> Option<Weak<dyn Array>> {
        let scan = self.scan_or_share().and_then(ScanKey::an_array);
        scan.map(Arc::downgrade).or_else(|| self.some_of.clone())
    }

    /// Returns how many morsels are on the device.
    pub fn num_morsels(&self) -> usize {
        self.morsels.len()
    }

    /// Returns the keys of a morsel's chunks, by its number.
    pub fn keys_of(&self, number: usize) -> Option<&[ChunkKey]> {
        self.morsels.get(number).map(|morsel| &*morsel.keys)
    }

    /// Returns the scan of which the table holds all, if it is one.
    pub fn scan(&self) -> Option<&ScanKey> {
        self.whole.as_ref().map(|whole| &whole.key)
    }

    /// Returns the scan of which the table holds all or a share.
    fn scan_or_share(&self) -> Option<&ScanKey> {
        self.scan().or(self.shared.as_ref())
    }

    /// Returns the run over all rows of the scan that the table is, if somebody reads just these.
    /// `reads_all_of` tells for each column that is read its position among the scan's.
    pub fn whole_run(
        &self,
        reads_all_of: &dyn Fn(&ScanKey) -> Option<Vec<usize>>,
    ) -> Option<Arc<WholeRun>> {
        let whole = self.whole.as_ref()?;
        let columns = reads_all_of(&whole.key)?;
        whole.run(&self.morsels, &columns)
    }

    /// Finds a chunk, and the number of its column.
    pub fn get(&self, key: &ChunkKey) -> Option<(usize, &CachedChunk)> {
        let of = (Arc::clone(&key.source), Arc::clone(&key.column));
        let chunks = self.chunks.get(&of)?;
        Some((chunks.column, chunks.by_part.get(&key.part)?))
    }

    /// Counts a use of so many chunks of column number `column`.
    pub fn hit(&self, column: usize, num_chunks: u64) {
        let hits = &self.columns[column].hits;
        hits.fetch_add(num_chunks, Ordering::Relaxed);
    }

    /// Counts on where a table of the same columns has got, whose place this one takes.
    fn count_on(&mut self, before: &Self) {
        for (mine, theirs) in self.columns.iter_mut().zip(&before.columns) {
            mine.hits = Arc::clone(&theirs.hits);
        }
    }

    /// Returns how often chunks of the table were used.
    pub fn hits(&self) -> u64 {
        let of = |column: &CachedColumn| column.hits.load(Ordering::Relaxed);
        self.columns.iter().map(of).sum()
    }

    /// Returns the bytes that the table takes on its device.
    pub fn device_bytes(&self) -> u64 {
        let stored = self.stored().map(|(_, stored)| stored.device_bytes());
        stored.sum()
    }

    /// Returns the bytes of the arrays that the table was made from.
    pub fn plain_bytes(&self) -> u64 {
        let stored = self.stored().map(|(_, stored)| stored.plain_bytes());
        stored.sum()
    }

    /// Reports every column, in order.
    pub fn reports(&self) -> Vec<ColumnReport> {
        (0..self.columns.len())
            .map(|column| self.report(column))
            .collect()
    }

    fn stored(&self) -> impl Iterator<Item = (usize, &StoredColumn)> {
        self.chunks.values().flat_map(|chunks| {
            let parts = chunks.by_part.values();
            parts.map(|chunk| (chunks.column, chunk.stored.as_ref()))
        })
    }

    fn report(&self, column: usize) -> ColumnReport {
        let CachedColumn { name, hits } = &self.columns[column];
        let mut report = ColumnReport {
            table: self.name.clone(),
            column: name.clone(),
            tier: "device",
            device: Some(self.device),
            is_kept: self.kept == Kept::ByStatement,
            hits: hits.load(Ordering::Relaxed),
            ..ColumnReport::default()
        };
        let mut encodings: BTreeMap<&str, u64> = BTreeMap::new();
        for (_, stored) in self.stored().filter(|(of, _)| *of == column) {
            report.num_chunks += 1;
            report.num_rows += stored.num_rows();
            report.device_bytes += stored.device_bytes();
            report.plain_bytes += stored.plain_bytes();
            *encodings.entry(stored.encoding()).or_default() += 1;
        }
        let most = encodings.into_iter().max_by_key(|(_, times)| *times);
        report.encoding = most.map_or_else(String::new, |(encoding, _)| encoding.to_string());
        report
    }
}

/// What the cache finds a table by. One that is spread over devices is there once for each.
type TableKey = (String, DeviceId);

fn automatic_key(what: u64, device: DeviceId) -> TableKey {
    // No table is called so: a name does not begin with a blank.
    (format!(" {what:016x}"), device)
}

/// The tables that are kept on devices, and the chunks that are kept on the host.
#[derive(Debug)]
pub struct ColumnCache {
    host: host::HostTier,
    pinned: Arc<pinned::PinnedTier>,
    tables: RwLock<BTreeMap<TableKey, Arc<CachedTable>>>,
    version: AtomicU64,
    demand: Mutex<automatic::Demand>,
    /// Counts the shortages for which nothing was left to evict.
    shortages: AtomicU64,
    /// Uses of the tables that have gone.
    past_hits: AtomicU64,
}

impl Default for ColumnCache {
    fn default() -> Self {
        let (host, pinned) = (host::HostTier::default(), pinned::PinnedTier::default());
        host::account::Account::pair(&host.account, &pinned.account);
        Self {
            host,
            pinned: Arc::new(pinned),
            tables: RwLock::default(),
            version: AtomicU64::default(),
            demand: Mutex::default(),
            shortages: AtomicU64::default(),
            past_hits: AtomicU64::default(),
        }
    }
}

impl ColumnCache {
    /// Returns the host tier.
    pub fn host(&self) -> &host::HostTier {
        &self.host
    }

    /// Returns the pinned tier.
    pub fn pinned(&self) -> &Arc<pinned::PinnedTier> {
        &self.pinned
    }

    /// Takes a pool of statements into account, as long as it lives: what it leaves, the tiers in host
    /// memory share.
    pub fn watch(&self, pool: &Weak<dyn HostMemory>) {
        self.host.watch(Weak::clone(pool));
        self.pinned.account.watch(Weak::clone(pool));
    }

    /// Returns the bytes of host memory that the tiers there take.
    pub fn host_bytes(&self) -> u64 {
        self.host.used() + self.pinned.used()
    }

    /// Lets go of at least so many bytes of host memory, as far as queries and `CACHE TABLE` let them:
    /// first of what devices hold too, then of the host tier, then of what else is pinned. Returns how
    /// many.
    pub fn give_back(&self, bytes: u64) -> u64 {
        let mut freed = self.pinned.give_back(bytes, true);
        freed += self.host.give_back(bytes.saturating_sub(freed));
        freed + self.pinned.give_back(bytes.saturating_sub(freed), false)
    }

    /// Lets go of what the tiers in host memory have of a source that is no more what it was.
    pub fn forget(&self, source: &str) {
        self.host.forget(source);
        self.pinned.forget(source);
    }

    /// Returns the automatic table on a device that this number names.
    pub fn automatic(&self, what: u64, device: DeviceId) -> Option<Arc<CachedTable>> {
        let tables = self.tables.read();
        tables.get(&automatic_key(what, device)).cloned()
    }

    /// Keeps a table, in place of one of the same name on its device, and of those that came by
    /// themselves of which it has all.
    pub fn insert(&self, mut table: CachedTable) {
        let (key, is_automatic) = (table.key(), table.is_automatic());
        let mut tables = self.tables.write();
        let gone: Vec<TableKey> = tables
            .iter()
            .filter(|(known_as, known)| {
                **known_as != key && known.is_automatic() && table.has_all_of(known)
            })
            .map(|(key, _)| key.clone())
            .collect();
        let mut dropped: Vec<_> = gone.iter().map(|key| tables.remove(key)).collect();
        match tables.get(&key) {
            // The background has completed it: what it was used for before still counts.
            Some(before) if is_automatic => table.count_on(before),
            Some(before) => dropped.push(Some(Arc::clone(before))),
            None => {}
        }
        let replaced = tables.insert(key.clone(), Arc::new(table));
        dropped.iter().for_each(|gone| self.retire(gone.as_deref()));
        self.version.fetch_add(1, Ordering::Release);
        let of_name = tables.iter().filter(|((name, _), _)| *name == key.0);
        let of_name: Vec<Arc<CachedTable>> = of_name.map(|(_, table)| Arc::clone(table)).collect();
        drop(tables);
        drop((dropped, replaced));
        if !is_automatic {
            self.pinned.is_covered_by(&of_name);
        }
    }

    /// Lets a table of `CACHE TABLE` go from every device; returns what each had of it. Its memory
    /// comes back once no query uses it.
    pub fn remove(&self, name: &str) -> Vec<Arc<CachedTable>> {
        let mut tables = self.tables.write();
        self.version.fetch_add(1, Ordering::Release);
        let named = |(known, _): &&TableKey| known == name;
        let keys: Vec<TableKey> = tables.keys().filter(named).cloned().collect();
        let removed = keys.iter().filter_map(|key| tables.remove(key));
        let removed: Vec<_> = removed.collect();
        removed.iter().for_each(|table| self.retire(Some(table)));
        removed
    }

    fn retire(&self, gone: Option<&CachedTable>) {
        let hits = gone.map_or(0, CachedTable::hits);
        self.past_hits.fetch_add(hits, Ordering::Relaxed);
    }

    /// Returns how often queries have used chunks on devices since the process began.
    pub fn device_hits(&self) -> u64 {
        let tables = self.tables.read();
        let now: u64 = tables.values().map(|table| table.hits()).sum();
        now + self.past_hits.load(Ordering::Relaxed)
    }

    /// Counts up with every table that comes or goes.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Returns whether this table is kept, and not only still in use.
    pub fn holds(&self, table: &Arc<CachedTable>) -> bool {
        let tables = self.tables.read();
        let known = tables.get(&table.key());
        known.is_some_and(|known| Arc::ptr_eq(known, table))
    }

    /// Returns whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.tables.read().is_empty()
    }

    /// Returns the tables on a device.
    pub fn on_device(&self, device: DeviceId) -> Vec<Arc<CachedTable>> {
        let tables = self.tables.read();
        let here = tables.values().filter(|table| table.device == device);
        here.cloned().collect()
    }

    /// Returns the names of the tables of `CACHE TABLE`, sorted.
    pub fn names(&self) -> Vec<String> {
        let tables = self.tables.read();
        let kept = tables.values().filter(|table| !table.is_automatic());
        let mut names: Vec<String> = kept.map(|table| table.name.clone()).collect();
        names.dedup();
        names
    }

    /// Returns whether several devices hold shares of the scan that is read; see
    /// [`MorselLoader::reads_all_of`](crate::MorselLoader::reads_all_of).
    pub fn is_spread(&self, reads_all_of: &dyn Fn(&ScanKey) -> Option<Vec<usize>>) -> bool {
        let tables = self.tables.read();
        let mut shares = tables.values().filter_map(|table| table.shared.as_ref());
        shares.any(|scan| reads_all_of(scan).is_some())
    }

    /// Reports every column of every table.
    pub fn reports(&self) -> Vec<ColumnReport> {
        let tables = self.tables.read();
        tables.values().flat_map(|table| table.reports()).collect()
    }
}

#[cfg(test)]
mod tests;
