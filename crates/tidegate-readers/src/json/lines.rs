//! Objects of JSON, one a line: a line that cannot be read is left out.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;

use super::OBJECT_BYTES_MAX;
use crate::decode::LeftOut;
use crate::error::ReadError;
use crate::records::BATCH_BYTES;

/// Makes batches of lines.
#[derive(Debug)]
pub struct LineDecoder {
    schema: SchemaRef,
    batch_rows: usize,
    left_out: Arc<LeftOut>,
    text: Vec<u8>,
    /// Where each line ends that is complete.
    ends: Vec<usize>,
    /// The number of the first line of the text.
    line: u64,
}

impl LineDecoder {
    /// Makes a decoder for text whose first line is `first_line`.
    pub fn new(
        schema: SchemaRef,
        batch_rows: usize,
        first_line: u64,
        left_out: Arc<LeftOut>,
    ) -> Self {
        Self {
            schema,
            batch_rows: batch_rows.max(1),
            left_out,
            text: Vec::new(),
            ends: Vec::new(),
            line: first_line,
        }
    }

    /// Takes bytes until a batch is full or all are taken, and returns how many it took; no bytes are the
    /// end of the text.
    ///
    /// # Errors
    /// [`ReadError::Row`] for a line that is longer than lines may be.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<usize, ReadError> {
        if bytes.is_empty() {
            self.end_line();
            return Ok(0);
        }
        let mut taken = 0;
        while !self.is_full() && taken < bytes.len() {
            let rest = &bytes[taken..];
            let line = memchr::memchr(b'\n', rest).map(|at| at + 1);
            let part = &rest[..line.unwrap_or(rest.len())];
            self.text.extend_from_slice(part);
            taken += part.len();
            if self.text.len() - self.start(self.ends.len()) > OBJECT_BYTES_MAX {
                return Err(ReadError::Row {
                    line: self.line + self.ends.len() as u64,
                    limit: OBJECT_BYTES_MAX,
                });
            }
            if line.is_some() {
                self.end_line();
            }
        }
        Ok(taken)
    }

    /// Tells whether a batch is full.
    pub fn is_full(&self) -> bool {
        self.ends.len() >= self.batch_rows || self.start(self.ends.len()) >= BATCH_BYTES
    }

    /// Returns the rows of the lines that are complete; `None` if there is no line.
    ///
    /// # Errors
    /// Those of joining batches.
    pub fn flush(&mut self) -> Result<Option<RecordBatch>, ArrowError> {
        if self.ends.is_empty() {
            return Ok(None);
        }
        let mut batches = Vec::new();
        let mut from = 0;
        for line in 0..self.ends.len() {
            let text = self.text[self.start(line)..self.ends[line]].trim_ascii();
            if text.is_empty() || (text.starts_with(b"{") && text.ends_with(b"}")) {
                continue;
            }
            self.leave_out(line, "it is not an object");
            self.read(from..line, &mut batches);
            from = line + 1;
        }
        self.read(from..self.ends.len(), &mut batches);
        let batch = concat_batches(&self.schema, &batches)?;
        self.line += self.ends.len() as u64;
        let taken = self.start(self.ends.len());
        self.text.drain(..taken);
        self.ends.clear();
        Ok(Some(batch))
    }

    fn end_line(&mut self) {
        if self.text.len() > self.start(self.ends.len()) {
            self.ends.push(self.text.len());
        }
    }

    fn start(&self, line: usize) -> usize {
        line.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn leave_out(&self, line: usize, why: &str) {
        let line = self.line + line as u64;
        self.left_out.count_row(|| format!("line {line}: {why}"));
    }

    /// Reads lines: all at once, or, if some of them cannot be read, each half.
    fn read(&self, lines: Range<usize>, batches: &mut Vec<RecordBatch>) {
        if lines.is_empty() {
            return;
        }
        let text = &self.text[self.start(lines.start)..self.ends[lines.end - 1]];
        match objects(&self.schema, text, lines.len()) {
            Ok(read) => batches.extend(read),
            Err(error) if lines.len() == 1 => {
                let said = error.to_string();
                self.leave_out(lines.start, said.trim_start_matches("Json error: "));
            }
            Err(_) => {
                let middle = lines.start + lines.len() / 2;
                self.read(lines.start..middle, batches);
                self.read(middle..lines.end, batches);
            }
        }
    }
}

/// Reads objects one after the other.
fn objects(schema: &SchemaRef, text: &[u8], rows: usize) -> Result<Vec<RecordBatch>, ArrowError> {
    let mut decoder = ReaderBuilder::new(Arc::clone(schema))
        .with_batch_size(rows)
        .with_coerce_primitive(true)
        .build_decoder()?;
    let mut batches = Vec::new();
    let mut rest = text;
    loop {
        let taken = decoder.decode(rest)?;
        rest = &rest[taken..];
        match decoder.flush()? {
            Some(batch) => batches.push(batch),
            None if rest.is_empty() => return Ok(batches),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
