//! Where the bytes of column chunks come from.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::file::metadata::ColumnChunkMetaData;

/// The bytes of a file, as far as somebody has them or reads them.
///
/// # Contract
/// `read` returns exactly the bytes of the range, or fails; a range that is not in the file is an error
/// and allocates nothing. It may block.
pub trait ChunkBytes: Send + Sync {
    /// Returns a range of the file.
    ///
    /// # Errors
    /// What kept the range from being read.
    fn read(&self, range: Range<u64>) -> io::Result<Bytes>;
}

/// Returns where the pages of a column chunk lie in its file; `None` if the footer gives no such place.
pub fn place_of(chunk: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = chunk.dictionary_page_offset();
    let start = start.unwrap_or_else(|| chunk.data_page_offset());
    let start = u64::try_from(start).ok()?;
    let length = u64::try_from(chunk.compressed_size()).ok()?;
    Some(start..start.checked_add(length)?)
}

/// A file in memory.
impl ChunkBytes for Bytes {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        slice_of(self, 0, &range).ok_or_else(|| beyond(&range, self.len() as u64))
    }
}

/// Parts of a file in memory, such as the column chunks that an object store gave.
#[derive(Clone, Debug, Default)]
pub struct FileParts(Vec<(u64, Bytes)>);

impl FileParts {
    /// Keeps parts by where they begin in the file.
    pub fn new(parts: Vec<(u64, Bytes)>) -> Self {
        let mut all = Self::default();
        all.add(parts);
        all
    }

    /// Keeps more parts.
    pub fn add(&mut self, parts: impl IntoIterator<Item = (u64, Bytes)>) {
        self.0.extend(parts);
        self.0.sort_by_key(|(start, _)| *start);
    }

    /// Returns how many bytes there are.
    pub fn num_bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl ChunkBytes for FileParts {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        let after = self.0.partition_point(|(start, _)| *start <= range.start);
        let part = after.checked_sub(1).and_then(|at| self.0.get(at));
        part.and_then(|(start, bytes)| slice_of(bytes, *start, &range))
            .ok_or_else(|| {
                let message = format!("bytes {} to {} are not there", range.start, range.end);
                io::Error::new(io::ErrorKind::UnexpectedEof, message)
            })
    }
}

fn slice_of(bytes: &Bytes, start: u64, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}

fn beyond(range: &Range<u64>, size: u64) -> io::Error {
    let message = format!(
        "bytes {} to {} are beyond the file's {size}",
        range.start, range.end
    );
    io::Error::new(io::ErrorKind::UnexpectedEof, message)
}

/// A file of a local disk, read into buffers that are used again.
#[derive(Debug)]
pub struct LocalFile {
    file: Arc<File>,
    size: u64,
    buffers: Buffers,
}

impl LocalFile {
    /// Reads from an open file; what is beyond the size that it has now is not read.
    ///
    /// # Errors
    /// The file's size is not known.
    pub fn new(file: impl Into<Arc<File>>, buffers: &Buffers) -> io::Result<Self> {
        let file = file.into();
        let size = file.metadata()?.len();
        Ok(Self {
            file,
            size,
            buffers: buffers.clone(),
        })
    }
}

impl ChunkBytes for LocalFile {
    fn read(&self, range: Range<u64>) -> io::Result<Bytes> {
        if range.start > range.end || range.end > self.size {
            return Err(beyond(&range, self.size));
        }
        let length = usize::try_from(range.end - range.start);
        let length = length.map_err(|_| beyond(&range, self.size))?;
        let mut buffer = self.buffers.take(length);
        read_exact_at(&self.file, buffer.as_mut(), range.start)?;
        Ok(Bytes::from_owner(buffer))
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, buffer: &mut [u8], at: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, buffer, at)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut buffer: &mut [u8], mut at: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, buffer, at)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
        }
    }
    Ok(())
}

/// Buffers that wait to be used again.
const WAITING_MAX: usize = 64;
/// Bytes up to which a buffer is kept: larger pages and windows are rare.
const KEPT_BYTES_MAX: usize = 16 << 20;

/// A pool of byte buffers: what is dropped comes back. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Buffers(Arc<Pool>);

#[derive(Debug, Default)]
struct Pool {
    waiting: Mutex<Vec<Vec<u8>>>,
    /// What all buffers have, those that wait and those that were taken.
    num_bytes: AtomicUsize,
}

impl Buffers {
    /// Returns how many bytes the buffers have, those that wait and those that are in use.
    pub fn num_bytes(&self) -> usize {
        self.0.num_bytes.load(Ordering::Relaxed)
    }

    /// Returns a buffer of a length; what is in it is unspecified.
    pub(crate) fn take(&self, length: usize) -> Buffer {
        let mut bytes = {
            let mut waiting = self.0.waiting.lock();
            let fits = waiting.iter().rposition(|buffer| buffer.len() >= length);
            match fits {
                Some(at) => waiting.swap_remove(at),
                None => waiting.pop().unwrap_or_default(),
            }
        };
        if bytes.len() < length {
            let before = bytes.len();
            bytes.resize(length, 0);
            let more = length - before;
            self.0.num_bytes.fetch_add(more, Ordering::Relaxed);
        }
        Buffer {
            bytes,
            length,
            pool: self.clone(),
        }
    }
}

/// A buffer of a pool.
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    length: usize,
    pool: Buffers,
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let pool = &self.pool.0;
        if bytes.len() <= KEPT_BYTES_MAX {
            let mut waiting = pool.waiting.lock();
            if waiting.len() < WAITING_MAX {
                waiting.push(bytes);
                return;
            }
        }
        pool.num_bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
