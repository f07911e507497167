//! One growing dictionary of a column of strings.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::ByteArrayType;
use arrow_array::{Array, ArrayRef, GenericByteArray, StringViewArray};
use arrow_buffer::ArrowNativeType;
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

    /// Returns the code of each of a chunk's different strings.
    pub(super) fn adopt(&mut self, chunk: &ChunkStrings<'_>) -> Vec<u32> {
        chunk.values.iter().map(|value| self.code(value)).collect()
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

    /// Returns the code of each row, anything for NULL, given those of the strings.
    pub(super) fn into_codes(self, codes: &[u32]) -> Vec<u32> {
        let mut rows = self.places;
        let is_same = |(place, code): (usize, &u32)| place == *code as usize;
        if !codes.iter().enumerate().all(is_same) {
            for row in &mut rows {
                *row = codes.get(*row as usize).copied().unwrap_or(NULL);
            }
        }
        rows
    }
}

/// Strings up to so many bytes are told by a word and their length.
const SHORT_BYTES: usize = 8;
/// Bits of a place among the strings found last.
const RECENT_BITS: u32 = 8;

/// A short string: its bytes, those behind its end 0, and its length. No string has the greatest.
type Short = (u64, u8);

struct Finder<'a> {
    values: Vec<&'a str>,
    places: hashbrown::HashMap<&'a str, u32>,
    /// Short strings with their places among the values: where there are few of them, each is found
    /// here.
    recent: Box<[(Short, u32)]>,
}

impl Default for Finder<'_> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            places: hashbrown::HashMap::new(),
            recent: vec![((0, u8::MAX), 0); 1 << RECENT_BITS].into(),
        }
    }
}

impl<'a> Finder<'a> {
    fn append(&mut self, array: &'a dyn Array, places: &mut Vec<u32>) -> Result<(), EvalError> {
        match array.data_type() {
            DataType::Utf8 => self.append_bytes(array.as_string::<i32>(), places),
            DataType::LargeUtf8 => self.append_bytes(array.as_string::<i64>(), places),
            DataType::Utf8View => self.append_views(array.as_string_view(), places),
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

    fn append_bytes<T: ByteArrayType<Native = str>>(
        &mut self,
        array: &'a GenericByteArray<T>,
        places: &mut Vec<u32>,
    ) {
        let data = array.value_data();
        let nulls = array.nulls();
        for (row, ends) in array.value_offsets().windows(2).enumerate() {
            let (start, end) = (ends[0].as_usize(), ends[1].as_usize());
            let place = match nulls {
                Some(nulls) if nulls.is_null(row) => NULL,
                _ => match short(data, start, end) {
                    Some(short) => self.place_of_short(short, || array.value(row)),
                    None => self.place_of(array.value(row)),
                },
            };
            places.push(place);
        }
    }

    fn append_views(&mut self, array: &'a StringViewArray, places: &mut Vec<u32>) {
        let nulls = array.nulls();
        for (row, view) in array.views().iter().enumerate() {
            // The length, then, of a string of up to 12 bytes, all of these and zeroes behind.
            let len = *view as u32 as usize;
            let place = match nulls {
                Some(nulls) if nulls.is_null(row) => NULL,
                _ if len <= SHORT_BYTES => {
                    let short = ((*view >> 32) as u64, len as u8);
                    self.place_of_short(short, || array.value(row))
                }
                _ => self.place_of(array.value(row)),
            };
            places.push(place);
        }
    }

    #[inline]
    fn place_of_short(&mut self, short: Short, string: impl FnOnce() -> &'a str) -> u32 {
        let (word, len) = short;
        let mixed = (word ^ u64::from(len)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let recent = (mixed >> (64 - RECENT_BITS)) as usize;
        if let Some((known, place)) = self.recent.get(recent)
            && *known == short
        {
            return *place;
        }
        let place = self.place_of(string());
        self.recent[recent] = (short, place);
        place
    }

    fn place_of(&mut self, string: &'a str) -> u32 {
        *self.places.entry(string).or_insert_with(|| {
            self.values.push(string);
            // A chunk has fewer rows than 2^32.
            (self.values.len() - 1) as u32
        })
    }
}

/// Returns the string at these bytes as a word, if it is short.
#[inline]
fn short(data: &[u8], start: usize, end: usize) -> Option<Short> {
    let len = end - start;
    if len > SHORT_BYTES {
        return None;
    }
    let word = match data.get(start..).and_then(<[u8]>::first_chunk) {
        Some(bytes) => {
            let behind = 64 - 8 * len as u32;
            let mask = u64::MAX.checked_shr(behind).unwrap_or(0);
            u64::from_le_bytes(*bytes) & mask
        }
        None => {
            let mut bytes = [0; SHORT_BYTES];
            bytes[..len].copy_from_slice(&data[start..end]);
            u64::from_le_bytes(bytes)
        }
    };
    Some((word, len as u8))
}
