//! One block of pages: the columns that filters read are decoded first, the others if rows are left.

use std::time::{Duration, Instant};

use tidegate_kernels::host::{Declined, HostProgram, HostRun, Selected};
use tidegate_pages::{ColumnError, RowGroupReader};

use super::runtime_filter::RuntimeFilters;

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
pub(super) fn is_ruled_out(run: &HostRun, program: &HostProgram, reader: &RowGroupReader) -> bool {
    let mut filters = (0..program.inputs().len()).filter(|input| program.inputs()[*input].filters);
    let is_all_codes = |column| reader.entries(column).is_none() || reader.is_all_codes(column);
    run.is_ruled_out() && filters.all(is_all_codes)
}

/// Folds a block: the columns of filters are decoded first, the others if rows are left.
pub(super) fn fold_block(
    reader: &mut RowGroupReader,
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
            reader.decode(column)?;
        }
    }
    let decoded = Instant::now();
    times.decode += decoded - began;
    let mut selected = run.select(rows, &reader.chunks());
    if let Ok(some) = selected {
        selected = Ok(filters.restrict(run, reader, rows, some)?);
    }
    let began = Instant::now();
    times.fold += began - decoded;
    if selected? == Selected::None {
        return Ok(Block::Done);
    }
    if !has_all {
        return Ok(Block::NeedsColumns);
    }
    for column in 0..inputs.len() {
        reader.decode(column)?;
    }
    let decoded = Instant::now();
    times.decode += decoded - began;
    let folded = run.fold(rows, &reader.chunks());
    times.fold += decoded.elapsed();
    folded?;
    Ok(Block::Done)
}
