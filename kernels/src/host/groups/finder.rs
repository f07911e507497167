//! From keys to group numbers: by place where few keys are possible, else by hash.

use super::super::run::Declined;
use super::keys::{KeyPlan, Keys, Part, PartKind};
use super::strings::Strings;

/// The most keys that are found by place: their numbers fill a part of the second level of cache.
const DENSE_MOST: u64 = 1 << 16;

/// No group.
const NONE: u32 = u32::MAX;

/// The most groups.
const GROUPS_MOST: usize = NONE as usize - 1;

/// The groups' numbers, by their keys.
#[derive(Clone, Debug)]
pub(in super::super) struct Finder {
    plan: KeyPlan,
    /// The words of each group's key, side by side.
    keys: Vec<u64>,
    num_groups: usize,
    index: Index,
    /// Words of each row of a block, word by word.
    words: Vec<Vec<u64>>,
    hashes: Vec<u64>,
    missed: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Index {
    /// The group at the sum of each part times its stride.
    Dense {
        map: Vec<u32>,
        /// How many numbers each part may have, powers of two.
        sizes: Vec<u64>,
    },
    /// Open addressing; the key of a slot is the word itself if there is one, else a hash.
    Hash { slots: Vec<Slot>, shift: u32 },
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    key: u64,
    group: u32,
}

const EMPTY: Slot = Slot {
    key: 0,
    group: NONE,
};

impl Finder {
    pub(in super::super) fn new(plan: KeyPlan) -> Self {
        let words = vec![Vec::new(); plan.num_words];
        let mut finder = Self {
            plan,
            keys: Vec::new(),
            num_groups: 0,
            index: Index::Hash {
                slots: Vec::new(),
                shift: 0,
            },
            words,
            hashes: Vec::new(),
            missed: Vec::new(),
        };
        finder.start();
        finder
    }

    /// Forgets all groups.
    pub(in super::super) fn clear(&mut self) {
        self.keys = Vec::new();
        self.num_groups = 0;
        self.start();
    }

    fn start(&mut self) {
        let sizes: Vec<u64> = self.plan.parts.iter().map(first_size).collect();
        self.index = match is_dense(&sizes) {
            true => dense(sizes),
            false => hash(0),
        };
    }

    pub(in super::super) fn num_groups(&self) -> usize {
        self.num_groups
    }

    /// Returns the words of groups' keys, side by side.
    pub(in super::super) fn words_of(&self, groups: std::ops::Range<usize>) -> &[u64] {
        let width = self.plan.num_words;
        self.keys
            .get(groups.start * width..groups.end * width)
            .unwrap_or_default()
    }

    pub(in super::super) fn plan(&self) -> &KeyPlan {
        &self.plan
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        let index = match &self.index {
            Index::Dense { map, .. } => map.capacity() * 4,
            Index::Hash { slots, .. } => slots.capacity() * size_of::<Slot>(),
        };
        let words: usize = self.words.iter().map(Vec::capacity).sum();
        index + (self.keys.capacity() + words + self.hashes.capacity()) * 8
    }

    /// Writes the group of each row, new ones for new keys.
    ///
    /// # Errors
    /// More groups than there are numbers; there are no new ones then.
    pub(in super::super) fn find(
        &mut self,
        keys: Keys<'_>,
        strings: &[Strings],
        groups: &mut Vec<u32>,
        count: usize,
    ) -> Result<(), Declined> {
        if self.num_groups + count > GROUPS_MOST {
            return Err(Declined::TooLarge);
        }
        groups.resize(count, NONE);
        self.fit(strings);
        match self.index {
            Index::Dense { .. } => self.find_dense(keys, groups),
            Index::Hash { .. } => self.find_by_hash(keys, groups),
        }
    }

    /// Gives strings that were added room among the dense keys, or goes over to hashes.
    fn fit(&mut self, strings: &[Strings]) {
        let Index::Dense { sizes, .. } = &self.index else {
            return;
        };
        let wanted = |(part, size): (&Part, &u64)| match part.kind {
            PartKind::Code { .. } => {
                let codes = strings.get(part.key).map_or(0, Strings::len) as u64 + 1;
                (*size).max(codes.next_power_of_two())
            }
            _ => *size,
        };
        let fit: Vec<u64> = self.plan.parts.iter().zip(sizes).map(wanted).collect();
        if fit == *sizes {
            return;
        }
        self.index = match is_dense(&fit) {
            true => dense(fit),
            false => hash(self.num_groups),
        };
        self.place_all();
    }

    /// Enters all groups anew.
    fn place_all(&mut self) {
        let width = self.plan.num_words;
        for (group, words) in self.keys.chunks_exact(width).enumerate() {
            match &mut self.index {
                Index::Dense { map, sizes } => {
                    let place = place_of(&self.plan, sizes, words);
                    if let Some(place) = map.get_mut(place) {
                        *place = group as u32;
                    }
                }
                Index::Hash { slots, shift } => {
                    let (key, hash) = slot_key(words);
                    insert(slots, *shift, hash, key, group as u32);
                }
            }
        }
    }

    fn find_dense(&mut self, keys: Keys<'_>, groups: &mut [u32]) -> Result<(), Declined> {
        let Index::Dense { map, sizes } = &mut self.index else {
            return Ok(());
        };
        let places = &mut self.words[0];
        places.clear();
        places.resize(groups.len(), 0);
        let mut stride = 1_u64;
        for (part, size) in self.plan.parts.iter().zip(sizes.iter()) {
            let by = stride;
            self.plan
                .add_part(part, keys, move |number| number.wrapping_mul(by), places)?;
            stride *= size;
        }
        let mut missed = 0;
        for (group, place) in groups.iter_mut().zip(places.iter()) {
            *group = map[*place as usize];
            missed |= u32::from(*group == NONE);
        }
        if missed == 0 {
            return Ok(());
        }
        let new = groups.iter_mut().zip(places.iter());
        for (group, place) in new.filter(|(group, _)| **group == NONE) {
            let known = &mut map[*place as usize];
            if *known == NONE {
                *known = self.num_groups as u32;
                self.num_groups += 1;
                push_words(&self.plan, sizes, *place, &mut self.keys);
            }
            *group = *known;
        }
        Ok(())
    }

    fn find_by_hash(&mut self, keys: Keys<'_>, groups: &mut [u32]) -> Result<(), Declined> {
        for words in &mut self.words {
            words.clear();
            words.resize(groups.len(), 0);
        }
        for part in &self.plan.parts {
            let shift = part.shift;
            let words = &mut self.words[part.word];
            self.plan
                .add_part(part, keys, move |number| number << shift, words)?;
        }
        self.grow(groups.len());
        let Index::Hash { slots, shift } = &mut self.index else {
            return Ok(());
        };
        let (slots, shift) = (slots.as_mut_slice(), *shift);
        hash_all(&self.words, &mut self.hashes);
        let width = self.plan.num_words;
        let slot_keys = if width == 1 {
            &self.words[0]
        } else {
            &self.hashes
        };
        // One load for each row, none of which waits for another.
        let rows = groups.iter_mut().zip(slot_keys).zip(&self.hashes);
        for ((group, key), hash) in rows {
            let slot = slots[(hash >> shift) as usize];
            *group = if slot.key == *key { slot.group } else { NONE };
        }
        if width > 1 {
            for (row, group) in groups.iter_mut().enumerate() {
                if *group != NONE && !is_key(&self.words, row, &self.keys, *group) {
                    *group = NONE;
                }
            }
        }
        self.missed.clear();
        self.missed.resize(groups.len(), 0);
        let mut num_missed = 0;
        for (row, group) in groups.iter().enumerate() {
            self.missed[num_missed] = row as u32;
            num_missed += usize::from(*group == NONE);
        }
        for row in &self.missed[..num_missed] {
            let row = *row as usize;
            let (key, hash) = (slot_keys[row], self.hashes[row]);
            let mut at = (hash >> shift) as usize;
            groups[row] = loop {
                let slot = slots[at];
                if slot.group == NONE {
                    let group = self.num_groups as u32;
                    slots[at] = Slot { key, group };
                    self.num_groups += 1;
                    self.keys.extend(self.words.iter().map(|words| words[row]));
                    break group;
                }
                if slot.key == key
                    && (width == 1 || is_key(&self.words, row, &self.keys, slot.group))
                {
                    break slot.group;
                }
                at = (at + 1) & (slots.len() - 1);
            };
        }
        Ok(())
    }

    /// Makes room for so many new groups, with at most half of the slots taken.
    fn grow(&mut self, new: usize) {
        let wanted = (self.num_groups + new) * 2;
        if matches!(&self.index, Index::Hash { slots, .. } if slots.len() < wanted) {
            self.index = hash(wanted.max(self.num_groups * 4));
            self.place_all();
        }
    }
}

/// Returns how many numbers a part may have when nothing was seen.
fn first_size(part: &Part) -> u64 {
    match part.kind {
        PartKind::Code { .. } => 16,
        _ if part.bits < 32 => 1 << part.bits,
        _ => u64::MAX,
    }
}

fn is_dense(sizes: &[u64]) -> bool {
    let product = sizes
        .iter()
        .try_fold(1_u64, |product, size| product.checked_mul(*size));
    product.is_some_and(|product| product <= DENSE_MOST)
}

fn dense(sizes: Vec<u64>) -> Index {
    let places: u64 = sizes.iter().product();
    Index::Dense {
        map: vec![NONE; places as usize],
        sizes,
    }
}

fn hash(wanted: usize) -> Index {
    let slots = wanted.max(1 << 13).next_power_of_two();
    Index::Hash {
        slots: vec![EMPTY; slots],
        shift: 64 - slots.trailing_zeros(),
    }
}

/// Returns the place of a key among dense ones.
fn place_of(plan: &KeyPlan, sizes: &[u64], words: &[u64]) -> usize {
    let mut stride = 1;
    let mut place = 0;
    for (part, size) in plan.parts.iter().zip(sizes) {
        place += KeyPlan::number(part, words) * stride;
        stride *= size;
    }
    place as usize
}

/// Appends the words of the key at a dense place.
fn push_words(plan: &KeyPlan, sizes: &[u64], place: u64, keys: &mut Vec<u64>) {
    let from = keys.len();
    keys.resize(from + plan.num_words, 0);
    let mut rest = place;
    for (part, size) in plan.parts.iter().zip(sizes) {
        if let Some(word) = keys.get_mut(from + part.word) {
            *word |= (rest % size) << part.shift;
        }
        rest /= size;
    }
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline(always)]
fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(ODD);
    (mixed ^ (mixed >> 32)).wrapping_mul(ODD)
}

/// Hashes the words of each row.
fn hash_all(words: &[Vec<u64>], hashes: &mut Vec<u64>) {
    hashes.clear();
    hashes.resize(words.first().map_or(0, Vec::len), 0);
    for words in words {
        super::super::simd::widest(|| {
            for (hash, word) in hashes.iter_mut().zip(words) {
                *hash = mix(*hash, *word);
            }
        });
    }
}

/// Returns what a slot has of a group's words, and their hash.
fn slot_key(words: &[u64]) -> (u64, u64) {
    let hash = words.iter().fold(0, |hash, word| mix(hash, *word));
    match words {
        [word] => (*word, hash),
        _ => (hash, hash),
    }
}

/// Enters a group whose key is new.
fn insert(slots: &mut [Slot], shift: u32, hash: u64, key: u64, group: u32) {
    let mut at = (hash >> shift) as usize;
    while slots[at].group != NONE {
        at = (at + 1) & (slots.len() - 1);
    }
    slots[at] = Slot { key, group };
}

fn is_key(words: &[Vec<u64>], row: usize, keys: &[u64], group: u32) -> bool {
    let of_group = keys.get(group as usize * words.len()..).unwrap_or_default();
    words
        .iter()
        .zip(of_group)
        .all(|(words, key)| words[row] == *key)
}
