//! A run of a program: one thread's registers and state.

use std::fmt;
use std::sync::Arc;

use arrow_array::RecordBatch;

use super::{Chunk, Entries, HostProgram};

/// A run of a program over groups of rows, for one thread.
#[derive(Debug)]
pub struct HostRun {
    program: Arc<HostProgram>,
}

/// How many rows of a block are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// No row: the block's other columns need not be decoded, and there is nothing to fold.
    None,
    /// So many rows.
    Some(usize),
}

/// Why a run does not take a block. It has not changed for the block, and goes on with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Declined {
    /// A row raises an error, or a group's result does.
    Raises,
    /// A value, or a NULL, contradicts what was known of an input.
    OutsideFacts {
        /// Which input.
        input: usize,
    },
    /// State would have more groups or strings than it can count.
    TooLarge,
    /// A key or an extreme is NaN or −0.0, which DataFusion tells apart from other NaNs and from 0.0.
    Special,
    /// What the run has no way for, and why.
    Unsupported(String),
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Raises => f.write_str("a row raises an error"),
            Self::OutsideFacts { input } => {
                write!(
                    f,
                    "input {input} has values outside of what was known of it"
                )
            }
            Self::TooLarge => f.write_str("more groups or strings than state can count"),
            Self::Special => f.write_str("a key or an extreme is NaN or -0.0"),
            Self::Unsupported(what) => write!(f, "no way for {what}"),
        }
    }
}

impl std::error::Error for Declined {}

impl HostRun {
    pub(super) fn new(program: Arc<HostProgram>) -> Self {
        Self { program }
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<HostProgram> {
        &self.program
    }

    /// Begins a group of rows. `entries[i]` is the dictionary of `inputs()[i]`, if it has one; `rows` is how
    /// many rows the group has, since work on entries pays only with several rows for each.
    ///
    /// # Errors
    /// Entries outside of their input's facts.
    pub fn begin(&mut self, entries: &[Option<&Entries>], rows: usize) -> Result<(), Declined> {
        let _ = (entries, rows);
        Err(Declined::Unsupported("row programs, yet".to_owned()))
    }

    /// Returns whether no row of the group can be selected, by its dictionaries alone: it need not be
    /// read. This holds if every block of the group has codes wherever the group has entries.
    pub fn is_ruled_out(&self) -> bool {
        false
    }

    /// Evaluates the selection of a block, of whose chunks those with `filters` are there.
    ///
    /// # Errors
    /// Why the block is declined.
    pub fn select(
        &mut self,
        rows: usize,
        chunks: &[Option<Chunk<'_>>],
    ) -> Result<Selected, Declined> {
        let _ = (rows, chunks);
        Err(Declined::Unsupported("row programs, yet".to_owned()))
    }

    /// Folds the block that was selected last; all its chunks are there.
    ///
    /// # Errors
    /// Why the block is declined.
    pub fn fold(&mut self, rows: usize, chunks: &[Option<Chunk<'_>>]) -> Result<(), Declined> {
        let _ = (rows, chunks);
        Err(Declined::Unsupported("row programs, yet".to_owned()))
    }

    /// Returns the bytes of state, dictionaries and rows that are kept.
    pub fn memory_bytes(&self) -> usize {
        0
    }

    /// Returns how many groups there are.
    pub fn num_groups(&self) -> usize {
        0
    }

    /// Takes the groups out, in batches of at most so many rows under the pipeline's output schema. The run
    /// has no groups then and goes on; without keys, the one group is there again.
    ///
    /// # Errors
    /// A group's result raises; the groups are still there.
    pub fn take(&mut self, batch_rows: usize) -> Result<Vec<RecordBatch>, Declined> {
        let _ = batch_rows;
        Ok(Vec::new())
    }

    /// Takes selected rows out that were gathered by a program without an aggregate: whole batches of
    /// `batch_rows`, and what is left over if `flush`.
    ///
    /// # Errors
    /// Rows that the output's types do not hold.
    pub fn rows(&mut self, batch_rows: usize, flush: bool) -> Result<Vec<RecordBatch>, Declined> {
        let _ = (batch_rows, flush);
        Ok(Vec::new())
    }
}
