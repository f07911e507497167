//! A leaf that yields partial states, one stream for each partition, once.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use parking_lot::Mutex;

/// The leaf below a final aggregate in place of the partial one.
pub(super) struct StatesExec {
    properties: Arc<PlanProperties>,
    partitions: Vec<Mutex<Option<SendableRecordBatchStream>>>,
}

impl StatesExec {
    pub(super) fn new(schema: SchemaRef, partitions: Vec<SendableRecordBatchStream>) -> Self {
        Self {
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema),
                Partitioning::UnknownPartitioning(partitions.len()),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )),
            partitions: partitions
                .into_iter()
                .map(|stream| Mutex::new(Some(stream)))
                .collect(),
        }
    }
}

impl fmt::Debug for StatesExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatesExec").finish_non_exhaustive()
    }
}

impl DisplayAs for StatesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StatesExec")
    }
}

impl ExecutionPlan for StatesExec {
    fn name(&self) -> &str {
        "StatesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let stream = self.partitions.get(partition);
        match stream.and_then(|stream| stream.lock().take()) {
            Some(stream) => Ok(stream),
            None => internal_err!("states are read once"),
        }
    }
}
