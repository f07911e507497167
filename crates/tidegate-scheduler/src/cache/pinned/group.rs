//! The chunks of one group, by morsel, and their value.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use tidegate_kernels::ColumnDictionary;

use super::{COPY_SHARE, GroupLabel, PinnedChunk, PinnedGroup, PinnedMorsel, Places};
use crate::cache::ChunkKey;

/// Reads in which uses fade to a half.
const HALF_LIFE_READS: f64 = 64.0;

/// Chunks that share dictionaries. Its label's uses are those at the read `last`.
#[derive(Debug)]
pub(super) struct Group {
    /// Tells it apart from one of the same name with other dictionaries.
    number: u64,
    pub(super) label: GroupLabel,
    last: u64,
    morsels: BTreeMap<u64, Held>,
    places: Places,
    /// The number of the next morsel.
    next: u64,
}

/// The chunks of one morsel, by column of the group.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) chunks: Vec<(ChunkKey, Arc<PinnedChunk>)>,
}

impl Held {
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.chunks.iter().map(|(_, chunk)| chunk.bytes.get());
        bytes.sum()
    }

    /// Returns whether a query has one of its chunks.
    pub(super) fn is_read(&self) -> bool {
        let mut chunks = self.chunks.iter();
        chunks.any(|(_, chunk)| Arc::strong_count(chunk) > 1)
    }

    /// Returns whether all of it is on a device too.
    pub(super) fn is_on_device(&self) -> bool {
        self.chunks.iter().all(|(_, chunk)| chunk.is_on_device())
    }

    pub(super) fn source_is(&self, source: &str) -> bool {
        self.chunks.iter().any(|(key, _)| &*key.source == source)
    }
}

impl Group {
    pub(super) fn new(number: u64, label: GroupLabel, now: u64) -> Self {
        Self {
            number,
            label,
            last: now,
            morsels: BTreeMap::new(),
            places: Places::new(),
            next: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.morsels.is_empty()
    }

    /// Returns whether the chunks' codes are of these dictionaries.
    pub(super) fn shares(&self, dictionaries: &[Arc<ColumnDictionary>]) -> bool {
        let known = &self.label.dictionaries;
        let mut pairs = known.iter().zip(dictionaries);
        known.len() == dictionaries.len() && pairs.all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Returns whether the memory table is gone that the keys are addresses of.
    pub(super) fn is_orphan(&self) -> bool {
        let reads = self.label.reads.as_ref();
        reads.is_some_and(|array| Weak::strong_count(array) == 0)
    }

    /// Adds a morsel; returns what was there of it.
    pub(super) fn insert(&mut self, morsel: Vec<(ChunkKey, PinnedChunk)>) -> Option<Held> {
        let known = morsel.first().and_then(|(key, _)| self.places.get(key));
        let replaced = known.map(|(number, _)| *number);
        let replaced = replaced.and_then(|number| self.remove(number));
        let number = self.next;
        self.next += 1;
        for (place, (key, _)) in morsel.iter().enumerate() {
            self.places.insert(key.clone(), (number, place));
        }
        let chunks = morsel
            .into_iter()
            .map(|(key, chunk)| (key, Arc::new(chunk)));
        let chunks = chunks.collect();
        self.morsels.insert(number, Held { chunks });
        replaced
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Held> {
        let held = self.morsels.remove(&number)?;
        for (key, _) in &held.chunks {
            self.places.remove(key);
        }
        Some(held)
    }

    pub(super) fn has(&self, key: &ChunkKey) -> bool {
        self.places.contains_key(key)
    }

    /// Finds chunks of one morsel; the group is called so.
    pub(super) fn find(&self, group: PinnedGroup, keys: &[ChunkKey]) -> Option<PinnedMorsel> {
        let (of, _) = self.places.get(keys.first()?)?;
        let held = self.morsels.get(of)?;
        let chunk = |key| match self.places.get(key) {
            Some((number, place)) if number == of => Some(Arc::clone(&held.chunks[*place].1)),
            _ => None,
        };
        Some(PinnedMorsel {
            group,
            codes: self.number,
            chunks: keys.iter().map(chunk).collect::<Option<_>>()?,
        })
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &ChunkKey> {
        self.places.keys()
    }

    pub(super) fn morsels(&self) -> impl Iterator<Item = (u64, &Held)> {
        self.morsels.iter().map(|(number, held)| (*number, held))
    }

    /// Lists the chunks with their columns' numbers.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (usize, &Arc<PinnedChunk>)> {
        let morsels = self.morsels.values();
        morsels.flat_map(|held| held.chunks.iter().map(|(_, chunk)| chunk).enumerate())
    }

    /// Sets what is known of it, unless more uses are known.
    pub(super) fn refresh(&mut self, uses: f64, pace: f64, now: u64) {
        self.label.uses = self.uses(now).max(uses);
        self.label.pace = pace;
        self.last = now;
    }

    /// Counts that one of its morsels was read.
    pub(super) fn used_one(&mut self, now: u64) {
        let share = 1.0 / self.morsels.len().max(1) as f64;
        self.label.uses = self.uses(now) + share;
        self.last = now;
    }

    fn uses(&self, now: u64) -> f64 {
        let since = now.saturating_sub(self.last) as f64;
        self.label.uses * (-since / HALF_LIFE_READS).exp2()
    }

    /// Returns what a byte of a morsel saves.
    pub(super) fn value(&self, held: &Held, now: u64) -> f64 {
        let share = if held.is_on_device() { COPY_SHARE } else { 1.0 };
        self.uses(now) * self.label.pace * share
    }
}
