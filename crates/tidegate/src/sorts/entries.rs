//! Entries of rows to sort: what their keys differ in, and where they are.

use datafusion::arrow::row::Rows;

/// The bytes of an entry.
pub(super) const ENTRY_BYTES: usize = size_of::<Entry>();

/// The bytes of a key that an entry has.
const KEY_BYTES: usize = 16;

/// Batches after which others may run.
const BATCHES_AT_ONCE: usize = 16;

/// Groups of at most so many entries are sorted; larger ones are spread first.
const SORTED_MAX: usize = 1 << 12;

/// Entries of a group that others are spread over, on average.
const GROUP_ENTRIES: usize = 1 << 9;

/// The most groups that entries are spread over at once.
const GROUPS_MAX: usize = 1 << 12;

/// A row: bytes of its key as numbers, and its place.
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

    fn place(&self) -> (u32, u32) {
        (self.batch, self.row)
    }
}

/// The keys of rows, in the order of batches.
pub(super) struct Keys(Vec<Rows>);

impl Keys {
    pub(super) fn new() -> Self {
        Self(Vec::new())
    }

    pub(super) fn push(&mut self, rows: Rows) {
        self.0.push(rows);
    }

    /// Returns the bytes that they take.
    pub(super) fn memory_bytes(&self) -> usize {
        self.0.iter().map(Rows::size).sum()
    }

    /// Returns the key of a row; none once keys are no longer kept.
    fn of(&self, entry: &Entry) -> &[u8] {
        let rows = self.0.get(entry.batch());
        rows.map_or(&[], |rows| rows.row(entry.row()).data())
    }

    /// Makes an entry of each row: the bytes of its key at the first places at which keys differ, if they have as many
    /// bytes; else those from where they begin to differ. Returns also the bytes that are behind them in keys of any
    /// length; `None` if entries have all that keys differ in.
    pub(super) async fn entries(&self, are_fixed: bool) -> (Vec<Entry>, Option<usize>) {
        let Some(first) = self.0.first().map(|rows| rows.row(0).data().to_vec()) else {
            return (Vec::new(), None);
        };
        let mut differs = vec![0_u8; first.len()];
        let mut same = first.len();
        for (batch, rows) in self.0.iter().enumerate() {
            for row in rows {
                match are_fixed {
                    true => note_differences(&mut differs, &first, row.data()),
                    false => same = common(&first[..same], row.data()),
                }
            }
            let_others_run(batch).await;
        }
        let places = (0..first.len()).filter(|place| differs[*place] != 0);
        let places: Vec<usize> = places.collect();
        let taken = &places[..places.len().min(KEY_BYTES)];
        let mut entries = Vec::with_capacity(self.0.iter().map(Rows::num_rows).sum());
        for (batch, rows) in self.0.iter().enumerate() {
            let of_rows = rows.iter().enumerate();
            entries.extend(of_rows.map(|(row, key)| {
                let bytes = match are_fixed {
                    true => picked(key.data(), taken),
                    false => from(key.data(), same),
                };
                Entry::new(batch, row, bytes)
            }));
            let_others_run(batch).await;
        }
        let behind = match (are_fixed, places.get(KEY_BYTES)) {
            (true, None) => None,
            (true, Some(next)) => Some(*next),
            (false, _) => Some(same + KEY_BYTES),
        };
        (entries, behind)
    }
}

async fn let_others_run(batch: usize) {
    if batch.is_multiple_of(BATCHES_AT_ONCE) {
        tokio::task::yield_now().await;
    }
}

/// Notes at which places a key differs from the first one.
fn note_differences(differs: &mut [u8], first: &[u8], key: &[u8]) {
    for ((differs, first), byte) in differs.iter_mut().zip(first).zip(key) {
        *differs |= first ^ byte;
    }
}

/// Returns with how many bytes both keys begin.
fn common(left: &[u8], right: &[u8]) -> usize {
    if right.starts_with(left) {
        return left.len();
    }
    let pairs = left.iter().zip(right);
    pairs.take_while(|(left, right)| left == right).count()
}

fn picked(key: &[u8], places: &[usize]) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    for (byte, place) in bytes.iter_mut().zip(places) {
        *byte = key.get(*place).copied().unwrap_or_default();
    }
    bytes
}

/// Returns the bytes of a key from a place on; zeros stand behind its end.
fn from(key: &[u8], start: usize) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    let rest = key.get(start..).unwrap_or_default();
    let taken = rest.len().min(KEY_BYTES);
    bytes[..taken].copy_from_slice(&rest[..taken]);
    bytes
}

/// Entries of which all are before, or behind, those of other groups.
struct Group {
    entries: Vec<Entry>,
    /// Where the bytes are that entries of equal bytes differ in, at the earliest; `None` if they are equal.
    behind: Option<usize>,
}

/// Entries on their way out, in order.
pub(super) struct Sorted {
    /// Groups that are not sorted yet, the first one last.
    groups: Vec<Group>,
    /// The group that leaves, and how many of it have.
    leaving: Vec<Entry>,
    left: usize,
}

impl Sorted {
    /// Begins with all entries, as [`Keys::entries`] gives them.
    pub(super) fn new(entries: Vec<Entry>, behind: Option<usize>) -> Self {
        Self {
            groups: vec![Group { entries, behind }],
            leaving: Vec::new(),
            left: 0,
        }
    }

    /// Returns the places, as batch and row, of the next rows, at most so many; none at the end.
    pub(super) fn next(&mut self, rows: usize, keys: &Keys) -> Vec<(usize, usize)> {
        let mut places = Vec::with_capacity(rows);
        while places.len() < rows {
            let taken = &self.leaving[self.left..];
            let taken = &taken[..taken.len().min(rows - places.len())];
            places.extend(taken.iter().map(|entry| (entry.batch(), entry.row())));
            self.left += taken.len();
            if self.left < self.leaving.len() {
                continue;
            }
            match self.groups.pop() {
                None => break,
                Some(group) => self.begin(group, keys),
            }
        }
        places
    }

    /// Sorts the next group, or spreads it, or takes bytes that are behind equal ones.
    fn begin(&mut self, group: Group, keys: &Keys) {
        let Group {
            mut entries,
            behind,
        } = group;
        if entries.len() > SORTED_MAX {
            let of_entries = || entries.iter().map(Entry::key);
            let least = of_entries().min().unwrap_or_default();
            let most = of_entries().max().unwrap_or_default();
            if least < most {
                self.spread(&entries, least, most, behind);
                return;
            }
            if let Some(behind) = behind {
                self.groups.push(deeper(entries, behind, keys));
                return;
            }
        }
        let rest = |entry: &Entry| keys.of(entry).get(behind.unwrap_or(usize::MAX)..);
        entries.sort_unstable_by(|left, right| {
            let bytes = left.key().cmp(&right.key());
            let bytes = bytes.then_with(|| rest(left).cmp(&rest(right)));
            bytes.then_with(|| left.place().cmp(&right.place()))
        });
        (self.leaving, self.left) = (entries, 0);
    }

    /// Spreads entries over groups by the leading bits in which their bytes differ.
    fn spread(&mut self, entries: &[Entry], least: u128, most: u128, behind: Option<usize>) {
        let groups = (entries.len() / GROUP_ENTRIES).next_power_of_two();
        let groups = groups.min(GROUPS_MAX);
        let bits = u128::BITS - (most - least).leading_zeros();
        let shift = bits.saturating_sub(groups.trailing_zeros());
        let group = |entry: &Entry| ((entry.key() - least) >> shift) as usize;
        let mut counts = vec![0_usize; groups];
        for entry in entries {
            counts[group(entry)] += 1;
        }
        let mut spread: Vec<Vec<Entry>> = counts.into_iter().map(Vec::with_capacity).collect();
        for entry in entries {
            spread[group(entry)].push(*entry);
        }
        let spread = spread
            .into_iter()
            .rev()
            .filter(|entries| !entries.is_empty());
        self.groups
            .extend(spread.map(|entries| Group { entries, behind }));
    }
}

/// Takes the next bytes in which keys differ of entries whose bytes are equal.
fn deeper(mut entries: Vec<Entry>, behind: usize, keys: &Keys) -> Group {
    let Some(first) = entries.first() else {
        return Group {
            entries,
            behind: None,
        };
    };
    let first = keys.of(first).get(behind..).unwrap_or_default();
    let (mut same, mut are_equal) = (first.len(), true);
    for entry in &entries {
        let rest = keys.of(entry).get(behind..).unwrap_or_default();
        are_equal &= rest == first;
        same = common(&first[..same], rest);
    }
    for entry in &mut entries {
        *entry = entry.with(from(keys.of(entry), behind + same));
    }
    Group {
        entries,
        behind: (!are_equal).then_some(behind + same + KEY_BYTES),
    }
}

#[cfg(test)]
mod tests;
