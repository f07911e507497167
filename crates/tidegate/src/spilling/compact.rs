//! Batches without the rows that others have left in their buffers.
//!
//! A batch that was filtered, joined or sliced may hold on to buffers of many times its size: its strings
//! are views into those of a whole build side. A sort counts all of that for each batch, and spills or
//! fails; so it does with a batch of many more rows than others. [`Compact`] copies such batches, in
//! pieces.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, UInt32Array};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::config::ConfigOptions;
use datafusion::datasource::sink::DataSinkExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use futures::{Stream, StreamExt, stream};

use crate::files::whole::writes_text;
use crate::node_rule::{Replaced, over};
use crate::unary::{StreamOperator, streamed};

/// Bytes beside its rows that an array may hold on to.
const LEFT_OVER_BYTES: usize = 64 << 10;

/// The bytes of a batch that is written to a file of text. DataFusion has up to 100 batches of each file as text at
/// once, whatever their size.
const WRITTEN_BYTES: usize = 256 << 10;

/// Puts a [`Compact`] below a sort.
pub(crate) fn compact_sorted(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    match node.downcast_ref::<SortExec>() {
        Some(sort) => over_compact(node, sort.input(), usize::MAX),
        None => Ok(None),
    }
}

/// Puts a [`Compact`] below what writes CSV or JSON.
pub(crate) fn compact_written(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(written) = node.downcast_ref::<DataSinkExec>() else {
        return Ok(None);
    };
    match writes_text(written) {
        true => over_compact(node, written.input(), WRITTEN_BYTES),
        false => Ok(None),
    }
}

fn over_compact(
    node: &Arc<dyn ExecutionPlan>,
    input: &Arc<dyn ExecutionPlan>,
    bytes_max: usize,
) -> Replaced {
    let input = streamed(input, Compact { bytes_max });
    over(node, vec![input]).map(Some)
}

/// Copies batches whose buffers hold much more than their rows, and cuts large ones.
#[derive(Clone, Debug)]
struct Compact {
    /// The bytes of a batch, about.
    bytes_max: usize,
}

impl StreamOperator for Compact {
    const NAME: &'static str = "CompactExec";

    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        _: usize,
        ctx: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let (rows_max, bytes_max) = (ctx.session_config().batch_size(), self.bytes_max);
        rows.flat_map(move |batch| match batch {
            Ok(batch) => stream::iter(pieces(&batch, rows_max, bytes_max)).left_stream(),
            Err(error) => stream::iter([Err(error)]).right_stream(),
        })
    }
}

/// Cuts a batch into pieces of so many rows, or about so many bytes, each copied when it is asked for.
fn pieces(
    batch: &RecordBatch,
    rows_max: usize,
    bytes_max: usize,
) -> impl Iterator<Item = Result<RecordBatch>> + use<> {
    let batch = batch.clone();
    let row_bytes = batch.get_array_memory_size() / batch.num_rows().max(1);
    let rows_max = rows_max.min(bytes_max / row_bytes.max(1)).max(1);
    let starts = (0..batch.num_rows()).step_by(rows_max);
    starts.map(move |start| {
        let rows = rows_max.min(batch.num_rows() - start);
        compacted(batch.slice(start, rows))
    })
}

/// Copies the columns of a batch that hold on to much more than its rows.
pub(crate) fn compacted(batch: RecordBatch) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(compacted_column);
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let same = columns.iter().zip(batch.columns());
    if same.into_iter().all(|(new, old)| Arc::ptr_eq(new, old)) {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = batch.schema();
    Ok(RecordBatch::try_new_with_options(
        schema, columns, &options,
    )?)
}

/// Copies a column that holds on to much more than its rows.
pub(crate) fn compacted_column(column: &ArrayRef) -> Result<ArrayRef> {
    let is_left_over = |held: usize, used: usize| held > 2 * used + LEFT_OVER_BYTES;
    let views = |buffers: &[Buffer]| -> usize { buffers.iter().map(Buffer::capacity).sum() };
    match column.data_type() {
        DataType::Utf8View => {
            let strings = column.as_string_view();
            if is_left_over(
                views(strings.data_buffers()),
                strings.total_buffer_bytes_used(),
            ) {
                return Ok(Arc::new(strings.gc()));
            }
        }
        DataType::BinaryView => {
            let values = column.as_binary_view();
            if is_left_over(
                views(values.data_buffers()),
                values.total_buffer_bytes_used(),
            ) {
                return Ok(Arc::new(values.gc()));
            }
        }
        _ => {
            let used = column.to_data().get_slice_memory_size()?;
            if is_left_over(column.get_buffer_memory_size(), used) {
                let all = UInt32Array::from_iter_values(0..column.len() as u32);
                return Ok(take(column, &all, None)?);
            }
        }
    }
    Ok(Arc::clone(column))
}

#[cfg(test)]
mod tests;
