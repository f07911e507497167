//! One column of a row group: pages to blocks.

use std::sync::Arc;
use std::time::Duration;

use arrow_array::Array;
use parquet::basic::Encoding;
use parquet::file::metadata::ColumnChunkMetaData;
use tidegate_kernels::host::{Chunk, Entries};

use crate::cursor::{Cursor, Dictionary, PageParser};
use crate::error::{PageError, Result};
use crate::header::PageKind;
use crate::kind::Kind;
use crate::output::{Form, Output};
use crate::runs::Runs;
use crate::selection::Stretch;
use crate::source::{Buffers, ChunkBytes};
use crate::stream::{PageStream, ReadOptions};
use crate::typed::{Typed, at_least_one};

/// A cursor over a column of a row group.
pub(crate) struct Column {
    stream: PageStream,
    parser: PageParser,
    /// Whether the first page was looked at.
    has_begun: bool,
    entries: Option<Entries>,
    /// Entries that the file has: one is made if there are none.
    num_entries: u32,
    /// Whether the footer says that all data pages have codes.
    is_all_codes: bool,
    /// Rows that are left in the page.
    page_rows: usize,
    levels: Option<Runs>,
    cursor: Cursor,
    /// Rows to pass over before the next block.
    pub(crate) behind: usize,
    out: Output,
}

/// Memory of a column that is no longer read.
#[derive(Default)]
pub(crate) struct Memory {
    entries: Option<Entries>,
    out: Option<Output>,
}

impl Memory {
    /// Returns its bytes.
    pub(crate) fn num_bytes(&self) -> usize {
        let entries = self.entries.as_ref().map_or(0, |entries| entries.size().1);
        entries + self.out.as_ref().map_or(0, Output::memory_bytes)
    }
}

impl Column {
    /// Begins a column chunk.
    pub(crate) fn new(
        chunk: &ColumnChunkMetaData,
        kind: Kind,
        num_rows: usize,
        source: &Arc<dyn ChunkBytes>,
        buffers: &Buffers,
        options: &ReadOptions,
        memory: Memory,
    ) -> Result<Self> {
        if usize::try_from(chunk.num_values()).ok() != Some(num_rows) {
            return Err(PageError::damaged("it has other rows than its row group"));
        }
        let is_optional = chunk.column_descr().max_def_level() > 0;
        let typed = Typed::new(kind);
        let out = memory.out.filter(|out| out.typed.is_like(&typed));
        Ok(Self {
            stream: PageStream::new(chunk, num_rows, source, buffers, options)?,
            parser: PageParser::new(kind, is_optional, options.page_bytes_max),
            has_begun: false,
            entries: memory.entries,
            num_entries: 0,
            is_all_codes: is_all_codes(chunk),
            page_rows: 0,
            levels: None,
            cursor: Cursor::None,
            behind: 0,
            out: out.unwrap_or_else(|| Output::new(typed)),
        })
    }

    /// Gives the memory back.
    pub(crate) fn into_memory(mut self) -> Memory {
        self.out.begin();
        Memory {
            entries: self.entries,
            out: Some(self.out),
        }
    }

    /// Returns how long pages were decompressed so far.
    pub(crate) fn decompressed_in(&self) -> Duration {
        self.stream.decompressed_in()
    }

    /// Returns the bytes of entries, of the page and of the block, but for those in shared buffers.
    pub(crate) fn memory_bytes(&self) -> usize {
        let entries = self.entries.as_ref().map_or(0, |entries| entries.size().1);
        let page = self.stream.unpooled_bytes() + self.cursor.memory_bytes();
        entries + page + self.out.memory_bytes()
    }

    /// Returns the entries that codes are of, once [`begin`](Self::begin) was called.
    pub(crate) fn entries(&self) -> Option<&Entries> {
        self.entries.as_ref().filter(|_| self.has_begun)
    }

    /// Returns whether the footer says that each value is one of the entries.
    pub(crate) fn is_all_codes(&self) -> bool {
        self.is_all_codes
    }

    /// Reads the dictionary page, if there is one.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if self.has_begun {
            return Ok(());
        }
        let memory = self.entries.take();
        let first = self.stream.peek()?;
        if first.is_some_and(|header| header.kind == PageKind::Dictionary) {
            let page = self.stream.load()?;
            self.num_entries = page.header.num_values as u32;
            let memory = memory.map_or(Typed::None, Typed::from_entries);
            let entries = match self.parser.entries(page, memory)? {
                Dictionary::Typed(typed) => typed.into_entries(),
                Dictionary::Text(array) => Some(Entries::Text(array)),
            };
            self.entries = entries.map(at_least_one);
            self.out.codes.fit(self.num_entries);
        }
        self.has_begun = true;
        Ok(())
    }

    /// Reads the rows of a block.
    pub(crate) fn decode(&mut self, stretches: &[Stretch]) -> Result<()> {
        self.begin()?;
        self.out.begin();
        let behind = std::mem::take(&mut self.behind);
        self.pass(behind)?;
        for stretch in stretches {
            self.pass(stretch.gap)?;
            let mut left = stretch.rows;
            while left > 0 {
                while self.page_rows == 0 {
                    self.next_page()?;
                }
                let rows = left.min(self.page_rows);
                self.read(rows)?;
                self.took(rows);
                left -= rows;
            }
        }
        self.out.finish(self.entries.as_ref())
    }

    /// Returns the block that was read last.
    pub(crate) fn chunk(&self) -> Option<Chunk<'_>> {
        self.out.chunk()
    }

    /// Forgets the block that was read last.
    pub(crate) fn forget(&mut self) {
        self.out.begin();
    }

    fn took(&mut self, rows: usize) {
        self.page_rows -= rows;
        if self.page_rows == 0 {
            // Its memory is there for the next page.
            self.cursor = Cursor::None;
            self.levels = None;
        }
    }

    /// Passes over rows; pages that have no others are not restored.
    fn pass(&mut self, mut rows: usize) -> Result<()> {
        while rows > 0 {
            if self.page_rows == 0 {
                let next = self.stream.peek()?;
                match next {
                    Some(header) if is_data(header.kind) && header.num_values <= rows => {
                        rows -= header.num_values;
                        self.stream.pass()?;
                    }
                    _ => self.next_page()?,
                }
                continue;
            }
            let now = rows.min(self.page_rows);
            if now < self.page_rows {
                let present = match &mut self.levels {
                    None => now,
                    Some(levels) => levels.pass(now)?,
                };
                self.cursor.pass(now, present)?;
            }
            self.took(now);
            rows -= now;
        }
        Ok(())
    }

    fn next_page(&mut self) -> Result<()> {
        match self.stream.peek()? {
            Some(header) if is_data(header.kind) => {}
            Some(_) => return Err(PageError::damaged("it has a second dictionary")),
            None => return Err(PageError::damaged("its pages end before its rows")),
        }
        let page = self.stream.load()?;
        let rows = page.header.num_values;
        if rows > 0 {
            (self.levels, self.cursor) = self.parser.parse(page)?;
        }
        self.page_rows = rows;
        Ok(())
    }

    /// Appends rows of the page to the block.
    fn read(&mut self, rows: usize) -> Result<()> {
        let out = &mut self.out;
        let from = out.rows;
        let present = out.read_levels(self.levels.as_mut(), rows)?;
        out.rows += rows;
        match &mut self.cursor {
            Cursor::Codes(runs) => {
                let Some(entries) = &self.entries else {
                    return match present {
                        0 => out.append_nulls(from, rows, self.parser.kind),
                        _ => Err(PageError::damaged("it has codes, and no dictionary")),
                    };
                };
                out.read_codes(runs, self.num_entries, from, present)?;
                match (out.form, entries) {
                    (Form::Nothing, _) => out.form = Form::Codes,
                    (Form::Typed, entries) => out.codes_to_typed(from..out.rows, entries),
                    (Form::Text, Entries::Text(array)) => out.codes_to_piece(from..out.rows, array),
                    _ => {}
                }
                Ok(())
            }
            Cursor::Text { array, at } => {
                if at.saturating_add(rows) > array.len() {
                    return Err(PageError::damaged("a page ends within its values"));
                }
                if let (Form::Codes, Some(Entries::Text(entries))) = (out.form, &self.entries) {
                    out.codes_to_piece(0..from, entries);
                }
                out.form = Form::Text;
                out.append_text(array, *at, rows);
                *at += rows;
                Ok(())
            }
            cursor => {
                out.go_on_typed(from, self.entries.as_ref());
                cursor.read(self.parser.kind, present, &mut out.typed, from)?;
                if present < rows {
                    let validity = &out.validity[from..out.rows];
                    out.typed.spread(from, validity, present);
                }
                Ok(())
            }
        }
    }
}

fn is_data(kind: PageKind) -> bool {
    matches!(kind, PageKind::Data | PageKind::DataV2)
}

/// Returns whether the footer says that all data pages are codes.
fn is_all_codes(chunk: &ColumnChunkMetaData) -> bool {
    let is_code = |encoding: Encoding| {
        matches!(
            encoding,
            Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY
        )
    };
    if let Some(mask) = chunk.page_encoding_stats_mask() {
        return mask.as_i32() != 0 && mask.encodings().all(is_code);
    }
    chunk.page_encoding_stats().is_some_and(|pages| {
        use parquet::basic::PageType;
        let mut data = pages
            .iter()
            .filter(|page| matches!(page.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2));
        data.all(|page| is_code(page.encoding))
    })
}
