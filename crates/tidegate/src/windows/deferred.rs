//! Functions whose value at a row depends on later rows.
//!
//! The last rows of a batch may have no value yet when the batch has been read. Their column has a [`Tail`], which
//! later batches complete.

use std::iter::repeat_n;

use datafusion::arrow::array::{ArrayRef, UInt64Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::error::Result;

use super::copied;
use super::running::{Bounds, Pick, Picks, Running};
use super::segments::Segments;

/// The values of a function for a batch.
pub(super) struct Column {
    /// The values of the first rows.
    known: ArrayRef,
    tail: Tail,
}

/// The rows at the end of a batch whose values are not known yet.
#[derive(Clone, Copy, Default)]
struct Tail {
    rows: usize,
    /// The number of rows read after the batch.
    passed: usize,
}

impl Column {
    pub(super) fn all(known: ArrayRef) -> Self {
        Self {
            known,
            tail: Tail::default(),
        }
    }

    /// Returns the values if all are known.
    pub(super) fn values(&self) -> Option<&ArrayRef> {
        (self.tail.rows == 0).then_some(&self.known)
    }

    /// Appends values for the first rows of the tail.
    fn add(&mut self, values: &ArrayRef) -> Result<()> {
        if !values.is_empty() {
            self.known = concat(&[&self.known, values])?;
            self.tail.rows -= values.len();
        }
        Ok(())
    }

    /// Completes the column with one value for all rows of the tail.
    fn fill(&mut self, value: &ArrayRef) -> Result<()> {
        self.add(&repeated(value, self.tail.rows)?)
    }
}

/// A group of rows that share a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Peers,
    Partition,
}

/// A running function whose value at the end of a group is that of all rows of the group.
pub(super) struct AtEnd {
    running: Box<dyn Running>,
    of: Group,
    /// The value at the last row read, as one row.
    last: Option<ArrayRef>,
}

impl AtEnd {
    pub(super) fn new(running: Box<dyn Running>, of: Group) -> Self {
        Self {
            running,
            of,
            last: None,
        }
    }

    /// Returns the values for the next batch, and completes the columns of earlier batches.
    ///
    /// # Errors
    /// Those of the function.
    pub(super) fn next<'a>(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: impl Iterator<Item = &'a mut Column>,
    ) -> Result<Column> {
        let running = self.running.next(values, bounds)?;
        let groups = match self.of {
            Group::Peers => &bounds.peers,
            Group::Partition => &bounds.partitions,
        };
        let open = groups.last();
        let ended = match groups.continued() {
            None => self.last.take(),
            Some(rows) if rows < bounds.rows => Some(running.slice(rows - 1, 1)),
            Some(_) => None,
        };
        if let Some(value) = ended {
            for column in before {
                column.fill(&value)?;
            }
        }
        self.last = Some(copied(&running, bounds.rows - 1..bounds.rows)?);
        Ok(Column {
            known: at_ends(&running, groups, open.start)?,
            tail: Tail {
                rows: open.len(),
                passed: 0,
            },
        })
    }

    /// Completes the columns of earlier batches at the end of the input.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    pub(super) fn end<'a>(&mut self, before: impl Iterator<Item = &'a mut Column>) -> Result<()> {
        let Some(value) = self.last.take() else {
            return Ok(());
        };
        for column in before {
            column.fill(&value)?;
        }
        Ok(())
    }
}

/// Returns for each of the first `rows` rows the value at the last row of its group.
fn at_ends(running: &ArrayRef, groups: &Segments, rows: usize) -> Result<ArrayRef> {
    let mut ends = Vec::with_capacity(rows);
    for (_, group) in groups.ranges() {
        if group.end <= rows {
            ends.extend(repeat_n(group.end as u64 - 1, group.len()));
        }
    }
    Ok(take(running, &UInt64Array::from(ends), None)?)
}

/// `lead(x, ahead, default)`.
pub(super) struct Lead {
    ahead: usize,
    /// The value where there is no such row, as one row.
    default: ArrayRef,
}

impl Lead {
    pub(super) fn new(ahead: usize, default: ArrayRef) -> Self {
        Self { ahead, default }
    }

    /// Returns the values for the next batch, and completes the columns of earlier batches.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    pub(super) fn next<'a>(
        &self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: impl Iterator<Item = &'a mut Column>,
    ) -> Result<Column> {
        let of_group = bounds.partitions.continued().unwrap_or(0);
        for column in before {
            let tail = column.tail;
            if tail.rows == 0 {
                continue;
            }
            // The row that the first row of the tail refers to; the other rows refer to those after it.
            let first = self.ahead - tail.rows - tail.passed;
            let there = of_group.saturating_sub(first).min(tail.rows);
            column.add(&values.slice(first.min(bounds.rows), there))?;
            match of_group < bounds.rows {
                true => column.fill(&self.default)?,
                false => column.tail.passed += bounds.rows,
            }
        }
        let open = bounds.partitions.last();
        let there = open.len().saturating_sub(self.ahead);
        let mut picks = Picks::new(values, None, bounds.rows);
        for (_, partition) in bounds.partitions.ranges() {
            let known = match partition.start < open.start {
                true => partition.end,
                false => partition.start + there,
            };
            for row in partition.start..known {
                let ahead = row.saturating_add(self.ahead);
                picks.push(match ahead < partition.end {
                    true => Pick::Row(ahead),
                    false => Pick::Default,
                });
            }
        }
        Ok(Column {
            known: picks.take(Some(&self.default))?,
            tail: Tail {
                rows: open.len() - there,
                passed: 0,
            },
        })
    }

    /// Completes the columns of earlier batches at the end of the input.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    pub(super) fn end<'a>(&self, before: impl Iterator<Item = &'a mut Column>) -> Result<()> {
        for column in before {
            column.fill(&self.default)?;
        }
        Ok(())
    }
}

/// Repeats the value of a one-row array.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let places = UInt64Array::from(vec![0; rows]);
    Ok(take(value, &places, None)?)
}
