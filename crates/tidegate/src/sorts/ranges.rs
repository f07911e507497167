//! Ranges of keys: entries are partitioned by their leading bits (MSD radix) until a range fits a cache, and each
//! range is sorted when its rows are needed. Ties are broken by the rest of the keys, and then by position.

use datafusion::error::Result;

use super::entries::{Entry, Keys, Pause};
use super::side_by_side;

/// Ranges with more entries are split before they are sorted.
const SORTED_MAX: usize = 1 << 12;

/// The average number of entries that a split aims at.
const RANGE_ENTRIES: usize = 1 << 9;

/// The most ranges that one split makes.
const RANGES_MAX: usize = 1 << 12;

/// Entries that all sort before, or all after, those of any other range.
pub(super) struct Range {
    /// Each piece in the order of its positions, which follow those of the pieces before.
    pieces: Vec<Vec<Entry>>,
    /// The position from which keys are compared where entries tie; `None` if such keys are equal.
    compare_from: Option<usize>,
}

impl Range {
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Returns its entries, in the order of their positions.
    fn into_entries(mut self) -> Vec<Entry> {
        match self.pieces.len() {
            1 => self.pieces.remove(0),
            _ => self.pieces.concat(),
        }
    }

    /// Returns its entries in the order of their keys.
    pub(super) fn sorted(self, keys: &Keys) -> Vec<Entry> {
        let compare_from = self.compare_from;
        let mut entries = self.into_entries();
        match compare_from {
            None => entries.sort_unstable_by_key(Entry::key_and_position),
            Some(from) => entries.sort_unstable_by(|left, right| {
                let order = left.key().cmp(&right.key());
                let rest = |entry| keys.rest(entry, from);
                let order = order.then_with(|| rest(left).cmp(rest(right)));
                order.then_with(|| left.position().cmp(&right.position()))
            }),
        }
        entries
    }

    /// Returns several ranges with the same entries, in order, or one with later bytes of its keys.
    async fn split(mut self, keys: &Keys) -> Result<Vec<Self>> {
        let compare_from = self.compare_from;
        let of = |pieces| Self {
            pieces,
            compare_from,
        };
        let bounds = self.pieces.into_iter().map(with_bounds);
        let bounds = side_by_side(bounds.collect()).await?;
        let least = bounds
            .iter()
            .filter_map(|(_, bounds)| bounds.map(|(least, _)| least));
        let most = bounds
            .iter()
            .filter_map(|(_, bounds)| bounds.map(|(_, most)| most));
        let least = least.min().unwrap_or_default();
        let most = most.max().unwrap_or_default();
        self.pieces = bounds.into_iter().map(|(piece, _)| piece).collect();
        if least < most {
            let split = Split::new(self.len(), least, most);
            let pieces = self.pieces.into_iter().map(|piece| split.apply(piece));
            let pieces = side_by_side(pieces.collect()).await?;
            let mut pieces: Vec<_> = pieces.into_iter().map(Vec::into_iter).collect();
            let ranges = (0..split.ranges).map(|_| {
                let of_range = pieces.iter_mut().filter_map(Iterator::next);
                of(of_range.filter(|piece| !piece.is_empty()).collect())
            });
            return Ok(ranges.filter(|range| !range.pieces.is_empty()).collect());
        }
        let mut entries = self.into_entries();
        let Some(from) = compare_from else {
            let chunks = entries.chunks(SORTED_MAX);
            return Ok(chunks.map(|chunk| of(vec![chunk.to_vec()])).collect());
        };
        let compare_from = keys.take_later_bytes(&mut entries, from);
        Ok(vec![Self {
            pieces: vec![entries],
            compare_from,
        }])
    }
}

/// Returns a piece with its least and its greatest key.
async fn with_bounds(piece: Vec<Entry>) -> Result<(Vec<Entry>, Option<(u128, u128)>)> {
    let mut pause = Pause::default();
    let mut bounds: Option<(u128, u128)> = None;
    for chunk in piece.chunks(SORTED_MAX) {
        for key in chunk.iter().map(Entry::key) {
            let (least, most) = bounds.unwrap_or((key, key));
            bounds = Some((least.min(key), most.max(key)));
        }
        pause.after(chunk.len()).await;
    }
    Ok((piece, bounds))
}

/// How entries are split by the leading bits of their distance from the least key.
#[derive(Clone, Copy)]
struct Split {
    least: u128,
    shift: u32,
    ranges: usize,
}

impl Split {
    fn new(entries: usize, least: u128, most: u128) -> Self {
        let ranges = (entries / RANGE_ENTRIES).next_power_of_two();
        let ranges = ranges.min(RANGES_MAX);
        let bits = u128::BITS - (most - least).leading_zeros();
        Self {
            least,
            shift: bits.saturating_sub(ranges.trailing_zeros()),
            ranges,
        }
    }

    /// Returns the entries of each range.
    async fn apply(self, piece: Vec<Entry>) -> Result<Vec<Vec<Entry>>> {
        let range = |entry: &Entry| ((entry.key() - self.least) >> self.shift) as usize;
        let mut pause = Pause::default();
        let mut counts = vec![0_usize; self.ranges];
        for chunk in piece.chunks(SORTED_MAX) {
            for entry in chunk {
                counts[range(entry)] += 1;
            }
            pause.after(chunk.len()).await;
        }
        let mut split: Vec<Vec<Entry>> = counts.into_iter().map(Vec::with_capacity).collect();
        for chunk in piece.chunks(SORTED_MAX) {
            for entry in chunk {
                split[range(entry)].push(*entry);
            }
            pause.after(chunk.len()).await;
        }
        Ok(split)
    }
}

/// All entries, in ranges that are split when they are asked for.
pub(super) struct Ranges(
    /// The first range in the order is the last one here.
    Vec<Range>,
);

impl Ranges {
    /// Takes the entries of each input as a piece.
    pub(super) fn new(pieces: Vec<Vec<Entry>>, compare_from: Option<usize>) -> Self {
        Self(vec![Range {
            pieces,
            compare_from,
        }])
    }

    /// Returns the next ranges in order, which can be sorted each: `entries` entries, or up to [`SORTED_MAX`] more;
    /// none at the end.
    pub(super) async fn next(&mut self, entries: usize, keys: &Keys) -> Result<Vec<Range>> {
        let mut next = Vec::new();
        let mut count = 0;
        while count < entries {
            let Some(range) = self.0.pop() else {
                break;
            };
            match range.len() {
                0 => {}
                rows @ ..=SORTED_MAX => {
                    count += rows;
                    next.push(range);
                }
                _ => self.0.extend(range.split(keys).await?.into_iter().rev()),
            }
        }
        Ok(next)
    }
}

#[cfg(test)]
mod tests;
