//! Blocks to whoever folds them: the columns of its filters first, the others for blocks with rows left.

use tidegate_kernels::host::Chunk;

use crate::error::ColumnError;
use crate::reader::RowGroupReader;

/// What takes blocks.
///
/// # Contract
/// An error means that nothing has changed for the block.
pub trait BlockSink {
    /// Why a block is not taken.
    type Error;

    /// Evaluates filters over a block, of which the columns of filters are there; returns whether rows
    /// are left.
    ///
    /// # Errors
    /// The block is not taken.
    fn select(&mut self, rows: usize, chunks: &[Option<Chunk<'_>>]) -> Result<bool, Self::Error>;

    /// Takes the block that was selected last, all columns of which are there.
    ///
    /// # Errors
    /// The block is not taken.
    fn fold(&mut self, rows: usize, chunks: &[Option<Chunk<'_>>]) -> Result<(), Self::Error>;
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many rows were folded, as far as they were selected.
    Folded(usize),
    /// None of so many rows was selected.
    Filtered(usize),
    /// There was no block left.
    End,
}

/// Why a block was not folded. [`RowGroupReader::rest`] begins with it.
#[derive(Debug)]
pub enum StepError<E> {
    /// It was not read.
    Column(ColumnError),
    /// The sink did not take it.
    Sink(E),
}

impl RowGroupReader {
    /// Reads one block and gives it to a sink. `filters` says of each column whether the sink's filters
    /// read it.
    ///
    /// # Errors
    /// The block was not read, or not taken.
    pub fn step<S: BlockSink>(
        &mut self,
        filters: &[bool],
        sink: &mut S,
    ) -> Result<Step, StepError<S::Error>> {
        let rows = self.next_block();
        if rows == 0 {
            return Ok(Step::End);
        }
        for (column, is_read) in filters.iter().enumerate() {
            if *is_read {
                self.decode(column).map_err(StepError::Column)?;
            }
        }
        if !sink.select(rows, &self.chunks()).map_err(StepError::Sink)? {
            return Ok(Step::Filtered(rows));
        }
        for column in 0..filters.len() {
            self.decode(column).map_err(StepError::Column)?;
        }
        sink.fold(rows, &self.chunks()).map_err(StepError::Sink)?;
        Ok(Step::Folded(rows))
    }
}
