//! Each row as a block of `column | value` lines, for rows that are wider than the screen.

use std::io::Write;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::{Printer, text_of};

/// Prints rows one below the other.
pub(super) struct Expanded {
    names: Vec<String>,
    /// Rows that may still be shown.
    left: usize,
    shown: usize,
    hidden: usize,
}

impl Expanded {
    pub(super) fn new(schema: &SchemaRef, maxrows: Option<usize>) -> Self {
        let fields = schema.fields().iter();
        let width = fields
            .clone()
            .map(|field| field.name().chars().count())
            .max();
        let width = width.unwrap_or(0);
        Self {
            names: fields
                .map(|field| format!("{:width$}", field.name()))
                .collect(),
            left: maxrows.unwrap_or(usize::MAX),
            shown: 0,
            hidden: 0,
        }
    }
}

impl Printer for Expanded {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        let num_shown = batch.num_rows().min(self.left);
        self.left -= num_shown;
        self.hidden += batch.num_rows() - num_shown;
        let batch = batch.slice(0, num_shown);
        let columns = batch
            .columns()
            .iter()
            .map(text_of)
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..num_shown {
            self.shown += 1;
            writeln!(text, "-- row {} --", self.shown)?;
            for (name, column) in self.names.iter().zip(&columns) {
                let value = if column.is_null(row) {
                    "NULL"
                } else {
                    column.value(row)
                };
                writeln!(text, "{name} | {value}")?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        if self.shown + self.hidden == 0 {
            writeln!(text, "(no rows)")?;
        }
        Ok(self.hidden)
    }
}
