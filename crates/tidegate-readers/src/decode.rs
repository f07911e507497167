//! A file's bytes, in buffers of any size, to record batches.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::SchemaRef;

use crate::columns::{ColumnReader, Values};
use crate::dialect::Sniffed;
use crate::error::{ReadError, quoted};
use crate::records::{BATCH_BYTES, Rows, Step, Syntax, Tokenizer};

/// What was left out because the user said so.
#[derive(Debug, Default)]
pub struct LeftOut {
    count: AtomicU64,
    first: OnceLock<String>,
}

impl LeftOut {
    /// Returns how many rows were left out.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns what was wrong with the first of them that was met.
    pub fn first(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    fn add(&self, error: &ReadError) {
        self.count_row(|| {
            let text = error.to_string();
            text.split("; ").next().unwrap_or_default().to_string()
        });
    }

    /// Counts a row; the first one's fault is kept.
    pub(crate) fn count_row(&self, why: impl FnOnce() -> String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(why);
    }
}

/// Which columns of a file become those of a table, and how.
#[derive(Clone, Debug)]
pub struct Mapping {
    schema: SchemaRef,
    columns: Vec<ColumnReader>,
    width: usize,
}

impl Mapping {
    /// Maps a file's columns to those of a table, of which `projection` names those that are read, by place.
    /// A file with a header is mapped by names, any other by places; a column that it lacks is NULL if
    /// `may_lack`.
    ///
    /// # Errors
    /// [`ReadError::Missing`] for a column that it lacks and may not.
    pub fn new(
        sniffed: &Sniffed,
        table: &SchemaRef,
        projection: &[usize],
        may_lack: bool,
    ) -> Result<Self, ReadError> {
        let schema = Arc::new(table.project(projection)?);
        let null_words = sniffed.dialect.null_words.clone().map(Arc::from);
        let mut columns = Vec::with_capacity(projection.len());
        // Of several columns of a name the first counts.
        let mut exact: HashMap<&str, usize> = HashMap::new();
        let mut without_case: HashMap<String, usize> = HashMap::new();
        for (place, column) in sniffed.columns.iter().enumerate() {
            exact.entry(&column.name).or_insert(place);
            without_case
                .entry(column.name.to_ascii_lowercase())
                .or_insert(place);
        }
        for (place, field) in projection.iter().zip(schema.fields()) {
            let name = field.name().as_str();
            let named = exact.get(name).copied();
            let named = named.or_else(|| without_case.get(&name.to_ascii_lowercase()).copied());
            let by_place = !sniffed.dialect.header && *place < sniffed.columns.len();
            let found = named.or(by_place.then_some(*place));
            let column = found.and_then(|found| sniffed.columns.get(found));
            if column.is_none() && !may_lack {
                let known = sniffed.columns.iter().map(|column| column.name.as_str());
                return Err(ReadError::Missing {
                    column: field.name().clone(),
                    known: known.collect::<Vec<_>>().join(", "),
                });
            }
            columns.push(ColumnReader {
                name: field.name().clone(),
                place: found,
                data_type: field.data_type().clone(),
                numbers: column.map(|column| column.numbers).unwrap_or_default(),
                date: column.map(|column| column.date.clone()).unwrap_or_default(),
                timestamp: column.map(|c| c.timestamp.clone()).unwrap_or_default(),
                null_words: Option::clone(&null_words),
            });
        }
        Ok(Self {
            schema,
            columns,
            width: sniffed.columns.len(),
        })
    }

    /// Returns the columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }
}

/// Makes batches of bytes that are UTF-8, or should be.
#[derive(Debug)]
pub struct Decoder {
    tokenizer: Tokenizer,
    rows: Rows,
    mapping: Mapping,
    batch_rows: usize,
    /// Lines that are still to be skipped.
    skip: usize,
    /// Whether the next row has the columns' names.
    is_header: bool,
    null_padding: bool,
    ignore_errors: bool,
    left_out: Arc<LeftOut>,
}

impl Decoder {
    /// Makes a decoder for a file from its beginning, or for a part of it, whose first row begins on
    /// `first_line`.
    pub fn new(
        sniffed: &Sniffed,
        mapping: Mapping,
        batch_rows: usize,
        first_line: Option<u64>,
        left_out: Arc<LeftOut>,
    ) -> Self {
        let dialect = &sniffed.dialect;
        let is_at_start = first_line.is_none();
        let skip = if is_at_start { dialect.skip } else { 0 };
        let mut tokenizer = Tokenizer::new(Syntax::of(dialect));
        if !is_at_start {
            tokenizer.begin_within();
        }
        tokenizer.set_line(first_line.unwrap_or(skip as u64 + 1));
        Self {
            tokenizer,
            rows: Rows::default(),
            mapping,
            batch_rows: batch_rows.max(1),
            skip,
            is_header: is_at_start && dialect.header,
            null_padding: dialect.null_padding,
            ignore_errors: dialect.ignore_errors,
            left_out,
        }
    }

    /// Returns the columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.mapping.schema
    }

    /// Takes bytes until a batch is full or all are taken, and returns how many it took; no bytes are the
    /// end of the file.
    ///
    /// # Errors
    /// [`ReadError`] for a row that cannot be read.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<usize, ReadError> {
        let mut consumed = 0;
        while self.skip > 0 {
            match memchr::memchr(b'\n', &bytes[consumed..]) {
                Some(at) => consumed += at + 1,
                None => return Ok(bytes.len()),
            }
            self.skip -= 1;
        }
        let is_end = bytes.is_empty();
        while !self.is_full() && (is_end || consumed < bytes.len()) {
            let (step, taken) = match is_end {
                true => (self.tokenizer.end(&mut self.rows)?, 0),
                false => self.tokenizer.read(&bytes[consumed..], &mut self.rows)?,
            };
            consumed += taken;
            match step {
                Step::Row => self.accept()?,
                Step::More => break,
            }
        }
        Ok(consumed)
    }

    /// Tells whether a batch is full.
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.batch_rows || self.rows.bytes() >= BATCH_BYTES
    }

    /// Looks at the row that was read last.
    fn accept(&mut self) -> Result<(), ReadError> {
        let last = self.rows.len() - 1;
        if self.is_header {
            self.is_header = false;
            self.rows.pop();
            return Ok(());
        }
        let (width, found) = (self.mapping.width, self.rows.width(last));
        if found == width {
            return Ok(());
        }
        if found == 1 && self.rows.value(last, 0).trim_ascii().is_empty() {
            self.rows.pop();
            return Ok(());
        }
        if self.rows.fit(width, self.null_padding) {
            return Ok(());
        }
        let error = ReadError::Width {
            line: self.rows.line(last),
            found,
            expected: width,
        };
        if !self.ignore_errors {
            return Err(error);
        }
        self.left_out.add(&error);
        self.rows.pop();
        Ok(())
    }

    /// Returns the rows that were taken, as a batch; `None` if there are none.
    ///
    /// # Errors
    /// [`ReadError`] for a value that is none of its column's type.
    pub fn flush(&mut self) -> Result<Option<RecordBatch>, ReadError> {
        let num_rows = self.rows.len();
        if num_rows == 0 {
            return Ok(None);
        }
        let mut errors = self.rows.repair();
        let rows = &self.rows;
        for row in &errors {
            let error = ReadError::Encoding {
                line: rows.line(*row),
            };
            if !self.ignore_errors {
                return Err(error);
            }
            self.left_out.add(&error);
        }
        // It was made UTF-8 above.
        let text = std::str::from_utf8(rows.text()).unwrap_or_default();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.mapping.columns.len());
        let mut is_bad: Vec<(usize, usize)> = Vec::new();
        let mut bad = Vec::new();
        for (index, column) in self.mapping.columns.iter().enumerate() {
            let values = column.place.map(|place| Values {
                text,
                ends: rows.ends(),
                width: self.mapping.width,
                place,
            });
            arrays.push(column.read(values, num_rows, &mut bad)?);
            is_bad.extend(bad.drain(..).map(|row| (row, index)));
        }
        is_bad.sort_unstable();
        is_bad.dedup_by_key(|(row, _)| *row);
        for (row, index) in is_bad {
            if !errors.contains(&row) {
                let error = self.error(text, row, index);
                if !self.ignore_errors {
                    return Err(error);
                }
                self.left_out.add(&error);
                errors.push(row);
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(num_rows));
        let schema = Arc::clone(&self.mapping.schema);
        let mut batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        if !errors.is_empty() {
            let kept: Vec<bool> = (0..num_rows).map(|row| !errors.contains(&row)).collect();
            batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
        }
        self.rows.clear();
        Ok(Some(batch))
    }

    fn error(&self, text: &str, row: usize, index: usize) -> ReadError {
        let column = &self.mapping.columns[index];
        let line = self.rows.line(row);
        let value = column.place.and_then(|place| {
            let (ends, width) = (self.rows.ends(), self.mapping.width);
            let values = Values {
                text,
                ends,
                width,
                place,
            };
            values.get(row)
        });
        match value {
            None => ReadError::Encoding { line },
            Some(value) => ReadError::Value {
                line,
                column: column.name.clone(),
                value: quoted(value),
                expected: column.expected(),
                is_given: !column.numbers.is_strict,
            },
        }
    }
}
