//! JSON: one array of objects, or an object on each line. Nulls are written; floats that JSON does
//! not know (NaN and the infinities) are null.

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;

use super::{Printer, with_text};

/// Prints JSON, one object on each line in both forms.
pub(super) struct Json {
    is_array: bool,
    is_open: bool,
}

impl Json {
    pub(super) fn array() -> Self {
        Self {
            is_array: true,
            is_open: false,
        }
    }

    pub(super) fn lines() -> Self {
        Self {
            is_array: false,
            is_open: false,
        }
    }
}

impl Printer for Json {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        let batch = with_text(&batch, |data_type| matches!(data_type, DataType::Union(..)))?;
        let batch = tidegate::with_text_keys(&batch)?;
        let mut lines = Vec::new();
        let builder = WriterBuilder::new().with_explicit_nulls(true);
        let mut writer = builder.build::<_, LineDelimited>(&mut lines);
        writer.write(&batch)?;
        writer.finish()?;
        if !self.is_array {
            text.append(&mut lines);
            return Ok(());
        }
        // A line break within a string is written as `\n`, so each line is an object.
        for object in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            text.extend_from_slice(if self.is_open { b",\n" } else { b"[" });
            text.extend_from_slice(object);
            self.is_open = true;
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        if self.is_array {
            text.extend_from_slice(if self.is_open { b"]\n" } else { b"[]\n" });
        }
        Ok(0)
    }
}
