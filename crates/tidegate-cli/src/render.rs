//! Rows become text.
//!
//! All formats but the table are written batch by batch as the batches come. A table is laid out as
//! a whole, so its rows are kept; [`table`] says how many at most.

mod binary;
mod csv;
mod expanded;
mod fitted;
mod json;
mod lines;
mod table;

use std::io::Write;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::{Stream, StreamExt};

use crate::args::Format;
use crate::failure::Failure;
use lines::Lines;

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) format: Format,
    /// Rows of a table that are shown; `None` is all.
    pub(crate) maxrows: Option<usize>,
    /// Whether a table that is wider than the terminal has its rows expanded.
    pub(crate) expands: bool,
}

/// How a table is fitted to a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fit {
    /// Columns of the terminal.
    width: usize,
    /// Whether rows that are too wide are expanded.
    expands: bool,
}

/// What has been written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    /// Rows of `rows` that were left out.
    pub(crate) hidden: usize,
    /// Columns of `columns` that were left out.
    pub(crate) hidden_columns: usize,
}

/// Turns the batches of one result into bytes.
trait Printer: Send {
    /// Appends what can be written once `batch` is there.
    fn batch(&mut self, batch: RecordBatch, text: &mut Vec<u8>) -> Result<(), ArrowError>;

    /// Appends what is left to write; returns the number of rows left out.
    fn finish(&mut self, text: &mut Vec<u8>) -> Result<usize, ArrowError>;

    /// Returns the number of columns left out.
    fn hidden_columns(&self) -> usize {
        0
    }
}

/// Writes a statement's result to `output`, and flushes it; a table is no wider than `width`. A result without columns, such as that of SET, writes
/// nothing.
///
/// # Errors
/// Fails with the stream, with a value that has no form in the format, and with `output`. What was
/// written until then stays; a JSON array is not closed.
pub(crate) async fn render<S, E>(
    mut stream: S,
    style: Style,
    width: Option<usize>,
    output: &mut (impl Write + Send),
) -> Result<Shown, Failure>
where
    S: Stream<Item = Result<RecordBatch, E>> + HasSchema + Unpin,
    tidegate::Error: From<E>,
{
    let schema = stream.schema_ref();
    let mut shown = Shown {
        columns: schema.fields().len(),
        rows: 0,
        hidden: 0,
        hidden_columns: 0,
    };
    if shown.columns == 0 {
        while let Some(batch) = stream.next().await {
            shown.rows += batch
                .map_err(|error| Failure::Query(error.into()))?
                .num_rows();
        }
        return Ok(shown);
    }
    let expands = style.expands;
    let fit = width.map(|width| Fit { width, expands });
    let mut printer: Box<dyn Printer> = match style.format {
        Format::Table => Box::new(table::Table::new(schema, style.maxrows, fit)),
        Format::Expanded => Box::new(expanded::Expanded::new(&schema, style.maxrows)),
        Format::Csv => Box::new(csv::Csv::new(schema)),
        Format::Tsv => Box::new(Lines::<lines::Tsv>::new(schema)),
        Format::Json => Box::new(json::Json::array()),
        Format::Ndjson => Box::new(json::Json::lines()),
        Format::Markdown => Box::new(Lines::<lines::Markdown>::new(schema)),
        Format::Arrow => Box::new(binary::ArrowStream::new(&schema)?),
        Format::Parquet => Box::new(binary::Parquet::new(&schema)?),
    };
    let mut text = Vec::new();
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| Failure::Query(error.into()))?;
        shown.rows += batch.num_rows();
        let batch = match style.format {
            Format::Arrow | Format::Parquet => batch,
            _ => tidegate::with_span_texts(&batch)?,
        };
        printer.batch(batch, &mut text)?;
        output.write_all(&text).map_err(Failure::output)?;
        text.clear();
    }
    shown.hidden = printer.finish(&mut text)?;
    shown.hidden_columns = printer.hidden_columns();
    output.write_all(&text).map_err(Failure::output)?;
    output.flush().map_err(Failure::output)?;
    Ok(shown)
}

/// A stream that knows the schema of its batches before the first comes.
pub(crate) trait HasSchema {
    /// Returns the schema.
    fn schema_ref(&self) -> SchemaRef;
}

impl HasSchema for tidegate::SendableRecordBatchStream {
    fn schema_ref(&self) -> SchemaRef {
        self.schema()
    }
}

/// Replaces the columns whose type `has_no_form` in a format by their text, as a table shows them.
fn with_text(
    batch: &RecordBatch,
    has_no_form: fn(&DataType) -> bool,
) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    if !schema
        .fields()
        .iter()
        .any(|field| has_no_form(field.data_type()))
    {
        return Ok(batch.clone());
    }
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if has_no_form(field.data_type()) {
            fields.push(Arc::new(Field::new(field.name(), DataType::Utf8, true)));
            columns.push(Arc::new(text_of(column)?));
        } else {
            fields.push(Arc::clone(field));
            columns.push(Arc::clone(column));
        }
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn text_of(column: &ArrayRef) -> Result<StringArray, ArrowError> {
    // Within a value nothing else tells a NULL from an empty text.
    let options = FormatOptions::default()
        .with_display_error(false)
        .with_null("NULL");
    let formatter = ArrayFormatter::try_new(column, &options)?;
    let value = |row| match column.is_null(row) {
        true => Ok(None),
        false => formatter.value(row).try_to_string().map(Some),
    };
    (0..column.len()).map(value).collect()
}

#[cfg(test)]
mod tests;
