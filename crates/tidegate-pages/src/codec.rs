//! Decompression of pages.
//!
//! Snappy goes straight into a buffer that is used again. The other codecs are those of the `parquet`
//! crate, which shows them only behind its page reader: each page's bytes are handed to a
//! [`SerializedPageReader`] below a header of our own that says nothing but lengths.

use std::io::Cursor;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use parquet::basic::Compression;
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

use crate::error::{PageError, Result};
use crate::source::Buffers;

/// What restores the pages of a column chunk.
pub(crate) enum Codec {
    None,
    Snappy(snap::raw::Decoder),
    Other(Box<Wrapped>),
}

/// A codec of the `parquet` crate.
pub(crate) struct Wrapped {
    reader: SerializedPageReader<CurrentPage>,
    page: Arc<CurrentPage>,
}

impl Codec {
    /// Makes the codec of a chunk.
    ///
    /// # Errors
    /// There is no such codec in this build.
    pub(crate) fn new(chunk: &ColumnChunkMetaData) -> Result<Self> {
        Ok(match chunk.compression() {
            Compression::UNCOMPRESSED => Self::None,
            Compression::SNAPPY => Self::Snappy(snap::raw::Decoder::new()),
            _ => {
                let page = Arc::new(CurrentPage::default());
                let reader = SerializedPageReader::new(Arc::clone(&page), chunk, 0, None)
                    .map_err(|error| PageError::unsupported(error.to_string()))?;
                Self::Other(Box::new(Wrapped { reader, page }))
            }
        })
    }

    /// Restores bytes that are `uncompressed` long.
    pub(crate) fn decompress(
        &mut self,
        bytes: Bytes,
        uncompressed: usize,
        buffers: &Buffers,
    ) -> Result<Bytes> {
        let restored = match self {
            Self::None => bytes,
            // A page without values may have no bytes at all.
            _ if uncompressed == 0 => Bytes::new(),
            Self::Snappy(decoder) => {
                let says = snap::raw::decompress_len(&bytes);
                if !says.is_ok_and(|length| length == uncompressed) {
                    return Err(PageError::damaged(
                        "a page is not as long as its header says",
                    ));
                }
                let mut buffer = buffers.take(uncompressed);
                let written = decoder.decompress(&bytes, buffer.as_mut());
                let written = written.map_err(|error| PageError::damaged(error.to_string()))?;
                if written != uncompressed {
                    return Err(PageError::damaged("a page ends within its values"));
                }
                Bytes::from_owner(buffer)
            }
            Self::Other(wrapped) => wrapped.decompress(&bytes, uncompressed)?,
        };
        match restored.len() == uncompressed {
            true => Ok(restored),
            false => Err(PageError::damaged(
                "a page is not as long as its header says",
            )),
        }
    }
}

impl Wrapped {
    fn decompress(&mut self, bytes: &Bytes, uncompressed: usize) -> Result<Bytes> {
        let header = dictionary_header(uncompressed, bytes.len());
        let mut page = Vec::with_capacity(header.len() + bytes.len());
        page.extend_from_slice(&header);
        page.extend_from_slice(bytes);
        self.page.set(Bytes::from(page));
        match self.reader.get_next_page()? {
            Some(page) => Ok(page.buffer().clone()),
            None => Err(PageError::damaged("a column chunk ends before its pages")),
        }
    }
}

/// Writes the shortest header of a dictionary page: `{1: 2, 2: uncompressed, 3: compressed, 7: {1: 0, 2: 0}}`.
fn dictionary_header(uncompressed: usize, compressed: usize) -> Vec<u8> {
    let mut header = vec![0x15, 0x04, 0x15];
    push_zigzag(&mut header, uncompressed);
    header.push(0x15);
    push_zigzag(&mut header, compressed);
    header.extend([0x4c, 0x15, 0x00, 0x15, 0x00, 0x00, 0x00]);
    header
}

fn push_zigzag(bytes: &mut Vec<u8>, value: usize) {
    let mut value = (value as u64) << 1;
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// The page that is restored now; wherever its reader takes it to be, it begins there.
#[derive(Default)]
struct CurrentPage(Mutex<(Option<u64>, Bytes)>);

impl CurrentPage {
    fn set(&self, bytes: Bytes) {
        *self.0.lock() = (None, bytes);
    }

    fn bytes_at(&self, start: u64) -> parquet::errors::Result<Bytes> {
        let mut page = self.0.lock();
        let begin = *page.0.get_or_insert(start);
        let at = start.checked_sub(begin);
        let at = at.and_then(|at| usize::try_from(at).ok());
        at.filter(|at| *at <= page.1.len())
            .map(|at| page.1.slice(at..))
            .ok_or_else(|| ParquetError::EOF("beyond the page".into()))
    }
}

impl Length for CurrentPage {
    fn len(&self) -> u64 {
        self.0.lock().1.len() as u64
    }
}

impl ChunkReader for CurrentPage {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(Cursor::new(self.bytes_at(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let bytes = self.bytes_at(start)?;
        match length <= bytes.len() {
            true => Ok(bytes.slice(..length)),
            false => Err(ParquetError::EOF("beyond the page".into())),
        }
    }
}
