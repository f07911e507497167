//! Rows gathered into arrays.

use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, SchemaRef};

use super::EvalError;
use super::builder::ColumnBuilder;
use crate::program::cell::Cell;

/// The most rows of a batch that leaves.
pub(crate) const BATCH_ROWS: usize = 8192;

/// Some rows as arrays. Without columns there is still a number of rows.
pub(crate) struct Block {
    pub(crate) rows: usize,
    pub(crate) columns: Vec<ArrayRef>,
}

impl Block {
    /// Returns the rows under a schema whose types are these columns'.
    pub(crate) fn into_batch(self, schema: SchemaRef) -> Result<RecordBatch, EvalError> {
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(
            schema,
            self.columns,
            &options,
        )?)
    }

    /// Returns the memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        let arrays = self.columns.iter();
        arrays.map(|array| array.get_array_memory_size()).sum()
    }
}

/// Gathers rows into blocks of at most [`BATCH_ROWS`].
pub(crate) struct BlockBuilder {
    builders: Vec<ColumnBuilder>,
    rows: usize,
    blocks: Vec<Block>,
}

impl BlockBuilder {
    /// Starts with columns of these types.
    pub(crate) fn new<'t>(
        types: impl IntoIterator<Item = &'t DataType>,
    ) -> Result<Self, EvalError> {
        let builders = types.into_iter().map(ColumnBuilder::new);
        Ok(Self {
            builders: builders.collect::<Result<_, _>>()?,
            rows: 0,
            blocks: Vec::new(),
        })
    }

    /// Appends a row, one cell for each column; `None` for NULL.
    pub(crate) fn push<'v>(
        &mut self,
        row: impl IntoIterator<Item = Option<Cell<'v>>>,
    ) -> Result<(), EvalError> {
        for (builder, cell) in self.builders.iter_mut().zip(row) {
            builder.push(cell)?;
        }
        self.rows += 1;
        if self.rows == BATCH_ROWS {
            self.seal()?;
        }
        Ok(())
    }

    /// Returns the rows of whole blocks and those after them.
    pub(crate) fn rows(&self) -> usize {
        self.blocks.iter().map(|block| block.rows).sum::<usize>() + self.rows
    }

    /// Returns all rows and starts over.
    pub(crate) fn finish(&mut self) -> Result<Vec<Block>, EvalError> {
        if self.rows > 0 {
            self.seal()?;
        }
        Ok(std::mem::take(&mut self.blocks))
    }

    /// Returns the memory held by whole blocks.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.blocks.iter().map(Block::memory_bytes).sum()
    }

    fn seal(&mut self) -> Result<(), EvalError> {
        let columns = self.builders.iter_mut().map(ColumnBuilder::finish);
        self.blocks.push(Block {
            columns: columns.collect::<Result<_, _>>()?,
            rows: std::mem::take(&mut self.rows),
        });
        Ok(())
    }
}
