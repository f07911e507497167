//! Joins and unnested lists that repeat long values.
//!
//! A join repeats a row for each row that it goes with, and `unnest` for each element of its list: 8,192 rows of 240 KB
//! in a batch are 2 GB, for which nobody asks. [`count_repeated`] puts operators below such nodes that ask for two
//! batches of the longest row that has come. A query for which there is not that much memory is planned again, with
//! batches of fewer rows. Strings as views, which share their bytes, are short.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch,
    RecordBatchOptions, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec,
};
use datafusion::physical_plan::unnest::{ListUnnest, UnnestExec};
use futures::{Stream, StreamExt, stream};

use crate::error::{Error, ErrorKind, causes};
use crate::node_rule::{Replaced, over};
use crate::unary::{StreamOperator, streamed};

/// Batches of fewer bytes are made without asking.
const UNASKED_BYTES_MAX: usize = 8 << 20;

/// How many batches of repeated rows there are at a time: the one that is made, and the one that is read.
const BATCHES: usize = 2;

/// Bytes of a value whose bytes are elsewhere, and shared: a view, or the key of a dictionary.
const SHARED_BYTES: usize = 16;

/// Has joins and unnested lists ask for what they repeat.
pub(crate) fn count_repeated(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    if let Some(unnest) = node.downcast_ref::<UnnestExec>() {
        let schema = unnest.input().schema();
        if unnest.list_column_indices().is_empty() || schema.fields().len() < 2 {
            return Ok(None);
        }
        let lists = unnest.list_column_indices().into();
        let below = vec![streamed(unnest.input(), CountUnnested { lists })];
        return over(node, below).map(Some);
    }
    let repeats = node.is::<CrossJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<SortMergeJoinExec>();
    let children = node.children();
    let (true, [left, right]) = (repeats, children.as_slice()) else {
        return Ok(None);
    };
    let are_short = |side: &Arc<dyn ExecutionPlan>| {
        let schema = side.schema();
        schema
            .fields()
            .iter()
            .all(|field| fixed_bytes(field.data_type()).is_some())
    };
    if are_short(left) && are_short(right) {
        return Ok(None);
    }
    let longest = Arc::new(AtomicUsize::new(0));
    let below = vec![
        streamed(left, MeasureRows(Arc::clone(&longest))),
        streamed(right, CountRepeated(longest)),
    ];
    over(node, below).map(Some)
}

/// Why a query was refused memory: its rows are long for the number of them in a batch.
#[derive(Debug)]
pub(crate) struct LongRows {
    /// Bytes of the longest row.
    pub(crate) row_bytes: usize,
    refused: DataFusionError,
}

impl LongRows {
    /// Finds it among the causes of an error.
    pub(crate) fn of(error: &DataFusionError) -> Option<&Self> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

impl fmt::Display for LongRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.refused.fmt(f)
    }
}

impl std::error::Error for LongRows {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.refused)
    }
}

/// The memory of the batches in which an operator repeats rows.
struct RepeatedRows {
    held: MemoryReservation,
    batch_rows: usize,
}

impl RepeatedRows {
    fn new(ctx: &TaskContext) -> Self {
        Self {
            held: MemoryConsumer::new("repeated rows").register(ctx.memory_pool()),
            batch_rows: ctx.session_config().batch_size(),
        }
    }

    /// Asks for batches of rows of so many bytes, each of which is repeated up to so often.
    fn ask(&mut self, row_bytes: usize, times: usize) -> Result<()> {
        let rows = times.min(self.batch_rows);
        let batch_bytes = row_bytes.saturating_mul(rows);
        let wanted = batch_bytes.saturating_mul(BATCHES);
        if batch_bytes <= UNASKED_BYTES_MAX || wanted <= self.held.size() {
            return Ok(());
        }
        let resized = self.held.try_resize(wanted);
        resized.map_err(|refused| {
            let message = format!(
                "a row of {row_bytes} bytes is repeated up to {rows} times in a batch: {}; lower \
                 datafusion.execution.batch_size",
                Error::from_ref(&refused)
            );
            let long = LongRows { row_bytes, refused };
            Error::with_source(ErrorKind::ResourcesExhausted, message, long).into()
        })
    }
}

/// Notes the bytes of the longest row.
#[derive(Clone, Debug)]
struct MeasureRows(Arc<AtomicUsize>);

impl StreamOperator for MeasureRows {
    const NAME: &'static str = "MeasureRowsExec";

    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        _: usize,
        _: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let longest = Arc::clone(&self.0);
        rows.inspect(move |batch| {
            if let Ok(batch) = batch {
                longest.fetch_max(longest_row(batch.columns()), Ordering::Relaxed);
            }
        })
    }
}

/// Asks for the memory of a join's rows, given the longest row of its left side, and hands on batches of no more rows
/// than a query's batches should have.
#[derive(Clone, Debug)]
struct CountRepeated(Arc<AtomicUsize>);

impl StreamOperator for CountRepeated {
    const NAME: &'static str = "CountRepeatedExec";
    const GAINS_BY_PARTITIONS: bool = true;

    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        _: usize,
        ctx: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let left = Arc::clone(&self.0);
        let mut repeated = RepeatedRows::new(ctx);
        let mut longest = 0;
        rows.flat_map(move |batch| {
            let batch = batch.and_then(|batch| {
                longest = longest_row(batch.columns()).max(longest);
                let row_bytes = longest + left.load(Ordering::Relaxed);
                repeated.ask(row_bytes, usize::MAX)?;
                trimmed_batch(&batch)
            });
            pieces(batch, repeated.batch_rows)
        })
    }
}

/// Cuts a batch into pieces of at most so many rows.
fn pieces(
    batch: Result<RecordBatch>,
    rows_max: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
    match batch {
        Ok(batch) if batch.num_rows() > rows_max => {
            let starts = (0..batch.num_rows()).step_by(rows_max);
            let pieces = starts.map(move |start| {
                trimmed_batch(&batch.slice(start, rows_max.min(batch.num_rows() - start)))
            });
            stream::iter(pieces).left_stream()
        }
        batch => stream::iter([batch]).right_stream(),
    }
}

/// Asks for the memory of rows that are repeated for the elements of their lists. A list that is longer than a batch is
/// cut where its elements would take much.
#[derive(Clone, Debug)]
struct CountUnnested {
    lists: Arc<[ListUnnest]>,
}

impl StreamOperator for CountUnnested {
    const NAME: &'static str = "CountUnnestedExec";

    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        _: usize,
        ctx: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let lists = Arc::clone(&self.lists);
        let mut repeated = RepeatedRows::new(ctx);
        rows.flat_map(move |batch| {
            let cut = batch.and_then(|batch| cut_lists(batch, &lists, &mut repeated));
            match cut {
                Ok(batches) => stream::iter(batches).map(Ok).left_stream(),
                Err(error) => stream::iter([Err(error)]).right_stream(),
            }
        })
    }
}

/// Cuts a batch so that what its lists are unnested to is small, and asks for it.
fn cut_lists(
    batch: RecordBatch,
    lists: &[ListUnnest],
    repeated: &mut RepeatedRows,
) -> Result<Vec<RecordBatch>> {
    let is_list = |column: usize| {
        lists
            .iter()
            .any(|list| list.index_in_input_schema == column)
    };
    let columns = batch.columns().iter().enumerate();
    let others = columns.filter(|(column, _)| !is_list(*column));
    let others: Vec<ArrayRef> = others.map(|(_, values)| Arc::clone(values)).collect();
    let bytes = row_bytes(&others, batch.num_rows());
    let mut lengths = vec![0; batch.num_rows()];
    for list in lists {
        let column = batch.column(list.index_in_input_schema);
        let elements = elements(column, list.depth);
        for (length, elements) in lengths.iter_mut().zip(elements) {
            *length = elements.max(*length);
        }
    }
    let each = bytes.iter().zip(&lengths);
    let total = each.fold(0_usize, |total, (bytes, length)| {
        total.saturating_add(bytes.saturating_mul(*length))
    });
    if total <= UNASKED_BYTES_MAX {
        return Ok(vec![batch]);
    }
    if lists.iter().any(|list| list.depth > 1) {
        // The node makes all rows of a batch at once.
        repeated.ask(total, 1)?;
        return Ok(vec![trimmed_batch(&batch)?]);
    }
    let are_cut = lists.iter().all(|list| {
        let column = batch.column(list.index_in_input_schema);
        matches!(
            column.data_type(),
            DataType::List(_) | DataType::LargeList(_)
        )
    });
    let mut cut = Vec::new();
    // Rows from here on are in no piece yet, and become so many.
    let (mut start, mut rows) = (0, 0);
    for (row, (bytes, length)) in bytes.iter().zip(&lengths).enumerate() {
        let is_long = *length > repeated.batch_rows;
        if start < row && (is_long || rows + length > repeated.batch_rows) {
            cut.push(trimmed_batch(&batch.slice(start, row - start))?);
            (start, rows) = (row, 0);
        }
        rows += length;
        if !is_long {
            repeated.ask(*bytes, usize::MAX)?;
        } else if are_cut {
            repeated.ask(*bytes, usize::MAX)?;
            let one = trimmed_batch(&batch.slice(row, 1))?;
            for begin in (0..*length).step_by(repeated.batch_rows) {
                cut.push(with_parts(&one, lists, begin, repeated.batch_rows)?);
            }
            (start, rows) = (row + 1, 0);
        } else {
            repeated.ask(bytes.saturating_mul(*length), 1)?;
        }
    }
    if start < batch.num_rows() {
        cut.push(trimmed_batch(
            &batch.slice(start, batch.num_rows() - start),
        )?);
    }
    Ok(cut)
}

/// Returns a batch whose lists have no elements of rows that a slice has left out: `take` makes room for as many
/// elements a row as there are in all.
fn trimmed_batch(batch: &RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(trimmed);
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(
        batch.schema(),
        columns,
        &options,
    )?)
}

fn trimmed(column: &ArrayRef) -> Result<ArrayRef> {
    if !column.data_type().is_nested() {
        return Ok(Arc::clone(column));
    }
    Ok(match column.data_type() {
        DataType::List(_) => trimmed_list(column.as_list::<i32>())?,
        DataType::LargeList(_) => trimmed_list(column.as_list::<i64>())?,
        DataType::Map(field, is_sorted) => {
            let maps = column.as_map();
            let (offsets, begin, count) = from_zero(maps.offsets());
            let entries: ArrayRef = Arc::new(maps.entries().slice(begin, count));
            let entries = trimmed(&entries)?.as_struct().clone();
            let nulls = maps.nulls().cloned();
            let field = Arc::clone(field);
            Arc::new(MapArray::try_new(
                field, offsets, entries, nulls, *is_sorted,
            )?)
        }
        DataType::Struct(fields) => {
            let values = column.as_struct();
            let columns = values.columns().iter().map(trimmed);
            let columns = columns.collect::<Result<Vec<_>>>()?;
            if columns.is_empty() {
                return Ok(Arc::clone(column));
            }
            let nulls = values.nulls().cloned();
            Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?)
        }
        _ => Arc::clone(column),
    })
}

fn trimmed_list<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<ArrayRef> {
    let (offsets, begin, count) = from_zero(lists.offsets());
    let values = trimmed(&lists.values().slice(begin, count))?;
    let field = match lists.data_type() {
        DataType::List(field) | DataType::LargeList(field) => Arc::clone(field),
        other => return internal_err!("{other} is no list"),
    };
    let nulls = lists.nulls().cloned();
    Ok(Arc::new(GenericListArray::<O>::try_new(
        field, offsets, values, nulls,
    )?))
}

/// Returns offsets from zero on, where they begin, and how many elements they are of.
fn from_zero<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let begin = offsets.first().copied().unwrap_or_default();
    let end = offsets.last().copied().unwrap_or_default();
    let own = offsets.iter().map(|offset| *offset - begin);
    let own = OffsetBuffer::new(own.collect());
    (own, begin.as_usize(), (end - begin).as_usize())
}

/// Returns a row with parts of its lists: at most so many elements from a place on.
fn with_parts(
    row: &RecordBatch,
    lists: &[ListUnnest],
    begin: usize,
    count: usize,
) -> Result<RecordBatch> {
    let mut columns = row.columns().to_vec();
    for list in lists {
        let column = &mut columns[list.index_in_input_schema];
        *column = match column.data_type() {
            DataType::LargeList(_) => part(column.as_list::<i64>(), begin, count)?,
            _ => part(column.as_list::<i32>(), begin, count)?,
        };
    }
    Ok(RecordBatch::try_new(row.schema(), columns)?)
}

/// Returns a part of the one list of an array.
fn part<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    begin: usize,
    count: usize,
) -> Result<ArrayRef> {
    let field = match list.data_type() {
        DataType::List(field) | DataType::LargeList(field) => Arc::clone(field),
        other => return internal_err!("{other} is no list"),
    };
    let elements = list.value(0);
    let begin = begin.min(elements.len());
    let count = count.min(elements.len() - begin);
    Ok(Arc::new(GenericListArray::<O>::try_new(
        field,
        OffsetBuffer::from_lengths([count]),
        elements.slice(begin, count),
        list.nulls().cloned(),
    )?))
}

/// Returns how many rows each row's list becomes at a depth of 1 or more.
fn elements(column: &ArrayRef, depth: usize) -> Vec<usize> {
    let Some((ends, values)) = list_parts(column) else {
        return vec![1; column.len()];
    };
    if depth <= 1 {
        return ends.windows(2).map(|ends| ends[1] - ends[0]).collect();
    }
    sums(&ends, &elements(&values, depth - 1))
}

/// Returns where the elements of each list begin and end, and the elements of all.
fn list_parts(column: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    let of = |offsets: &[i32]| offsets.iter().map(|end| *end as usize).collect();
    let (ends, values): (Vec<usize>, ArrayRef) = match column.data_type() {
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            (of(lists.value_offsets()), Arc::clone(lists.values()))
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            (of(maps.value_offsets()), Arc::new(maps.entries().clone()))
        }
        DataType::LargeList(_) => {
            let lists = column.as_list::<i64>();
            let ends = lists.value_offsets().iter().map(|end| *end as usize);
            (ends.collect(), Arc::clone(lists.values()))
        }
        DataType::FixedSizeList(_, length) => {
            let lists = column.as_fixed_size_list();
            let length = *length as usize;
            let ends = (0..=lists.len()).map(|row| row * length);
            (ends.collect(), Arc::clone(lists.values()))
        }
        _ => return None,
    };
    // An array may be a small part of a large one.
    let begin = ends.first().copied().unwrap_or(0);
    let end = ends.last().copied().unwrap_or(0);
    let ends = ends.into_iter().map(|end| end - begin).collect();
    Some((ends, values.slice(begin, end - begin)))
}

/// Adds up what belongs to each list.
fn sums(ends: &[usize], of_elements: &[usize]) -> Vec<usize> {
    let lists = ends.windows(2);
    lists
        .map(|ends| of_elements[ends[0]..ends[1]].iter().sum())
        .collect()
}

/// Returns the bytes of the longest row.
fn longest_row(columns: &[ArrayRef]) -> usize {
    let rows = columns.first().map_or(0, |column| column.len());
    row_bytes(columns, rows).into_iter().max().unwrap_or(0)
}

/// Returns the bytes that a copy of each row takes.
fn row_bytes(columns: &[ArrayRef], rows: usize) -> Vec<usize> {
    let mut bytes = vec![0; rows];
    for column in columns {
        add_bytes(column, &mut bytes);
    }
    bytes
}

fn add_bytes(column: &ArrayRef, bytes: &mut [usize]) {
    let mut add = |ends: &[usize]| {
        for (bytes, ends) in bytes.iter_mut().zip(ends.windows(2)) {
            *bytes += ends[1] - ends[0];
        }
    };
    let short = |ends: &[i32]| ends.iter().map(|end| *end as usize).collect::<Vec<_>>();
    let long = |ends: &[i64]| ends.iter().map(|end| *end as usize).collect::<Vec<_>>();
    match column.data_type() {
        DataType::Utf8 => add(&short(column.as_string::<i32>().value_offsets())),
        DataType::LargeUtf8 => add(&long(column.as_string::<i64>().value_offsets())),
        DataType::Binary => add(&short(column.as_binary::<i32>().value_offsets())),
        DataType::LargeBinary => add(&long(column.as_binary::<i64>().value_offsets())),
        DataType::Struct(_) => {
            for field in column.as_struct().columns() {
                add_bytes(field, bytes);
            }
        }
        kind => {
            let each: Vec<usize> = match (fixed_bytes(kind), list_parts(column)) {
                (Some(width), _) => vec![width; column.len()],
                (None, Some((ends, values))) => sums(
                    &ends,
                    &row_bytes(std::slice::from_ref(&values), values.len()),
                ),
                (None, None) => {
                    let each = column.get_array_memory_size() / column.len().max(1);
                    vec![each; column.len()]
                }
            };
            for (bytes, each) in bytes.iter_mut().zip(each) {
                *bytes += each;
            }
        }
    }
}

/// Returns the bytes of a copy of a value, if they are the same for each value of a type.
fn fixed_bytes(kind: &DataType) -> Option<usize> {
    match kind {
        DataType::Boolean | DataType::Null => Some(1),
        DataType::Utf8View | DataType::BinaryView | DataType::Dictionary(..) => Some(SHARED_BYTES),
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        kind => kind.primitive_width(),
    }
}

#[cfg(test)]
mod tests;
