//! One block of a row group: the columns that filters read are decoded first, the others if rows are left.

use std::time::{Duration, Instant};

use tidegate_kernels::host::{Chunk, Declined, Entries, HostProgram, HostRun, Selected};
use tidegate_pages::{ColumnError, RowGroupReader};

use super::runtime_filter::RuntimeFilters;

/// The blocks of a row group, of which one is at hand.
pub(super) trait Blocks {
    /// Decodes a column of the block, if it is not.
    ///
    /// # Errors
    /// Why it was not.
    fn decode(&mut self, column: usize) -> Result<(), Stopped>;

    /// Returns a column of the block; `None` if it was not decoded.
    fn chunk(&self, column: usize) -> Option<Chunk<'_>>;

    /// Returns what a column's codes are of.
    fn entries(&self, column: usize) -> Option<&Entries>;

    /// Returns whether all values of a column are among its entries.
    fn is_all_codes(&self, column: usize) -> bool;
}

impl Blocks for RowGroupReader {
    fn decode(&mut self, column: usize) -> Result<(), Stopped> {
        Ok(Self::decode(self, column)?)
    }

    fn chunk(&self, column: usize) -> Option<Chunk<'_>> {
        Self::chunk(self, column)
    }

    fn entries(&self, column: usize) -> Option<&Entries> {
        Self::entries(self, column)
    }

    fn is_all_codes(&self, column: usize) -> bool {
        Self::is_all_codes(self, column)
    }
}

/// Why a block was not folded: nothing was changed for it, and the source reads it and what follows.
pub(super) enum Stopped {
    /// The run declined it.
    Declined(Declined),
    /// It was not read.
    Unread(String),
}

impl From<Declined> for Stopped {
    fn from(declined: Declined) -> Self {
        Self::Declined(declined)
    }
}

impl From<ColumnError> for Stopped {
    fn from(error: ColumnError) -> Self {
        Self::Unread(error.to_string())
    }
}

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block {
    Done,
    /// Rows of it are selected, and not all columns were begun.
    NeedsColumns,
}

/// How long a part took.
#[derive(Default)]
pub(super) struct Times {
    pub(super) decode: Duration,
    pub(super) fold: Duration,
}

/// Returns whether the entries of filters' columns rule out all rows of a row group.
pub(super) fn is_ruled_out(run: &HostRun, program: &HostProgram, blocks: &impl Blocks) -> bool {
    let mut filters = (0..program.inputs().len()).filter(|input| program.inputs()[*input].filters);
    let is_all_codes = |column| blocks.entries(column).is_none() || blocks.is_all_codes(column);
    run.is_ruled_out() && filters.all(is_all_codes)
}

/// Returns each column of a block that was decoded.
fn decoded<'a>(blocks: &'a impl Blocks, program: &HostProgram) -> Vec<Option<Chunk<'a>>> {
    let columns = 0..program.inputs().len();
    columns.map(|column| blocks.chunk(column)).collect()
}

/// Folds a block: the columns of filters are decoded first, the others if rows are left.
pub(super) fn fold_block(
    blocks: &mut impl Blocks,
    run: &mut HostRun,
    program: &HostProgram,
    rows: usize,
    has_all: bool,
    filters: &mut RuntimeFilters,
    times: &mut Times,
) -> Result<Block, Stopped> {
    let inputs = program.inputs();
    let began = Instant::now();
    for (column, input) in inputs.iter().enumerate() {
        if input.filters {
            blocks.decode(column)?;
        }
    }
    let filtering = Instant::now();
    times.decode += filtering - began;
    let mut selected = run.select(rows, &decoded(blocks, program));
    if let Ok(some) = selected {
        selected = Ok(filters.restrict(run, blocks, rows, some)?);
    }
    let began = Instant::now();
    times.fold += began - filtering;
    if selected? == Selected::None {
        return Ok(Block::Done);
    }
    if !has_all {
        return Ok(Block::NeedsColumns);
    }
    for column in 0..inputs.len() {
        blocks.decode(column)?;
    }
    let folding = Instant::now();
    times.decode += folding - began;
    let folded = run.fold(rows, &decoded(blocks, program));
    times.fold += folding.elapsed();
    folded?;
    Ok(Block::Done)
}
