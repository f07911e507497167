//! The pages of one column chunk, one after the other.
//!
//! Bytes are read a window at a time, so that pages which are passed over need not be read where they are
//! larger. A page's header is compared with the chunk and with the limits before anything is allocated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parquet::basic::Type;
use parquet::file::metadata::ColumnChunkMetaData;

use crate::codec::Codec;
use crate::error::{PageError, Result};
use crate::header::{PageHeader, PageKind};
use crate::source::{Buffers, ChunkBytes, place_of};

/// Bytes in which a header is looked for first: more are read only for long statistics.
const HEADER_BYTES: usize = 1 << 10;

/// What may be taken for pages, and how bytes are read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Bytes that a page may have uncompressed, and its values decoded.
    pub page_bytes_max: u64,
    /// Bytes that are read at once, if the column chunk has as many.
    pub window_bytes: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            page_bytes_max: 256 << 20,
            window_bytes: 1 << 20,
        }
    }
}

/// A page's bytes, restored.
pub(crate) struct Page {
    pub(crate) header: PageHeader,
    /// Definition levels that stand apart from the values.
    pub(crate) levels: Option<Bytes>,
    pub(crate) values: Bytes,
}

/// A cursor over the pages of a column chunk.
pub(crate) struct PageStream {
    source: Arc<dyn ChunkBytes>,
    codec: Codec,
    buffers: Buffers,
    options: ReadOptions,
    /// Where the next page begins in the file, and the chunk ends.
    at: u64,
    end: u64,
    /// What was read last, and where it begins.
    window: (u64, Bytes),
    /// The next page's header, and its length.
    next: Option<(usize, PageHeader)>,
    /// Values in the pages that are left.
    values_left: usize,
    /// Bytes that a value takes at least, in a dictionary and decoded.
    value_bytes: u64,
    decompressed_in: Duration,
    unpooled_bytes: usize,
}

impl PageStream {
    /// Begins at the first page of a chunk of so many values.
    pub(crate) fn new(
        chunk: &ColumnChunkMetaData,
        num_values: usize,
        source: &Arc<dyn ChunkBytes>,
        buffers: &Buffers,
        options: &ReadOptions,
    ) -> Result<Self> {
        let Some(place) = place_of(chunk) else {
            return Err(PageError::damaged(
                "the footer gives no place for its pages",
            ));
        };
        let value_bytes = match chunk.column_type() {
            Type::BOOLEAN => 0,
            Type::INT32 | Type::FLOAT | Type::BYTE_ARRAY => 4,
            Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => chunk.column_descr().type_length().max(0) as u64,
        };
        Ok(Self {
            source: Arc::clone(source),
            codec: Codec::new(chunk)?,
            buffers: buffers.clone(),
            options: options.clone(),
            at: place.start,
            end: place.end,
            window: (place.start, Bytes::new()),
            next: None,
            values_left: num_values,
            value_bytes,
            decompressed_in: Duration::ZERO,
            unpooled_bytes: 0,
        })
    }

    /// Returns how long pages were decompressed so far.
    pub(crate) fn decompressed_in(&self) -> Duration {
        self.decompressed_in
    }

    /// Returns the bytes of the last page that are in no buffer of the pool.
    pub(crate) fn unpooled_bytes(&self) -> usize {
        self.unpooled_bytes
    }

    /// Returns the next page's header; `None` behind the last page.
    pub(crate) fn peek(&mut self) -> Result<Option<PageHeader>> {
        loop {
            // Some writers leave bytes behind the last page.
            if self.values_left == 0 {
                return Ok(None);
            }
            let next = match self.next {
                Some(next) => next,
                None if self.at >= self.end => return Ok(None),
                None => self.read_header()?,
            };
            self.next = Some(next);
            let (_, header) = next;
            if header.kind != PageKind::Other {
                return Ok(Some(header));
            }
            self.pass()?;
        }
    }

    /// Passes over the page that was peeked at, unread.
    pub(crate) fn pass(&mut self) -> Result<()> {
        let Some((length, header)) = self.next.take() else {
            return Ok(());
        };
        self.at += length as u64 + header.compressed as u64;
        if matches!(header.kind, PageKind::Data | PageKind::DataV2) {
            self.values_left -= header.num_values;
        }
        Ok(())
    }

    /// Reads and restores the page that was peeked at.
    pub(crate) fn load(&mut self) -> Result<Page> {
        let Some((length, header)) = self.next else {
            return Err(PageError::damaged("its pages end before its values"));
        };
        if header.uncompressed as u64 > self.options.page_bytes_max {
            return Err(self.too_large(header.uncompressed as u64));
        }
        let bytes = self.slice(self.at + length as u64, header.compressed)?;
        let (levels, stored) = (bytes.slice(..header.levels), bytes.slice(header.levels..));
        let uncompressed = header.uncompressed - header.levels;
        let values = match header.is_compressed {
            true => {
                let began = Instant::now();
                let values = self.codec.decompress(stored, uncompressed, &self.buffers)?;
                self.decompressed_in += began.elapsed();
                values
            }
            false if stored.len() != uncompressed => {
                return Err(PageError::damaged(
                    "a page is not as long as its header says",
                ));
            }
            false => stored,
        };
        self.unpooled_bytes = match self.codec {
            Codec::Other(_) => values.len(),
            Codec::None | Codec::Snappy(_) => 0,
        };
        self.pass()?;
        Ok(Page {
            header,
            levels: (header.kind == PageKind::DataV2).then_some(levels),
            values,
        })
    }

    fn read_header(&mut self) -> Result<(usize, PageHeader)> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let mut length = HEADER_BYTES.min(left);
        loop {
            let bytes = self.slice(self.at, length)?;
            match PageHeader::read(&bytes) {
                Some(header) => {
                    let (length, header) = header?;
                    self.check(&header, left - length)?;
                    return Ok((length, header));
                }
                None if length == left => {
                    return Err(PageError::damaged("a page header is damaged"));
                }
                None => length = length.saturating_mul(8).min(left),
            }
        }
    }

    fn check(&self, header: &PageHeader, left: usize) -> Result<()> {
        if header.compressed > left {
            return Err(PageError::damaged("a page is longer than its column chunk"));
        }
        let num_values = header.num_values as u64;
        let bytes = num_values.saturating_mul(self.value_bytes);
        match header.kind {
            PageKind::Dictionary => {
                // Its values cannot take less than this in it.
                let room = match self.value_bytes {
                    0 => self.options.page_bytes_max,
                    _ => header.uncompressed as u64,
                };
                if bytes.max(num_values) > room {
                    return Err(PageError::damaged(
                        "a dictionary has more values than bytes",
                    ));
                }
            }
            PageKind::Data | PageKind::DataV2 => {
                if header.num_values > self.values_left {
                    return Err(PageError::damaged("its pages have more values than it has"));
                }
                let decoded = num_values.saturating_mul(self.value_bytes.max(1));
                if decoded > self.options.page_bytes_max {
                    return Err(self.too_large(decoded));
                }
            }
            PageKind::Other => {}
        }
        Ok(())
    }

    /// Returns bytes of the chunk, out of the window or after moving it.
    fn slice(&mut self, start: u64, length: usize) -> Result<Bytes> {
        let (begin, window) = &self.window;
        let at = start
            .checked_sub(*begin)
            .and_then(|at| usize::try_from(at).ok());
        if let Some(at) = at
            && let Some(end) = at.checked_add(length)
            && end <= window.len()
        {
            return Ok(window.slice(at..end));
        }
        // The buffer behind the window comes back before the next is taken.
        self.window = (start, Bytes::new());
        let most = self.options.window_bytes.max(length) as u64;
        let bytes = self
            .source
            .read(start..self.end.min(start.saturating_add(most)))?;
        if bytes.len() < length {
            return Err(PageError::damaged("its column chunk ends within a page"));
        }
        self.window = (start, bytes.clone());
        Ok(bytes.slice(..length))
    }

    fn too_large(&self, bytes: u64) -> PageError {
        PageError::TooLarge {
            bytes,
            limit: self.options.page_bytes_max,
        }
    }
}
