//! The order of a dictionary's strings, on the device.
//!
//! Codes are given in the order of first appearance, so that a string's place among all changes as the
//! dictionary grows. Groups that were gathered by one order are kept apart from those of another, and
//! their strings are compared by the host.

use std::sync::Arc;

use tidegate_device::DeviceError;

use crate::engine::{Machine, bytes_of_words};
use crate::stored::ColumnDictionary;

/// The place of each string of a dictionary, by code.
#[derive(Debug)]
pub(super) struct RankTable<B> {
    dictionary: Arc<ColumnDictionary>,
    num_values: usize,
    words: B,
}

impl<B> RankTable<B> {
    /// Orders the strings that the dictionary has now, by their bytes.
    pub(super) fn new<M: Machine<Buffer = B>>(
        machine: &M,
        dictionary: &Arc<ColumnDictionary>,
    ) -> Result<Self, DeviceError> {
        let (words, num_values) = {
            let strings = dictionary.strings.read();
            let mut codes: Vec<usize> = (0..strings.len()).collect();
            codes.sort_unstable_by_key(|code| strings.get(*code));
            // All rows may be NULL.
            let mut words = vec![0; strings.len().max(1)];
            for (place, code) in codes.into_iter().enumerate() {
                words[code] = (place as u64) << 32 | code as u64;
            }
            (words, strings.len())
        };
        let bytes = bytes_of_words(&words);
        Ok(Self {
            words: machine.upload(&[(0, &bytes)], bytes.len() as u64)?,
            dictionary: Arc::clone(dictionary),
            num_values,
        })
    }

    /// Returns whether this is the order of all strings of the dictionary.
    pub(super) fn is_of(&self, dictionary: &Arc<ColumnDictionary>) -> bool {
        Arc::ptr_eq(&self.dictionary, dictionary) && self.num_values == dictionary.num_values()
    }

    /// Returns where a kernel finds the words.
    pub(super) fn address<M: Machine<Buffer = B>>(&self, machine: &M) -> u64 {
        machine.address(&self.words)
    }
}
