//! Row groups as blocks of encoded columns.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::DataType;
use parquet::file::metadata::ParquetMetaData;
use tidegate_kernels::host::{Chunk, Entries};

use crate::column::{Column, Memory};
use crate::error::{ColumnError, PageError};
use crate::kind::Kind;
use crate::selection::{Selection, Stretch};
use crate::source::{Buffers, ChunkBytes};
use crate::stream::ReadOptions;

/// A column to read.
#[derive(Clone, Debug)]
pub struct ColumnRequest {
    /// Its place among the leaves of the file's schema.
    pub leaf: usize,
    /// The Arrow type of its values.
    pub data_type: DataType,
}

/// A cursor over the blocks of a row group; it keeps its memory for the next one.
///
/// A block is up to [`BLOCK`](tidegate_kernels::host::BLOCK) selected rows, which need not lie side by
/// side. Its columns are decoded one by one and only if they are asked for; pages of which no row is asked
/// for are not decompressed.
///
/// After an error from anything but [`open`](Self::open) the reader gives no more blocks of the row group.
/// [`rest`](Self::rest) still names the rows that are to be read by somebody else.
pub struct RowGroupReader {
    options: ReadOptions,
    buffers: Buffers,
    columns: Vec<ReadColumn>,
    memory: Vec<Memory>,
    selection: Selection,
    stretches: Vec<Stretch>,
    /// The row behind the block before this one.
    start: usize,
    num_rows: usize,
    has_failed: bool,
    /// How long pages of row groups that have ended were decompressed.
    decompressed_in: Duration,
}

struct ReadColumn {
    name: String,
    column: Column,
    is_decoded: bool,
}

impl RowGroupReader {
    /// Makes a reader without a row group. Buffers are shared with whoever reads files into them.
    pub fn new(options: ReadOptions, buffers: &Buffers) -> Self {
        Self {
            options,
            buffers: buffers.clone(),
            columns: Vec::new(),
            memory: Vec::new(),
            selection: Selection::default(),
            stretches: Vec::new(),
            start: 0,
            num_rows: 0,
            has_failed: false,
            decompressed_in: Duration::ZERO,
        }
    }

    /// Begins a row group: all of its rows, or ascending ranges of them. Reads nothing yet.
    ///
    /// # Errors
    /// [`PageError::Unsupported`] for a column that is not read here, is encrypted, or is of another type
    /// in the file; [`PageError::Damaged`] for what a footer cannot say.
    pub fn open(
        &mut self,
        metadata: &ParquetMetaData,
        row_group: usize,
        columns: &[ColumnRequest],
        rows: Option<&[Range<usize>]>,
        source: &Arc<dyn ChunkBytes>,
    ) -> Result<(), ColumnError> {
        self.close();
        let opened = self.begin(metadata, row_group, columns, rows, source);
        if opened.is_err() {
            self.close();
        }
        opened
    }

    fn begin(
        &mut self,
        metadata: &ParquetMetaData,
        row_group: usize,
        columns: &[ColumnRequest],
        rows: Option<&[Range<usize>]>,
        source: &Arc<dyn ChunkBytes>,
    ) -> Result<(), ColumnError> {
        let in_group = |error: PageError| error.in_column(&format!("of row group {row_group}"));
        let Some(group) = metadata.row_groups().get(row_group) else {
            return Err(in_group(PageError::damaged("there is no such row group")));
        };
        let Ok(num_rows) = usize::try_from(group.num_rows()) else {
            return Err(in_group(PageError::damaged(
                "it has a negative number of rows",
            )));
        };
        self.selection =
            Selection::new(num_rows, rows).map_err(|why| in_group(PageError::unsupported(why)))?;
        for request in columns {
            let Some(chunk) = group.columns().get(request.leaf) else {
                return Err(in_group(PageError::damaged("it has fewer columns")));
            };
            let name = chunk.column_path().string();
            let opened = Kind::new(chunk.column_descr(), &request.data_type).and_then(|kind| {
                if chunk.file_path().is_some() {
                    return Err(PageError::unsupported("it is in another file"));
                }
                let memory = self.memory.pop().unwrap_or_default();
                let (buffers, options) = (&self.buffers, &self.options);
                Column::new(chunk, kind, num_rows, source, buffers, options, memory)
            });
            let column = opened.map_err(|error| error.in_column(&name))?;
            self.columns.push(ReadColumn {
                name,
                column,
                is_decoded: false,
            });
        }
        Ok(())
    }

    /// Ends the row group; its memory is kept.
    pub fn close(&mut self) {
        self.decompressed_in = self.decompressed_in();
        let columns = self.columns.drain(..).rev();
        // The next row group's columns are likely to be the same ones.
        self.memory
            .extend(columns.map(|read| read.column.into_memory()));
        self.selection = Selection::default();
        self.stretches.clear();
        (self.start, self.num_rows) = (0, 0);
        self.has_failed = false;
    }

    /// Returns how long pages were decompressed since the reader was made.
    pub fn decompressed_in(&self) -> Duration {
        let columns = self.columns.iter();
        let open: Duration = columns.map(|read| read.column.decompressed_in()).sum();
        self.decompressed_in + open
    }

    /// Returns the bytes of buffers, dictionaries, pages and blocks that the reader has now.
    pub fn memory_bytes(&self) -> usize {
        let columns = self.columns.iter();
        let open: usize = columns.map(|read| read.column.memory_bytes()).sum();
        let kept: usize = self.memory.iter().map(Memory::num_bytes).sum();
        self.buffers.num_bytes() + open + kept
    }

    /// Returns the rows that were selected when the row group was opened.
    pub fn num_rows(&self) -> usize {
        self.selection.num_rows()
    }

    /// Returns the entries that a column's codes are of; reads its dictionary page the first time. `None`
    /// if it has none.
    ///
    /// # Errors
    /// Whatever is wrong with the dictionary.
    pub fn load_entries(&mut self, column: usize) -> Result<Option<&Entries>, ColumnError> {
        self.checked(column, |read| read.column.begin())?;
        Ok(self.entries(column))
    }

    /// Returns the entries that a column's codes are of, if they were loaded.
    pub fn entries(&self, column: usize) -> Option<&Entries> {
        self.columns
            .get(column)
            .and_then(|read| read.column.entries())
    }

    /// Returns whether the footer says that all of a column's values in this row group are among its
    /// entries. Only then what holds for all entries holds for all rows that are not NULL.
    pub fn is_all_codes(&self, column: usize) -> bool {
        let read = self.columns.get(column);
        read.is_some_and(|read| read.column.is_all_codes())
    }

    /// Goes on to the next block; returns how many rows it has, 0 at the end. Reads nothing yet.
    pub fn next_block(&mut self) -> usize {
        if self.has_failed {
            return 0;
        }
        let span = self.span();
        self.start += span;
        for read in &mut self.columns {
            if !read.is_decoded {
                read.column.behind += span;
            }
            read.is_decoded = false;
            read.column.forget();
        }
        self.stretches.clear();
        self.num_rows = self.selection.next_block(&mut self.stretches);
        self.num_rows
    }

    /// Returns how many rows the block has.
    pub fn block_rows(&self) -> usize {
        self.num_rows
    }

    /// Decodes a column of the block, if it is not.
    ///
    /// # Errors
    /// Whatever is wrong with its pages, or is not read here.
    pub fn decode(&mut self, column: usize) -> Result<(), ColumnError> {
        if self.num_rows == 0 || self.columns.get(column).is_some_and(|read| read.is_decoded) {
            return Ok(());
        }
        let stretches = std::mem::take(&mut self.stretches);
        let decoded = self.checked(column, |read| {
            read.column.decode(&stretches)?;
            read.is_decoded = true;
            Ok(())
        });
        self.stretches = stretches;
        decoded
    }

    /// Returns a column of the block; `None` if it was not decoded.
    pub fn chunk(&self, column: usize) -> Option<Chunk<'_>> {
        let read = self.columns.get(column)?;
        match read.is_decoded {
            true => read.column.chunk(),
            false => None,
        }
    }

    /// Returns each column of the block that was decoded.
    pub fn chunks(&self) -> Vec<Option<Chunk<'_>>> {
        (0..self.columns.len())
            .map(|column| self.chunk(column))
            .collect()
    }

    /// Returns the selected rows from the block's first on.
    pub fn rest(&self) -> Vec<Range<usize>> {
        let mut at = self.start;
        let mut ranges = Vec::new();
        for stretch in &self.stretches {
            let start = at + stretch.gap;
            at = start + stretch.rows;
            ranges.push(start..at);
        }
        for range in self.selection.left() {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }

    /// Returns the rows from the end of the block before this one to the end of this one.
    fn span(&self) -> usize {
        self.stretches
            .iter()
            .map(|stretch| stretch.gap + stretch.rows)
            .sum()
    }

    fn checked(
        &mut self,
        column: usize,
        step: impl FnOnce(&mut ReadColumn) -> Result<(), PageError>,
    ) -> Result<(), ColumnError> {
        let Some(read) = self.columns.get_mut(column) else {
            let error = PageError::damaged("it was not opened");
            return Err(error.in_column(&format!("number {column}")));
        };
        if self.has_failed {
            return Err(
                PageError::damaged("reading its row group failed before").in_column(&read.name)
            );
        }
        step(read).map_err(|error| {
            self.has_failed = true;
            error.in_column(&read.name)
        })
    }
}
