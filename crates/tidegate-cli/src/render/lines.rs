//! Formats in which each row is one line, with a header first: [`Tsv`] and [`Markdown`].

use std::marker::PhantomData;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::{Printer, text_of};

/// How a row is written on a line.
pub(super) trait LineFormat: Send {
    /// Appends the header.
    fn header(schema: &SchemaRef, text: &mut Vec<u8>) {
        let names = schema.fields().iter();
        Self::line(names.map(|field| Some(field.name().as_str())), text);
    }

    /// Appends a line; `None` is null.
    fn line<'a>(values: impl Iterator<Item = Option<&'a str>>, text: &mut Vec<u8>);
}

/// Prints a header, then rows.
pub(super) struct Lines<F> {
    schema: SchemaRef,
    has_header: bool,
    format: PhantomData<F>,
}

impl<F: LineFormat> Lines<F> {
    pub(super) fn new(schema: SchemaRef) -> Self {
        Self {
            schema,
            has_header: false,
            format: PhantomData,
        }
    }

    fn header(&mut self, text: &mut Vec<u8>) {
        if !self.has_header {
            self.has_header = true;
            F::header(&self.schema, text);
        }
    }
}

impl<F: LineFormat> Printer for Lines<F> {
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
            F::line(values, text);
        }
        Ok(())
    }

    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError> {
        self.header(text);
        Ok(0)
    }
}

/// Tab-separated values. As in the text form of PostgreSQL's COPY, null is `\N`, and tab, line breaks
/// and backslash within a value are written as `\t`, `\n`, `\r` and `\\`.
pub(super) struct Tsv;

impl LineFormat for Tsv {
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
}

/// A table as GitHub's Markdown has it: a pipe or a line break within a value is escaped.
pub(super) struct Markdown;

impl LineFormat for Markdown {
    fn header(schema: &SchemaRef, text: &mut Vec<u8>) {
        let fields = schema.fields();
        let names = fields.iter().map(|field| Some(field.name().as_str()));
        Self::line(names, text);
        let rulers = fields.iter().map(|field| {
            Some(match field.data_type().is_numeric() {
                true => "---:",
                false => "---",
            })
        });
        Self::line(rulers, text);
    }

    fn line<'a>(values: impl Iterator<Item = Option<&'a str>>, text: &mut Vec<u8>) {
        text.push(b'|');
        for value in values {
            text.push(b' ');
            for byte in value.unwrap_or("NULL").bytes() {
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
}
