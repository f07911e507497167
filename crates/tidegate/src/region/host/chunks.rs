//! A row group of the host tier, folded as it lies there.
//!
//! A chunk keeps a column in segments: codes of entries, differences from the least value, or arrays. None is
//! restored. Rows up to the next end of a column's segment are a *span*, one group of rows for the run; blocks
//! are cut out of it.

use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::Array;
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use tidegate_kernels::host::arrow::BatchColumn;
use tidegate_kernels::host::{BLOCK, Chunk, Declined, Entries, HostProgram, HostRun};
use tidegate_scheduler::cache::host::{HostChunk, Segment};

use super::block::{Block, Blocks, Stopped, Times, fold_block, is_ruled_out};
use super::fold::TIME_AT_ONCE;
use super::runtime_filter::RuntimeFilters;

/// A row group of the host tier.
pub(super) struct ChunkRows {
    /// The columns of the scan.
    chunks: Vec<Arc<HostChunk>>,
    num_rows: usize,
    /// Rows of the file that it is of.
    rows_of_file: u64,
    /// The columns that the program reads.
    columns: Vec<Column>,
    /// Rows that were folded.
    num_done: usize,
    /// Rows of the span at hand that were not folded.
    span_left: usize,
    /// Rows of the block at hand.
    block_rows: usize,
}

struct Column {
    chunk: Arc<HostChunk>,
    segment: usize,
    /// Rows of the segment that were folded.
    at: usize,
    /// The segment, if it is an array.
    plain: Option<BatchColumn>,
    /// A byte for each row of a block, whether it has a value.
    validity: Vec<u8>,
    /// Whether a row of the block has none.
    has_nulls: bool,
    /// The block is at hand.
    is_begun: bool,
}

impl ChunkRows {
    /// Begins a row group of a file of so many rows.
    ///
    /// # Errors
    /// Why it cannot be folded as it lies.
    pub(super) fn new(
        chunks: Vec<Arc<HostChunk>>,
        rows_of_file: u64,
        program: &HostProgram,
    ) -> Result<Self, (Vec<Arc<HostChunk>>, String)> {
        let column = |chunk: &Arc<HostChunk>| Column {
            chunk: Arc::clone(chunk),
            segment: 0,
            at: 0,
            plain: None,
            validity: vec![0; BLOCK],
            has_nulls: false,
            is_begun: false,
        };
        let inputs = program.inputs().iter();
        let columns = inputs.map(|input| chunks.get(input.column).map(column));
        let columns: Option<Vec<Column>> = columns.collect();
        let rows = chunks.first().map(|chunk| chunk.num_rows());
        let num_rows = rows.and_then(|rows| usize::try_from(rows).ok());
        match (columns, num_rows) {
            (Some(columns), Some(num_rows)) => Ok(Self {
                chunks,
                num_rows,
                rows_of_file,
                columns,
                num_done: 0,
                span_left: 0,
                block_rows: 0,
            }),
            _ => Err((chunks, "a column that the host tier does not have".into())),
        }
    }

    /// Returns the columns, and how many rows were folded.
    pub(super) fn into_rest(self) -> (Vec<Arc<HostChunk>>, usize) {
        (self.chunks, self.num_done)
    }

    /// Returns whether all rows were folded.
    pub(super) fn has_ended(&self) -> bool {
        self.num_done >= self.num_rows
    }

    /// Folds blocks for a while; returns how many rows, and why the next block was not folded if it was not.
    pub(super) fn fold(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        filters: &mut RuntimeFilters,
        blocks: usize,
    ) -> (usize, Option<Stopped>) {
        let (began, before) = (Instant::now(), self.num_done);
        filters.refresh();
        for _ in 0..blocks {
            if self.has_ended() || began.elapsed() > TIME_AT_ONCE {
                break;
            }
            if let Err(stopped) = self.fold_next(run, program, filters) {
                return (self.num_done - before, Some(stopped));
            }
        }
        (self.num_done - before, None)
    }

    fn fold_next(
        &mut self,
        run: &mut HostRun,
        program: &HostProgram,
        filters: &mut RuntimeFilters,
    ) -> Result<(), Stopped> {
        if self.span_left == 0 {
            self.span_left = self.begin_span(run, program)?;
            filters.begin(program, self.rows_of_file);
            if is_ruled_out(run, program, self) || filters.rule_out(self) {
                self.pass(self.span_left);
                return Ok(());
            }
        }
        let rows = self.span_left.min(BLOCK);
        self.block_rows = rows;
        let mut times = Times::default();
        match fold_block(self, run, program, rows, true, filters, &mut times)? {
            Block::Done => self.pass(rows),
            Block::NeedsColumns => return Err(unsupported("columns that are all there").into()),
        }
        Ok(())
    }

    /// Begins the rows up to the next end of a segment; returns how many.
    fn begin_span(&mut self, run: &mut HostRun, program: &HostProgram) -> Result<usize, Declined> {
        let mut rows = self.num_rows - self.num_done;
        for (column, input) in self.columns.iter_mut().zip(program.inputs()) {
            rows = rows.min(column.begin(&input.data_type)?);
        }
        let columns = 0..self.columns.len();
        let entries: Vec<Option<&Entries>> = columns.map(|column| self.entries(column)).collect();
        run.begin(&entries, rows)?;
        Ok(rows)
    }

    fn pass(&mut self, rows: usize) {
        self.num_done += rows;
        self.span_left -= rows;
        for column in &mut self.columns {
            column.at += rows;
            column.is_begun = false;
        }
    }
}

impl Blocks for ChunkRows {
    fn decode(&mut self, column: usize) -> Result<(), Stopped> {
        let rows = self.block_rows;
        let column = self.columns.get_mut(column);
        let column = column.ok_or_else(|| unsupported("a column that was not begun"))?;
        Ok(column.begin_block(rows)?)
    }

    fn chunk(&self, column: usize) -> Option<Chunk<'_>> {
        let column = self.columns.get(column).filter(|column| column.is_begun);
        column?.block(self.block_rows)
    }

    fn entries(&self, column: usize) -> Option<&Entries> {
        self.columns.get(column)?.segment().ok()?.entries()
    }

    fn is_all_codes(&self, column: usize) -> bool {
        self.entries(column).is_some()
    }
}

impl Column {
    fn segment(&self) -> Result<&Segment, Declined> {
        let segment = self.chunk.segments().get(self.segment);
        segment.ok_or_else(|| unsupported("a column of the host tier that ends early"))
    }

    /// Goes on to the next segment if this one has ended; returns how many rows are left of it.
    fn begin(&mut self, data_type: &DataType) -> Result<usize, Declined> {
        let is_new = self.at == 0;
        let has_ended = self.at >= self.segment()?.num_rows();
        if has_ended {
            self.segment += 1;
            self.at = 0;
        }
        if is_new || has_ended {
            self.plain = match self.segment()?.plain() {
                None => None,
                Some(array) if array.data_type() == data_type => {
                    Some(BatchColumn::new(array.as_ref())?)
                }
                Some(_) => return Err(unsupported("a column of another type")),
            };
            let plain = self.plain.as_ref();
            if plain.is_some_and(|plain| plain.entries().is_some()) {
                return Err(unsupported("a dictionary in the host tier"));
            }
        }
        Ok(self.segment()?.num_rows() - self.at)
    }

    /// Makes the next rows a block.
    fn begin_block(&mut self, rows: usize) -> Result<(), Declined> {
        let Self {
            chunk,
            segment,
            at,
            plain,
            validity,
            has_nulls,
            is_begun,
        } = self;
        if std::mem::replace(is_begun, true) {
            return Ok(());
        }
        if let Some(plain) = plain {
            plain.begin_block(*at, rows);
            return Ok(());
        }
        let segment = chunk.segments().get(*segment);
        let segment =
            segment.ok_or_else(|| unsupported("a column of the host tier that ends early"))?;
        *has_nulls = segment.nulls().is_some();
        if let Some(nulls) = segment.nulls() {
            spread(nulls, *at, rows, validity);
        }
        Ok(())
    }

    /// Returns the block.
    fn block(&self, rows: usize) -> Option<Chunk<'_>> {
        if let Some(plain) = &self.plain {
            return Some(plain.block());
        }
        let values = self.segment().ok()?.values(self.at..self.at + rows)?;
        Some(Chunk {
            values,
            validity: self.has_nulls.then(|| &self.validity[..rows]),
        })
    }
}

/// Writes which rows have a value as a byte for each.
fn spread(nulls: &NullBuffer, at: usize, rows: usize, to: &mut [u8]) {
    let valid = nulls.inner().slice(at, rows);
    for (to, is_valid) in to.iter_mut().zip(valid.iter()) {
        *to = is_valid.into();
    }
}

fn unsupported(what: &str) -> Declined {
    Declined::Unsupported(what.to_owned())
}
