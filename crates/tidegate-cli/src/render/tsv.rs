//! Tab-separated values, a header first. As in the text form of PostgreSQL's COPY, null is `\N`, and
//! tab, line breaks and backslash within a value are written as `\t`, `\n`, `\r` and `\\`: each row
//! is one line.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::{Printer, text_of};

/// Prints TSV.
pub(super) struct Tsv {
    schema: SchemaRef,
    has_header: bool,
}

impl Tsv {
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
        let names = self
            .schema
            .fields()
            .iter()
            .map(|field| Some(field.name().as_str()));
        line(names, text);
    }
}

impl Printer for Tsv {
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError> {
        self.header(text);
        let columns = batch
            .columns()
            .iter()
            .map(text_of)
            .collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let values = columns
                .iter()
                .map(|column| column.is_valid(row).then(|| column.value(row)));
            line(values, text);
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        self.header(text);
        Ok(0)
    }
}

fn line<'a>(values: impl Iterator<Item = Option<&'a str>>, text: &mut Vec<u8>) {
    for (column, value) in values.enumerate() {
        if column > 0 {
            text.push(b'\t');
        }
        let Some(value) = value else {
            text.extend_from_slice(b"\\N");
            continue;
        };
        for byte in value.bytes() {
            match byte {
                b'\t' => text.extend_from_slice(b"\\t"),
                b'\n' => text.extend_from_slice(b"\\n"),
                b'\r' => text.extend_from_slice(b"\\r"),
                b'\\' => text.extend_from_slice(b"\\\\"),
                other => text.push(other),
            }
        }
    }
    text.push(b'\n');
}
