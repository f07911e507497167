//! Entries to sort: 16 bytes of a row's encoded key as a number, and the row's position.

use std::ops::Range;

use datafusion::arrow::row::Rows;

/// The size of an entry.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// The bytes of a key that an entry holds.
const KEY_BYTES: usize = 16;

/// After this many rows a task yields to others.
const ROWS_AT_ONCE: usize = 1 << 17;

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

    pub(super) fn key(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.low)
    }

    /// What entries are sorted by if they hold all in which keys differ.
    pub(super) fn key_and_position(&self) -> (u128, u64) {
        let position = u64::from(self.batch) << 32 | u64::from(self.row);
        (self.key(), position)
    }

    /// The row's batch, and its place there.
    pub(super) fn position(&self) -> (usize, usize) {
        (self.batch as usize, self.row as usize)
    }
}

/// The encoded keys of gathered rows, batch by batch, in Arrow's row format.
#[derive(Default)]
pub(super) struct Keys(Vec<Rows>);

impl Keys {
    pub(super) fn push(&mut self, rows: Rows) {
        self.0.push(rows);
    }

    pub(super) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Returns the memory that the keys take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(Rows::size).sum()
    }

    /// Returns the bytes of a row's key from a position on; none once the keys were dropped.
    pub(super) fn rest(&self, entry: &Entry, from: usize) -> &[u8] {
        let (batch, row) = entry.position();
        let key = self.0.get(batch).map(|rows| rows.row(row).data());
        key.and_then(|key| key.get(from..)).unwrap_or_default()
    }

    /// Makes an entry for each row of some batches.
    pub(super) async fn entries(&self, batches: Range<usize>, held: &Held) -> Vec<Entry> {
        let mut pause = Pause::default();
        let of_batches = &self.0[batches.clone()];
        let mut entries = Vec::with_capacity(of_batches.iter().map(Rows::num_rows).sum());
        for (batch, rows) in batches.zip(of_batches) {
            let rows = rows.iter().enumerate();
            entries.extend(rows.map(|(row, key)| Entry::new(batch, row, held.bytes(key.data()))));
            pause.after(self.0[batch].num_rows()).await;
        }
        entries
    }

    /// Gives entries that tie at the bytes before `from` the next bytes in which their keys differ. Returns the
    /// position from which keys have to be compared after that; `None` if they are equal.
    pub(super) fn take_later_bytes(&self, entries: &mut [Entry], from: usize) -> Option<usize> {
        let first = entries.first().map(|entry| self.rest(entry, from));
        let first = first.unwrap_or_default();
        let (mut common, mut are_equal) = (first.len(), true);
        for entry in &*entries {
            let rest = self.rest(entry, from);
            are_equal &= rest == first;
            common = common_prefix(&first[..common], rest);
        }
        for entry in entries {
            *entry = entry.with(bytes_from(self.rest(entry, 0), from + common));
        }
        (!are_equal).then_some(from + common + KEY_BYTES)
    }
}

/// What keys have in common: of keys of equal length the bits in which they agree, of others their common prefix.
pub(super) struct Common {
    have_equal_length: bool,
    /// The first key, or its beginning; `None` before it was seen.
    first: Option<Vec<u8>>,
    /// Bits in which a key differs from the first one.
    differs: Vec<u8>,
}

impl Common {
    pub(super) fn new(have_equal_length: bool) -> Self {
        Self {
            have_equal_length,
            first: None,
            differs: Vec::new(),
        }
    }

    /// Takes the keys of a batch in.
    pub(super) fn add(&mut self, rows: &Rows) {
        for row in rows {
            self.add_key(row.data());
        }
    }

    /// Takes in what other keys have in common.
    pub(super) fn join(&mut self, other: &Self) {
        if let Some(first) = &other.first {
            self.add_key(first);
            let differs = self.differs.iter_mut().zip(&other.differs);
            differs.for_each(|(differs, other)| *differs |= other);
        }
    }

    fn add_key(&mut self, key: &[u8]) {
        let Some(first) = &mut self.first else {
            self.differs = vec![0; key.len()];
            self.first = Some(key.to_vec());
            return;
        };
        match self.have_equal_length {
            true => {
                let differs = self.differs.iter_mut().zip(&*first).zip(key);
                differs.for_each(|((differs, first), byte)| *differs |= first ^ byte);
            }
            false => first.truncate(common_prefix(first, key)),
        }
    }

    /// Returns which bytes of keys entries hold: of keys of equal length the first 16 in which any two of them
    /// differ, of others the 16 after their common prefix.
    pub(super) fn held(&self) -> Held {
        if !self.have_equal_length {
            let prefix = self.first.as_ref().map_or(0, Vec::len);
            return Held {
                positions: None,
                prefix,
                compare_from: Some(prefix + KEY_BYTES),
            };
        }
        let positions = (0..self.differs.len()).filter(|position| self.differs[*position] != 0);
        let mut positions: Vec<usize> = positions.collect();
        let compare_from = positions.get(KEY_BYTES).copied();
        positions.truncate(KEY_BYTES);
        Held {
            positions: Some(positions),
            prefix: 0,
            compare_from,
        }
    }
}

/// Which bytes of keys entries hold.
pub(super) struct Held {
    /// Their positions; `None` for those after the common prefix.
    positions: Option<Vec<usize>>,
    /// The length of the common prefix.
    prefix: usize,
    /// The position from which keys have to be compared where entries tie; `None` if entries hold all in which keys
    /// differ.
    pub(super) compare_from: Option<usize>,
}

impl Held {
    fn bytes(&self, key: &[u8]) -> [u8; KEY_BYTES] {
        let Some(positions) = &self.positions else {
            return bytes_from(key, self.prefix);
        };
        let mut bytes = [0; KEY_BYTES];
        for (byte, position) in bytes.iter_mut().zip(positions) {
            *byte = key.get(*position).copied().unwrap_or_default();
        }
        bytes
    }
}

/// Yields to other tasks now and then.
#[derive(Default)]
pub(super) struct Pause(usize);

impl Pause {
    pub(super) async fn after(&mut self, rows: usize) {
        self.0 += rows;
        if self.0 >= ROWS_AT_ONCE {
            self.0 = 0;
            tokio::task::yield_now().await;
        }
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

/// Returns the bytes of a key from a position on, padded with zeros.
fn bytes_from(key: &[u8], start: usize) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let rest = key.get(start..).unwrap_or_default();
    let held = rest.len().min(KEY_BYTES);
    bytes[..held].copy_from_slice(&rest[..held]);
    bytes
}
