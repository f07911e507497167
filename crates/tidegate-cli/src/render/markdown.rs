//! A table as GitHub's Markdown has it: a pipe or a line break within a value is escaped.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::{Printer, text_of};

/// Prints Markdown.
pub(super) struct Markdown {
    schema: SchemaRef,
    has_header: bool,
}

impl Markdown {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            has_header: false,
        }
    }

    fn header(&mut self, text: &mut Vec<u8>) {
        if self.has_header {
            return;
        }
        self.has_header = true;
        let fields = self.schema.fields();
        line(fields.iter().map(|field| field.name().as_str()), text);
        let rulers = fields.iter().map(|field| {
            if field.data_type().is_numeric() {
                "---:"
            } else {
                "---"
            }
        });
        line(rulers, text);
    }
}

impl Printer for Markdown {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.header(text);
        let columns = batch
            .columns()
            .iter()
            .map(text_of)
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = columns.iter().map(|column| {
                if column.is_null(row) {
                    "NULL"
                } else {
                    column.value(row)
                }
            });
            line(values, text);
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        self.header(text);
        Ok(0)
    }
}

fn line<'a>(values: impl Iterator<Item = &'a str>, text: &mut Vec<u8>) {
    text.push(b'|');
    for value in values {
        text.push(b' ');
        for byte in value.bytes() {
            match byte {
                b'|' => text.extend_from_slice(b"\\|"),
                b'\n' => text.extend_from_slice(b"<br>"),
                b'\r' => {}
                other => text.push(other),
            }
        }
        text.extend_from_slice(b" |");
    }
    text.push(b'\n');
}
