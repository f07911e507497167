//! Column chunks in host memory: made batch by batch, read batch by batch.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow_array::{Array as _, ArrayRef};
use arrow_schema::ArrowError;

use super::account::HostBytes;
use super::segment::Segment;

/// One column of one row group, in host memory.
#[derive(Debug)]
pub struct HostChunk {
    segments: Vec<Segment>,
    num_rows: u64,
    plain_bytes: u64,
    /// What the chunk takes; it comes back with the chunk's last user.
    bytes: HostBytes,
}

impl HostChunk {
    /// Returns how many rows there are.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns the bytes that it takes.
    pub fn host_bytes(&self) -> u64 {
        self.bytes.get()
    }

    /// Returns the bytes of the arrays that it was made from.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Returns its rows, as they were kept: batch by batch, or as pages had them.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Returns the encoding of most of its rows.
    pub fn encoding(&self) -> &'static str {
        let mut rows: BTreeMap<&str, usize> = BTreeMap::new();
        for segment in &self.segments {
            *rows.entry(segment.encoding()).or_default() += segment.num_rows();
        }
        let most = rows.into_iter().max_by_key(|(_, rows)| *rows);
        most.map_or("plain", |(encoding, _)| encoding)
    }
}

/// A chunk in the making.
#[derive(Debug, Default)]
pub struct ChunkBuilder {
    segments: Vec<Segment>,
    num_rows: u64,
    plain_bytes: u64,
    host_bytes: u64,
    counted: HashSet<usize>,
}

impl ChunkBuilder {
    /// Begins a chunk that pretends to take so many bytes.
    #[cfg(test)]
    pub(super) fn of_size(host_bytes: u64) -> Self {
        Self {
            host_bytes,
            ..Self::default()
        }
    }

    /// Adds a batch of the column; returns the bytes that it takes.
    pub fn push(&mut self, array: &ArrayRef) -> u64 {
        if array.is_empty() {
            return 0;
        }
        self.push_segment(Segment::encode(array), array.get_array_memory_size() as u64)
    }

    /// Adds rows that take so many bytes as arrays; returns the bytes that they take.
    pub(super) fn push_segment(&mut self, segment: Segment, plain_bytes: u64) -> u64 {
        self.plain_bytes += plain_bytes;
        let bytes = segment.bytes(&mut self.counted) as u64;
        self.num_rows += segment.num_rows() as u64;
        self.host_bytes += bytes;
        self.segments.push(segment);
        bytes
    }

    /// Returns how many rows were added.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }

    /// Returns the bytes that they take.
    pub fn host_bytes(&self) -> u64 {
        self.host_bytes
    }

    /// Returns the bytes of the arrays that were added.
    pub fn plain_bytes(&self) -> u64 {
        self.plain_bytes
    }

    /// Ends the chunk, which takes its bytes from `charge`.
    pub fn finish(self, charge: &mut HostBytes) -> HostChunk {
        HostChunk {
            segments: self.segments,
            num_rows: self.num_rows,
            plain_bytes: self.plain_bytes,
            bytes: charge.split(self.host_bytes),
        }
    }
}

/// Reads chunks of one row group side by side.
#[derive(Debug)]
pub struct ChunkReader {
    columns: Vec<Column>,
    rows_left: usize,
    batch_rows: usize,
}

#[derive(Debug)]
struct Column {
    chunk: Arc<HostChunk>,
    segment: usize,
    /// Rows of the segment that were read.
    at: usize,
}

impl ChunkReader {
    /// Reads these chunks, which have the same number of rows, in batches of at most `batch_rows`.
    pub fn new(chunks: Vec<Arc<HostChunk>>, batch_rows: usize) -> Self {
        let rows_left = chunks.first().map_or(0, |chunk| chunk.num_rows as usize);
        let column = |chunk| Column {
            chunk,
            segment: 0,
            at: 0,
        };
        Self {
            columns: chunks.into_iter().map(column).collect(),
            rows_left,
            batch_rows: batch_rows.max(1),
        }
    }

    fn read(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut num_rows = self.batch_rows.min(self.rows_left);
        for column in &mut self.columns {
            num_rows = num_rows.min(column.fill()?);
        }
        self.rows_left -= num_rows;
        let columns = self.columns.iter_mut();
        columns.map(|column| column.take(num_rows)).collect()
    }
}

impl Column {
    fn segment(&self) -> Result<&Segment, ArrowError> {
        self.chunk.segments.get(self.segment).ok_or_else(too_short)
    }

    /// Makes sure that rows of a segment are left; returns how many.
    fn fill(&mut self) -> Result<usize, ArrowError> {
        if self.at >= self.segment()?.num_rows() {
            self.segment += 1;
            self.at = 0;
        }
        Ok(self.segment()?.num_rows() - self.at)
    }

    /// Takes rows that are left.
    fn take(&mut self, num_rows: usize) -> Result<ArrayRef, ArrowError> {
        let rows = self.at..self.at + num_rows;
        self.at = rows.end;
        self.segment()?.decode(rows)
    }
}

fn too_short() -> ArrowError {
    ArrowError::InvalidArgumentError("a column chunk of the host tier has too few rows".into())
}

impl Iterator for ChunkReader {
    type Item = Result<Vec<ArrayRef>, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        (self.rows_left > 0).then(|| self.read())
    }
}
