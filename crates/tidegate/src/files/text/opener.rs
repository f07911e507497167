//! Opens files of text and reads their rows.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use tidegate_readers::json::LineDecoder;
use tidegate_readers::{Decoder, Encoding, LeftOut, Mapping, ReadError, Sniffed, Transcoder};

use super::bytes::{Buffers, open};
use super::found::{Files, Found};
use super::objects::{Wanted, flat, lines, objects};
use super::parts::{Parts, open_part};
use crate::error::{Error, ErrorKind};
use crate::files::name_in;

pub(super) type Batches = BoxStream<'static, Result<RecordBatch>>;

/// Opens the files of one scan.
pub(super) struct TextOpener {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) url: ObjectStoreUrl,
    /// Where files are cut that are read in parts.
    pub(super) offsets: HashMap<Path, Vec<u64>>,
    pub(super) files: Arc<Files>,
    /// The columns that the table's files have.
    pub(super) table: SchemaRef,
    /// Those of them that are read.
    pub(super) columns: Vec<usize>,
    /// Whether a file may lack some.
    pub(super) may_lack: bool,
    pub(super) batch_rows: usize,
    pub(super) left_out: Arc<LeftOut>,
    pub(super) parts: Arc<Parts>,
}

impl FileOpener for TextOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let name: Arc<str> = name_in(&self.url, &file.object_meta.location).into();
        let (store, files) = (Arc::clone(&self.store), Arc::clone(&self.files));
        let (table, columns) = (Arc::clone(&self.table), self.columns.clone());
        let (may_lack, batch_rows) = (self.may_lack, self.batch_rows);
        let (left_out, parts) = (Arc::clone(&self.left_out), Arc::clone(&self.parts));
        let part = file.range.is_some().then(|| file.range().0);
        let offsets = self.offsets.get(&file.object_meta.location).cloned();
        let offsets = offsets.unwrap_or_default();
        Ok(async move {
            let file = file.object_meta;
            let found = files.find(&store, &file).await?;
            let place = match part {
                Some(offset) => Some(parts.place(&store, &file, &found, &offsets, offset).await?),
                None => None,
            };
            let bytes = match place {
                Some(place) if place.start == place.end => return Ok(stream::empty().boxed()),
                Some(place) => open_part(&store, &file, place.start, place.end).await?,
                None => {
                    open(&store, &file, None, files.compression_of(&file))
                        .await?
                        .0
                }
            };
            let place = place.filter(|place| place.start > 0);
            match found.as_ref() {
                Found::Delimited(sniffed) => {
                    let mapping = Mapping::new(sniffed, &table, &columns, may_lack)
                        .map_err(|error| refused(&name, error))?;
                    let first_line = place.map(|place| place.line);
                    let decoder = Decoder::new(sniffed, mapping, batch_rows, first_line, left_out);
                    Ok(delimited(
                        name,
                        text_of(bytes, sniffed, first_line.is_none()),
                        decoder,
                    ))
                }
                Found::Json(sniffed) => {
                    let texts = files.given_json().map(|given| sniffed.texts(given, &table));
                    let texts = texts.unwrap_or_default();
                    let bytes = flat(bytes, sniffed, place.is_none(), texts, &table);
                    let before = place.map_or(0, |place| place.objects);
                    if sniffed.by_line {
                        let schema = Arc::new(table.project(&columns)?);
                        let first_line = place.map_or(1, |place| place.line);
                        let decoder = LineDecoder::new(schema, batch_rows, first_line, left_out);
                        return Ok(lines(name, bytes, decoder));
                    }
                    let wanted = Wanted {
                        table,
                        columns,
                        are_known: sniffed.is_known || !files.were_looked_at(),
                        formats: files
                            .given_json()
                            .map(|given| given.formats.clone())
                            .unwrap_or_default(),
                    };
                    objects(&name, bytes, wanted, batch_rows, before)
                }
            }
        }
        .boxed())
    }
}

/// Says where a file cannot be read.
pub(super) fn refused(file: &str, error: ReadError) -> DataFusionError {
    Error::with_source(ErrorKind::Io, format!("cannot read {file}: {error}"), error).into()
}

/// Makes a file's bytes UTF-8. A byte order mark of UTF-8 is left to the decoder.
fn text_of(bytes: Buffers, sniffed: &Sniffed, is_at_start: bool) -> Buffers {
    match sniffed.dialect.encoding {
        Encoding::Utf8 => bytes,
        encoding => transcoded(bytes, encoding, is_at_start),
    }
}

/// Makes a file's bytes UTF-8 without a byte order mark.
pub(super) fn transcoded(bytes: Buffers, encoding: Encoding, is_at_start: bool) -> Buffers {
    let mut transcoder = Transcoder::new(encoding, is_at_start);
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
pub(super) struct Reading<D> {
    bytes: Buffers,
    pub(super) buffer: Bytes,
    is_ended: bool,
    pub(super) decoder: D,
}

impl<D> Reading<D> {
    pub(super) fn new(bytes: Buffers, decoder: D) -> Self {
        Self {
            bytes,
            buffer: Bytes::new(),
            is_ended: false,
            decoder,
        }
    }

    /// Gets the next buffer that is not empty; the empty one is the end.
    pub(super) async fn fill(&mut self) -> Result<()> {
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
