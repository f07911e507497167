//! Reads the rows of files of JSON.

use std::sync::Arc;

use bytes::Buf;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_readers::json::{
    Flattener, Fractions, JsonFormats, Layout, LineDecoder, OBJECT_BYTES_MAX, SniffedJson, Texts,
    Wrapper,
};
use tidegate_readers::{BATCH_BYTES, Encoding};

use super::bytes::Buffers;
use super::opener::{Batches, Reading, refused, transcoded};
use crate::error::{Error, ErrorKind};

/// Makes an array objects one after the other, strings of what is nested in these columns, and of fractions in the
/// table's whole numbers.
pub(super) fn flat(
    bytes: Buffers,
    sniffed: &SniffedJson,
    is_at_start: bool,
    texts: Vec<String>,
    table: &Schema,
) -> Buffers {
    let bytes = transcoded(bytes, Encoding::Utf8, is_at_start);
    let bytes = match sniffed.layout {
        Layout::Objects => bytes,
        Layout::Array => {
            let mut flattener = Flattener::default();
            bytes
                .map_ok(move |buffer| {
                    let mut buffer = Vec::from(buffer);
                    flattener.flatten(&mut buffer);
                    buffer.into()
                })
                .boxed()
        }
        Layout::Values => {
            let mut wrapper = Wrapper::default();
            bytes
                .map_ok(move |buffer| {
                    let mut objects = Vec::new();
                    wrapper.push(&buffer, &mut objects);
                    objects.into()
                })
                .boxed()
        }
    };
    let bytes = match texts.is_empty() {
        true => bytes,
        false => {
            let mut texts = Texts::new(texts);
            bytes
                .map_ok(move |buffer| {
                    let mut made = Vec::new();
                    texts.push(&buffer, &mut made);
                    made.into()
                })
                .boxed()
        }
    };
    without_fractions(bytes, table)
}

/// Has the decoder refuse fractions in whole numbers, which it would cut off.
fn without_fractions(bytes: Buffers, table: &Schema) -> Buffers {
    let fields = table.fields().iter();
    let whole = fields.filter(|field| field.data_type().is_integer());
    let whole: Vec<String> = whole.map(|field| field.name().clone()).collect();
    if whole.is_empty() {
        return bytes;
    }
    let mut fractions = Fractions::new(whole);
    let ended = bytes.map(Some).chain(stream::iter([None]));
    ended
        .map(move |buffer| {
            let mut made = Vec::new();
            match buffer {
                Some(buffer) => fractions.push(&buffer?, &mut made),
                None => fractions.finish(&mut made),
            }
            Ok(made.into())
        })
        .boxed()
}

/// The columns that are read of objects.
pub(super) struct Wanted {
    /// All columns of the table.
    pub(super) table: SchemaRef,
    pub(super) columns: Vec<usize>,
    /// Whether the objects have no other fields than the table, or are not to be asked for them.
    pub(super) are_known: bool,
    /// How dates and timestamps are written.
    pub(super) formats: JsonFormats,
}

/// Decodes objects.
struct Objects {
    decoder: json::reader::Decoder,
    /// The rows of earlier batches.
    rows: usize,
    /// The bytes of this batch.
    bytes: usize,
}

impl Objects {
    /// Takes bytes of a buffer, and returns how many, and whether a batch is full.
    fn decode(&mut self, buffer: &[u8]) -> std::result::Result<(usize, bool), ArrowError> {
        // Behind so many bytes a batch ends with the next object, which ends with a brace.
        let part = match BATCH_BYTES.checked_sub(self.bytes + 1) {
            Some(rest) => buffer.len().min(rest + 1),
            None => {
                let end = buffer.iter().position(|byte| *byte == b'}');
                end.map_or(buffer.len(), |at| at + 1)
            }
        };
        let taken = self.decoder.decode(&buffer[..part])?;
        self.bytes += taken;
        if self.bytes > BATCH_BYTES + OBJECT_BYTES_MAX {
            let message = format!("an object has more than {OBJECT_BYTES_MAX} bytes");
            return Err(ArrowError::JsonError(message));
        }
        let is_large = self.bytes >= BATCH_BYTES && !self.decoder.has_partial_record();
        // The decoder takes no more when its batch is full.
        Ok((taken, is_large || taken < part))
    }

    fn flush(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        self.bytes = 0;
        self.decoder.flush()
    }
}

/// Reads objects of JSON.
pub(super) fn objects(
    file: &str,
    bytes: Buffers,
    wanted: Wanted,
    batch_rows: usize,
    rows_before: u64,
) -> Result<Batches> {
    let schema = match wanted.are_known {
        true => Arc::new(wanted.table.project(&wanted.columns)?),
        false => Arc::clone(&wanted.table),
    };
    let projection = (!wanted.are_known).then_some(wanted.columns);
    let formats = Some(wanted.formats).filter(|formats| !formats.is_empty());
    let read = match &formats {
        Some(formats) => Arc::new(formats.texts(&schema)),
        None => Arc::clone(&schema),
    };
    let decoder = json::ReaderBuilder::new(read)
        .with_batch_size(batch_rows)
        .with_coerce_primitive(true)
        .with_strict_mode(!wanted.are_known)
        .build_decoder()?;
    let file: Arc<str> = file.into();
    let objects = Objects {
        decoder,
        rows: rows_before as usize,
        bytes: 0,
    };
    let reading = (Reading::new(bytes, objects), projection);
    let batches = stream::try_unfold(reading, move |(mut reading, projection)| {
        let (file, schema, formats) = (Arc::clone(&file), Arc::clone(&schema), formats.clone());
        async move {
            loop {
                reading.fill().await?;
                let is_end = reading.buffer.is_empty();
                let objects = &mut reading.decoder;
                let decoded = objects.decode(&reading.buffer);
                let behind = objects.rows + objects.decoder.len();
                let (taken, is_full) = decoded.map_err(|error| not_json(&file, behind, &error))?;
                reading.buffer.advance(taken);
                if !is_end && !is_full {
                    continue;
                }
                let flushed = objects.flush().and_then(|batch| match (batch, &formats) {
                    (Some(batch), Some(formats)) => formats.times(&batch, &schema).map(Some),
                    (batch, _) => Ok(batch),
                });
                match flushed.map_err(|error| not_json(&file, objects.rows, &error))? {
                    Some(batch) => {
                        objects.rows += batch.num_rows();
                        let batch = match &projection {
                            Some(columns) => batch.project(columns)?,
                            None => batch,
                        };
                        return Ok(Some((batch, (reading, projection))));
                    }
                    None if is_end => return Ok(None),
                    None => {}
                }
            }
        }
    });
    Ok(batches.boxed())
}

/// Reads objects, one a line, without the lines that cannot be read.
pub(super) fn lines(file: Arc<str>, bytes: Buffers, decoder: LineDecoder) -> Batches {
    let reading = Reading::new(bytes, decoder);
    stream::try_unfold(reading, move |mut reading| {
        let file = Arc::clone(&file);
        async move {
            loop {
                reading.fill().await?;
                let is_end = reading.buffer.is_empty();
                let decoded = reading.decoder.decode(&reading.buffer);
                let taken = decoded.map_err(|error| refused(&file, error))?;
                reading.buffer.advance(taken);
                if !is_end && !reading.decoder.is_full() {
                    continue;
                }
                match reading.decoder.flush()? {
                    Some(batch) => return Ok(Some((batch, reading))),
                    None if is_end => return Ok(None),
                    None => {}
                }
            }
        }
    })
    .boxed()
}

fn not_json(file: &str, rows: usize, error: &ArrowError) -> DataFusionError {
    const MEND: &str = "have more rows looked at with sample_size => 1000000, or all with -1";
    let said = error.to_string();
    let said = said.strip_prefix("Json error: ").unwrap_or(&said);
    let unknown = said.strip_suffix(" missing from schema");
    let unknown = unknown.and_then(|rest| rest.rsplit_once("column "));
    let why = match (unknown, value_of_field(said)) {
        (Some((_, field)), _) => {
            let name = field.trim_matches('\'');
            format!(
                "an object has the field {field}, which none of the looked-at parts of the file has; name it and its \
                 type with types => {{'{name}': 'VARCHAR'}}, {MEND}, or name all columns that are to be read with columns => {{…}}"
            )
        }
        (None, Some((field, what))) => {
            let column = field.split('.').next().unwrap_or_default();
            format!(
                "the field '{field}': {what}, and a field has one type in all rows; read it as text with types => \
                 {{'{column}': 'VARCHAR'}}, {MEND}, or leave such lines out with ignore_errors => true"
            )
        }
        (None, None) => format!(
            "{said}; where the objects are one a line, ignore_errors => true leaves out those that cannot be read"
        ),
    };
    let message = format!("cannot read {file}: behind row {rows}: {why}");
    // Arrow's own words, with its names of types, are not told again.
    Error::new(ErrorKind::Io, message).into()
}

/// Reads what Arrow says of the value of a field: its name, with those of the objects around it, and what is wrong.
fn value_of_field(said: &str) -> Option<(String, String)> {
    let mut names = Vec::new();
    let mut rest = said;
    while let Some(field) = rest.strip_prefix("whilst decoding field '") {
        let (name, behind) = field.split_once("': ")?;
        names.push(name);
        rest = behind.strip_prefix("Json error: ").unwrap_or(behind);
    }
    let value = rest.strip_prefix("failed to parse ");
    let parts = value.and_then(|rest| rest.rsplit_once(" as "));
    let what = match parts {
        Some((value, "Int64")) => format!("{value} is not a BIGINT"),
        Some((value, "Float64")) => format!("{value} is not a DOUBLE"),
        Some((value, _)) => format!("{value} is of another type"),
        None => rest.to_string(),
    };
    (!names.is_empty()).then(|| (names.join("."), what))
}

#[cfg(test)]
mod tests {
    use super::value_of_field;

    #[test]
    fn arrows_words_are_taken_apart() {
        let of = |said| value_of_field(said).unwrap();
        let wrong = "whilst decoding field 'a': whilst decoding field 'b': failed to parse \"x as y\" as Int64";
        let what = "\"x as y\" is not a BIGINT";
        assert_eq!(of(wrong), ("a.b".into(), what.into()));
        let wrong = "whilst decoding field 'v': expected string got {\"b\": 1}";
        let what = "expected string got {\"b\": 1}";
        assert_eq!(of(wrong), ("v".into(), what.into()));
        assert_eq!(value_of_field("Encountered unexpected 'x'"), None);
    }
}
