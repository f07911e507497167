//! Finds what a file is like from pieces of all of it.
//!
//! 1. The encoding, from marks, zero bytes and whether all pieces are UTF-8.
//! 2. What separates and encloses values (`syntax`): each candidate cuts the head into rows, and the one
//!    with the most regular rows of the most plausible values wins. The measure is that of van den Burg,
//!    Nazábal and Sutton, "Wrangling Messy CSV Files by Detecting Row and Type Patterns" (2019), with the
//!    rows counted by their length.
//!    What makes a quote part of a value is found before (`escapes`).
//! 3. The type of each column (`types`): a value has [`Traits`], those that all values of a column share are
//!    the column's. Words that stand for NULL have all traits.
//! 4. The header (`header`): a first row whose values lack the traits of those below them.

mod escapes;
mod header;
mod plain_names;
mod syntax;
mod traits;
mod types;

use crate::dialect::{Column, Dialect, Sniffed};
use crate::encoding::{Encoding, Transcoder};
use crate::error::SniffError;
use crate::given::Given;
use crate::records::{Rows, Step, Tokenizer};
use crate::sample::Sample;

pub(crate) use traits::Traits;
use types::Facts;
pub(crate) use types::{UTC, WIDE};

/// The share of a piece's rows that must have the file's width for the others to count, in percent.
const FITTING_PERCENT: usize = 80;

/// Finds what a user has not said of a file.
///
/// # Errors
/// [`SniffError::Empty`] for a file without rows, [`SniffError::NotText`] for one of other bytes,
/// [`SniffError::Option`] for what was said and cannot be.
pub fn sniff(sample: &Sample, given: &Given) -> Result<Sniffed, SniffError> {
    let encoding = match given.encoding {
        Some(encoding) => encoding,
        None => Encoding::of(sample)?,
    };
    let texts = texts(sample, encoding);
    let Some(head) = texts.first() else {
        return Err(SniffError::Empty);
    };
    let found = syntax::find(head.bytes(), given)?;
    let rows_max = given.sample_rows.unwrap_or(usize::MAX);
    let mut rows = read_all(
        syntax::behind_lines(head.bytes(), found.skip),
        &found,
        head.is_last,
    )?;
    rows.truncate(rows_max.saturating_add(1));
    let declared = given.columns.as_ref().map(Vec::len);
    let declared = declared.or(given.names.as_ref().map(Vec::len));
    let width = declared.unwrap_or(found.width).max(1);
    let mut has_newlines = (0..rows.len()).any(|row| rows.has_newline(row));
    let facts = Facts::of_rows(&rows, 1.min(rows.len())..rows.len(), width, given);
    let header = header::find(&rows, width, &facts, given);
    let first = usize::from(header).min(rows.len());
    let mut facts = match header {
        true => facts,
        false => Facts::of_rows(&rows, 0..rows.len(), width, given),
    };
    let names = header::names(&rows, width, header, given)?;
    if rows.len() == first && rows.len() == 0 && given.columns.is_none() {
        return Err(SniffError::Empty);
    }
    // Who says how many rows to look at means those of the head.
    let others = if given.sample_rows.is_some() {
        1
    } else {
        texts.len()
    };
    for piece in &texts[1..others] {
        rows = read_all(piece.bytes(), &found, piece.is_last)?;
        let fitting = (0..rows.len()).filter(|row| rows.width(*row) == width);
        if fitting.count() * 100 < rows.len() * FITTING_PERCENT {
            // The piece may begin within a quoted value.
            continue;
        }
        has_newlines |= (0..rows.len()).any(|row| rows.has_newline(row));
        facts.add_rows(&rows, 0..rows.len(), width, given);
    }
    let columns: Vec<Column> = facts.columns(names, found.syntax.delimiter, given)?;
    let dialect = Dialect {
        delimiter: found.syntax.delimiter,
        quote: found.syntax.quote,
        escape: found.syntax.escape,
        comment: found.syntax.comment,
        skip: found.skip,
        header,
        encoding,
        null_words: given.null_words.clone(),
        null_padding: given.null_padding,
        ignore_errors: given.ignore_errors,
        has_newlines,
    };
    Ok(Sniffed { dialect, columns })
}

/// Returns whether the head of a sample may end within a row that has more than half of it: a larger head has to be
/// looked at.
pub fn is_cut(sample: &Sample, given: &Given) -> bool {
    let encoding = given.encoding.or_else(|| Encoding::of(sample).ok());
    let head = encoding.and_then(|encoding| texts(sample, encoding).into_iter().next());
    head.is_some_and(|head| {
        let ends_in_line = head.end < head.bytes.len() / 2;
        !head.is_last && (ends_in_line || syntax::is_cut(head.bytes(), given))
    })
}

/// A piece as text, from the beginning of a line to the end of one.
struct Text {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    is_last: bool,
}

impl Text {
    fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

fn texts(sample: &Sample, encoding: Encoding) -> Vec<Text> {
    let text = |piece: &crate::sample::Piece| {
        let mut bytes = Vec::with_capacity(piece.bytes.len());
        let mut transcoder = Transcoder::new(encoding, piece.offset == 0);
        transcoder.push(&piece.bytes, true, &mut bytes);
        let start = match piece.offset {
            0 => 0,
            _ => memchr::memchr(b'\n', &bytes).map_or(bytes.len(), |at| at + 1),
        };
        let end = match piece.is_last {
            true => bytes.len(),
            false => memchr::memrchr(b'\n', &bytes)
                .or(memchr::memrchr(b'\r', &bytes))
                .map_or(bytes.len(), |at| at + 1),
        };
        Text {
            start: start.min(end),
            bytes,
            end,
            is_last: piece.is_last,
        }
    };
    sample.pieces.iter().map(text).collect()
}

/// Reads the rows of a piece; one that may go on behind the piece is left out.
fn read_all(text: &[u8], found: &syntax::Found, is_last: bool) -> Result<Rows, SniffError> {
    let mut rows = Rows::default();
    let mut tokenizer = Tokenizer::new(found.syntax);
    let mut rest = text;
    let refused = |error: crate::error::ReadError| SniffError::Option(error.to_string());
    while !rest.is_empty() {
        let (step, consumed) = tokenizer.read(rest, &mut rows).map_err(refused)?;
        rest = &rest[consumed..];
        if step == Step::More {
            break;
        }
    }
    if is_last {
        tokenizer.read(&[], &mut rows).map_err(refused)?;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests;
