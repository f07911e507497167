//! Boundaries of partitions and peer groups in sorted batches.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::{concat, partition};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::utils::evaluate_expressions_to_arrays;

use super::copied;

/// The consecutive groups of equal rows of a non-empty batch.
#[derive(Clone)]
pub(super) struct Segments {
    /// The first group continues the last one of the batch before.
    continues: bool,
    /// The end of each group. The last group may continue in the next batch.
    ends: Vec<usize>,
}

impl Segments {
    /// One group of rows that continues the last one of the batch before.
    pub(super) fn of_last(rows: usize) -> Self {
        Self {
            continues: true,
            ends: vec![rows],
        }
    }

    /// The same groups with this many more rows at the end of each but the last.
    pub(super) fn with_more_rows(&self, rows: usize) -> Self {
        let ends = self.ends.iter().enumerate();
        let last = self.ends.len().saturating_sub(1);
        let ends = ends.map(|(group, end)| end + rows * (group + 1).min(last));
        Self {
            continues: self.continues,
            ends: ends.collect(),
        }
    }

    /// Returns the rows of each group, and whether the group starts with them.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (bool, Range<usize>)> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let ranges = starts.zip(&self.ends);
        ranges
            .enumerate()
            .map(|(group, (start, end))| (group > 0 || !self.continues, start..*end))
    }

    /// Returns the number of rows that continue the last group of the batch before, if any do.
    pub(super) fn continued(&self) -> Option<usize> {
        self.ends.first().copied().filter(|_| self.continues)
    }

    /// Returns the rows of the last group.
    pub(super) fn last(&self) -> Range<usize> {
        match self.ends.as_slice() {
            [.., start, end] => *start..*end,
            [end] => 0..*end,
            [] => 0..0,
        }
    }
}

/// Detects groups of equal rows across batches, by comparing neighbouring rows.
pub(super) struct Neighbours {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// The expressions' values at the last row.
    last: Option<Vec<ArrayRef>>,
}

impl Neighbours {
    /// Groups rows by expressions; without any, all rows are one group.
    pub(super) fn new(exprs: Vec<Arc<dyn PhysicalExpr>>) -> Self {
        Self { exprs, last: None }
    }

    /// Returns the groups of the next, non-empty batch.
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
