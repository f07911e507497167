//! Text cut into rows of values, by `csv-core`.
//!
//! Values are copied one after the other, without quotes and escapes; where each ends is kept beside them.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use crate::dialect::Dialect;
use crate::error::ReadError;

/// The most bytes of a row.
pub const ROW_BYTES_MAX: usize = 64 << 20;
/// A batch ends after so many bytes of values, however few its rows are.
pub const BATCH_BYTES: usize = 8 << 20;
/// The most values of a row.
pub(crate) const COLUMNS_MAX: usize = 100_000;

/// What separates and encloses values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Syntax {
    pub(crate) delimiter: u8,
    pub(crate) quote: Option<u8>,
    pub(crate) escape: Option<u8>,
    pub(crate) comment: Option<u8>,
}

impl Syntax {
    pub(crate) fn of(dialect: &Dialect) -> Self {
        Self {
            delimiter: dialect.delimiter,
            quote: dialect.quote,
            escape: dialect.escape,
            comment: dialect.comment,
        }
    }

    fn reader(self) -> Reader {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(self.delimiter).comment(self.comment);
        match self.quote {
            Some(quote) => builder.quote(quote),
            None => builder.quoting(false),
        };
        if self.escape.is_some() {
            builder.escape(self.escape).double_quote(true);
        }
        builder.build()
    }
}

/// Rows: the text of all values, and where each ends.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    text: Vec<u8>,
    text_len: usize,
    ends: Vec<usize>,
    ends_len: usize,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    /// How many values there are up to its end, and bytes.
    ends: usize,
    text: usize,
    /// The line that it ends on.
    line: u64,
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn clear(&mut self) {
        self.text_len = 0;
        self.ends_len = 0;
        self.rows.clear();
    }

    /// Returns the number of bytes in the values of complete rows.
    pub(crate) fn bytes(&self) -> usize {
        self.before(self.rows.len()).1
    }

    /// Returns the bytes of all values.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text[..self.text_len]
    }

    /// Returns where each value ends.
    pub(crate) fn ends(&self) -> &[usize] {
        &self.ends[..self.ends_len]
    }

    fn before(&self, row: usize) -> (usize, usize) {
        match row.checked_sub(1).and_then(|before| self.rows.get(before)) {
            Some(before) => (before.ends, before.text),
            None => (0, 0),
        }
    }

    /// Returns how many values a row has.
    pub(crate) fn width(&self, row: usize) -> usize {
        self.rows[row].ends - self.before(row).0
    }

    /// Returns a value of a row.
    pub(crate) fn value(&self, row: usize, column: usize) -> &[u8] {
        let (first, _) = self.before(row);
        let at = first + column;
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[at]]
    }

    /// Returns all values of a row.
    pub(crate) fn values(&self, row: usize) -> impl Iterator<Item = &[u8]> {
        (0..self.width(row)).map(move |column| self.value(row, column))
    }

    /// Returns the line that a row begins on, of a text whose first line is 1.
    pub(crate) fn line(&self, row: usize) -> u64 {
        let (_, start) = self.before(row);
        let within = &self.text[start..self.rows[row].text];
        self.rows[row].line - memchr::memchr_iter(b'\n', within).count() as u64
    }

    /// Tells whether a row has a newline within a value.
    pub(crate) fn has_newline(&self, row: usize) -> bool {
        let (_, start) = self.before(row);
        memchr::memchr2(b'\n', b'\r', &self.text[start..self.rows[row].text]).is_some()
    }

    /// Makes the text UTF-8, with `?` for each byte that is not, and returns the rows that had such bytes.
    pub(crate) fn repair(&mut self) -> Vec<usize> {
        let mut bad = Vec::new();
        let mut from = 0;
        while let Err(error) = std::str::from_utf8(&self.text[from..self.text_len]) {
            let at = from + error.valid_up_to();
            let len = error.error_len().unwrap_or(self.text_len - at).max(1);
            self.text[at..at + len].fill(b'?');
            let row = self.rows.partition_point(|row| row.text <= at);
            if bad.last() != Some(&row) {
                bad.push(row);
            }
            from = at + len;
        }
        bad
    }

    /// Removes the last row.
    pub(crate) fn pop(&mut self) {
        self.truncate(self.rows.len().saturating_sub(1));
    }

    /// Removes all rows but the first `count`.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.rows.truncate(count);
        (self.ends_len, self.text_len) = self.before(self.rows.len());
    }

    /// Fits the last row to a number of values: what it has too much of goes if it is empty, and what it
    /// lacks is empty if it may be padded. Returns whether it fits.
    pub(crate) fn fit(&mut self, width: usize, may_pad: bool) -> bool {
        let Some(last) = self.rows.len().checked_sub(1) else {
            return true;
        };
        let has = self.width(last);
        let row = self.rows[last];
        if has > width {
            let first_ends = row.ends - has;
            let kept = self.ends[first_ends + width - 1];
            if kept != row.text {
                return false;
            }
            self.ends_len = first_ends + width;
        } else if has < width {
            if !may_pad {
                return false;
            }
            self.ends.truncate(self.ends_len);
            self.ends.resize(self.ends_len + width - has, row.text);
            self.ends_len = self.ends.len();
        }
        self.rows[last].ends = self.ends_len;
        true
    }
}

/// What reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A row is complete.
    Row,
    /// All bytes are read, and the row goes on.
    More,
}

/// Cuts bytes, which come in buffers of any size, into rows.
#[derive(Debug)]
pub(crate) struct Tokenizer {
    reader: Reader,
}

impl Tokenizer {
    pub(crate) fn new(syntax: Syntax) -> Self {
        Self {
            reader: syntax.reader(),
        }
    }

    /// Sets the number of the line that comes next.
    pub(crate) fn set_line(&mut self, line: u64) {
        self.reader.set_line(line);
    }

    /// Says that the text does not begin at a file's beginning, where a byte order mark would be none of it.
    pub(crate) fn begin_within(&mut self) {
        let line = self.reader.line();
        // A blank line is no row.
        self.reader.read_record(b"\n", &mut [0], &mut [0]);
        self.reader.set_line(line);
    }

    /// Reads up to the end of a row, and returns how many bytes that took; no bytes are the end of the text.
    ///
    /// # Errors
    /// [`ReadError::Row`] for a row that is longer than rows may be.
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        rows: &mut Rows,
    ) -> Result<(Step, usize), ReadError> {
        let mut consumed = 0;
        loop {
            reserve(&mut rows.text, rows.text_len, 4096);
            reserve(&mut rows.ends, rows.ends_len, 64);
            let (result, num_in, num_out, num_ends) = self.reader.read_record(
                &input[consumed..],
                &mut rows.text[rows.text_len..],
                &mut rows.ends[rows.ends_len..],
            );
            consumed += num_in;
            rows.text_len += num_out;
            rows.ends_len += num_ends;
            let (ends, text) = rows.before(rows.rows.len());
            match result {
                ReadRecordResult::Record => {
                    let is_ended = consumed > 0 && input[consumed - 1] == b'\n';
                    for end in &mut rows.ends[ends..rows.ends_len] {
                        *end += text;
                    }
                    rows.rows.push(Row {
                        ends: rows.ends_len,
                        text: rows.text_len,
                        line: self.reader.line() - u64::from(is_ended),
                    });
                    return Ok((Step::Row, consumed));
                }
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {
                    self.check(rows, ends, text)?;
                    return Ok((Step::More, consumed));
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    self.check(rows, ends, text)?;
                    let (text_len, ends_len) = (rows.text.len(), rows.ends.len());
                    match result {
                        ReadRecordResult::OutputFull => reserve(&mut rows.text, text_len, 1),
                        _ => reserve(&mut rows.ends, ends_len, 1),
                    }
                }
            }
        }
    }

    /// Reads the row that the end of the text ends.
    ///
    /// # Errors
    /// [`ReadError::Quote`] if it ends within quotes.
    pub(crate) fn end(&mut self, rows: &mut Rows) -> Result<Step, ReadError> {
        // A newline ends a row, but not within quotes.
        let (step, _) = self.read(b"\n", rows)?;
        let (ends, text) = rows.before(rows.rows.len());
        if step == Step::More && (rows.text_len > text || rows.ends_len > ends) {
            let within = memchr::memchr_iter(b'\n', &rows.text[text..rows.text_len]).count();
            return Err(ReadError::Quote {
                line: self.reader.line() - within as u64,
            });
        }
        Ok(step)
    }

    fn check(&self, rows: &Rows, ends: usize, text: usize) -> Result<(), ReadError> {
        let (bytes, values) = (rows.text_len - text, rows.ends_len - ends);
        if bytes <= ROW_BYTES_MAX && values <= COLUMNS_MAX {
            return Ok(());
        }
        let within = memchr::memchr_iter(b'\n', &rows.text[text..rows.text_len]).count();
        Err(ReadError::Row {
            line: self.reader.line() - within as u64,
            limit: ROW_BYTES_MAX,
        })
    }
}

/// Measures the rows of a text that another reader reads, and tells which of them is too long.
#[derive(Debug)]
pub struct RowMeasure {
    tokenizer: Tokenizer,
    row: Rows,
}

impl RowMeasure {
    /// Begins at the beginning of a text, whose values are separated and enclosed by these bytes.
    pub fn new(delimiter: u8, quote: u8, escape: Option<u8>, comment: Option<u8>) -> Self {
        let syntax = Syntax {
            delimiter,
            quote: Some(quote),
            escape,
            comment,
        };
        Self {
            tokenizer: Tokenizer::new(syntax),
            row: Rows::default(),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// [`ReadError::Row`] for a row that is longer than [`ROW_BYTES_MAX`].
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), ReadError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (step, taken) = self.tokenizer.read(rest, &mut self.row)?;
            if step == Step::Row {
                self.row.clear();
            }
            rest = &rest[taken..];
        }
        Ok(())
    }
}

/// Makes room behind what is used, at least doubling what there is.
fn reserve<T: Clone + Default>(buffer: &mut Vec<T>, used: usize, room: usize) {
    if buffer.len() - used < room {
        let len = (used + room).max(buffer.len() * 2);
        buffer.resize(len, T::default());
    }
}

#[cfg(test)]
mod tests;
