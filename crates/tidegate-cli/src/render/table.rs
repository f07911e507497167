//! Columns in a frame.
//!
//! The width of a column is that of its widest value, so rows are kept until they are laid out, in
//! blocks of [`BLOCK_ROWS`]: a longer table is several frames with the same header, and needs memory
//! for one of them.

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::util::display::FormatOptions;
use arrow::util::pretty::pretty_format_batches_with_options;

use super::expanded::Expanded;
use super::fitted::{self, Cells};
use super::{Fit, Printer};

/// Rows that are laid out together.
pub(super) const BLOCK_ROWS: usize = 10_000;

/// Prints a table.
pub(super) struct Table {
    schema: SchemaRef,
    /// The terminal that it is for; without one it is as wide as it is.
    fit: Option<Fit>,
    /// Prints the rows instead, where they are too wide.
    expanded: Option<Expanded>,
    hidden_columns: usize,
    kept: Vec<RecordBatch>,
    num_kept: usize,
    /// Rows that may still be shown.
    left: usize,
    hidden: usize,
    is_begun: bool,
}

impl Table {
    pub(super) fn new(schema: SchemaRef, maxrows: Option<usize>, fit: Option<Fit>) -> Self {
        Self {
            schema,
            fit,
            expanded: None,
            hidden_columns: 0,
            kept: Vec::new(),
            num_kept: 0,
            left: maxrows.unwrap_or(usize::MAX),
            hidden: 0,
            is_begun: false,
        }
    }

    fn keep(&mut self, batch: RecordBatch) {
        self.num_kept += batch.num_rows();
        self.kept.push(batch);
    }

    fn block(&mut self, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.kept.is_empty() {
            self.kept.push(RecordBatch::new_empty(self.schema.clone()));
        }
        match self.fit {
            Some(fit) => self.fitted_block(fit, text)?,
            None => {
                let options = FormatOptions::default().with_null("NULL");
                let frame = pretty_format_batches_with_options(&self.kept, &options)?;
                writeln!(text, "{frame}")?;
            }
        }
        self.kept.clear();
        self.num_kept = 0;
        self.is_begun = true;
        Ok(())
    }
}

impl Table {
    /// Prints what is kept for a terminal.
    fn fitted_block(&mut self, fit: Fit, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        if self.expanded.is_none() {
            let cells = Cells::new(&self.schema, &self.kept)?;
            if fitted::is_plan(&self.schema) {
                text.extend_from_slice(fitted::plan(&cells, fit.width).as_bytes());
                return Ok(());
            }
            let is_first = !self.is_begun;
            if !(is_first && fit.expands && self.num_kept > 0 && cells.is_wider(fit.width)) {
                let frame = cells.frame(fit.width);
                self.hidden_columns = self.hidden_columns.max(frame.hidden);
                text.extend_from_slice(frame.text.as_bytes());
                return Ok(());
            }
        }
        let new = || Expanded::new(&self.schema, None);
        let expanded = self.expanded.get_or_insert_with(new);
        for batch in &self.kept {
            expanded.batch(batch.clone(), text)?;
        }
        Ok(())
    }
}

impl Printer for Table {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        let num_shown = batch.num_rows().min(self.left);
        self.left -= num_shown;
        self.hidden += batch.num_rows() - num_shown;
        let mut begin = 0;
        while begin < num_shown {
            let length = (num_shown - begin).min(BLOCK_ROWS - self.num_kept);
            self.keep(batch.slice(begin, length));
            begin += length;
            if self.num_kept == BLOCK_ROWS {
                self.block(text)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        if self.num_kept > 0 || !self.is_begun {
            self.block(text)?;
        }
        Ok(self.hidden)
    }

    fn hidden_columns(&self) -> usize {
        self.hidden_columns
    }
}
