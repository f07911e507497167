//! The messages of a file, one after the other.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::ipc::convert::fb_to_schema;
use datafusion::arrow::ipc::reader::FileDecoder;
use datafusion::arrow::ipc::{
    Block, MessageHeader, MetadataVersion, root_as_footer, root_as_message,
};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};

use super::columns::Columns;
use super::{Compressed, Flaw, check_message};
use crate::error::{Error, ErrorKind};
use crate::files::damaged;

const MAGIC: &[u8] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Bytes that are read at a time where less is asked for.
const WINDOW_BYTES: u64 = 4 << 20;

/// Bytes from the end of a file that are read to find its footer.
const TAIL_BYTES: u64 = 64 << 10;

/// A file and the part of it that was read last.
pub(super) struct Window {
    store: Arc<dyn ObjectStore>,
    file: ObjectMeta,
    name: Arc<str>,
    bytes: Bytes,
    start: u64,
}

impl Window {
    pub(super) fn new(store: Arc<dyn ObjectStore>, file: ObjectMeta, name: Arc<str>) -> Self {
        Self {
            store,
            file,
            name,
            bytes: Bytes::new(),
            start: 0,
        }
    }

    fn size(&self) -> u64 {
        self.file.size
    }

    /// Returns a part of the file, which must lie in it.
    async fn read(&mut self, range: Range<u64>) -> Result<Bytes> {
        let end = self.start + self.bytes.len() as u64;
        if range.start < self.start || range.end > end {
            // Buffers that are aligned in the file stay so in memory.
            let start = range.start & !63;
            let end = range.end.max(start + WINDOW_BYTES).min(self.size());
            let location = &self.file.location;
            self.bytes = self.store.get_range(location, start..end).await?;
            self.start = start;
        }
        let at = (range.start - self.start) as usize;
        let end = at + (range.end - range.start) as usize;
        match end <= self.bytes.len() {
            true => Ok(self.bytes.slice(at..end)),
            false => Err(self.damaged("it is shorter than it was").into()),
        }
    }

    fn damaged(&self, why: &str) -> Error {
        damaged(&self.name, why)
    }

    fn refused(&self, flaw: Flaw, most: u64) -> DataFusionError {
        match flaw {
            Flaw::Damaged(why) => self.damaged(&why),
            Flaw::Compressed => self.damaged("its buffers are compressed"),
            Flaw::Expands(bytes) => Error::new(
                ErrorKind::ResourcesExhausted,
                format!(
                    "cannot read {}: a batch says that it has {bytes} bytes uncompressed, and \
                     tidegate.max_page_size is {most}; if the file is to be trusted, raise it",
                    self.name
                ),
            ),
        }
        .into()
    }
}

/// Where the messages of a file are.
enum Layout {
    /// In the file format: the batches that are yet to be read.
    Blocks(std::vec::IntoIter<Block>),
    /// In the stream format: from here on.
    Stream(u64),
}

/// The batches of a file.
pub(super) struct Messages {
    window: Window,
    layout: Layout,
    decoder: FileDecoder,
    /// What the table wants of each batch.
    columns: Columns,
    expanded_max: u64,
}

/// Reads the columns of a file.
pub(super) async fn columns_of(mut window: Window) -> Result<Schema> {
    let (_, _, schema, _) = head(&mut window, None).await?;
    Ok(schema)
}

impl Messages {
    /// Opens a file for the columns of a table at `wanted`. Of the file format only the blocks that begin in `range`
    /// are read, and of the stream format all or nothing.
    pub(super) async fn open(
        mut window: Window,
        table: &Schema,
        wanted: &[usize],
        range: Option<Range<u64>>,
        expanded_max: u64,
    ) -> Result<Self> {
        let (layout, dictionaries, schema, version) = head(&mut window, range).await?;
        let columns = Columns::find(&schema, table, wanted).map_err(|name| {
            let message = format!(
                "cannot read {}: it has no column '{name}', which the table has without NULLs",
                window.name
            );
            Error::new(ErrorKind::Io, message)
        })?;
        let decoder = FileDecoder::new(Arc::new(schema), version);
        let mut messages = Self {
            window,
            layout,
            decoder: decoder.with_projection(columns.read.clone()),
            columns,
            expanded_max,
        };
        for block in dictionaries {
            if messages.message(&block).await?.is_some() {
                return Err(messages
                    .window
                    .damaged("its footer calls a batch a dictionary")
                    .into());
            }
        }
        Ok(messages)
    }

    /// Returns the next batch.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let block = match &mut self.layout {
                Layout::Blocks(blocks) => blocks.next(),
                Layout::Stream(at) => {
                    let next = next_in_stream(&mut self.window, *at).await?;
                    if let Some(block) = &next {
                        *at = end_of(block);
                    }
                    next
                }
            };
            let Some(block) = block else {
                return Ok(None);
            };
            match self.message(&block).await? {
                Some(batch) => {
                    let batch = self.columns.of(&batch);
                    let batch = batch.map_err(|error| self.window.damaged(&error.to_string()))?;
                    return Ok(Some(batch));
                }
                None if matches!(self.layout, Layout::Blocks(_)) => {
                    return Err(self
                        .window
                        .damaged("its footer calls a dictionary a batch")
                        .into());
                }
                None => {}
            }
        }
    }

    /// Reads a message that lies in the file: a batch, or a dictionary, which is kept.
    async fn message(&mut self, block: &Block) -> Result<Option<RecordBatch>> {
        let bytes = self
            .window
            .read(block.offset() as u64..end_of(block))
            .await?;
        let (metadata, body) = bytes.split_at(block.metaDataLength() as usize);
        let metadata =
            metadata_of(metadata).ok_or_else(|| self.window.damaged("a message is cut"))?;
        let kind = check_message(metadata, body, Compressed::AtMost(self.expanded_max))
            .map_err(|flaw| self.window.refused(flaw, self.expanded_max))?;
        let bytes = Buffer::from(bytes);
        let decoded = match kind {
            MessageHeader::DictionaryBatch => {
                self.decoder.read_dictionary(block, &bytes).map(|()| None)
            }
            MessageHeader::RecordBatch => self.decoder.read_record_batch(block, &bytes),
            other => Err(ArrowError::IpcError(format!("a message is a {other:?}"))),
        };
        decoded.map_err(|error| self.window.damaged(&error.to_string()).into())
    }
}

/// Returns the flatbuffer of a message's metadata, less the lengths before it; `None` if it is longer than what is
/// there.
fn metadata_of(metadata: &[u8]) -> Option<&[u8]> {
    let (length, flatbuffer) = metadata.split_first_chunk::<4>()?;
    let (length, flatbuffer) = match length {
        &CONTINUATION => flatbuffer.split_first_chunk::<4>()?,
        length => (length, flatbuffer),
    };
    let length = usize::try_from(i32::from_le_bytes(*length)).ok()?;
    flatbuffer.get(..length)
}

/// Returns where a block ends, which was checked when it was made.
fn end_of(block: &Block) -> u64 {
    block.offset() as u64 + block.metaDataLength() as u64 + block.bodyLength() as u64
}

/// Reads what a file begins or ends with.
async fn head(
    window: &mut Window,
    range: Option<Range<u64>>,
) -> Result<(Layout, Vec<Block>, Schema, MetadataVersion)> {
    let begins = window.read(0..window.size().min(8)).await?;
    if begins.starts_with(MAGIC) {
        let footer = read_footer(window).await?;
        let footer = parse_footer(window, &footer)?;
        let (dictionaries, mut batches, schema, version) = footer;
        if let Some(range) = range {
            batches.retain(|block| range.contains(&(block.offset() as u64)));
        }
        return Ok((
            Layout::Blocks(batches.into_iter()),
            dictionaries,
            schema,
            version,
        ));
    }
    let name = Arc::clone(&window.name);
    let not_arrow = || {
        let why = "it begins neither as an Arrow file ('ARROW1') nor as an Arrow stream";
        DataFusionError::from(damaged(&name, why))
    };
    let Some((metadata_start, metadata_end)) = stream_message(&begins, 0, window.size()) else {
        return Err(not_arrow());
    };
    let metadata = window.read(metadata_start..metadata_end).await?;
    let message = root_as_message(&metadata).map_err(|_| not_arrow())?;
    let schema = message.header_as_schema().ok_or_else(not_arrow)?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(window.damaged("its numbers are big-endian").into());
    }
    let body_end = u64::try_from(message.bodyLength())
        .ok()
        .and_then(|length| metadata_end.checked_add(length))
        .filter(|end| *end <= window.size());
    let Some(body_end) = body_end else {
        return Err(window
            .damaged("its first message is longer than the file")
            .into());
    };
    let at = match range {
        // A stream cannot be read from its middle: whoever has its beginning reads it.
        Some(range) if range.start > 0 => window.size(),
        _ => body_end,
    };
    Ok((
        Layout::Stream(at),
        Vec::new(),
        fb_to_schema(schema),
        message.version(),
    ))
}

async fn read_footer(window: &mut Window) -> Result<Bytes> {
    let size = window.size();
    let cut = "it ends without a footer: it is cut, or its writer did not finish it";
    if size < 10 + MAGIC.len() as u64 {
        return Err(window.damaged(cut).into());
    }
    let tail_start = size.saturating_sub(TAIL_BYTES);
    let tail = window.read(tail_start..size).await?;
    let (rest, end) = tail.split_at(tail.len() - 10);
    if &end[4..] != MAGIC {
        return Err(window.damaged(cut).into());
    }
    let length = end
        .first_chunk()
        .map_or(0, |bytes| i32::from_le_bytes(*bytes));
    let Some(length) = u64::try_from(length)
        .ok()
        .filter(|length| *length <= size - 16)
    else {
        let why = format!("its footer says that it has {length} bytes, and the file has {size}");
        return Err(window.damaged(&why).into());
    };
    match (rest.len() as u64).checked_sub(length) {
        Some(start) => Ok(tail.slice(start as usize..rest.len())),
        None => window.read(size - 10 - length..size - 10).await,
    }
}

type Footer = (Vec<Block>, Vec<Block>, Schema, MetadataVersion);

fn parse_footer(window: &Window, bytes: &[u8]) -> Result<Footer> {
    let footer = root_as_footer(bytes)
        .map_err(|error| window.damaged(&format!("its footer is damaged: {error}")))?;
    let schema = footer
        .schema()
        .ok_or_else(|| window.damaged("its footer has no columns"))?;
    if !schema.endianness().equals_to_target_endianness() {
        return Err(window.damaged("its numbers are big-endian").into());
    }
    let end = window.size() - 10 - bytes.len() as u64;
    let check = |block: &Block| {
        let place = block_within(
            block.offset(),
            block.metaDataLength(),
            block.bodyLength(),
            end,
        );
        place.ok_or_else(|| {
            let why = format!(
                "its footer says that a block of {} and {} bytes is at {}, and {end} bytes are \
                 before the footer",
                block.metaDataLength(),
                block.bodyLength(),
                block.offset()
            );
            DataFusionError::from(window.damaged(&why))
        })
    };
    let dictionaries = footer.dictionaries().into_iter().flatten().map(check);
    let dictionaries = dictionaries.collect::<Result<Vec<_>>>()?;
    let batches = footer
        .recordBatches()
        .ok_or_else(|| window.damaged("its footer has no list of batches"))?;
    let batches = batches.iter().map(check).collect::<Result<Vec<_>>>()?;
    Ok((
        dictionaries,
        batches,
        fb_to_schema(schema),
        footer.version(),
    ))
}

/// Returns a block, if it lies before `end`.
fn block_within(offset: i64, metadata: i32, body: i64, end: u64) -> Option<Block> {
    let start = u64::try_from(offset).ok()?;
    let metadata_length = u64::try_from(metadata).ok().filter(|length| *length >= 8)?;
    let length = metadata_length.checked_add(u64::try_from(body).ok()?)?;
    let is_inside = start.checked_add(length)? <= end;
    is_inside.then(|| Block::new(offset, metadata, body))
}

/// Returns where the metadata of a stream's message lies that begins with these bytes at `at`; `None` if
/// it would not lie in the file.
fn stream_message(begins: &[u8], at: u64, size: u64) -> Option<(u64, u64)> {
    let (prefix, length) = match begins.first_chunk::<4>()? {
        &CONTINUATION => (8, begins.get(4..8)?.first_chunk()?),
        length => (4, length),
    };
    let length = u64::try_from(i32::from_le_bytes(*length))
        .ok()
        .filter(|length| *length > 0)?;
    let end = at + prefix + length;
    (end <= size).then_some((at + prefix, end))
}

/// Finds the message of a stream at `at`; `None` at its end.
async fn next_in_stream(window: &mut Window, at: u64) -> Result<Option<Block>> {
    let size = window.size();
    if at >= size {
        return Ok(None);
    }
    let begins = window.read(at..size.min(at + 8)).await?;
    let is_end = matches!(
        *begins,
        [0, 0, 0, 0, ..] | [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]
    );
    if is_end {
        return Ok(None);
    }
    let cut =
        || DataFusionError::from(window.damaged("a message is longer than the rest of the file"));
    let (metadata_start, metadata_end) = stream_message(&begins, at, size).ok_or_else(cut)?;
    // The message is read from its beginning, where the next read of it begins too.
    let begins = window.read(at..metadata_end).await?;
    let metadata = &begins[(metadata_start - at) as usize..];
    let message = root_as_message(metadata)
        .map_err(|error| window.damaged(&format!("a message is not Arrow IPC: {error}")))?;
    let length = i32::try_from(metadata_end - at).ok();
    let block = length.and_then(|metadata| {
        let offset = i64::try_from(at).ok()?;
        block_within(offset, metadata, message.bodyLength(), size)
    });
    match block {
        Some(block) => Ok(Some(block)),
        None => Err(window
            .damaged("a message is longer than the rest of the file")
            .into()),
    }
}
