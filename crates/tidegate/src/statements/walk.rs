//! Finds the bytes of places that the tokenizer tells by line and column.

use sqlparser::tokenizer::Location;

/// A walk over a text, forward only.
pub(super) struct Walk<'a> {
    pub(super) text: &'a str,
    /// Where the walk stands, in bytes.
    pub(super) offset: usize,
    /// The same place as the tokenizer counts.
    pub(super) location: Location,
}

impl<'a> Walk<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            text,
            offset: 0,
            location: Location::new(1, 1),
        }
    }

    /// Moves on to a place, or to the end of the text; returns its byte.
    pub(super) fn to(&mut self, location: Location) -> usize {
        while self.location < location && self.step() {}
        self.offset
    }

    /// Moves over one character; false at the end.
    pub(super) fn step(&mut self) -> bool {
        let Some(c) = self.rest().chars().next() else {
            return false;
        };
        self.offset += c.len_utf8();
        self.location = match c {
            '\n' => Location::new(self.location.line + 1, 1),
            _ => Location::new(self.location.line, self.location.column + 1),
        };
        true
    }

    /// Returns what is still to come.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }
}
