//! The different strings of a key, each with a code.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::super::run::Declined;

/// The most strings; with NULL their codes fit 31 bits.
const MOST: usize = (1 << 31) - 2;

/// Strings by code, in the order of first appearance.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Strings {
    text: String,
    /// Where each string ends in the text.
    ends: Vec<usize>,
    codes: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Strings {
    pub(in super::super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns a string.
    pub(in super::super) fn get(&self, code: usize) -> &str {
        at(&self.text, &self.ends, code)
    }

    /// Returns the code of a string, a new one if it is new.
    ///
    /// # Errors
    /// More strings than codes.
    pub(in super::super) fn code(&mut self, text: &str) -> Result<i32, Declined> {
        let hash = self.hasher.hash_one(text);
        let is_it = |code: &u32| at(&self.text, &self.ends, *code as usize) == text;
        if let Some(code) = self.codes.find(hash, is_it) {
            return Ok(*code as i32);
        }
        let code = self.ends.len();
        if code >= MOST {
            return Err(Declined::TooLarge);
        }
        self.text.push_str(text);
        self.ends.push(self.text.len());
        let (text, ends, hasher) = (&self.text, &self.ends, &self.hasher);
        let hash_of = |code: &u32| hasher.hash_one(at(text, ends, *code as usize));
        self.codes.insert_unique(hash, code as u32, hash_of);
        Ok(code as i32)
    }

    pub(in super::super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.codes.clear();
    }

    pub(in super::super) fn memory_bytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * 8 + self.codes.allocation_size()
    }
}

fn at<'a>(text: &'a str, ends: &[usize], code: usize) -> &'a str {
    let start = code.checked_sub(1).and_then(|before| ends.get(before));
    let end = ends.get(code).copied().unwrap_or_default();
    text.get(start.copied().unwrap_or_default()..end)
        .unwrap_or_default()
}
