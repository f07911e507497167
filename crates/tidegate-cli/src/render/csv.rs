//! Comma-separated values (RFC 4180), a header first; null is an empty field.

use arrow::array::RecordBatch;
use arrow::csv::WriterBuilder;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;

use super::{Printer, with_text};

/// Prints CSV. Lists, structs and maps, for which CSV has no form, are written as their text.
pub(super) struct Csv {
    schema: SchemaRef,
    has_header: bool,
}

impl Csv {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            has_header: false,
        }
    }
}

impl Printer for Csv {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        let batch = with_text(&batch, DataType::is_nested)?;
        WriterBuilder::new()
            .with_header(!self.has_header)
            .build(text)
            .write(&batch)?;
        self.has_header = true;
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        if !self.has_header {
            self.batch(RecordBatch::new_empty(self.schema.clone()), text)?;
        }
        Ok(0)
    }
}
