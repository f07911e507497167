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

    /// Returns the codes of all values of the arrays, 0 for NULL.
    pub(super) fn codes(
        &mut self,
        arrays: &[ArrayRef],
        num_rows: usize,
    ) -> Result<Vec<i64>, EvalError> {
        let mut codes = Vec::with_capacity(num_rows);
        for array in arrays {
            self.append(array.as_ref(), &mut codes)?;
        }
        Ok(codes)
    }

    fn append(&mut self, array: &dyn Array, codes: &mut Vec<i64>) -> Result<(), EvalError> {
        match array.data_type() {
            DataType::Utf8 => self.append_strings(array.as_string::<i32>().iter(), codes),
            DataType::LargeUtf8 => self.append_strings(array.as_string::<i64>().iter(), codes),
            DataType::Utf8View => self.append_strings(array.as_string_view().iter(), codes),
            DataType::Dictionary(_, _) => {
                let array = array.as_any_dictionary();
                if array.values().is_empty() {
                    // Every row is NULL.
                    codes.resize(codes.len() + array.len(), 0);
                    return Ok(());
                }
                let mut of_values = Vec::with_capacity(array.values().len());
                self.append(array.values().as_ref(), &mut of_values)?;
                let keys = array.normalized_keys();
                codes.extend(keys.into_iter().enumerate().map(|(row, key)| {
                    if array.keys().is_valid(row) {
                        of_values[key]
                    } else {
                        0
                    }
                }));
            }
            other => return Err(unsupported(other)),
        }
        Ok(())
    }

    fn append_strings<'a>(
        &mut self,
        strings: impl Iterator<Item = Option<&'a str>>,
        codes: &mut Vec<i64>,
    ) {
        for string in strings {
            codes.push(string.map_or(0, |string| i64::from(self.code(string))));
        }
    }
}
