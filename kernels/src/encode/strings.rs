//! The strings of a chunk, each row's by its place among the different ones.

use std::ops::RangeInclusive;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, StringViewArray};
use arrow_schema::DataType;
use parking_lot::RwLock;
use tidegate_pipeline::EvalError;

use super::unsupported;
use crate::strings::{Dictionary, Texts, TooManyStrings};

/// The strings of one chunk, found without the column's dictionary: chunks can be looked through at
/// once, and the dictionary is then asked for each string once.
#[derive(Default)]
pub(super) struct ChunkStrings {
    strings: Dictionary,
    /// The code of each row's string; [`NULL`] for none.
    rows: Vec<u32>,
}

/// The code of a NULL.
const NULL: u32 = u32::MAX;

/// Rows that are looked up at once.
const ROWS: usize = 2_048;

/// Strings that a column's dictionary is asked for at once: each time the chunks wait for each other.
const STRINGS: usize = 1 << 13;

impl ChunkStrings {
    /// # Errors
    /// More strings than codes, or a type without strings.
    pub(super) fn of(arrays: &[ArrayRef]) -> Result<Self, EvalError> {
        let mut chunk = Self::default();
        chunk
            .rows
            .reserve(arrays.iter().map(|array| array.len()).sum());
        for array in arrays {
            chunk.append(array.as_ref())?;
        }
        Ok(chunk)
    }

    /// Returns the code of each row in the column's dictionary, which gets what it has not yet, and the least and
    /// the greatest code. Of NULL the code is anything.
    ///
    /// # Errors
    /// More strings than codes.
    pub(super) fn into_codes(
        self,
        dictionary: &RwLock<Dictionary>,
    ) -> Result<(Vec<u32>, RangeInclusive<u32>), EvalError> {
        let codes = self.codes_in(dictionary).map_err(too_many)?;
        let mut rows = self.rows;
        let is_same = |(place, code): (usize, &u32)| place == *code as usize;
        if !codes.iter().enumerate().all(is_same) {
            for row in &mut rows {
                *row = codes.get(*row as usize).copied().unwrap_or(NULL);
            }
        }
        let least = codes.iter().min().copied().unwrap_or(0);
        let greatest = codes.iter().max().copied().unwrap_or(0);
        Ok((rows, least..=greatest))
    }

    /// Returns the code of each string in a dictionary that other chunks look strings up in as well. They wait
    /// for each other only while one adds the strings of a block that were not there.
    fn codes_in(&self, dictionary: &RwLock<Dictionary>) -> Result<Vec<u32>, TooManyStrings> {
        let strings = &self.strings;
        let mut codes = Vec::with_capacity(strings.len());
        let mut found = vec![None; STRINGS];
        for start in (0..strings.len()).step_by(STRINGS) {
            let block = start..strings.len().min(start + STRINGS);
            let found = &mut found[..block.len()];
            dictionary.read().find_all(strings, block.clone(), found);
            if found.contains(&None) {
                let mut known = dictionary.write();
                let missing = found
                    .iter_mut()
                    .zip(block)
                    .filter(|(code, _)| code.is_none());
                for (code, string) in missing {
                    *code = Some(known.intern(strings.get(string))?);
                }
            }
            codes.extend(found.iter().map(|code| code.unwrap_or_default()));
        }
        Ok(codes)
    }

    fn append(&mut self, array: &dyn Array) -> Result<(), EvalError> {
        match array.data_type() {
            DataType::Utf8 => self.append_bytes(array.as_string::<i32>()),
            DataType::LargeUtf8 => self.append_bytes(array.as_string::<i64>()),
            DataType::Utf8View => self.append_views(array.as_string_view()),
            DataType::Dictionary(_, _) => self.append_dictionary(array),
            other => Err(unsupported(other)),
        }
    }

    fn append_dictionary(&mut self, array: &dyn Array) -> Result<(), EvalError> {
        let array = array.as_any_dictionary();
        if array.values().is_empty() {
            // Every row is NULL.
            self.rows.resize(self.rows.len() + array.len(), NULL);
            return Ok(());
        }
        let start = self.rows.len();
        self.append(array.values().as_ref())?;
        let of_values = self.rows.split_off(start);
        let keys = array.normalized_keys().into_iter().enumerate();
        let validity = array.keys().logical_nulls();
        self.rows.extend(keys.map(|(row, key)| match &validity {
            Some(nulls) if nulls.is_null(row) => NULL,
            _ => of_values[key],
        }));
        Ok(())
    }

    fn append_views(&mut self, array: &StringViewArray) -> Result<(), EvalError> {
        if array.null_count() > 0 {
            return self.append_rows(array.iter());
        }
        for start in (0..array.len()).step_by(ROWS) {
            let count = ROWS.min(array.len() - start);
            self.append_texts(&Texts::Array(array, start), count)?;
        }
        Ok(())
    }

    fn append_bytes<T: ByteArrayType<Native = str>>(
        &mut self,
        array: &GenericByteArray<T>,
    ) -> Result<(), EvalError> {
        self.append_rows(array.iter())
    }

    /// Appends rows that may be NULL, of which no string is looked up then.
    fn append_rows<'a>(
        &mut self,
        mut rows: impl Iterator<Item = Option<&'a str>>,
    ) -> Result<(), EvalError> {
        let mut block = Vec::with_capacity(ROWS);
        loop {
            block.clear();
            block.extend(rows.by_ref().take(ROWS));
            if block.is_empty() {
                return Ok(());
            }
            let there: Vec<&str> = block.iter().copied().flatten().collect();
            let (start, count) = (self.rows.len(), there.len());
            self.append_texts(&Texts::Rows(there), count)?;
            if count < block.len() {
                let codes = self.rows.split_off(start);
                let mut codes = codes.into_iter();
                let mut code = |row: &Option<&str>| row.and_then(|_| codes.next());
                let rows = block.iter().map(|row| code(row).unwrap_or(NULL));
                self.rows.extend(rows);
            }
        }
    }

    fn append_texts(&mut self, texts: &Texts<'_>, count: usize) -> Result<(), EvalError> {
        let mut codes = [0; ROWS];
        let codes = &mut codes[..count];
        self.strings.codes(texts, codes).map_err(too_many)?;
        self.rows.extend(codes.iter().map(|code| *code as u32));
        Ok(())
    }
}

/// Says that a column has more different strings than a device can tell apart.
fn too_many(error: TooManyStrings) -> EvalError {
    EvalError::Internal {
        what: format!("{error} in a column that a device holds"),
    }
}
