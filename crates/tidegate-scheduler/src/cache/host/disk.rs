//! The disk tier: chunks that the host tier has no room for, in files.
//!
//! A chunk goes there when it was read more than once and saves too little to stay in memory, or when
//! it gives way there to one that saves more. A thread of its own writes it; what waits to be written
//! is bounded, and what is over that bound is let go as it would be without this tier. Where the files
//! need room, those that were read least lately go. A file that cannot be read, or is not what was
//! written, is a miss.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::thread;

use arrow_buffer::{Buffer, MutableBuffer};
use parking_lot::Mutex;

use super::Offer;
use super::chunk::HostChunk;
use super::segment::Stored;
use crate::cache::ChunkKey;

/// Where buffers begin in a file: as Arrow aligns them.
pub(super) const ALIGNMENT: usize = 64;

/// How much more often than what goes a chunk must have been read to come in its place.
const HYSTERESIS: f64 = 1.5;

/// Numbers the folders of a process.
static NEXT_FOLDER: AtomicU64 = AtomicU64::new(0);

/// Column chunks in files.
#[derive(Debug, Default)]
pub(super) struct DiskTier {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    limit: u64,
    used: u64,
    next_file: u64,
    folder: Option<Folder>,
    writer: Option<Sender<Offer>>,
    chunks: HashMap<ChunkKey, Kept>,
}

#[derive(Debug)]
struct Kept {
    chunk: Arc<DiskChunk>,
    /// How often it was read lately when it came.
    uses: f64,
    hits: u64,
    column: Arc<str>,
    label: Arc<str>,
}

/// A folder of this process alone; it goes with its files.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // Nothing can be done about what stays.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One column of one row group, in a file, which goes with this.
#[derive(Debug)]
pub struct DiskChunk {
    path: PathBuf,
    bytes: u64,
    checksum: u64,
    segments: Vec<Stored>,
    num_rows: u64,
    plain_bytes: u64,
}

impl Drop for DiskChunk {
    fn drop(&mut self) {
        // Nothing can be done about what stays.
        let _ = fs::remove_file(&self.path);
    }
}

/// What is told of one column of one source in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskReport {
    /// Where it comes from.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// Chunks.
    pub num_chunks: u64,
    /// Rows.
    pub num_rows: u64,
    /// Bytes of the files.
    pub disk_bytes: u64,
    /// Bytes as Arrow arrays.
    pub plain_bytes: u64,
    /// Chunks that queries read from here.
    pub hits: u64,
}

impl DiskChunk {
    /// Writes a chunk; `None` if a column of its type is not written. Blocks.
    fn write(chunk: &HostChunk, path: PathBuf) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        let mut segments = Vec::new();
        for segment in chunk.segments() {
            let Some(stored) = segment.store(&mut bytes) else {
                return Ok(None);
            };
            segments.push(stored);
        }
        let written = Self {
            bytes: bytes.len() as u64,
            checksum: checksum(&bytes),
            segments,
            num_rows: chunk.num_rows(),
            plain_bytes: chunk.plain_bytes(),
            path,
        };
        let mut file = File::create_new(&written.path)?;
        file.write_all(&bytes)?;
        Ok(Some(written))
    }

    /// Reads the chunk back. Blocks.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::InvalidData`] if the file is not what was written.
    pub(super) fn read(&self) -> io::Result<Vec<super::segment::Segment>> {
        let mut file = File::open(&self.path)?;
        if file.metadata()?.len() != self.bytes {
            return Err(not_as_written());
        }
        let mut bytes = MutableBuffer::from_len_zeroed(self.bytes as usize);
        file.read_exact(bytes.as_slice_mut())?;
        let bytes: Buffer = bytes.into();
        if checksum(&bytes) != self.checksum {
            return Err(not_as_written());
        }
        let segments = self.segments.iter();
        let restored = segments.map(|stored| stored.restore(&bytes));
        restored.collect::<Option<_>>().ok_or_else(not_as_written)
    }

    pub(super) fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn not_as_written() -> io::Error {
    let message = "a file of the disk tier is not what was written";
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl DiskTier {
    /// Lets files take so many bytes of a folder from now on; what is over that goes. With 0 all do.
    pub(super) fn set(self: &Arc<Self>, folder: &Path, limit: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.limit = limit;
        if limit == 0 {
            let State { chunks, .. } = std::mem::take(&mut *state);
            drop(state);
            drop(chunks);
            return Ok(());
        }
        let over = state.used.saturating_sub(limit);
        let gone = state.evict(over, f64::INFINITY);
        if state.folder.is_none() {
            state.folder = Some(Folder(private_folder(folder)?));
        }
        if state.writer.is_none() {
            let (sender, offers) = mpsc::channel();
            let tier = Arc::downgrade(self);
            thread::Builder::new()
                .name("tidegate-disk-tier".into())
                .spawn(move || write_all(&offers, &tier))?;
            state.writer = Some(sender);
        }
        drop(state);
        drop(gone);
        Ok(())
    }

    pub(super) fn limit(&self) -> u64 {
        self.state.lock().limit
    }

    pub(super) fn used(&self) -> u64 {
        self.state.lock().used
    }

    pub(super) fn get(&self, key: &ChunkKey) -> Option<Arc<DiskChunk>> {
        let state = self.state.lock();
        state.chunks.get(key).map(|kept| Arc::clone(&kept.chunk))
    }

    pub(super) fn hit(&self, key: &ChunkKey, uses: f64) {
        if let Some(kept) = self.state.lock().chunks.get_mut(key) {
            kept.hits += 1;
            kept.uses = uses;
        }
    }

    /// Returns whether so many bytes that were read so often would find room.
    pub(super) fn would_take(&self, bytes: u64, uses: f64) -> bool {
        let state = self.state.lock();
        if bytes > state.limit {
            return false;
        }
        let need = (state.used + bytes).saturating_sub(state.limit);
        let goes = state.chunks.values().filter(|kept| kept.gives_way(uses));
        need == 0 || goes.map(|kept| kept.chunk.bytes).sum::<u64>() >= need
    }

    /// Has a chunk written, if there is a writer and the chunk is not there already.
    pub(super) fn offer(&self, offer: Offer) {
        let state = self.state.lock();
        if let (Some(writer), false) = (&state.writer, state.chunks.contains_key(&offer.key)) {
            // Whoever cannot take it lets it go.
            let _ = writer.send(offer);
        }
    }

    /// Forgets what `is_gone` says.
    pub(super) fn forget(&self, is_gone: impl Fn(&ChunkKey) -> bool) {
        let mut state = self.state.lock();
        let gone: Vec<Kept> = state
            .chunks
            .extract_if(|key, _| is_gone(key))
            .map(|(_, kept)| kept)
            .collect();
        let bytes: u64 = gone.iter().map(|kept| kept.chunk.bytes).sum();
        state.used -= bytes;
        drop(state);
        drop(gone);
    }

    /// Returns whether anything of a source is kept.
    pub(super) fn holds(&self, source: &str) -> bool {
        let state = self.state.lock();
        state.chunks.keys().any(|key| *key.source == *source)
    }

    pub(super) fn reports(&self) -> Vec<DiskReport> {
        let state = self.state.lock();
        let mut reports: HashMap<(&str, &str), DiskReport> = HashMap::new();
        for kept in state.chunks.values() {
            let of = (&*kept.label, &*kept.column);
            let report = reports.entry(of).or_insert_with(|| DiskReport {
                table: of.0.into(),
                column: of.1.into(),
                num_chunks: 0,
                num_rows: 0,
                disk_bytes: 0,
                plain_bytes: 0,
                hits: 0,
            });
            report.num_chunks += 1;
            report.num_rows += kept.chunk.num_rows;
            report.disk_bytes += kept.chunk.bytes;
            report.plain_bytes += kept.chunk.plain_bytes;
            report.hits += kept.hits;
        }
        let mut reports: Vec<DiskReport> = reports.into_values().collect();
        reports
            .sort_by(|left, right| (&left.table, &left.column).cmp(&(&right.table, &right.column)));
        reports
    }

    /// Gives the next file a name; `None` if nothing is written any more.
    fn next_path(&self) -> Option<PathBuf> {
        let mut state = self.state.lock();
        let number = state.next_file;
        state.next_file += 1;
        let folder = state.folder.as_ref()?;
        Some(folder.0.join(number.to_string()))
    }

    /// Keeps what was written, in place of what was read less.
    fn keep(&self, key: ChunkKey, kept: Kept) {
        let mut state = self.state.lock();
        let bytes = kept.chunk.bytes;
        let need = (state.used + bytes).saturating_sub(state.limit);
        let gone = state.evict(need, kept.uses);
        let fits = state.used + bytes <= state.limit;
        if fits && !state.chunks.contains_key(&key) {
            state.used += bytes;
            state.chunks.insert(key, kept);
        }
        drop(state);
        drop(gone);
    }
}

impl State {
    /// Takes out chunks of at least so many bytes that give way to what was read so often, those that
    /// were read least first; nothing if there are not enough.
    fn evict(&mut self, bytes: u64, uses: f64) -> Vec<Kept> {
        if bytes == 0 {
            return Vec::new();
        }
        let candidates = self.chunks.iter().filter(|(_, kept)| kept.gives_way(uses));
        let mut candidates: Vec<(f64, ChunkKey, u64)> = candidates
            .map(|(key, kept)| (kept.uses, key.clone(), kept.chunk.bytes))
            .collect();
        candidates.sort_by(|left, right| left.0.total_cmp(&right.0));
        let mut freed = 0;
        let enough = candidates.iter().take_while(|(_, _, bytes_of)| {
            let goes = freed < bytes;
            freed += if goes { *bytes_of } else { 0 };
            goes
        });
        let keys: Vec<ChunkKey> = enough.map(|(_, key, _)| key.clone()).collect();
        if freed < bytes {
            return Vec::new();
        }
        self.used -= freed;
        let gone = keys.iter().filter_map(|key| self.chunks.remove(key));
        gone.collect()
    }
}

impl Kept {
    fn gives_way(&self, uses: f64) -> bool {
        uses > HYSTERESIS * self.uses && Arc::strong_count(&self.chunk) == 1
    }
}

/// Writes what comes, until nobody can send more. Lets its memory go once it is written.
fn write_all(offers: &Receiver<Offer>, tier: &Weak<DiskTier>) {
    while let Ok(offer) = offers.recv() {
        let Some(tier) = tier.upgrade() else {
            return;
        };
        let uses = offer.uses;
        if !tier.would_take(offer.chunk.host_bytes(), uses) {
            continue;
        }
        let Some(path) = tier.next_path() else {
            return;
        };
        // A disk that is full or gone keeps nothing.
        let Ok(Some(chunk)) = DiskChunk::write(&offer.chunk, path) else {
            continue;
        };
        let kept = Kept {
            chunk: Arc::new(chunk),
            uses,
            hits: 0,
            column: offer.label.column,
            label: offer.label.source,
        };
        tier.keep(offer.key, kept);
    }
}

/// Makes a folder that only this user can look into.
fn private_folder(within: &Path) -> io::Result<PathBuf> {
    let number = NEXT_FOLDER.fetch_add(1, Ordering::Relaxed);
    let name = format!("tidegate-cache-{}-{number}", std::process::id());
    let path = within.join(name);
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    match builder.create(&path) {
        // A process of the same number ended without tidying up; a link there is not followed.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_dir_all(&path)?;
            builder.create(&path)?;
        }
        other => other?,
    }
    Ok(path)
}
