//! Cross joins whose left side has long values.
//!
//! A `CrossJoinExec` repeats a row of its left side for each row of a batch of the right one: 8,192 times 240 KB are
//! 2 GB, which it does not ask for. Batches of the right side are cut here to as many rows as the longest row of the
//! left side, all of which has been read by then, leaves room for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::CrossJoinExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::{StreamExt, stream};

use crate::node_rule::Replaced;
use crate::unary::{UnaryExec, UnaryOperator};

/// Bytes of a batch that a cross join makes, about.
const BATCH_BYTES: usize = 8 << 20;

/// Rows of a batch over which its bytes are spread, at most.
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
    let left = Measured {
        input: Arc::clone(join.left()),
        longest: Arc::clone(&longest),
    };
    let right = Cut {
        input: Arc::clone(join.right()),
        longest,
    };
    let children: Vec<Arc<dyn ExecutionPlan>> =
        vec![Arc::new(UnaryExec(left)), Arc::new(UnaryExec(right))];
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node)
        .replace_children(children, options)
        .map(Some)
}

/// Returns whether every value of a type is short.
fn is_short(kind: &DataType) -> bool {
    kind.primitive_width().is_some() || matches!(kind, DataType::Boolean | DataType::Null)
}

/// Notes the bytes of the longest row, by the mean of each batch.
#[derive(Clone, Debug)]
struct Measured {
    input: Arc<dyn ExecutionPlan>,
    longest: Arc<AtomicUsize>,
}

impl UnaryOperator for Measured {
    const NAME: &'static str = "MeasuredExec";
    const KEEPS_ORDER: bool = true;
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            ..self.clone()
        }
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let longest = Arc::clone(&self.longest);
        let rows = self.input.execute(partition, ctx)?;
        let measured = rows.inspect(move |batch| {
            if let Ok(batch) = batch {
                // The longest of a batch may be all of it.
                let rows = batch.num_rows().clamp(1, FEW_ROWS);
                let bytes = batch.get_array_memory_size() / rows;
                longest.fetch_max(bytes, Ordering::Relaxed);
            }
        });
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, measured)))
    }
}

/// Cuts batches.
#[derive(Clone, Debug)]
struct Cut {
    input: Arc<dyn ExecutionPlan>,
    longest: Arc<AtomicUsize>,
}

impl UnaryOperator for Cut {
    const NAME: &'static str = "CutExec";
    const KEEPS_ORDER: bool = true;
    const GAINS_BY_PARTITIONS: bool = true;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            ..self.clone()
        }
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let longest = Arc::clone(&self.longest);
        let rows = self.input.execute(partition, ctx)?;
        let cut = rows.flat_map(move |batch| {
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
        });
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, cut)))
    }
}
