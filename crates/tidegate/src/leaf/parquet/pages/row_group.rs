//! A row group that is read as pages, with what it takes to have the rest of it read by the source.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion_datasource::PartitionedFile;
use object_store::ObjectStore;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use tidegate_pages::{Buffers, ChunkBytes, ColumnRequest, ReadOptions, RowGroupReader, place_of};

use super::Input;
use super::bytes::RowGroupBytes;
use super::open::OpenFile;

/// Bytes that a page is taken to have uncompressed before it is read.
const PAGE_BYTES_EXPECTED: u64 = 1 << 20;

/// A row group that is read as pages.
pub(crate) struct RowGroup {
    file: Arc<OpenFile>,
    number: usize,
    columns: Arc<[ColumnRequest]>,
    /// The columns that were fetched.
    fetched: Vec<bool>,
    selection: Option<RowSelection>,
    bytes: Arc<RowGroupBytes>,
}

impl RowGroup {
    /// Names the row group; nothing is read yet.
    ///
    /// # Errors
    /// Why the source reads it.
    pub(super) fn new(
        file: &Arc<OpenFile>,
        number: usize,
        selection: Option<RowSelection>,
        inputs: &[Input],
        buffers: &Buffers,
    ) -> Result<Self, &'static str> {
        let columns = file.columns(inputs)?;
        let bytes = RowGroupBytes::new(file.local(), buffers);
        Ok(Self {
            fetched: vec![false; columns.len()],
            columns,
            file: Arc::clone(file),
            number,
            selection,
            bytes: Arc::new(bytes.map_err(|_| "its size is not known")?),
        })
    }

    /// Opens these columns of the scan's in a reader.
    ///
    /// # Errors
    /// Why the reader does not read it.
    pub(crate) fn open(
        &self,
        reader: &mut RowGroupReader,
        columns: impl Iterator<Item = usize>,
    ) -> Result<(), String> {
        let requests = columns.map(|column| self.columns.get(column).cloned());
        let Some(requests) = requests.collect::<Option<Vec<_>>>() else {
            return Err("a column that the scan does not have".into());
        };
        let rows = self.selection.as_ref().map(ranges);
        let bytes: Arc<dyn ChunkBytes> = Arc::clone(&self.bytes) as _;
        let metadata = self.file.metadata();
        let opened = reader.open(metadata, self.number, &requests, rows.as_deref(), &bytes);
        opened.map_err(|error| error.to_string())
    }

    /// Returns the bytes that reading these columns takes at about the most: a window and a page of each, or
    /// all that is fetched.
    pub(crate) fn expected_bytes(
        &self,
        columns: impl Iterator<Item = usize>,
        options: &ReadOptions,
    ) -> usize {
        let expected = columns.filter_map(|column| {
            let chunk = self.chunk(column)?;
            let stored = u64::try_from(chunk.compressed_size()).ok()?;
            let restored = u64::try_from(chunk.uncompressed_size()).ok()?;
            let window = match self.bytes.is_fetched() {
                true => stored,
                false => stored.min(options.window_bytes as u64),
            };
            Some(window.saturating_add(restored.min(PAGE_BYTES_EXPECTED)))
        });
        usize::try_from(expected.fold(0, u64::saturating_add)).unwrap_or(usize::MAX)
    }

    /// Fetches these columns, unless they were, or the file is read when its bytes are asked for.
    ///
    /// # Errors
    /// Why they were not read.
    pub(crate) async fn fetch(
        &mut self,
        columns: impl Iterator<Item = usize>,
    ) -> Result<(), String> {
        if !self.bytes.is_fetched() {
            return Ok(());
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for column in columns {
            match self.fetched.get_mut(column) {
                None => return Err("a column that the scan does not have".into()),
                Some(true) => continue,
                Some(fetched) => *fetched = true,
            }
            let place = self.chunk(column).and_then(place_of);
            let size = self.file.size();
            let Some(place) = place.filter(|place| place.end <= size) else {
                return Err("its footer names bytes that it does not have".into());
            };
            ranges.push(place);
        }
        if ranges.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        let (store, location) = self.file.place();
        let bytes = store.get_ranges(location, &ranges).await;
        let bytes = bytes.map_err(|_| "its bytes were not read".to_string())?;
        let starts = ranges.iter().map(|range| range.start);
        self.bytes.add(starts.zip(bytes).collect(), began.elapsed());
        Ok(())
    }

    /// Returns the rows of its file.
    pub(crate) fn rows_of_file(&self) -> u64 {
        self.file.rows_of_file()
    }

    /// Returns the bytes of what was fetched.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.held_bytes()
    }

    /// Returns how many bytes were read since the last call, and in what time.
    pub(crate) fn take_counts(&self) -> (usize, Duration) {
        self.bytes.take_counts()
    }

    /// Returns all rows that are wanted of it.
    pub(crate) fn wanted(&self) -> Vec<Range<usize>> {
        match &self.selection {
            Some(selection) => ranges(selection),
            None => std::iter::once(0..self.file.num_rows(self.number)).collect(),
        }
    }

    /// Returns its file with an access plan for these of its rows.
    pub(super) fn file_with(&self, rows: &[Range<usize>]) -> PartitionedFile {
        self.file.with(self.number, Some(rows))
    }

    fn chunk(&self, column: usize) -> Option<&parquet::file::metadata::ColumnChunkMetaData> {
        let leaf = self.columns.get(column)?.leaf;
        let group = self.file.metadata().row_groups().get(self.number)?;
        group.columns().get(leaf)
    }
}

/// Returns the rows that a selection selects.
fn ranges(selection: &RowSelection) -> Vec<Range<usize>> {
    let mut at = 0;
    let mut ranges = Vec::new();
    for selector in selection.iter() {
        let end = at + selector.row_count;
        if !selector.skip && at < end {
            ranges.push(at..end);
        }
        at = end;
    }
    ranges
}

/// Returns the selection of ranges of the rows of a row group.
pub(super) fn selection_of(rows: &[Range<usize>], num_rows: usize) -> RowSelection {
    let mut at = 0;
    let mut selectors = Vec::new();
    for range in rows {
        if range.start > at {
            selectors.push(RowSelector::skip(range.start - at));
        }
        selectors.push(RowSelector::select(range.len()));
        at = range.end;
    }
    if at < num_rows {
        selectors.push(RowSelector::skip(num_rows - at));
    }
    selectors.into()
}
