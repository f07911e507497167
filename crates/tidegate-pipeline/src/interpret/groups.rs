//! The group table: from a row's key to a group's number, in order of first appearance.
//!
//! A key is encoded to bytes, so that equal keys are equal bytes: −0.0 becomes +0.0, every NaN the
//! one quiet NaN, NULL a tag of its own. The bytes of all keys lie one after another; looking up a group
//! that exists allocates nothing.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::EvalError;
use crate::program::cell::{Cell, canonical};

const NULL: u8 = 0;
const INT: u8 = 1;
const FLOAT: u8 = 2;
const TEXT: u8 = 3;

/// Appends the encoding of one key column.
pub(crate) fn encode(cell: Option<Cell<'_>>, key: &mut Vec<u8>) {
    match cell {
        None => key.push(NULL),
        Some(Cell::Int(value)) => put(key, INT, &value.to_le_bytes()),
        Some(Cell::Float(value)) => put(key, FLOAT, &canonical(value).to_le_bytes()),
        Some(Cell::Text(text)) => {
            put(key, TEXT, &(text.len() as u64).to_le_bytes());
            key.extend_from_slice(text.as_bytes());
        }
    }
}

fn put(key: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    key.push(tag);
    key.extend_from_slice(bytes);
}

/// Reads the key columns back, one call after another.
struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn next(&mut self) -> Option<Option<Cell<'a>>> {
        let [tag] = self.take::<1>()?;
        Some(Some(match tag {
            NULL => return Some(None),
            INT => Cell::Int(i128::from_le_bytes(self.take()?)),
            FLOAT => Cell::Float(f64::from_le_bytes(self.take()?)),
            TEXT => {
                let len = usize::try_from(u64::from_le_bytes(self.take()?)).ok()?;
                let (text, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                Cell::Text(std::str::from_utf8(text).ok()?)
            }
            _ => return None,
        }))
    }
}

/// The groups met so far.
#[derive(Default)]
pub(crate) struct GroupTable {
    keys: Keys,
    /// Each group's hash, kept so that growing compares no keys.
    hashes: Vec<u64>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

/// The keys of groups.
#[derive(Default)]
struct Keys {
    /// One after another.
    bytes: Vec<u8>,
    /// Where each group's ends.
    ends: Vec<usize>,
}

impl Keys {
    fn get(&self, group: usize) -> &[u8] {
        let start = match group {
            0 => 0,
            group => self.ends[group - 1],
        };
        &self.bytes[start..self.ends[group]]
    }
}

impl GroupTable {
    /// Returns how many groups there are.
    pub(crate) fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Returns the memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.bytes.capacity()
            + self.keys.ends.capacity() * size_of::<usize>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.numbers.allocation_size()
    }

    /// Returns the number of the key's group, a new one if the key is new.
    pub(crate) fn group(&mut self, key: &[u8]) -> Result<usize, EvalError> {
        let hash = self.hasher.hash_one(key);
        let is_same = |group: &u32| self.keys.get(*group as usize) == key;
        let hash_of = |group: &u32| self.hashes[*group as usize];
        let vacant = match self.numbers.entry(hash, is_same, hash_of) {
            Entry::Occupied(group) => return Ok(*group.get() as usize),
            Entry::Vacant(vacant) => vacant,
        };
        let group = self.hashes.len();
        vacant.insert(u32::try_from(group).map_err(|_| EvalError::Overflow {
            operation: "more than 2^32 groups".to_owned(),
        })?);
        self.hashes.push(hash);
        self.keys.bytes.extend_from_slice(key);
        self.keys.ends.push(self.keys.bytes.len());
        Ok(group)
    }

    /// Reads the first `columns` key columns of a group.
    pub(crate) fn decode(
        &self,
        group: usize,
        columns: usize,
    ) -> Result<Vec<Option<Cell<'_>>>, EvalError> {
        let mut decoder = Decoder(self.keys.get(group));
        let values: Option<Vec<_>> = (0..columns).map(|_| decoder.next()).collect();
        values.ok_or_else(|| EvalError::internal(format!("the key of group {group}")))
    }
}

#[cfg(test)]
mod tests;
