//! The different strings of a column or a key, each with a code: its place in the order of first appearance.
//!
//! A string is told by a key of 128 bits: its length and its bytes where they are at most 12, as Arrow's
//! views have them, else its length, its first bytes and a hash, and then its bytes decide. A block's strings are looked up in three
//! loops, of which none waits for the row before: keys and hashes, candidates, comparisons. Only rows whose
//! candidate is another string are looked up one by one.

use std::fmt;
use std::hash::BuildHasher;
use std::hint::select_unpredictable;
use std::ops::Range;

use arrow_array::StringViewArray;
use hashbrown::DefaultHashBuilder;

use super::Texts;

/// The most strings; with NULL their codes fit 31 bits.
const MOST: usize = (1 << 31) - 2;

/// The longest string whose key has all its bytes.
const SHORT: usize = 12;

const SLOTS_MIN: usize = 256;

/// Rows that are looked up at once.
const ROWS: usize = 2_048;

/// There would be more different strings than codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyStrings;

impl fmt::Display for TooManyStrings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "more than {MOST} different strings")
    }
}

impl std::error::Error for TooManyStrings {}

/// Strings by code, in the order of first appearance.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    text: String,
    /// Where each string ends in the text.
    ends: Vec<usize>,
    keys: Vec<u128>,
    /// Open addressing by hash, less than half full: the code of a string in the low bits, as many as the
    /// number of slots needs, and bits of its hash above them.
    slots: Vec<u32>,
    hasher: DefaultHashBuilder,
    rows: RowKeys,
}

/// What a block's rows have, unless an array has their keys.
#[derive(Clone, Debug, Default)]
struct RowKeys {
    keys: Vec<u128>,
    hashes: Vec<u64>,
}

/// A slot without a string; no string has the code that it would be.
const EMPTY: u32 = u32::MAX;

impl Dictionary {
    /// Returns how many strings there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string of a code; of one that was not given out an empty one.
    pub fn get(&self, code: usize) -> &str {
        let start = code.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(code).copied().unwrap_or_default();
        let text = self.text.get(start.copied().unwrap_or_default()..end);
        text.unwrap_or_default()
    }

    /// Returns Arrow's view of a code's string, if it has all bytes in it.
    #[inline]
    pub(crate) fn short_view(&self, code: u32) -> Option<u128> {
        let key = self.keys.get(code as usize).copied()?;
        (len_of(key) <= SHORT).then_some(key)
    }

    /// Writes the codes of rows' strings, new ones of new strings.
    ///
    /// # Errors
    /// More strings than codes.
    pub(crate) fn codes(
        &mut self,
        texts: &Texts<'_>,
        codes: &mut [i32],
    ) -> Result<(), TooManyStrings> {
        if codes.is_empty() {
            return Ok(());
        }
        if self.len() + codes.len() > MOST {
            return Err(TooManyStrings);
        }
        self.fit(self.len() + codes.len());
        let mut rows = std::mem::take(&mut self.rows);
        let RowKeys { keys, hashes } = &mut rows;
        let keys = self.keys_of(texts, codes.len(), keys, hashes);
        for (code, hash) in codes.iter_mut().zip(&*hashes) {
            *code = self.near(*hash) as i32;
        }
        let known = keys.iter().zip(&*hashes).zip(codes).enumerate();
        for (row, ((key, hash), code)) in known {
            let is_it = self.keys.get(*code as u32 as usize) == Some(key);
            if !is_it || len_of(*key) > SHORT {
                *code = self.code(texts.get(row), *key, *hash) as i32;
            }
        }
        self.rows = rows;
        Ok(())
    }

    /// Appends the codes of rows of an array, new ones of new strings. Rows that have no value by `validity`,
    /// which has a byte for each of the rows, have the code of the empty string.
    ///
    /// # Errors
    /// More strings than codes; codes of some of the rows may have been appended.
    pub fn append_codes(
        &mut self,
        array: &StringViewArray,
        rows: Range<usize>,
        validity: Option<&[u8]>,
        codes: &mut Vec<i32>,
    ) -> Result<(), TooManyStrings> {
        for start in rows.clone().step_by(ROWS) {
            let block = start..rows.end.min(start + ROWS);
            let texts = match validity {
                None => Texts::Array(array, start),
                Some(validity) => Texts::Rows(
                    block
                        .clone()
                        .map(|row| match validity.get(row - rows.start) {
                            Some(1..) => array.value(row),
                            _ => "",
                        })
                        .collect(),
                ),
            };
            let from = codes.len();
            codes.resize(from + block.len(), 0);
            self.codes(&texts, &mut codes[from..])?;
        }
        Ok(())
    }

    /// Appends the codes of another dictionary's strings, from one of them on.
    ///
    /// # Errors
    /// More strings than codes; some of the codes may have been appended.
    pub(crate) fn adopt(
        &mut self,
        other: &Self,
        from: usize,
        codes: &mut Vec<u32>,
    ) -> Result<(), TooManyStrings> {
        let mut of_block = [0; ROWS];
        let mut rows = Vec::with_capacity(ROWS);
        for start in (from..other.len()).step_by(ROWS) {
            let end = other.len().min(start + ROWS);
            rows.clear();
            rows.extend((start..end).map(|code| other.get(code)));
            let texts = Texts::Rows(std::mem::take(&mut rows));
            let of_block = &mut of_block[..end - start];
            self.codes(&texts, of_block)?;
            codes.extend(of_block.iter().map(|code| *code as u32));
            if let Texts::Rows(read) = texts {
                rows = read;
            }
        }
        Ok(())
    }

    /// Returns the code of a string, a new one if it is new.
    ///
    /// # Errors
    /// More strings than codes.
    pub fn intern(&mut self, text: &str) -> Result<u32, TooManyStrings> {
        if self.len() >= MOST {
            return Err(TooManyStrings);
        }
        self.fit(self.len() + 1);
        let (key, hash) = self.key_of(text);
        Ok(self.code(text, key, hash))
    }

    /// Returns the bits of a slot that are a code: there are fewer strings than half of the slots.
    fn code_mask(&self) -> u32 {
        (self.slots.len() / 2).saturating_sub(1) as u32
    }

    /// Writes the codes of some of another dictionary's strings; `None` of those that are not here.
    pub(crate) fn find_all(&self, other: &Self, strings: Range<usize>, codes: &mut [Option<u32>]) {
        if self.slots.is_empty() {
            codes.fill(None);
            return;
        }
        for (code, string) in codes.iter_mut().zip(strings) {
            // A long string has another key in each dictionary.
            let key = other.keys.get(string).copied().unwrap_or_default();
            let (text, (key, hash)) = match len_of(key) <= SHORT {
                true => ("", (key, mix(key))),
                false => {
                    let text = other.get(string);
                    (text, self.key_of(text))
                }
            };
            let near = self.near(hash);
            let is_it = len_of(key) <= SHORT && self.keys.get(near as usize) == Some(&key);
            *code = match is_it {
                true => Some(near),
                false => self.place(text, key, hash).ok(),
            };
        }
    }

    /// Returns the code that a string with this hash most likely has; anything if it has none. There are slots.
    #[inline]
    fn near(&self, hash: u64) -> u32 {
        let (mask, code_mask) = (self.slots.len() - 1, self.code_mask());
        let at = hash as usize & mask;
        let tag = tag_of(hash, code_mask);
        // Most strings are in one of three slots, which mostly lie in one line of cache. A branch would be foretold
        // wrongly for one string of four, and the loads of the next ones would wait.
        let [first, second, third] = [at, at + 1, at + 2].map(|at| self.slots[at & mask]);
        let is_it = |slot: u32| slot & !code_mask == tag;
        let near = select_unpredictable(is_it(second), second, third);
        let slot = select_unpredictable(is_it(first), first, near);
        slot & code_mask
    }

    /// Returns a string's code, or else the slot where it would be. There is a free slot. Of a short string the
    /// key suffices.
    fn place(&self, text: &str, key: u128, hash: u64) -> Result<u32, usize> {
        let (mask, code_mask) = (self.slots.len() - 1, self.code_mask());
        let tag = tag_of(hash, code_mask);
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            let code = slot & code_mask;
            if code == code_mask {
                return Err(at);
            }
            let is_it = slot & !code_mask == tag && self.keys[code as usize] == key;
            if is_it && (len_of(key) <= SHORT || self.get(code as usize) == text) {
                return Ok(code);
            }
            at = (at + 1) & mask;
        }
    }

    /// Returns a string's code, a new one if it is new. There is a free slot.
    fn code(&mut self, text: &str, key: u128, hash: u64) -> u32 {
        let at = match self.place(text, key, hash) {
            Ok(code) => return code,
            Err(at) => at,
        };
        let code = self.len() as u32;
        self.slots[at] = code | tag_of(hash, self.code_mask());
        self.text.push_str(text);
        self.ends.push(self.text.len());
        self.keys.push(key);
        code
    }

    /// Makes room for so many strings.
    fn fit(&mut self, strings: usize) {
        if strings * 2 < self.slots.len() {
            return;
        }
        let slots = (strings * 2 + 1).max(self.len() * 4).max(SLOTS_MIN);
        self.slots = vec![EMPTY; slots.next_power_of_two()];
        let (mask, code_mask) = (self.slots.len() - 1, self.code_mask());
        for (code, key) in (0..).zip(&self.keys) {
            let hash = hash_of(*key);
            let mut at = hash as usize & mask;
            while self.slots[at] != EMPTY {
                at = (at + 1) & mask;
            }
            self.slots[at] = code | tag_of(hash, code_mask);
        }
    }

    /// Returns the keys of rows' strings, and writes their hashes. Where all are short, the views of an
    /// array are the keys.
    fn keys_of<'r>(
        &self,
        texts: &Texts<'r>,
        count: usize,
        keys: &'r mut Vec<u128>,
        hashes: &mut Vec<u64>,
    ) -> &'r [u128] {
        hashes.clear();
        if let Texts::Array(array, at) = texts
            && let Some(views) = array.views().get(*at..*at + count)
            && views.iter().all(|view| len_of(*view) <= SHORT)
        {
            hashes.extend(views.iter().map(|view| mix(*view)));
            return views;
        }
        keys.clear();
        for row in 0..count {
            let (key, hash) = self.key_of(texts.get(row));
            keys.push(key);
            hashes.push(hash);
        }
        keys
    }

    /// Returns the key of a string, and its hash.
    #[inline]
    fn key_of(&self, text: &str) -> (u128, u64) {
        let bytes = text.as_bytes();
        let len = bytes.len() as u32;
        if bytes.len() <= SHORT {
            let key = u128::from(len) | short_bytes(bytes) << 32;
            return (key, mix(key));
        }
        let hash = self.hasher.hash_one(bytes);
        let first = u32_at(bytes, 0);
        let key = u128::from(len) | u128::from(first) << 32 | u128::from(hash) << 64;
        (key, hash)
    }

    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.keys.clear();
        self.slots.clear();
    }

    /// Returns the bytes that the dictionary takes.
    pub fn memory_bytes(&self) -> usize {
        let of_string = self.ends.capacity() * 8 + self.keys.capacity() * 16;
        let of_row = self.rows.keys.capacity() * 16 + self.rows.hashes.capacity() * 8;
        self.text.capacity() + of_string + of_row + self.slots.capacity() * 4
    }
}

/// Returns the hash of a key, which a long string's has in it.
#[inline]
fn hash_of(key: u128) -> u64 {
    match len_of(key) <= SHORT {
        true => mix(key),
        false => (key >> 64) as u64,
    }
}

/// Returns the bits of a hash that stand above a code.
#[inline]
fn tag_of(hash: u64, code_mask: u32) -> u32 {
    (hash >> 32) as u32 & !code_mask
}

fn len_of(key: u128) -> usize {
    (key as u32) as usize
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    word.map_or(0, |word| u32::from_le_bytes(*word))
}

/// Returns at most 12 bytes as a number, the first lowest, by words that overlap.
#[inline]
fn short_bytes(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    match len {
        8.. => {
            let low = u128::from(u32_at(bytes, 0)) | u128::from(u32_at(bytes, 4)) << 32;
            low | u128::from(u32_at(bytes, len - 4)) << (8 * (len - 4))
        }
        4.. => u128::from(u32_at(bytes, 0)) | u128::from(u32_at(bytes, len - 4)) << (8 * (len - 4)),
        1.. => {
            let at = |place: usize| u128::from(bytes[place]) << (8 * place);
            at(0) | at(len / 2) | at(len - 1)
        }
        0 => 0,
    }
}

#[inline]
fn mix(key: u128) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let (low, high) = (key as u64 ^ ODD, (key >> 64) as u64 ^ ODD.rotate_left(32));
    let product = u128::from(low) * u128::from(high | 1);
    let mixed = (product as u64 ^ (product >> 64) as u64).wrapping_mul(ODD);
    mixed ^ (mixed >> 29)
}
