//! The group table: from a row's key to a group's number, in order of first appearance.
//!
//! A key is encoded to bytes, so that equal keys are equal bytes: −0.0 becomes +0.0, every NaN the
//! one quiet NaN, NULL a tag of its own. The bytes of all keys lie one after another; looking up a group
//! that exists allocates nothing.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::EvalError;
use super::value::Value;

const NULL: u8 = 0;
const BOOLEAN: u8 = 1;
const INT: u8 = 2;
const UINT: u8 = 3;
const FLOAT32: u8 = 4;
const FLOAT64: u8 = 5;
const DECIMAL: u8 = 6;
const UTF8: u8 = 7;
const INTERVAL: u8 = 8;

/// Appends the encoding of one key column.
pub(crate) fn encode(value: Value<'_>, key: &mut Vec<u8>) {
    match value.canonical() {
        Value::Null => key.push(NULL),
        Value::Boolean(value) => key.extend([BOOLEAN, u8::from(value)]),
        Value::Int(value) => put(key, INT, &value.to_le_bytes()),
        Value::UInt(value) => put(key, UINT, &value.to_le_bytes()),
        Value::Float32(value) => put(key, FLOAT32, &value.to_le_bytes()),
        Value::Float64(value) => put(key, FLOAT64, &value.to_le_bytes()),
        Value::Decimal(value) => put(key, DECIMAL, &value.to_le_bytes()),
        Value::Utf8(text) => {
            put(key, UTF8, &(text.len() as u64).to_le_bytes());
            key.extend_from_slice(text.as_bytes());
        }
        Value::Interval {
            months,
            days,
            nanoseconds,
        } => {
            put(key, INTERVAL, &months.to_le_bytes());
            key.extend_from_slice(&days.to_le_bytes());
            key.extend_from_slice(&nanoseconds.to_le_bytes());
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

    fn next(&mut self) -> Option<Value<'a>> {
        let [tag] = self.take::<1>()?;
        let value = match tag {
            NULL => Value::Null,
            BOOLEAN => Value::Boolean(self.take::<1>()? != [0]),
            INT => Value::Int(i64::from_le_bytes(self.take()?)),
            UINT => Value::UInt(u64::from_le_bytes(self.take()?)),
            FLOAT32 => Value::Float32(f32::from_le_bytes(self.take()?)),
            FLOAT64 => Value::Float64(f64::from_le_bytes(self.take()?)),
            DECIMAL => Value::Decimal(i128::from_le_bytes(self.take()?)),
            UTF8 => {
                let len = usize::try_from(u64::from_le_bytes(self.take()?)).ok()?;
                let (text, rest) = self.0.split_at_checked(len)?;
                self.0 = rest;
                Value::Utf8(std::str::from_utf8(text).ok()?)
            }
            INTERVAL => Value::Interval {
                months: i32::from_le_bytes(self.take()?),
                days: i32::from_le_bytes(self.take()?),
                nanoseconds: i64::from_le_bytes(self.take()?),
            },
            _ => return None,
        };
        Some(value)
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
    pub(crate) fn decode(&self, group: usize, columns: usize) -> Result<Vec<Value<'_>>, EvalError> {
        let mut decoder = Decoder(self.keys.get(group));
        let values: Option<Vec<_>> = (0..columns).map(|_| decoder.next()).collect();
        values.ok_or_else(|| EvalError::internal(format!("the key of group {group}")))
    }
}

#[cfg(test)]
mod tests;
