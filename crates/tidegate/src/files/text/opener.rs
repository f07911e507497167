//! Opens files of text and reads their rows.

use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use tidegate_readers::json::{Flattener, Layout, SniffedJson};
use tidegate_readers::{Decoder, Encoding, LeftOut, Mapping, ReadError, Sniffed, Transcoder};

use super::bytes::{Buffers, open};
use super::found::{Files, Found};
use crate::error::{Error, ErrorKind};
use crate::files::name_in;

type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Opens the files of one scan.
pub(super) struct TextOpener {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) url: ObjectStoreUrl,
    pub(super) files: Arc<Files>,
    /// The columns that the table's files have.
    pub(super) table: SchemaRef,
    /// Those of them that are read.
    pub(super) columns: Vec<usize>,
    /// Whether a file may lack some.
    pub(super) may_lack: bool,
    pub(super) batch_rows: usize,
    pub(super) left_out: Arc<LeftOut>,
}

impl FileOpener for TextOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let name: Arc<str> = name_in(&self.url, &file.object_meta.location).into();
        let (store, files) = (Arc::clone(&self.store), Arc::clone(&self.files));
        let (table, columns) = (Arc::clone(&self.table), self.columns.clone());
        let (may_lack, batch_rows) = (self.may_lack, self.batch_rows);
        let left_out = Arc::clone(&self.left_out);
        Ok(async move {
            let file = file.object_meta;
            let found = files.find(&store, &file).await?;
            let bytes = open(&store, &file, None, files.compression_of(&file)).await?;
            match found.as_ref() {
                Found::Delimited(sniffed) => {
                    let mapping = Mapping::new(sniffed, &table, &columns, may_lack)
                        .map_err(|error| refused(&name, error))?;
                    let decoder = Decoder::new(sniffed, mapping, batch_rows, true, left_out);
                    Ok(delimited(name, text_of(bytes, sniffed), decoder))
                }
                Found::Json(sniffed) => {
                    let schema = Arc::new(table.project(&columns)?);
                    objects(&name, flat(bytes, sniffed), schema, batch_rows)
                }
            }
        }
        .boxed())
    }
}

/// Says where a file cannot be read.
fn refused(file: &str, error: ReadError) -> DataFusionError {
    Error::with_source(ErrorKind::Io, format!("cannot read {file}: {error}"), error).into()
}

/// Makes a file's bytes UTF-8. A byte order mark of UTF-8 is left to the decoder.
fn text_of(bytes: Buffers, sniffed: &Sniffed) -> Buffers {
    match sniffed.dialect.encoding {
        Encoding::Utf8 => bytes,
        encoding => transcoded(bytes, encoding),
    }
}

/// Makes a file's bytes UTF-8 without a byte order mark.
fn transcoded(bytes: Buffers, encoding: Encoding) -> Buffers {
    let mut transcoder = Transcoder::new(encoding, true);
    let ended = bytes.map(Some).chain(stream::iter([None]));
    ended
        .map(move |buffer| {
            let mut text = Vec::new();
            match buffer {
                Some(buffer) => transcoder.push(&buffer?, false, &mut text),
                None => transcoder.push(&[], true, &mut text),
            }
            Ok(Bytes::from(text))
        })
        .boxed()
}

/// What reads a file's buffers one after the other.
struct Reading<D> {
    bytes: Buffers,
    buffer: Bytes,
    is_ended: bool,
    decoder: D,
}

impl<D> Reading<D> {
    fn new(bytes: Buffers, decoder: D) -> Self {
        Self {
            bytes,
            buffer: Bytes::new(),
            is_ended: false,
            decoder,
        }
    }

    /// Gets the next buffer that is not empty; the empty one is the end.
    async fn fill(&mut self) -> Result<()> {
        while self.buffer.is_empty() && !self.is_ended {
            match self.bytes.try_next().await? {
                Some(buffer) => self.buffer = buffer,
                None => self.is_ended = true,
            }
        }
        Ok(())
    }
}

/// Reads the rows of delimited text.
fn delimited(file: Arc<str>, text: Buffers, decoder: Decoder) -> Batches {
    let reading = Reading::new(text, decoder);
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
                let batch = reading.decoder.flush();
                match batch.map_err(|error| refused(&file, error))? {
                    Some(batch) => return Ok(Some((batch, reading))),
                    None if is_end => return Ok(None),
                    None => {}
                }
            }
        }
    })
    .boxed()
}

/// Makes an array objects one after the other.
fn flat(bytes: Buffers, sniffed: &SniffedJson) -> Buffers {
    let bytes = transcoded(bytes, Encoding::Utf8);
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
fn objects(file: &str, bytes: Buffers, schema: SchemaRef, batch_rows: usize) -> Result<Batches> {
    let decoder = json::ReaderBuilder::new(schema)
        .with_batch_size(batch_rows)
        .with_coerce_primitive(true)
        .build_decoder()?;
    let file: Arc<str> = file.into();
    let reading = Reading::new(bytes, (decoder, 0_usize));
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

fn not_json(file: &str, rows: usize, error: ArrowError) -> DataFusionError {
    let said = error.to_string();
    let said = said.strip_prefix("Json error: ").unwrap_or(&said);
    let message = format!(
        "cannot read {file}: behind row {rows}: {said}; a field must have one type in all of its rows"
    );
    Error::with_source(ErrorKind::Io, message, error).into()
}
