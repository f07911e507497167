//! Cross joins whose left side has long values.
//!
//! A `CrossJoinExec` repeats a row of its left side for each row of a batch of the right one: 8,192 times 240 KB are
//! 2 GB, which it does not ask for. Batches of the right side are cut here to as many rows as the longest row of the
//! left side, all of which has been read by then, leaves room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::CrossJoinExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::{Stream, StreamExt, stream};

use crate::node_rule::Replaced;
use crate::unary::{StreamOperator, streamed};

/// Bytes of a batch that a cross join makes, about.
const BATCH_BYTES: usize = 8 << 20;

/// Rows of a batch over which its bytes are spread, at most: one of them may have most of the bytes.
const FEW_ROWS: usize = 1024;

/// Cuts the batches of a cross join's right side by what the rows of its left side take.
pub(crate) fn cut_crossed(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(join) = node.downcast_ref::<CrossJoinExec>() else {
        return Ok(None);
    };
    let schema = join.left().schema();
    let mut fields = schema.fields().iter();
    if fields.all(|field| is_short(field.data_type())) {
        return Ok(None);
    }
    let longest = Arc::new(AtomicUsize::new(0));
    let children = vec![
        streamed(join.left(), MeasureRows(Arc::clone(&longest))),
        streamed(join.right(), CutBatches(longest)),
    ];
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node)
        .replace_children(children, options)
        .map(Some)
}

/// Returns whether every value of a type is short.
fn is_short(kind: &DataType) -> bool {
    kind.primitive_width().is_some() || matches!(kind, DataType::Boolean | DataType::Null)
}

/// Notes the bytes of the longest row, as far as the sizes of batches tell.
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
                let rows = batch.num_rows().clamp(1, FEW_ROWS);
                let bytes = batch.get_array_memory_size() / rows;
                longest.fetch_max(bytes, Ordering::Relaxed);
            }
        })
    }
}

/// Cuts batches by the longest row that was noted.
#[derive(Clone, Debug)]
struct CutBatches(Arc<AtomicUsize>);

impl StreamOperator for CutBatches {
    const NAME: &'static str = "CutBatchesExec";
    const GAINS_BY_PARTITIONS: bool = true;

    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        _: usize,
        _: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let longest = Arc::clone(&self.0);
        rows.flat_map(move |batch| {
            let rows_max = BATCH_BYTES / longest.load(Ordering::Relaxed).max(1);
            let rows_max = rows_max.max(1);
            match batch {
                Ok(batch) if batch.num_rows() > rows_max => {
                    let starts = (0..batch.num_rows()).step_by(rows_max);
                    let pieces = starts.map(move |start| {
                        Ok(batch.slice(start, rows_max.min(batch.num_rows() - start)))
                    });
                    stream::iter(pieces).left_stream()
                }
                batch => stream::iter([batch]).right_stream(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, RecordBatch, StringArray};
    use datafusion::common::config::ConfigOptions;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::TaskContext;
    use datafusion::physical_plan::joins::CrossJoinExec;
    use datafusion::physical_plan::{ExecutionPlan, collect};

    use super::cut_crossed;

    fn scan(batch: RecordBatch) -> Arc<dyn ExecutionPlan> {
        let schema = batch.schema();
        MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap()
    }

    fn numbers() -> RecordBatch {
        let numbers = Int64Array::from_iter_values(0..5_000);
        RecordBatch::try_from_iter([("n", Arc::new(numbers) as _)]).unwrap()
    }

    #[tokio::test]
    async fn long_values_are_repeated_in_small_batches() {
        let long = StringArray::from(vec!["x".repeat(1 << 20); 2]);
        let long = RecordBatch::try_from_iter([("s", Arc::new(long) as _)]).unwrap();
        let join: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(
            scan(long),
            scan(numbers().slice(0, 100)),
        ));
        let cut = cut_crossed(&join, &ConfigOptions::new()).unwrap().unwrap();
        let batches = collect(cut, Arc::new(TaskContext::default()))
            .await
            .unwrap();
        let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
        assert_eq!(rows.iter().sum::<usize>(), 200);
        assert!(rows.iter().all(|rows| *rows <= 8), "{rows:?}");
        let whole = collect(join, Arc::new(TaskContext::default()))
            .await
            .unwrap();
        assert!(
            whole.iter().any(|batch| batch.num_rows() > 8),
            "the join alone"
        );
    }

    #[test]
    fn short_values_leave_the_join_alone() {
        let join: Arc<dyn ExecutionPlan> =
            Arc::new(CrossJoinExec::new(scan(numbers()), scan(numbers())));
        assert!(cut_crossed(&join, &ConfigOptions::new()).unwrap().is_none());
    }
}
