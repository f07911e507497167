//! Record batches as groups of rows: arrays to chunks, block by block.

use arrow_array::RecordBatch;

use super::block::{BLOCK, Chunk, Entries};
use super::{Declined, HostProgram};

/// The blocks of one record batch, which is a group of rows.
#[derive(Debug)]
pub struct ArrowBlocks {
    entries: Vec<Option<Entries>>,
    num_rows: usize,
    at: usize,
}

impl ArrowBlocks {
    /// Prepares a batch under the schema of the pipeline's input. What it reads is shared with the batch
    /// where its layout is that of blocks.
    ///
    /// # Errors
    /// A column of another type.
    pub fn new(program: &HostProgram, batch: &RecordBatch) -> Result<Self, Declined> {
        Ok(Self {
            entries: vec![None; program.inputs().len()],
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
        self.entries.iter().map(Option::as_ref).collect()
    }

    /// Returns the next block's rows and chunks, one for each input; `None` at the end.
    pub fn next_block(&mut self) -> Option<(usize, Vec<Option<Chunk<'_>>>)> {
        let rows = (self.num_rows - self.at).min(BLOCK);
        self.at += rows;
        (rows > 0).then(|| (rows, vec![None; self.entries.len()]))
    }
}
