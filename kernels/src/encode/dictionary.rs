//! One growing dictionary of a column of strings.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use tidegate_pipeline::EvalError;

use super::unsupported;

/// The strings of a column, each with the code by which a device knows it: its place in the order of
/// first appearance.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    values: Vec<Arc<str>>,
    codes: HashMap<Arc<str>, u32>,
}

impl Dictionary {
    /// Returns the strings, by code.
    pub fn values(&self) -> &[Arc<str>] {
        &self.values
    }

    /// Returns about how many bytes the dictionary takes.
    pub fn memory_bytes(&self) -> usize {
        let strings: usize = self.values.iter().map(|value| value.len() + 16).sum();
        strings + self.values.capacity() * 16 + self.codes.capacity() * 24
    }

    /// Returns the code of a string, a new one if it is new.
    pub fn code(&mut self, value: &str) -> u32 {
        if let Some(code) = self.codes.get(value) {
            return *code;
        }
        // Codes are told from more than 2^32 strings by the rows of a chunk, which are fewer.
        let code = self.values.len() as u32;
        let value: Arc<str> = value.into();
        self.values.push(Arc::clone(&value));
        self.codes.insert(value, code);
        code
    }

    /// Returns the code of each of a chunk's strings, 0 for NULL.
    pub(super) fn adopt(&mut self, chunk: &ChunkStrings<'_>) -> Vec<i64> {
        let codes: Vec<i64> = chunk
            .values
            .iter()
            .map(|value| i64::from(self.code(value)))
            .collect();
        let code = |place: &u32| codes.get(*place as usize).copied().unwrap_or(0);
        chunk.places.iter().map(code).collect()
    }
}

/// The strings of one chunk, found without the column's dictionary: chunks can be looked through at
/// once, and the dictionary is then asked for each string once.
pub(super) struct ChunkStrings<'a> {
    values: Vec<&'a str>,
    /// The place of each row's string among the values; [`NULL`] for none.
    places: Vec<u32>,
}

/// The place of a NULL.
const NULL: u32 = u32::MAX;

impl<'a> ChunkStrings<'a> {
    pub(super) fn of(arrays: &'a [ArrayRef]) -> Result<Self, EvalError> {
        let num_rows = arrays.iter().map(|array| array.len()).sum();
        let mut found = Finder::default();
        let mut places = Vec::with_capacity(num_rows);
        for array in arrays {
            found.append(array.as_ref(), &mut places)?;
        }
        Ok(Self {
            values: found.values,
            places,
        })
    }
}

#[derive(Default)]
struct Finder<'a> {
    values: Vec<&'a str>,
    places: hashbrown::HashMap<&'a str, u32>,
}

impl<'a> Finder<'a> {
    fn append(&mut self, array: &'a dyn Array, places: &mut Vec<u32>) -> Result<(), EvalError> {
        match array.data_type() {
            DataType::Utf8 => self.append_strings(array.as_string::<i32>().iter(), places),
            DataType::LargeUtf8 => self.append_strings(array.as_string::<i64>().iter(), places),
            DataType::Utf8View => self.append_strings(array.as_string_view().iter(), places),
            DataType::Dictionary(_, _) => {
                let array = array.as_any_dictionary();
                if array.values().is_empty() {
                    // Every row is NULL.
                    places.resize(places.len() + array.len(), NULL);
                    return Ok(());
                }
                let mut of_values = Vec::with_capacity(array.values().len());
                self.append(array.values().as_ref(), &mut of_values)?;
                let keys = array.normalized_keys();
                places.extend(keys.into_iter().enumerate().map(|(row, key)| {
                    if array.keys().is_valid(row) {
                        of_values[key]
                    } else {
                        NULL
                    }
                }));
            }
            other => return Err(unsupported(other)),
        }
        Ok(())
    }

    fn append_strings(
        &mut self,
        strings: impl Iterator<Item = Option<&'a str>>,
        places: &mut Vec<u32>,
    ) {
        for string in strings {
            let place = match string {
                None => NULL,
                Some(string) => *self.places.entry(string).or_insert_with(|| {
                    self.values.push(string);
                    // A chunk has fewer rows than 2^32.
                    (self.values.len() - 1) as u32
                }),
            };
            places.push(place);
        }
    }
}
