//! Where rows that are equal in some expressions begin and end, in batches that are sorted by them.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::{concat, partition};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;

use super::copied;

/// The groups of equal rows of a batch that has rows, one behind the other.
pub(super) struct Segments {
    /// The first group is the last one of the batch before.
    continues: bool,
    /// Where each group ends. The last one may go on in the next batch.
    ends: Vec<usize>,
}

impl Segments {
    /// Returns each group's rows, and whether it begins with them.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (bool, Range<usize>)> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends);
        ranges
            .enumerate()
            .map(|(group, (start, end))| (group > 0 || !self.continues, start..*end))
    }

    /// Returns the rows with which the last group of the batch before goes on; `None` if it has ended.
    pub(super) fn continued(&self) -> Option<usize> {
        self.ends.first().copied().filter(|_| self.continues)
    }

    /// Returns the rows of the last group, which may go on.
    pub(super) fn last(&self) -> Range<usize> {
        match self.ends.as_slice() {
            [.., start, end] => *start..*end,
            [end] => 0..*end,
            [] => 0..0,
        }
    }
}

/// Finds the groups of one batch after another.
pub(super) struct Neighbours {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The values of the last row.
    last: Option<Vec<ArrayRef>>,
}

impl Neighbours {
    /// Groups rows by some expressions, all of them if there are none.
    pub(super) fn new(exprs: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self { exprs, last: None }
    }

    /// Returns the groups of the next batch, which has rows.
    ///
    /// # Errors
    /// Those of the expressions.
    pub(super) fn next(&mut self, batch: &RecordBatch) -> Result<Segments> {
        let rows = batch.num_rows();
        let keys = evaluate_expressions_to_arrays(&self.exprs, batch)?;
        let last = keys.iter().map(|key| copied(key, rows - 1..rows));
        let last = last.collect::<Result<Vec<_>>>()?;
        let Some(before) = self.last.replace(last) else {
            return Ok(Segments {
                continues: false,
                ends: ends(&keys, rows)?,
            });
        };
        let pairs = before.iter().zip(&keys);
        let pairs = pairs.map(|(before, key)| concat(&[before, &key.slice(0, 1)]));
        let pairs = pairs.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Segments {
            continues: ends(&pairs, 2)?.len() == 1,
            ends: ends(&keys, rows)?,
        })
    }
}

/// Returns where each group of equal rows ends.
fn ends(keys: &[ArrayRef], rows: usize) -> Result<Vec<usize>> {
    if keys.is_empty() {
        return Ok(vec![rows]);
    }
    let groups = partition(keys)?.ranges();
    Ok(groups.into_iter().map(|group| group.end).collect())
}
