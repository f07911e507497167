//! Where the bytes of a row group's pages come from: windows of a file of this machine, or the column
//! chunks that another store gave.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore};
use parking_lot::RwLock;
use tidegate_pages::{Buffers, ChunkBytes, FileParts, LocalFile};

/// Opens a file, if it is one of this machine that its store gives as such.
pub(super) async fn open_local(
    store: &dyn ObjectStore,
    url: &ObjectStoreUrl,
    location: &Path,
) -> Option<Arc<File>> {
    if !is_local(url) {
        return None;
    }
    let got = store.get_opts(location, GetOptions::default()).await.ok()?;
    match got.payload {
        GetResultPayload::File(file, _) => Some(Arc::new(file)),
        GetResultPayload::Stream(_) => None,
    }
}

/// Returns whether a store's files are files of this machine.
fn is_local(url: &ObjectStoreUrl) -> bool {
    url.as_str().starts_with("file://")
}

/// The bytes of a row group, with how many were read and how long that took.
pub(super) struct RowGroupBytes {
    from: Source,
    read_bytes: AtomicU64,
    read_nanos: AtomicU64,
}

enum Source {
    /// Windows are read when they are asked for.
    Windows(LocalFile),
    /// What was fetched before.
    Fetched(RwLock<FileParts>),
}

impl RowGroupBytes {
    /// Reads a file of this machine, or what is [added](Self::add).
    ///
    /// # Errors
    /// The file's size is not known.
    pub(super) fn new(file: Option<&Arc<File>>, buffers: &Buffers) -> io::Result<Self> {
        let from = match file {
            Some(file) => Source::Windows(LocalFile::new(Arc::clone(file), buffers)?),
            None => Source::Fetched(RwLock::default()),
        };
        Ok(Self {
            from,
            read_bytes: AtomicU64::new(0),
            read_nanos: AtomicU64::new(0),
        })
    }

    /// Returns whether bytes must be added before they are read.
    pub(super) fn is_fetched(&self) -> bool {
        matches!(self.from, Source::Fetched(_))
    }

    /// Adds parts that were read in so much time.
    pub(super) fn add(&self, parts: Vec<(u64, Bytes)>, time: Duration) {
        let num_bytes = parts.iter().map(|(_, bytes)| bytes.len()).sum();
        if let Source::Fetched(all) = &self.from {
            all.write().add(parts);
        }
        self.count(num_bytes, time);
    }

    /// Returns the bytes that are held here, and in no buffer.
    pub(super) fn held_bytes(&self) -> usize {
        match &self.from {
            Source::Windows(_) => 0,
            Source::Fetched(parts) => parts.read().num_bytes(),
        }
    }

    /// Returns how many bytes were read since the last call, and in what time.
    pub(super) fn take_counts(&self) -> (usize, Duration) {
        let bytes = self.read_bytes.swap(0, Ordering::Relaxed);
        let nanos = self.read_nanos.swap(0, Ordering::Relaxed);
        (bytes as usize, Duration::from_nanos(nanos))
    }

    fn count(&self, bytes: usize, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.read_nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl ChunkBytes for RowGroupBytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        match &self.from {
            Source::Windows(file) => {
                let began = Instant::now();
                let bytes = file.read(range)?;
                self.count(bytes.len(), began.elapsed());
                Ok(bytes)
            }
            Source::Fetched(parts) => parts.read().read(range),
        }
    }
}
