//! Functions whose value at a row depends on the rows of its partition up to that row.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Int64Array, NullBufferBuilder,
    PrimitiveArray, UInt64Array, make_comparator, new_null_array,
};
use datafusion::arrow::compute::{SortOptions, concat, interleave};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;

use super::copied;
use super::segments::Segments;
use crate::floats::canonical::canonical_array;

/// The number of rows of a non-empty batch, and its groups of equal rows.
pub(super) struct Bounds {
    pub(super) rows: usize,
    pub(super) partitions: Segments,
    /// Peer groups: rows of a partition that are equal in its order.
    pub(super) peers: Segments,
}

/// A function with its state over the partition that the last batch ended in.
pub(super) trait Running: Send {
    /// Returns the function's value at each row of the next batch, given the values of its argument.
    ///
    /// # Errors
    /// Those of Arrow's kernels.
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef>;
}

/// `row_number()`.
#[derive(Default)]
pub(super) struct RowNumber(u64);

impl Running for RowNumber {
    fn next(&mut self, _: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let mut numbers = Vec::with_capacity(bounds.rows);
        for (begins, rows) in bounds.partitions.ranges() {
            let before = if begins { 0 } else { self.0 };
            self.0 = before + rows.len() as u64;
            numbers.extend(before + 1..=self.0);
        }
        Ok(Arc::new(UInt64Array::from(numbers)))
    }
}

/// `rank()` or `dense_rank()`.
#[derive(Default)]
pub(super) struct Rank {
    is_dense: bool,
    /// Rows of the partition.
    rows: u64,
    rank: u64,
}

impl Rank {
    pub(super) fn new(is_dense: bool) -> Self {
        Self {
            is_dense,
            ..Self::default()
        }
    }
}

impl Running for Rank {
    fn next(&mut self, _: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let mut ranks = Vec::with_capacity(bounds.rows);
        let begun = bounds.partitions.ranges().filter(|(begins, _)| *begins);
        let mut begun = begun.map(|(_, rows)| rows.start).peekable();
        for (begins, peers) in bounds.peers.ranges() {
            if begun.next_if_eq(&peers.start).is_some() {
                (self.rows, self.rank) = (0, 0);
            }
            if begins {
                self.rank = match self.is_dense {
                    true => self.rank + 1,
                    false => self.rows + 1,
                };
            }
            self.rows += peers.len() as u64;
            ranks.resize(peers.end, self.rank);
        }
        Ok(Arc::new(UInt64Array::from(ranks)))
    }
}

/// `sum(x)`, or a function of the sum and the number of values, over all rows of the partition so far or the last
/// ones: NULL without a value. Integers and decimals wrap on overflow, as in DataFusion's `sum`.
pub(super) struct Sums<T: ArrowPrimitiveType> {
    data_type: DataType,
    finish: Finish<T>,
    sum: Sum<T::Native>,
    /// For a sliding frame its rows, in place of `sum`.
    last: Option<LastSums<T::Native>>,
}

/// Computes the value from the sum and the number of values summed up.
type Finish<T> = Box<
    dyn Fn(<T as ArrowPrimitiveType>::Native, u64) -> Result<<T as ArrowPrimitiveType>::Native>
        + Send,
>;

impl<T: ArrowPrimitiveType> Sums<T> {
    /// Sums up the rows from the partition's start, or the last `rows` rows of the partition.
    pub(super) fn new(data_type: DataType, rows: Option<usize>, finish: Finish<T>) -> Self {
        Self {
            data_type,
            finish,
            sum: Sum::default(),
            last: rows.map(LastSums::new),
        }
    }
}

impl<T: ArrowPrimitiveType> Running for Sums<T> {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let values = values.as_primitive::<T>();
        let mut sums = Vec::with_capacity(bounds.rows);
        let mut valid = NullBufferBuilder::new(bounds.rows);
        for (begins, rows) in bounds.partitions.ranges() {
            if begins {
                self.sum = Sum::default();
                self.last = self.last.as_ref().map(|last| LastSums::new(last.rows));
            }
            for row in rows {
                let value = Sum::of(values.is_valid(row).then(|| values.value(row)));
                self.sum = match &mut self.last {
                    None => self.sum.plus(value),
                    Some(last) => last.push(value),
                };
                sums.push(match self.sum.count {
                    0 => T::default_value(),
                    count => (self.finish)(self.sum.sum, count)?,
                });
                valid.append(self.sum.count > 0);
            }
        }
        let sums = PrimitiveArray::<T>::new(sums.into(), valid.finish());
        Ok(Arc::new(sums.with_data_type(self.data_type.clone())))
    }
}

/// The sum of values that are not NULL, and their number.
#[derive(Clone, Copy, Default)]
struct Sum<N> {
    sum: N,
    count: u64,
}

impl<N: ArrowNativeTypeOp> Sum<N> {
    fn of(value: Option<N>) -> Self {
        Self {
            sum: value.unwrap_or_default(),
            count: u64::from(value.is_some()),
        }
    }

    fn plus(self, other: Self) -> Self {
        match (self.count, other.count) {
            (_, 0) => self,
            (0, _) => other,
            _ => Self {
                sum: self.sum.add_wrapping(other.sum),
                count: self.count + other.count,
            },
        }
    }
}

/// The sum of the last rows of a partition, as two stacks. Nothing is subtracted: that would leave rounding errors,
/// and a NaN, behind.
struct LastSums<N> {
    rows: usize,
    /// For each of the older rows, the latest first, the sum from it to the latest of them.
    older: Vec<Sum<N>>,
    /// The rows after those, and their sum.
    recent: Vec<Sum<N>>,
    of_recent: Sum<N>,
}

impl<N: ArrowNativeTypeOp> LastSums<N> {
    fn new(rows: usize) -> Self {
        Self {
            rows,
            older: Vec::new(),
            recent: Vec::new(),
            of_recent: Sum::default(),
        }
    }

    /// Adds a row, drops the one that is too old, and returns the sum.
    fn push(&mut self, row: Sum<N>) -> Sum<N> {
        if self.older.len() + self.recent.len() == self.rows {
            if self.older.is_empty() {
                let mut sum = Sum::default();
                for row in self.recent.drain(..).rev() {
                    sum = row.plus(sum);
                    self.older.push(sum);
                }
                self.of_recent = Sum::default();
            }
            self.older.pop();
        }
        self.recent.push(row);
        self.of_recent = self.of_recent.plus(row);
        let older = self.older.last().copied().unwrap_or_default();
        older.plus(self.of_recent)
    }
}

/// `count(x)`.
pub(super) struct Count(Sums<Int64Type>);

impl Count {
    /// Counts the rows from the partition's start, or the last `rows` rows of the partition.
    pub(super) fn new(rows: Option<usize>) -> Self {
        Self(Sums::new(DataType::Int64, rows, Box::new(|sum, _| Ok(sum))))
    }
}

impl Running for Count {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let counted: Int64Array = match values.logical_nulls() {
            None => vec![1; bounds.rows].into(),
            Some(nulls) => nulls.iter().map(|valid| Some(i64::from(valid))).collect(),
        };
        self.0.next(&(Arc::new(counted) as ArrayRef), bounds)
    }
}

/// The last rows of the partition that the last batch ended in.
struct LastRows {
    most: usize,
    rows: Option<ArrayRef>,
}

impl LastRows {
    /// Keeps at most `most` rows.
    fn new(most: usize) -> Self {
        Self { most, rows: None }
    }

    /// Returns the kept rows followed by those of the next batch, and the number of kept rows: 0 if the batch starts
    /// a new partition.
    fn with(&self, values: &ArrayRef, bounds: &Bounds) -> Result<(ArrayRef, usize)> {
        let continues = bounds.partitions.continued().is_some();
        match self.rows.as_ref().filter(|_| continues) {
            Some(rows) => Ok((concat(&[rows, values])?, rows.len())),
            None => Ok((Arc::clone(values), 0)),
        }
    }

    /// Keeps the last rows of `values`, which are `held` kept rows followed by those of a batch.
    fn keep(&mut self, values: &ArrayRef, held: usize, bounds: &Bounds) -> Result<()> {
        let last = bounds.partitions.last();
        let goes_on = last.start == 0 && bounds.partitions.continued().is_some();
        let start = if goes_on { 0 } else { held + last.start };
        let start = start.max(values.len().saturating_sub(self.most));
        self.rows = Some(copied(values, start..values.len())?);
        Ok(())
    }
}

/// `min(x)` or `max(x)`: NULLs are ignored, and NaN is greater than all numbers.
pub(super) struct Extreme {
    wanted: Ordering,
    /// The extreme of the partition so far, as one row; `None` without a value.
    best: Option<ArrayRef>,
}

impl Extreme {
    pub(super) fn new(is_greatest: bool) -> Self {
        Self {
            wanted: match is_greatest {
                true => Ordering::Greater,
                false => Ordering::Less,
            },
            best: None,
        }
    }
}

impl Running for Extreme {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let values = canonical_array(values)?;
        let compare = make_comparator(&values, &values, SortOptions::default())?;
        let before = match &self.best {
            Some(best) => Some(make_comparator(&values, best, SortOptions::default())?),
            None => None,
        };
        let mut picks = Picks::new(&values, self.best.as_ref(), bounds.rows);
        let mut best = before.as_ref().map(|_| Pick::Before(0));
        for (begins, rows) in bounds.partitions.ranges() {
            if begins {
                best = None;
            }
            for row in rows {
                let is_better = match (best, &before) {
                    (Some(Pick::Row(best)), _) => compare(row, best) == self.wanted,
                    (Some(_), Some(before)) => before(row, 0) == self.wanted,
                    _ => true,
                };
                if is_better && values.is_valid(row) {
                    best = Some(Pick::Row(row));
                }
                picks.push(best.unwrap_or(Pick::Default));
            }
        }
        let picked = picks.take(None)?;
        self.best = match best {
            Some(_) => Some(copied(&picked, bounds.rows - 1..bounds.rows)?),
            None => None,
        };
        Ok(picked)
    }
}

/// `min(x)` or `max(x)` over a sliding frame.
pub(super) struct SlidingExtreme {
    wanted: Ordering,
    last: LastRows,
}

impl SlidingExtreme {
    pub(super) fn new(is_greatest: bool, back: usize) -> Self {
        Self {
            wanted: Extreme::new(is_greatest).wanted,
            last: LastRows::new(back),
        }
    }
}

impl Running for SlidingExtreme {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let (values, held) = self.last.with(&canonical_array(values)?, bounds)?;
        let compare = make_comparator(&values, &values, SortOptions::default())?;
        let mut picks = Picks::new(&values, None, bounds.rows);
        // Rows that are the extreme of all rows from them on (a monotonic queue).
        let mut best: VecDeque<usize> = VecDeque::new();
        for (begins, rows) in bounds.partitions.ranges() {
            let mut first = held + rows.start;
            if begins {
                best.clear();
            } else {
                first = 0;
            }
            for row in first..held + rows.end {
                if values.is_valid(row) {
                    while best
                        .pop_back_if(|other| compare(*other, row) != self.wanted)
                        .is_some()
                    {}
                    best.push_back(row);
                }
                while best
                    .pop_front_if(|other| *other + self.last.most < row)
                    .is_some()
                {}
                if row >= held {
                    picks.push(best.front().map_or(Pick::Default, |row| Pick::Row(*row)));
                }
            }
        }
        let picked = picks.take(None)?;
        self.last.keep(&values, held, bounds)?;
        Ok(picked)
    }
}

/// `first_value(x)` of a frame that starts at the partition's start.
#[derive(Default)]
pub(super) struct First(Option<ArrayRef>);

impl Running for First {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let mut picks = Picks::new(values, self.0.as_ref(), bounds.rows);
        for (begins, rows) in bounds.partitions.ranges() {
            let first = match begins {
                true => Pick::Row(rows.start),
                false => Pick::Before(0),
            };
            rows.for_each(|_| picks.push(first));
        }
        let picked = picks.take(None)?;
        self.0 = Some(copied(&picked, bounds.rows - 1..bounds.rows)?);
        Ok(picked)
    }
}

/// `first_value(x)` of a sliding frame.
pub(super) struct SlidingFirst(LastRows);

impl SlidingFirst {
    /// Refers to the row `back` rows earlier, or the first one of the partition.
    pub(super) fn new(back: usize) -> Self {
        Self(LastRows::new(back))
    }
}

impl Running for SlidingFirst {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let (values, held) = self.0.with(values, bounds)?;
        let mut picks = Picks::new(&values, None, bounds.rows);
        for (begins, rows) in bounds.partitions.ranges() {
            let first = if begins { held + rows.start } else { 0 };
            for row in held + rows.start..held + rows.end {
                picks.push(Pick::Row(row.saturating_sub(self.0.most).max(first)));
            }
        }
        let picked = picks.take(None)?;
        self.0.keep(&values, held, bounds)?;
        Ok(picked)
    }
}

/// `last_value(x)` of a frame that ends with the current row.
pub(super) struct CurrentRow;

impl Running for CurrentRow {
    fn next(&mut self, values: &ArrayRef, _: &Bounds) -> Result<ArrayRef> {
        Ok(Arc::clone(values))
    }
}

/// `lag(x, back, default)`.
pub(super) struct Lag {
    default: ArrayRef,
    last: LastRows,
}

impl Lag {
    /// Refers to the row `back` rows earlier; `default` (one row) is the value where there is none.
    pub(super) fn new(back: usize, default: ArrayRef) -> Self {
        Self {
            default,
            last: LastRows::new(back),
        }
    }
}

impl Running for Lag {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let (values, held) = self.last.with(values, bounds)?;
        let back = self.last.most;
        let mut picks = Picks::new(&values, None, bounds.rows);
        for (begins, rows) in bounds.partitions.ranges() {
            let first = if begins { held + rows.start } else { 0 };
            for row in held + rows.start..held + rows.end {
                picks.push(match row >= first + back {
                    true => Pick::Row(row - back),
                    false => Pick::Default,
                });
            }
        }
        let picked = picks.take(Some(&self.default))?;
        self.last.keep(&values, held, bounds)?;
        Ok(picked)
    }
}

/// A function whose frame ends before the current row.
pub(super) struct Earlier {
    running: Box<dyn Running>,
    lag: Lag,
}

impl Earlier {
    /// Takes the value of the row `back` rows earlier; `of_nothing` (one row) is that of an empty frame.
    pub(super) fn new(running: Box<dyn Running>, back: usize, of_nothing: ArrayRef) -> Self {
        let lag = Lag::new(back, of_nothing);
        Self { running, lag }
    }
}

impl Running for Earlier {
    fn next(&mut self, values: &ArrayRef, bounds: &Bounds) -> Result<ArrayRef> {
        let values = self.running.next(values, bounds)?;
        self.lag.next(&values, bounds)
    }
}

/// The source of a value.
#[derive(Clone, Copy)]
pub(super) enum Pick {
    /// A row of the batch.
    Row(usize),
    /// A row kept from earlier batches.
    Before(usize),
    /// The default value, or NULL.
    Default,
}

/// Gathers values of a batch and of rows kept from earlier ones, row by row.
pub(super) struct Picks<'a> {
    values: &'a ArrayRef,
    before: Option<&'a ArrayRef>,
    picks: Vec<(usize, usize)>,
}

impl<'a> Picks<'a> {
    pub(super) fn new(values: &'a ArrayRef, before: Option<&'a ArrayRef>, rows: usize) -> Self {
        Self {
            values,
            before,
            picks: Vec::with_capacity(rows),
        }
    }

    pub(super) fn push(&mut self, pick: Pick) {
        self.picks.push(match pick {
            Pick::Row(row) => (0, row),
            Pick::Default => (1, 0),
            Pick::Before(row) => (2, row),
        });
    }

    /// Returns the gathered values; `default` (one row) is the default value, NULL without it.
    pub(super) fn take(self, default: Option<&ArrayRef>) -> Result<ArrayRef> {
        let nothing = new_null_array(self.values.data_type(), 1);
        let default = default.unwrap_or(&nothing);
        let mut sources: Vec<&dyn Array> = vec![self.values, default];
        sources.extend(self.before.map(|before| before as &dyn Array));
        Ok(interleave(&sources, &self.picks)?)
    }
}
