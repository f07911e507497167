//! The strings of keys in records: one dictionary for all threads, of codes that mean the same everywhere.

use parking_lot::{RwLock, RwLockReadGuard};

use super::super::declined::Declined;
use crate::strings::Dictionary;

/// The most strings of a key: beyond it, entering them one after the other would hold all threads up.
const STRINGS_MAX: usize = 1 << 20;

/// Dictionaries by key.
#[derive(Debug)]
pub struct SharedStrings {
    keys: RwLock<Vec<Dictionary>>,
}

impl SharedStrings {
    pub(in super::super) fn new(keys: usize) -> Self {
        Self {
            keys: RwLock::new(vec![Dictionary::default(); keys]),
        }
    }

    /// Returns the bytes of all strings.
    pub fn memory_bytes(&self) -> usize {
        bytes_of(&self.keys.read())
    }

    pub(in super::super) fn read(&self) -> RwLockReadGuard<'_, Vec<Dictionary>> {
        self.keys.read()
    }

    /// Adds the code of each string of a thread that has none yet; returns by how many bytes memory grew.
    ///
    /// # Errors
    /// There are too many strings.
    pub(super) fn translate(
        &self,
        local: &[Dictionary],
        codes: &mut [Vec<u32>],
    ) -> Result<usize, Declined> {
        let is_known = |(local, codes): (&Dictionary, &Vec<u32>)| codes.len() == local.len();
        if local.iter().zip(&*codes).all(is_known) {
            return Ok(0);
        }
        let mut keys = self.keys.write();
        let before = bytes_of(&keys);
        for ((local, codes), shared) in local.iter().zip(codes).zip(&mut *keys) {
            shared.adopt(local, codes.len(), codes)?;
            if shared.len() > STRINGS_MAX {
                return Err(Declined::TooLarge);
            }
        }
        Ok(bytes_of(&keys).saturating_sub(before))
    }
}

fn bytes_of(keys: &[Dictionary]) -> usize {
    keys.iter().map(Dictionary::memory_bytes).sum()
}
