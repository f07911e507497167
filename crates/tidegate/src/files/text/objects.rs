//! Reads the rows of files of JSON.

use std::sync::Arc;

use bytes::Buf;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::error::{DataFusionError, Result};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_readers::Encoding;
use tidegate_readers::json::{Flattener, Layout, LineDecoder, SniffedJson};

use super::bytes::Buffers;
use super::opener::{Batches, Reading, refused, transcoded};
use crate::error::{Error, ErrorKind};

/// Makes an array objects one after the other.
pub(super) fn flat(bytes: Buffers, sniffed: &SniffedJson, is_at_start: bool) -> Buffers {
    let bytes = transcoded(bytes, Encoding::Utf8, is_at_start);
    match sniffed.layout {
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
    }
}

/// Reads objects of JSON.
pub(super) fn objects(
    file: &str,
    bytes: Buffers,
    schema: SchemaRef,
    batch_rows: usize,
    rows_before: u64,
) -> Result<Batches> {
    let decoder = json::ReaderBuilder::new(schema)
        .with_batch_size(batch_rows)
        .with_coerce_primitive(true)
        .build_decoder()?;
    let file: Arc<str> = file.into();
    let reading = Reading::new(bytes, (decoder, rows_before as usize));
    let batches = stream::try_unfold(reading, move |mut reading| {
        let file = Arc::clone(&file);
        async move {
            loop {
                reading.fill().await?;
                let is_end = reading.buffer.is_empty();
                let (decoder, rows) = &mut reading.decoder;
                let wrong = |error, rows: usize| not_json(&file, rows, error);
                let taken = decoder.decode(&reading.buffer);
                let taken = taken.map_err(|error| wrong(error, *rows + decoder.len()))?;
                reading.buffer.advance(taken);
                // It takes no more when a batch is full.
                if !is_end && reading.buffer.is_empty() {
                    continue;
                }
                let flushed = decoder.flush();
                match flushed.map_err(|error| wrong(error, *rows))? {
                    Some(batch) => {
                        *rows += batch.num_rows();
                        return Ok(Some((batch, reading)));
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

fn not_json(file: &str, rows: usize, error: ArrowError) -> DataFusionError {
    let said = error.to_string();
    let said = said.strip_prefix("Json error: ").unwrap_or(&said);
    let message = format!(
        "cannot read {file}: behind row {rows}: {said}; a field must have one type in all of its rows"
    );
    Error::with_source(ErrorKind::Io, message, error).into()
}
