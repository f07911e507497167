//! A leaf over streams that there are already, one for each partition, each of which is read once.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;

/// Makes the leaf.
pub(crate) fn leaf_of(
    schema: SchemaRef,
    partitions: Vec<SendableRecordBatchStream>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let once = |rows| -> Arc<dyn PartitionStream> {
        Arc::new(Once {
            schema: Arc::clone(&schema),
            rows: Mutex::new(Some(rows)),
        })
    };
    let partitions = partitions.into_iter().map(once).collect();
    let leaf = StreamingTableExec::try_new(Arc::clone(&schema), partitions, None, [], false, None)?;
    Ok(Arc::new(leaf))
}

struct Once {
    schema: SchemaRef,
    rows: Mutex<Option<SendableRecordBatchStream>>,
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").finish_non_exhaustive()
    }
}

impl PartitionStream for Once {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().take();
        rows.unwrap_or_else(|| {
            let again = Err(internal_datafusion_err!("a stream is read once"));
            let again = std::future::ready(again).into_stream().boxed();
            Box::pin(RecordBatchStreamAdapter::new(
                Arc::clone(&self.schema),
                again,
            ))
        })
    }
}
