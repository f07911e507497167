//! Functions whose value at a row depends on later rows.
//!
//! The last rows of a batch may have no value yet when the batch has been read. Their column has a [`Tail`], which
//! later batches complete.

use std::iter::repeat_n;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, UInt64Array, new_null_array,
};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::{Float64Type, UInt64Type};
use datafusion::error::Result;

use super::copied;
use super::running::{Bounds, Pick, Picks, Rank, Running};
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

/// A function with its state over the rows so far, whose values may be known later.
pub(super) trait Deferred: Send {
    /// Returns the values for the next batch as far as they are known, given those of the argument, and completes the
    /// columns of earlier batches.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    fn next(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: &mut dyn Iterator<Item = &mut Column>,
    ) -> Result<Column>;

    /// Completes the columns of earlier batches at the end of the input.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    fn end(&mut self, before: &mut dyn Iterator<Item = &mut Column>) -> Result<()>;
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
}

impl Deferred for AtEnd {
    fn next(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: &mut dyn Iterator<Item = &mut Column>,
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

    fn end(&mut self, before: &mut dyn Iterator<Item = &mut Column>) -> Result<()> {
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
}

impl Deferred for Lead {
    fn next(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: &mut dyn Iterator<Item = &mut Column>,
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

    fn end(&mut self, before: &mut dyn Iterator<Item = &mut Column>) -> Result<()> {
        for column in before {
            column.fill(&self.default)?;
        }
        Ok(())
    }
}

/// A function whose frame ends after the current row, where rows of NULLs behind the partition change nothing.
pub(super) struct Later {
    running: Box<dyn Running>,
    /// The number of rows by which the frame ends later.
    ahead: usize,
    /// Values of the running function that are still to be skipped in the partition.
    skipped: usize,
    /// A NULL of the argument's type, once a batch was read.
    null: Option<ArrayRef>,
}

impl Later {
    /// The value at a row is the running one `ahead` rows later.
    pub(super) fn new(running: Box<dyn Running>, ahead: usize) -> Self {
        Self {
            running,
            ahead,
            skipped: 0,
            null: None,
        }
    }

    /// Returns the running values of rows, without the first ones of each partition.
    fn later(&mut self, values: &ArrayRef, partitions: Segments) -> Result<ArrayRef> {
        let bounds = Bounds {
            rows: values.len(),
            peers: partitions.clone(),
            partitions,
        };
        let running = self.running.next(values, &bounds)?;
        let mut kept = Vec::with_capacity(bounds.rows);
        for (begins, rows) in bounds.partitions.ranges() {
            if begins {
                self.skipped = self.ahead;
            }
            let skipped = self.skipped.min(rows.len());
            self.skipped -= skipped;
            kept.extend(rows.skip(skipped).map(|row| row as u64));
        }
        Ok(take(&running, &UInt64Array::from(kept), None)?)
    }
}

impl Deferred for Later {
    fn next(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: &mut dyn Iterator<Item = &mut Column>,
    ) -> Result<Column> {
        if bounds.partitions.continued().is_none() {
            self.end(before)?;
        }
        let null = new_null_array(values.data_type(), 1);
        let last = bounds.partitions.last().start;
        let mut padded = Picks::new(values, None, bounds.rows);
        for (_, rows) in bounds.partitions.ranges() {
            let is_last = rows.start == last;
            rows.for_each(|row| padded.push(Pick::Row(row)));
            if !is_last {
                (0..self.ahead).for_each(|_| padded.push(Pick::Default));
            }
        }
        let padded = padded.take(None)?;
        self.null = Some(null);
        let partitions = bounds.partitions.with_more_rows(self.ahead);
        let later = self.later(&padded, partitions)?;
        in_order(&later, bounds.rows, before)
    }

    fn end(&mut self, before: &mut dyn Iterator<Item = &mut Column>) -> Result<()> {
        let Some(null) = self.null.take() else {
            return Ok(());
        };
        let nulls = new_null_array(null.data_type(), self.ahead);
        let later = self.later(&nulls, Segments::of_last(self.ahead))?;
        in_order(&later, 0, before)?;
        Ok(())
    }
}

/// Completes earlier columns with values in the order of the rows, and returns the column of the next `rows` rows.
fn in_order(
    values: &ArrayRef,
    rows: usize,
    before: &mut dyn Iterator<Item = &mut Column>,
) -> Result<Column> {
    let mut used = 0;
    for column in before {
        let of_column = column.tail.rows.min(values.len() - used);
        column.add(&values.slice(used, of_column))?;
        used += of_column;
    }
    let known = values.slice(used, values.len() - used);
    Ok(Column {
        tail: Tail {
            rows: rows - known.len(),
            passed: 0,
        },
        known,
    })
}

/// A function of the rows' ranks and the number of rows of the partition: `ntile`, `percent_rank`, `cume_dist`.
pub(super) struct OfRanks<T: ArrowPrimitiveType> {
    values: Values<T>,
    rank: Rank,
    /// The ranks of the partition's rows so far.
    ranks: Vec<u64>,
}

/// Appends the values of all rows of a partition, given their ranks.
type Values<T> = Box<dyn Fn(&[u64], &mut Vec<<T as ArrowPrimitiveType>::Native>) + Send>;

impl<T: ArrowPrimitiveType> OfRanks<T> {
    fn new(values: Values<T>) -> Self {
        Self {
            values,
            rank: Rank::new(false),
            ranks: Vec::new(),
        }
    }

    fn ended(&mut self, values: &mut Vec<T::Native>) {
        (self.values)(&self.ranks, values);
        self.ranks.clear();
    }
}

/// `ntile(buckets)`: the number of the row's bucket; the first buckets have one row more if they cannot all be equal.
pub(super) fn ntile(buckets: u64) -> OfRanks<UInt64Type> {
    OfRanks::new(Box::new(move |ranks, values| {
        let rows = ranks.len() as u64;
        let (size, larger) = (rows / buckets, rows % buckets);
        let sizes = (0..buckets.min(rows)).map(|bucket| size + u64::from(bucket < larger));
        for (bucket, size) in sizes.enumerate() {
            values.extend((0..size).map(|_| bucket as u64 + 1));
        }
    }))
}

/// `percent_rank()`: the number of rows before the peer group, divided by that of all other rows.
pub(super) fn percent_rank() -> OfRanks<Float64Type> {
    OfRanks::new(Box::new(|ranks, values| {
        let others = ranks.len().saturating_sub(1).max(1) as f64;
        values.extend(ranks.iter().map(|rank| (*rank - 1) as f64 / others));
    }))
}

/// `cume_dist()`: the number of rows to the end of the peer group, divided by that of all rows.
pub(super) fn cume_dist() -> OfRanks<Float64Type> {
    OfRanks::new(Box::new(|ranks, values| {
        let mut end = 0;
        for peers in ranks.chunk_by(|left, right| left == right) {
            end += peers.len();
            let share = end as f64 / ranks.len() as f64;
            values.extend(peers.iter().map(|_| share));
        }
    }))
}

impl<T: ArrowPrimitiveType> Deferred for OfRanks<T> {
    fn next(
        &mut self,
        values: &ArrayRef,
        bounds: &Bounds,
        before: &mut dyn Iterator<Item = &mut Column>,
    ) -> Result<Column> {
        let ranks = self.rank.next(values, bounds)?;
        let ranks = ranks.as_primitive::<UInt64Type>().values();
        let mut known = Vec::new();
        for (begins, rows) in bounds.partitions.ranges() {
            if begins {
                self.ended(&mut known);
            }
            self.ranks.extend(&ranks[rows]);
        }
        let known: ArrayRef = Arc::new(PrimitiveArray::<T>::from_iter_values(known));
        in_order(&known, bounds.rows, before)
    }

    fn end(&mut self, before: &mut dyn Iterator<Item = &mut Column>) -> Result<()> {
        let mut known = Vec::new();
        self.ended(&mut known);
        let known: ArrayRef = Arc::new(PrimitiveArray::<T>::from_iter_values(known));
        in_order(&known, 0, before).map(|_| ())
    }
}

/// Repeats the value of a one-row array.
fn repeated(value: &ArrayRef, rows: usize) -> Result<ArrayRef> {
    let places = UInt64Array::from(vec![0; rows]);
    Ok(take(value, &places, None)?)
}
