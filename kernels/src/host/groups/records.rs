//! Groups, or single rows, as records: the words of a key, and behind them those of a state.
//!
//! Records are scattered to [`PARTITIONS`] partitions by bits of their keys' hash, so that a group has all
//! of its records in one partition, whatever thread wrote them, and the table of a partition's groups fits a cache.
//! A record goes first to a small buffer of its partition; the buffers together fit the second level of
//! cache, and leave it as whole lines.

/// So many partitions.
pub const PARTITIONS: usize = 1 << 10;

/// The lowest bit of a hash that chooses the partition; tables of groups go by the highest.
const PARTITION_SHIFT: u32 = 24;

/// Words of a partition's buffer.
const BUFFER_WORDS: usize = 32;

/// Words of a partition's memory that are asked for at once, at least and at most.
const CHUNK_WORDS: (usize, usize) = (BUFFER_WORDS * 4, 1 << 15);

/// The most words of a record.
pub(super) const RECORD_WORDS_MAX: usize = BUFFER_WORDS;

/// The records of one partition.
#[derive(Debug, Default)]
pub struct Partition {
    chunks: Vec<Vec<u64>>,
    num_words: usize,
    capacity: usize,
}

impl Partition {
    /// Returns the bytes that the records take.
    pub fn memory_bytes(&self) -> usize {
        self.capacity * 8
    }

    /// Takes the words of some of the records out.
    pub(in super::super) fn take(&mut self) -> Option<Vec<u64>> {
        let chunk = self.chunks.pop()?;
        self.num_words -= chunk.len();
        self.capacity -= chunk.capacity();
        Some(chunk)
    }

    /// Appends whole records; returns by how many words the memory grew.
    fn append(&mut self, records: &[u64]) -> usize {
        let mut grown = 0;
        let has_room = |chunk: &Vec<u64>| chunk.capacity() - chunk.len() >= records.len();
        if !self.chunks.last().is_some_and(has_room) {
            let wanted = (self.num_words / 2).clamp(CHUNK_WORDS.0, CHUNK_WORDS.1);
            let chunk = Vec::with_capacity(wanted.max(records.len()));
            grown = chunk.capacity();
            self.chunks.push(chunk);
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.extend_from_slice(records);
        }
        self.num_words += records.len();
        self.capacity += grown;
        grown
    }
}

/// Records of so many words each, by partition.
#[derive(Debug)]
pub(super) struct Records {
    width: usize,
    /// Words of a buffer, whole records.
    buffer: usize,
    buffers: Vec<u64>,
    /// Words in each buffer.
    filled: Vec<u32>,
    partitions: Vec<Partition>,
    /// Words of the partitions' memory.
    capacity: usize,
}

impl Records {
    /// Starts without records; `width` is from 1 to [`RECORD_WORDS_MAX`].
    pub(super) fn new(width: usize) -> Self {
        let buffer = BUFFER_WORDS / width * width;
        Self {
            width,
            buffer,
            buffers: vec![0; PARTITIONS * buffer],
            filled: vec![0; PARTITIONS],
            partitions: (0..PARTITIONS).map(|_| Partition::default()).collect(),
            capacity: 0,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let partitions = PARTITIONS * size_of::<Partition>();
        (self.capacity + self.buffers.len()) * 8 + self.filled.len() * 4 + partitions
    }

    /// Adds records that lie one after the other, by the hashes of their keys.
    pub(super) fn push(&mut self, hashes: &[u64], records: &[u64]) {
        macro_rules! by_width {
            ($($width:literal)*) => {
                match self.width {
                    $($width => self.push_arrays::<$width>(hashes, records),)*
                    _ => self.push_slices(hashes, records),
                }
            };
        }
        by_width!(1 2 3 4 5 6 7 8);
    }

    fn push_arrays<const W: usize>(&mut self, hashes: &[u64], records: &[u64]) {
        let (records, _) = records.as_chunks::<W>();
        for (hash, record) in hashes.iter().zip(records) {
            let partition = partition_of(*hash);
            let from = partition * self.buffer + self.filled[partition] as usize;
            if let Some(to) = self.buffers[from..].first_chunk_mut::<W>() {
                *to = *record;
            }
            self.filled[partition] += W as u32;
            if self.filled[partition] as usize == self.buffer {
                self.empty(partition);
            }
        }
    }

    fn push_slices(&mut self, hashes: &[u64], records: &[u64]) {
        for (hash, record) in hashes.iter().zip(records.chunks_exact(self.width)) {
            let partition = partition_of(*hash);
            let from = partition * self.buffer + self.filled[partition] as usize;
            self.buffers[from..from + self.width].copy_from_slice(record);
            self.filled[partition] += self.width as u32;
            if self.filled[partition] as usize == self.buffer {
                self.empty(partition);
            }
        }
    }

    /// Moves a buffer's records to its partition.
    fn empty(&mut self, partition: usize) {
        let filled = std::mem::take(&mut self.filled[partition]) as usize;
        let from = partition * self.buffer;
        let records = &self.buffers[from..from + filled];
        self.capacity += self.partitions[partition].append(records);
    }

    /// Returns the partitions with all records.
    pub(super) fn finish(mut self) -> Vec<Partition> {
        for partition in 0..PARTITIONS {
            if self.filled[partition] > 0 {
                self.empty(partition);
            }
        }
        self.partitions
    }
}

#[inline(always)]
fn partition_of(hash: u64) -> usize {
    (hash >> PARTITION_SHIFT) as usize % PARTITIONS
}
