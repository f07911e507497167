//! Record batches as groups of rows: arrays to chunks, block by block.

mod array;
mod column;

use arrow_array::RecordBatch;

use super::block::{BLOCK, Chunk, Entries};
use super::{Declined, HostProgram};
pub use array::{array_of, codes, has_arrays, integers, nulls_of};
pub use column::BatchColumn;

/// The blocks of one record batch, which is a group of rows. Values are shared with the batch where they
/// lie as blocks have them; validity, booleans and narrow signed integers are widened block by block.
#[derive(Debug)]
pub struct ArrowBlocks {
    columns: Vec<BatchColumn>,
    num_rows: usize,
    at: usize,
}

impl ArrowBlocks {
    /// Prepares a batch under the schema of the pipeline's input.
    ///
    /// # Errors
    /// A column that is not there or of another type.
    pub fn new(program: &HostProgram, batch: &RecordBatch) -> Result<Self, Declined> {
        let inputs = program.inputs().iter();
        let columns = inputs.map(|input| {
            let array = batch.columns().get(input.column);
            let array = array.filter(|array| *array.data_type() == input.data_type);
            let array = array.ok_or_else(|| {
                let what = format!("column {} that is no {}", input.column, input.data_type);
                Declined::Unsupported(what)
            })?;
            BatchColumn::new(array.as_ref())
        });
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
            num_rows: batch.num_rows(),
            at: 0,
        })
    }

    /// Returns how many rows the batch has.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns the dictionaries of the program's inputs.
    pub fn entries(&self) -> Vec<Option<&Entries>> {
        self.columns.iter().map(BatchColumn::entries).collect()
    }

    /// Returns the next block's rows and chunks, one for each input; `None` at the end.
    pub fn next_block(&mut self) -> Option<(usize, Vec<Option<Chunk<'_>>>)> {
        let (at, rows) = (self.at, (self.num_rows - self.at).min(BLOCK));
        if rows == 0 {
            return None;
        }
        self.at += rows;
        let columns = self.columns.iter_mut().map(|column| {
            column.begin_block(at, rows);
            Some(column.block())
        });
        Some((rows, columns.collect()))
    }
}
