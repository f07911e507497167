//! Entries to sort: 16 bytes of a row's encoded key as a number, and the row's position.
//!
//! Entries are partitioned by their leading bits (MSD radix) until a partition fits a cache, and each partition is
//! sorted when its rows are needed. Ties are broken by the rest of the keys, and then by position.

use datafusion::arrow::row::Rows;

/// The size of an entry.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// The bytes of a key that an entry holds.
const KEY_BYTES: usize = 16;

/// After this many rows the task yields to others.
const ROWS_AT_ONCE: usize = 1 << 17;

/// Partitions with more entries are partitioned again before they are sorted.
const SORTED_MAX: usize = 1 << 12;

/// The average number of entries that partitioning aims at.
const PARTITION_ENTRIES: usize = 1 << 9;

/// The most partitions that one pass makes.
const PARTITIONS_MAX: usize = 1 << 12;

/// 16 bytes of a row's key, which compare as a number, and the row's position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    high: u64,
    low: u64,
    batch: u32,
    row: u32,
}

impl Entry {
    fn new(batch: usize, row: usize, bytes: [u8; KEY_BYTES]) -> Self {
        let entry = Self {
            high: 0,
            low: 0,
            batch: batch as u32,
            row: row as u32,
        };
        entry.with(bytes)
    }

    /// The same row with other bytes of its key.
    fn with(self, bytes: [u8; KEY_BYTES]) -> Self {
        let key = u128::from_be_bytes(bytes);
        Self {
            high: (key >> 64) as u64,
            low: key as u64,
            ..self
        }
    }

    fn batch(&self) -> usize {
        self.batch as usize
    }

    fn row(&self) -> usize {
        self.row as usize
    }

    fn key(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    fn position(&self) -> (u32, u32) {
        (self.batch, self.row)
    }
}

/// The encoded keys of gathered rows, batch by batch, in Arrow's row format.
pub(super) struct Keys(Vec<Rows>);

impl Keys {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn push(&mut self, rows: Rows) {
        self.0.push(rows);
    }

    /// Returns the memory that the keys take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(Rows::size).sum()
    }

    /// Returns the key of a row; empty once the keys were dropped.
    fn of(&self, entry: &Entry) -> &[u8] {
        let rows = self.0.get(entry.batch());
        rows.map_or(&[], |rows| rows.row(entry.row()).data())
    }

    /// Makes an entry for each row. Keys of equal length (`have_equal_length`) contribute their first 16 bytes at
    /// positions where any two keys differ, other keys the 16 bytes after their common prefix. Also returns the
    /// position from which keys have to be compared where entries tie; `None` if entries hold all that keys differ in.
    pub(super) async fn entries(&self, have_equal_length: bool) -> (Vec<Entry>, Option<usize>) {
        let Some(first) = self.0.first().map(|rows| rows.row(0).data().to_vec()) else {
            return (Vec::new(), None);
        };
        let mut pause = Pause::default();
        let mut differs = vec![0_u8; first.len()];
        let mut common = first.len();
        for rows in &self.0 {
            for row in rows {
                match have_equal_length {
                    true => note_differences(&mut differs, &first, row.data()),
                    false => common = common_prefix(&first[..common], row.data()),
                }
            }
            pause.after(rows.num_rows()).await;
        }
        let positions = (0..first.len()).filter(|position| differs[*position] != 0);
        let positions: Vec<usize> = positions.collect();
        let held = &positions[..positions.len().min(KEY_BYTES)];
        let mut entries = Vec::with_capacity(self.0.iter().map(Rows::num_rows).sum());
        for (batch, rows) in self.0.iter().enumerate() {
            entries.extend(rows.iter().enumerate().map(|(row, key)| {
                let bytes = match have_equal_length {
                    true => bytes_at(key.data(), held),
                    false => bytes_from(key.data(), common),
                };
                Entry::new(batch, row, bytes)
            }));
            pause.after(rows.num_rows()).await;
        }
        let compare_from = match have_equal_length {
            true => positions.get(KEY_BYTES).copied(),
            false => Some(common + KEY_BYTES),
        };
        (entries, compare_from)
    }
}

/// Yields to other tasks now and then.
#[derive(Default)]
struct Pause(usize);

impl Pause {
    async fn after(&mut self, rows: usize) {
        self.0 += rows;
        if self.0 >= ROWS_AT_ONCE {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Sets the bytes of `differs` at positions where a key differs from the first one.
fn note_differences(differs: &mut [u8], first: &[u8], key: &[u8]) {
    for ((differs, first), byte) in differs.iter_mut().zip(first).zip(key) {
        *differs |= first ^ byte;
    }
}

/// Returns the length of the common prefix of two keys.
fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    if right.starts_with(left) {
        return left.len();
    }
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

/// Returns the bytes of a key at some positions, padded with zeros.
fn bytes_at(key: &[u8], positions: &[usize]) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    for (byte, position) in bytes.iter_mut().zip(positions) {
        *byte = key.get(*position).copied().unwrap_or_default();
    }
    bytes
}

/// Returns the bytes of a key from a position on, padded with zeros.
fn bytes_from(key: &[u8], start: usize) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let rest = key.get(start..).unwrap_or_default();
    let held = rest.len().min(KEY_BYTES);
    bytes[..held].copy_from_slice(&rest[..held]);
    bytes
}

/// Entries that all sort before, or all after, those of any other partition.
struct Partition {
    entries: Vec<Entry>,
    /// The position from which keys are compared where entries tie; `None` if such keys are equal.
    compare_from: Option<usize>,
}

/// Entries that are sorted as they are asked for.
pub(super) struct Sorted {
    /// Partitions that are not sorted yet; the first one in the order is the last one here.
    partitions: Vec<Partition>,
    /// The partition that is being returned, and how many of its entries were.
    current: Vec<Entry>,
    returned: usize,
}

impl Sorted {
    /// Takes all entries, as [`Keys::entries`] returns them.
    pub(super) fn new(entries: Vec<Entry>, compare_from: Option<usize>) -> Self {
        Self {
            partitions: vec![Partition {
                entries,
                compare_from,
            }],
            current: Vec::new(),
            returned: 0,
        }
    }

    /// Returns the positions (batch, row) of at most `rows` next rows; none at the end.
    pub(super) async fn next(&mut self, rows: usize, keys: &Keys) -> Vec<(usize, usize)> {
        let mut pause = Pause::default();
        let mut positions = Vec::with_capacity(rows);
        while positions.len() < rows {
            let rest = &self.current[self.returned..];
            let next = &rest[..rest.len().min(rows - positions.len())];
            positions.extend(next.iter().map(|entry| (entry.batch(), entry.row())));
            self.returned += next.len();
            if self.returned < self.current.len() {
                continue;
            }
            let Some(partition) = self.partitions.pop() else {
                break;
            };
            self.sort(partition, keys, &mut pause).await;
        }
        positions
    }

    /// Sorts a partition, or replaces it by several, or by one with later bytes of its keys.
    async fn sort(&mut self, partition: Partition, keys: &Keys, pause: &mut Pause) {
        let Partition {
            mut entries,
            compare_from,
        } = partition;
        pause.after(entries.len()).await;
        if entries.len() > SORTED_MAX {
            let of_entries = || entries.iter().map(Entry::key);
            let least = of_entries().min().unwrap_or_default();
            let most = of_entries().max().unwrap_or_default();
            if least < most {
                self.split(&entries, least, most, compare_from, pause).await;
                return;
            }
            if let Some(from) = compare_from {
                self.partitions.push(with_later_bytes(entries, from, keys));
                return;
            }
        }
        let rest = |entry: &Entry| keys.of(entry).get(compare_from.unwrap_or(usize::MAX)..);
        entries.sort_unstable_by(|left, right| {
            let order = left.key().cmp(&right.key());
            let order = order.then_with(|| rest(left).cmp(&rest(right)));
            order.then_with(|| left.position().cmp(&right.position()))
        });
        (self.current, self.returned) = (entries, 0);
    }

    /// Splits entries into partitions by the leading bits of their distance from the least key.
    async fn split(
        &mut self,
        entries: &[Entry],
        least: u128,
        most: u128,
        compare_from: Option<usize>,
        pause: &mut Pause,
    ) {
        let partitions = (entries.len() / PARTITION_ENTRIES).next_power_of_two();
        let partitions = partitions.min(PARTITIONS_MAX);
        let bits = u128::BITS - (most - least).leading_zeros();
        let shift = bits.saturating_sub(partitions.trailing_zeros());
        let partition = |entry: &Entry| ((entry.key() - least) >> shift) as usize;
        let mut counts = vec![0_usize; partitions];
        for chunk in entries.chunks(ROWS_AT_ONCE) {
            for entry in chunk {
                counts[partition(entry)] += 1;
            }
            pause.after(chunk.len()).await;
        }
        let mut split: Vec<Vec<Entry>> = counts.into_iter().map(Vec::with_capacity).collect();
        for chunk in entries.chunks(ROWS_AT_ONCE) {
            for entry in chunk {
                split[partition(entry)].push(*entry);
            }
            pause.after(chunk.len()).await;
        }
        let split = split
            .into_iter()
            .rev()
            .filter(|entries| !entries.is_empty());
        self.partitions.extend(split.map(|entries| Partition {
            entries,
            compare_from,
        }));
    }
}

/// Gives entries that tie the next bytes in which their keys differ.
fn with_later_bytes(mut entries: Vec<Entry>, from: usize, keys: &Keys) -> Partition {
    let rest = |entry: &Entry| keys.of(entry).get(from..).unwrap_or_default();
    let first = entries.first().map(rest).unwrap_or_default();
    let (mut common, mut are_equal) = (first.len(), true);
    for entry in &entries {
        are_equal &= rest(entry) == first;
        common = common_prefix(&first[..common], rest(entry));
    }
    for entry in &mut entries {
        *entry = entry.with(bytes_from(keys.of(entry), from + common));
    }
    Partition {
        entries,
        compare_from: (!are_equal).then_some(from + common + KEY_BYTES),
    }
}

#[cfg(test)]
mod tests;
