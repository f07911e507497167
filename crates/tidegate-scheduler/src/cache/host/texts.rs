//! Strings of a row group in the making: codes of the different ones where they repeat, else as they are.
//!
//! Writers give a column's codes up once its different strings fill a page, and write the rest as they are,
//! although each may come back many times. Looked up once, when they are kept, they need not be by each
//! statement that groups by them.

use std::ops::Range;

use arrow_array::builder::make_view;
use arrow_array::{Array as _, StringViewArray};
use arrow_buffer::Buffer;
use arrow_data::MAX_INLINE_VIEW_LEN;
use tidegate_kernels::host::{BLOCK, Entries};
use tidegate_kernels::strings::Dictionary;

use super::segment::Codes;

/// Rows after which strings that do not repeat are kept as they are.
const ROWS_TRIED: usize = 8 * BLOCK;

/// Strings as codes of the different ones.
#[derive(Debug, Default)]
pub(super) struct Interned {
    dictionary: Dictionary,
    codes: Vec<i32>,
}

impl Interned {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self {
            dictionary: Dictionary::default(),
            codes: Vec::with_capacity(rows),
        }
    }

    /// Adds rows of an array; `None` if there are too many different strings.
    pub(super) fn push(
        &mut self,
        array: &StringViewArray,
        rows: Range<usize>,
        validity: Option<&[u8]>,
    ) -> Option<()> {
        let Self { dictionary, codes } = self;
        let added = dictionary.append_codes(array, rows, validity, codes);
        added.ok()
    }

    /// Adds rows that have codes of other entries.
    pub(super) fn push_codes(&mut self, of: &Codes, entries: &StringViewArray) -> Option<()> {
        let mut own = Vec::with_capacity(entries.len());
        let added = self
            .dictionary
            .append_codes(entries, 0..entries.len(), None, &mut own);
        added.ok()?;
        let mut add = |codes: &mut dyn Iterator<Item = usize>| -> Option<()> {
            for code in codes {
                self.codes.push(*own.get(code)?);
            }
            Some(())
        };
        match of {
            Codes::One(codes) => add(&mut codes.iter().map(|code| usize::from(*code))),
            Codes::Two(codes) => add(&mut codes.iter().map(|code| usize::from(*code))),
            Codes::Four(codes) => add(&mut codes.iter().map(|code| *code as usize)),
        }
    }

    /// Returns whether each string comes twice at least, on average.
    pub(super) fn repeats(&self) -> bool {
        self.dictionary.len() * 2 <= self.codes.len()
    }

    /// Returns whether there are rows enough to tell by.
    pub(super) fn is_tried(&self) -> bool {
        self.codes.len() >= ROWS_TRIED
    }

    /// Returns the bytes that are taken.
    pub(super) fn bytes(&self) -> usize {
        self.dictionary.memory_bytes() + self.codes.capacity() * 4
    }

    /// Returns the strings row by row, with room for as many rows as there is now; `None` if they are too long.
    pub(super) fn into_texts(self) -> Option<Texts> {
        let mut texts = Texts::with_capacity(self.codes.capacity());
        for code in self.codes {
            texts.push_text(self.dictionary.get(code as usize))?;
        }
        Some(texts)
    }

    /// Returns the codes, as wide as they must be, and what they are of; `None` if that is too long.
    pub(super) fn finish(self) -> Option<(Codes, Entries)> {
        let Self { dictionary, codes } = self;
        let num_entries = dictionary.len();
        let codes = codes.into_iter();
        let codes = match num_entries {
            0..=0x100 => Codes::One(codes.map(|code| code as u8).collect()),
            0x101..=0x1_0000 => Codes::Two(codes.map(|code| code as u16).collect()),
            _ => Codes::Four(codes.map(|code| code as u32).collect()),
        };
        let mut texts = Texts::with_capacity(num_entries);
        for code in 0..num_entries {
            texts.push_text(dictionary.get(code))?;
        }
        Some((codes, Entries::Text(texts.finish()?)))
    }
}

/// Strings row by row, of which the long ones are copied to one buffer.
#[derive(Debug)]
pub(super) struct Texts {
    views: Vec<u128>,
    data: Vec<u8>,
}

impl Texts {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self {
            views: Vec::with_capacity(rows),
            data: Vec::new(),
        }
    }

    /// Adds rows of an array; `None` if they are too long.
    pub(super) fn push(&mut self, array: &StringViewArray, rows: Range<usize>) -> Option<()> {
        let views = array.views().get(rows.clone())?;
        for (row, view) in rows.zip(views) {
            let is_null = array.is_null(row);
            if is_null || *view as u32 <= MAX_INLINE_VIEW_LEN {
                // What lies behind a NULL may be anything.
                self.views.push(if is_null { 0 } else { *view });
                continue;
            }
            self.push_text(array.value(row))?;
        }
        Some(())
    }

    fn push_text(&mut self, text: &str) -> Option<()> {
        let (text, at) = (text.as_bytes(), u32::try_from(self.data.len()).ok()?);
        if text.len() > MAX_INLINE_VIEW_LEN as usize {
            self.data.extend_from_slice(text);
        }
        self.views.push(make_view(text, 0, at));
        Some(())
    }

    /// Returns the bytes that are taken.
    pub(super) fn bytes(&self) -> usize {
        self.views.capacity() * 16 + self.data.capacity()
    }

    pub(super) fn finish(self) -> Option<StringViewArray> {
        let mut data = self.data;
        data.shrink_to_fit();
        let buffers = vec![Buffer::from_vec(data)];
        StringViewArray::try_new(self.views.into(), buffers, None).ok()
    }
}
