//! From keys to group numbers: by place where few keys are possible, else by hash.

use super::super::declined::Declined;
use super::super::simd::widest;
use super::keys::{KeyPlan, Keys, Part, PartKind};
use crate::strings::Dictionary;

/// So many possible keys are always found by place: their numbers fill a part of the first level of cache.
const ALWAYS_DENSE: u64 = 1 << 14;

/// The most keys that are found by place: their numbers fill a part of the second level of cache.
const DENSE_MOST: u64 = 1 << 18;

/// Beyond [`ALWAYS_DENSE`], at most so many possible keys for each that there is.
const PLACES_PER_GROUP: u64 = 16;

/// The key was not met yet.
const NONE: u32 = u32::MAX;

/// The most groups.
const GROUPS_MOST: usize = NONE as usize - 1;

/// The groups' numbers, by their keys. They begin at 1.
#[derive(Clone, Debug)]
pub(in super::super) struct Finder {
    plan: KeyPlan,
    /// The words of each group's key, side by side.
    keys: Vec<u64>,
    num_groups: usize,
    /// How many numbers each part may have, powers of two.
    sizes: Vec<u64>,
    index: Index,
    /// Words of each row of a block, word by word.
    words: Vec<Vec<u64>>,
    hashes: Vec<u64>,
    /// The place of each row of a block.
    places: Vec<u32>,
    missed: Vec<u32>,
}

#[derive(Clone, Debug)]
enum Index {
    /// The group at the sum of each part times its stride; last 0, for rows that are not selected.
    Dense(Vec<u32>),
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
            sizes: Vec::new(),
            index: Index::Dense(Vec::new()),
            words,
            hashes: Vec::new(),
            places: Vec::new(),
            missed: Vec::new(),
        };
        finder.start();
        finder
    }

    /// The same, by hash alone: for words that do not come from a block's keys.
    pub(in super::super) fn by_hash(plan: KeyPlan) -> Self {
        let mut finder = Self::new(plan);
        finder.index = hash(0);
        finder
    }

    /// Forgets all groups, and keeps their memory for others.
    pub(in super::super) fn restart(&mut self) {
        self.keys.clear();
        self.num_groups = 0;
        match &mut self.index {
            Index::Dense(map) => {
                map.fill(NONE);
                if let Some(unselected) = map.last_mut() {
                    *unselected = 0;
                }
            }
            Index::Hash { slots, .. } => slots.fill(EMPTY),
        }
    }

    /// Forgets all groups.
    pub(in super::super) fn clear(&mut self) {
        self.keys = Vec::new();
        self.num_groups = 0;
        self.start();
    }

    fn start(&mut self) {
        self.sizes = self.plan.parts.iter().map(first_size).collect();
        self.index = self.new_index();
    }

    /// Returns an index without groups, with room for those that there are.
    fn new_index(&self) -> Index {
        match self.num_places() {
            Some(places) if is_dense(places, self.num_groups) => dense(places),
            _ => hash(self.num_groups * 4),
        }
    }

    /// Returns how many keys are possible, unless they are too many.
    fn num_places(&self) -> Option<u64> {
        let mut sizes = self.sizes.iter();
        let places = sizes.try_fold(1_u64, |product, size| product.checked_mul(*size));
        places.filter(|places| *places <= DENSE_MOST)
    }

    pub(in super::super) fn num_groups(&self) -> usize {
        self.num_groups
    }

    /// Returns whether rows that are not selected cost nothing, and may be among those that are looked for.
    pub(in super::super) fn takes_all_rows(&self) -> bool {
        matches!(self.index, Index::Dense(_))
    }

    /// Returns the words of groups' keys, side by side; here the first group is 0.
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
            Index::Dense(map) => map.capacity() * 4,
            Index::Hash { slots, .. } => slots.capacity() * size_of::<Slot>(),
        };
        let words: usize = self.words.iter().map(Vec::capacity).sum();
        index + (self.keys.capacity() + words + self.hashes.capacity()) * 8
    }

    /// Writes the group of each row, new ones for new keys; 0 of rows that are not selected by `pass`.
    ///
    /// # Errors
    /// More groups than there are numbers; there are no new ones then.
    pub(in super::super) fn find(
        &mut self,
        keys: Keys<'_>,
        strings: &[Dictionary],
        pass: Option<&[u8]>,
        groups: &mut Vec<u32>,
        count: usize,
    ) -> Result<(), Declined> {
        if self.num_groups + count > GROUPS_MOST {
            return Err(Declined::TooLarge);
        }
        groups.resize(count, 0);
        self.fit(strings);
        match self.index {
            Index::Dense(_) => self.find_dense(keys, pass, groups),
            Index::Hash { .. } => self.find_by_hash(keys, pass, groups),
        }
    }

    /// Writes the group of each row, whose words `fill` gives, column by column. The finder goes by hash.
    ///
    /// # Errors
    /// More groups than there are numbers; there are no new ones then.
    pub(in super::super) fn find_words(
        &mut self,
        fill: impl FnOnce(&mut [Vec<u64>]),
        groups: &mut Vec<u32>,
        count: usize,
    ) -> Result<(), Declined> {
        if self.num_groups + count > GROUPS_MOST {
            return Err(Declined::TooLarge);
        }
        groups.resize(count, 0);
        fill(self.start_words(count));
        self.look_up(None, groups);
        Ok(())
    }

    /// Returns the words of rows' keys, column by column.
    pub(in super::super) fn words_of_rows(
        &mut self,
        keys: Keys<'_>,
        count: usize,
    ) -> Result<&mut [Vec<u64>], Declined> {
        self.start_words(count);
        for part in &self.plan.parts {
            let shift = part.shift;
            let words = &mut self.words[part.word];
            self.plan
                .add_part(part, keys, move |number| number << shift, words)?;
        }
        Ok(&mut self.words)
    }

    /// Makes the words of so many rows 0.
    fn start_words(&mut self, count: usize) -> &mut [Vec<u64>] {
        for words in &mut self.words {
            words.clear();
            words.resize(count, 0);
        }
        &mut self.words
    }

    /// Gives strings that were added room among the possible keys, and goes over between places and hashes.
    fn fit(&mut self, strings: &[Dictionary]) {
        let mut grows = false;
        for (part, size) in self.plan.parts.iter().zip(&mut self.sizes) {
            if let PartKind::Code { .. } = part.kind {
                let codes = strings.get(part.key).map_or(0, Dictionary::len) as u64 + 1;
                grows |= codes > *size;
                *size = (*size).max(codes.next_power_of_two());
            }
        }
        let places = self.num_places();
        let wants_dense = places.is_some_and(|places| is_dense(places, self.num_groups));
        let is_as_wanted = match self.index {
            // Places that were once worth it stay.
            Index::Dense(_) => !grows,
            Index::Hash { .. } => !wants_dense,
        };
        if is_as_wanted {
            return;
        }
        self.index = self.new_index();
        self.place_all();
    }

    /// Enters all groups anew.
    fn place_all(&mut self) {
        let width = self.plan.num_words;
        for (group, words) in (1_u32..).zip(self.keys.chunks_exact(width)) {
            match &mut self.index {
                Index::Dense(map) => {
                    let place = place_of(&self.plan, &self.sizes, words);
                    if let Some(place) = map.get_mut(place) {
                        *place = group;
                    }
                }
                Index::Hash { slots, shift } => {
                    let (key, hash) = slot_key(words);
                    insert(slots, *shift, hash, key, group);
                }
            }
        }
    }

    fn find_dense(
        &mut self,
        keys: Keys<'_>,
        pass: Option<&[u8]>,
        groups: &mut [u32],
    ) -> Result<(), Declined> {
        let Index::Dense(map) = &mut self.index else {
            return Ok(());
        };
        self.places.clear();
        self.places.resize(groups.len(), 0);
        let mut stride = 1_u32;
        for (part, size) in self.plan.parts.iter().zip(&self.sizes) {
            let by = stride;
            let times = move |number: u64| (number as u32).wrapping_mul(by);
            self.plan.add_part(part, keys, times, &mut self.places)?;
            stride = stride.wrapping_mul(*size as u32);
        }
        let unselected = map.len() as u32 - 1;
        if let Some(pass) = pass {
            widest(|| {
                for (place, pass) in self.places.iter_mut().zip(pass) {
                    *place = if *pass != 0 { *place } else { unselected };
                }
            });
        }
        let mut missed = false;
        for (group, place) in groups.iter_mut().zip(&self.places) {
            *group = map[*place as usize];
            missed |= *group == NONE;
        }
        if !missed {
            return Ok(());
        }
        let new = groups.iter_mut().zip(&self.places);
        for (group, place) in new.filter(|(group, _)| **group == NONE) {
            let known = &mut map[*place as usize];
            if *known == NONE {
                self.num_groups += 1;
                *known = self.num_groups as u32;
                push_words(&self.plan, &self.sizes, (*place).into(), &mut self.keys);
            }
            *group = *known;
        }
        Ok(())
    }

    fn find_by_hash(
        &mut self,
        keys: Keys<'_>,
        pass: Option<&[u8]>,
        groups: &mut [u32],
    ) -> Result<(), Declined> {
        self.words_of_rows(keys, groups.len())?;
        self.look_up(pass, groups);
        Ok(())
    }

    /// Writes the group of each row by its words.
    fn look_up(&mut self, pass: Option<&[u8]>, groups: &mut [u32]) {
        self.grow(groups.len());
        let Index::Hash { slots, shift } = &mut self.index else {
            return;
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
        if let Some(pass) = pass {
            for (group, pass) in groups.iter_mut().zip(pass) {
                *group = if *pass != 0 { *group } else { 0 };
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
                    self.num_groups += 1;
                    let group = self.num_groups as u32;
                    slots[at] = Slot { key, group };
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

fn is_dense(places: u64, num_groups: usize) -> bool {
    places <= ALWAYS_DENSE || places <= num_groups as u64 * PLACES_PER_GROUP
}

fn dense(places: u64) -> Index {
    let mut map = vec![NONE; places as usize];
    map.push(0);
    Index::Dense(map)
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
pub(super) fn hash_all(words: &[Vec<u64>], hashes: &mut Vec<u64>) {
    hashes.clear();
    hashes.resize(words.first().map_or(0, Vec::len), 0);
    for words in words {
        widest(|| {
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
    let of_group = (group as usize).checked_sub(1);
    let of_group = of_group.and_then(|group| keys.get(group * words.len()..));
    words
        .iter()
        .zip(of_group.unwrap_or_default())
        .all(|(words, key)| words[row] == *key)
}
