//! A table that is on a device as a whole, and the runs over it that queries share.
//!
//! A query that reads all of a scan need not look for one morsel after the other; reading the same
//! rows is enough. [`ScanKey`] names the rows of a scan whatever their order and however they are
//! cut; [`WholeRun`] is what a device folds for it, made once for each choice of columns.

use std::collections::HashMap;
use std::ptr;
use std::sync::{Arc, OnceLock};

use arrow_array::{ArrayRef, RecordBatch};
use parking_lot::Mutex;
use tidegate_kernels::{StoredColumn, StoredMorsel, StoredRun};

use super::ChunkKey;

/// Rows that one launch takes at the most, unless a single morsel has more.
const RUN_ROWS_MAX: u64 = 1 << 30;

/// Choices of columns whose runs are kept.
const RUNS_MAX: usize = 32;

/// The rows of a scan.
#[derive(Clone, Debug)]
pub enum ScanRows {
    /// A text that no other rows have.
    Named(Arc<str>),
    /// All columns of these batches, none empty; held, so that no other array has the address of
    /// one of theirs.
    Batches(Arc<[RecordBatch]>),
}

/// Names the rows of a whole scan, and the columns that it reads.
#[derive(Debug)]
pub struct ScanKey {
    rows: ScanRows,
    columns: Vec<usize>,
    /// Where each batch is, by the address of its first array; empty unless these differ.
    by_address: OnceLock<HashMap<usize, usize>>,
}

impl ScanKey {
    /// Makes a key of the source's columns with these numbers.
    pub fn new(rows: ScanRows, columns: Vec<usize>) -> Self {
        Self {
            rows,
            columns,
            by_address: OnceLock::new(),
        }
    }

    /// Returns the scan's rows.
    pub fn rows(&self) -> &ScanRows {
        &self.rows
    }

    /// Returns an array that is read, if the rows are those of a memory table.
    pub fn an_array(&self) -> Option<&ArrayRef> {
        match &self.rows {
            ScanRows::Named(_) => None,
            ScanRows::Batches(batches) => batches.first()?.columns().first(),
        }
    }

    /// Returns the numbers of the source's columns that the scan reads, in order.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Returns, for columns of the source, the positions at which the scan reads them; `None` if it
    /// does not read all.
    pub fn positions(&self, columns: &[usize]) -> Option<Vec<usize>> {
        let position = |column| self.columns.iter().position(|known| known == column);
        columns.iter().map(position).collect()
    }

    /// Returns whether these batches are the scan's, in whatever order, as far as these columns of
    /// the source go. Batches without rows do not count.
    pub fn has_batches<'a>(
        &self,
        batches: impl Iterator<Item = &'a RecordBatch>,
        columns: &[usize],
    ) -> bool {
        let ScanRows::Batches(known) = &self.rows else {
            return false;
        };
        let batches = batches.filter(|batch| batch.num_rows() > 0);
        let mut taken: Option<Vec<bool>> = None;
        let mut num_batches = 0;
        for (index, batch) in batches.enumerate() {
            num_batches += 1;
            if known
                .get(index)
                .is_some_and(|known| same(known, batch, columns))
            {
                if let Some(taken) = &mut taken
                    && std::mem::replace(&mut taken[index], true)
                {
                    return false;
                }
                continue;
            }
            // From here on the order is another one.
            let taken = taken.get_or_insert_with(|| {
                let before = std::iter::repeat_n(true, index.min(known.len()));
                let after = std::iter::repeat_n(false, known.len().saturating_sub(index));
                before.chain(after).collect()
            });
            let Some(at) = self.find(known, batch) else {
                return false;
            };
            if !same(&known[at], batch, columns) || std::mem::replace(&mut taken[at], true) {
                return false;
            }
        }
        num_batches == known.len()
    }

    fn find(&self, known: &[RecordBatch], batch: &RecordBatch) -> Option<usize> {
        let by_address = self.by_address.get_or_init(|| {
            let addressed = known.iter().enumerate();
            let map: HashMap<usize, usize> = addressed
                .filter_map(|(index, batch)| Some((address(batch.columns().first()?), index)))
                .collect();
            // An array that is in several batches does not tell them apart.
            if map.len() == known.len() {
                map
            } else {
                HashMap::new()
            }
        });
        by_address.get(&address(batch.columns().first()?)).copied()
    }
}

fn same(known: &RecordBatch, batch: &RecordBatch, columns: &[usize]) -> bool {
    known.num_columns() == batch.num_columns()
        && known.num_rows() == batch.num_rows()
        && columns.iter().all(|&column| {
            match (known.columns().get(column), batch.columns().get(column)) {
                (Some(known), Some(array)) => ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(array)),
                _ => false,
            }
        })
}

fn address(array: &ArrayRef) -> usize {
    Arc::as_ptr(array).cast::<()>().addr()
}

/// The chunks of one morsel, by column of the table.
#[derive(Debug)]
pub(super) struct MorselChunks {
    pub(super) columns: Vec<Arc<StoredColumn>>,
    pub(super) keys: Vec<ChunkKey>,
}

/// All of a scan on one device.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) key: ScanKey,
    runs: Mutex<Vec<Arc<WholeRun>>>,
}

/// What a device folds to have folded all of a scan, in some of its columns.
#[derive(Debug)]
pub struct WholeRun {
    /// The columns' numbers in the table.
    pub(crate) columns: Vec<usize>,
    pub(crate) runs: Vec<Arc<StoredRun>>,
    pub(crate) num_morsels: u64,
    pub(crate) num_rows: u64,
}

impl Whole {
    pub(super) fn new(key: ScanKey) -> Self {
        Self {
            key,
            runs: Mutex::default(),
        }
    }

    /// Returns the run over these columns of the table; `None` over none.
    pub(super) fn run(&self, morsels: &[MorselChunks], columns: &[usize]) -> Option<Arc<WholeRun>> {
        let mut runs = self.runs.lock();
        if let Some(known) = runs.iter().find(|run| run.columns == columns) {
            return Some(Arc::clone(known));
        }
        let made = Arc::new(WholeRun::new(morsels, columns)?);
        if runs.len() == RUNS_MAX {
            runs.remove(0);
        }
        runs.push(Arc::clone(&made));
        Some(made)
    }
}

impl WholeRun {
    fn new(morsels: &[MorselChunks], columns: &[usize]) -> Option<Self> {
        let mut runs = Vec::new();
        let mut run: Vec<StoredMorsel> = Vec::new();
        let (mut rows_of_run, mut num_rows) = (0, 0);
        for morsel in morsels {
            let chunks = columns.iter().map(|&column| morsel.columns.get(column));
            let chunks = chunks
                .map(|chunk| chunk.map(Arc::clone))
                .collect::<Option<Vec<_>>>()?;
            let morsel = StoredMorsel {
                num_rows: chunks.first()?.num_rows(),
                columns: chunks,
            };
            let is_even = |chunk: &Arc<StoredColumn>| chunk.num_rows() == morsel.num_rows;
            if !morsel.columns.iter().all(is_even) {
                return None;
            }
            if !run.is_empty() && rows_of_run + morsel.num_rows > RUN_ROWS_MAX {
                runs.push(StoredRun::new(std::mem::take(&mut run)));
                rows_of_run = 0;
            }
            rows_of_run += morsel.num_rows;
            num_rows += morsel.num_rows;
            run.push(morsel);
        }
        if !run.is_empty() {
            runs.push(StoredRun::new(run));
        }
        Some(Self {
            columns: columns.to_vec(),
            runs,
            num_morsels: morsels.len() as u64,
            num_rows,
        })
    }

    /// Returns how many rows there are.
    pub fn num_rows(&self) -> u64 {
        self.num_rows
    }
}

#[cfg(test)]
mod tests;
