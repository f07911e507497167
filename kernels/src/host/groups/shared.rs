//! The strings of keys in records: one dictionary for all threads, of codes that mean the same everywhere.

use parking_lot::{RwLock, RwLockReadGuard};

use super::super::declined::Declined;
use super::strings::Strings;

/// The most strings of a key: beyond it, entering them one after the other would hold all threads up.
const STRINGS_MAX: usize = 1 << 20;

/// Strings by key.
#[derive(Debug)]
pub struct SharedStrings {
    keys: RwLock<Vec<Strings>>,
}

impl SharedStrings {
    pub(in super::super) fn new(keys: usize) -> Self {
        Self {
            keys: RwLock::new(vec![Strings::default(); keys]),
        }
    }

    /// Returns the bytes of all strings.
    pub fn memory_bytes(&self) -> usize {
        bytes_of(&self.keys.read())
    }

    pub(in super::super) fn read(&self) -> RwLockReadGuard<'_, Vec<Strings>> {
        self.keys.read()
    }

    /// Adds the code of each string of a thread that has none yet; returns by how many bytes memory grew.
    ///
    /// # Errors
    /// There are too many strings.
    pub(super) fn translate(
        &self,
        local: &[Strings],
        codes: &mut [Vec<u32>],
    ) -> Result<usize, Declined> {
        let is_known = |(local, codes): (&Strings, &Vec<u32>)| codes.len() == local.len();
        if local.iter().zip(&*codes).all(is_known) {
            return Ok(0);
        }
        let mut keys = self.keys.write();
        let before = bytes_of(&keys);
        for ((local, codes), shared) in local.iter().zip(codes).zip(&mut *keys) {
            for code in codes.len()..local.len() {
                if shared.len() >= STRINGS_MAX {
                    return Err(Declined::TooLarge);
                }
                codes.push(shared.intern(local.get(code))?);
            }
        }
        Ok(bytes_of(&keys).saturating_sub(before))
    }
}

fn bytes_of(keys: &[Strings]) -> usize {
    keys.iter().map(Strings::memory_bytes).sum()
}
