//! Column chunks that stay on a device from one query to the next.
//!
//! A chunk is known by what it was read from, its [`ChunkKey`], never by the name of a table: a query
//! finds it whatever its table is called, and a file that was replaced has other keys. Chunks belong
//! to the [`CachedTable`] that was asked for and go with it. All chunks of a run come from one such
//! table, so that the codes of a string column share one dictionary.
//!
//! Nothing is evicted from a device: a table that does not fit is not cached. What a device does not
//! hold may lie in the host tier, [`host`].

pub mod host;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::ArrayRef;
use parking_lot::RwLock;
use tidegate_device::DeviceId;
use tidegate_kernels::StoredColumn;

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
#[derive(Debug)]
pub struct CachedChunk {
    /// Its values.
    pub stored: Arc<StoredColumn>,
    /// It holds a NaN, an infinity or a −0.0, of which a grouped MIN or MAX must not see any.
    pub holds_special: bool,
    /// Keeps alive what the key is the address of.
    pub anchor: Vec<ArrayRef>,
}

/// A table, or some columns of one, on a device.
#[derive(Debug)]
pub struct CachedTable {
    name: String,
    device: DeviceId,
    columns: Vec<CachedColumn>,
    /// By source and column, the two texts of a key.
    chunks: HashMap<(Arc<str>, Arc<str>), Chunks>,
}

#[derive(Debug)]
struct CachedColumn {
    name: String,
    hits: AtomicU64,
}

/// The chunks of one column of one source.
#[derive(Debug)]
struct Chunks {
    /// The column's number in the table.
    column: usize,
    by_part: HashMap<u64, CachedChunk>,
}

/// What is told of one cached column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnReport {
    /// The table's name.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// Where it is.
    pub device: DeviceId,
    /// The encoding of most of its chunks; empty if there are none.
    pub encoding: String,
    /// Chunks.
    pub num_chunks: u64,
    /// Rows.
    pub num_rows: u64,
    /// Bytes on the device.
    pub device_bytes: u64,
    /// Bytes as Arrow arrays.
    pub plain_bytes: u64,
    /// Chunks that queries folded from here.
    pub hits: u64,
}

impl CachedTable {
    /// Makes a table without chunks.
    pub fn new(name: &str, device: DeviceId, columns: impl IntoIterator<Item = String>) -> Self {
        let column = |name| CachedColumn {
            name,
            hits: AtomicU64::new(0),
        };
        Self {
            name: name.to_string(),
            device,
            columns: columns.into_iter().map(column).collect(),
            chunks: HashMap::new(),
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

    /// Adds a chunk to column number `column`.
    pub fn insert(&mut self, column: usize, key: ChunkKey, chunk: CachedChunk) {
        let chunks = self.chunks.entry((key.source, key.column));
        let chunks = chunks.or_insert_with(|| Chunks {
            column,
            by_part: HashMap::new(),
        });
        chunks.by_part.insert(key.part, chunk);
    }

    /// Finds a chunk, and the number of its column.
    pub fn get(&self, key: &ChunkKey) -> Option<(usize, &CachedChunk)> {
        let of = (Arc::clone(&key.source), Arc::clone(&key.column));
        let chunks = self.chunks.get(&of)?;
        Some((chunks.column, chunks.by_part.get(&key.part)?))
    }

    /// Counts a use of a chunk of column number `column`.
    pub fn hit(&self, column: usize) {
        self.columns[column].hits.fetch_add(1, Ordering::Relaxed);
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
            device: self.device,
            encoding: String::new(),
            num_chunks: 0,
            num_rows: 0,
            device_bytes: 0,
            plain_bytes: 0,
            hits: hits.load(Ordering::Relaxed),
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

/// The tables that are kept on devices, and the chunks that are kept on the host.
#[derive(Debug, Default)]
pub struct ColumnCache {
    host: host::HostTier,
    tables: RwLock<BTreeMap<String, Arc<CachedTable>>>,
}

impl ColumnCache {
    /// Returns the host tier.
    pub fn host(&self) -> &host::HostTier {
        &self.host
    }

    /// Keeps a table, in place of one of the same name.
    pub fn insert(&self, table: CachedTable) {
        let mut tables = self.tables.write();
        tables.insert(table.name.clone(), Arc::new(table));
    }

    /// Lets a table go; its memory comes back once no query uses it.
    pub fn remove(&self, name: &str) -> Option<Arc<CachedTable>> {
        self.tables.write().remove(name)
    }

    /// Returns the tables on a device.
    pub fn on_device(&self, device: DeviceId) -> Vec<Arc<CachedTable>> {
        let tables = self.tables.read();
        let here = tables.values().filter(|table| table.device == device);
        here.cloned().collect()
    }

    /// Returns the names of all tables, sorted.
    pub fn names(&self) -> Vec<String> {
        self.tables.read().keys().cloned().collect()
    }

    /// Reports every column of every table.
    pub fn reports(&self) -> Vec<ColumnReport> {
        let tables = self.tables.read();
        tables.values().flat_map(|table| table.reports()).collect()
    }
}

#[cfg(test)]
mod tests;
