//! Strings of rows, and the dictionary that gives each different one a code.

mod dictionary;

#[cfg(test)]
mod tests;

use arrow_array::StringViewArray;

pub use dictionary::{Dictionary, TooManyStrings};

/// The strings of a block's rows.
#[derive(Clone, Debug, Default)]
pub(crate) enum Texts<'a> {
    #[default]
    None,
    /// The same for all rows.
    One(&'a str),
    Rows(Vec<&'a str>),
    /// The rows of an array from one on.
    Array(&'a StringViewArray, usize),
}

impl<'a> Texts<'a> {
    /// Returns the string of a row.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> &'a str {
        match self {
            Self::Rows(rows) => rows.get(row).copied().unwrap_or_default(),
            Self::One(text) => text,
            Self::Array(array, at) => array.value(at + row),
            Self::None => "",
        }
    }

    /// Returns the rows of a register that is to be written, empty.
    pub(crate) fn take_rows(&mut self) -> Vec<&'a str> {
        match std::mem::take(self) {
            Self::Rows(mut rows) => {
                rows.clear();
                rows
            }
            Self::One(_) | Self::Array(..) | Self::None => Vec::new(),
        }
    }
}
