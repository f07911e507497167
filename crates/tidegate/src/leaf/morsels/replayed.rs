//! Morsels that a device gave back, read again when they are asked for.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::datasource::source::DataSource;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, Partitioning};
use futures::{StreamExt, TryStreamExt, stream};
use tidegate_scheduler::Morsel;

use super::Pieces;

/// A scan of one partition with just these morsels.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    pub(super) schema: SchemaRef,
    pub(super) pieces: Arc<dyn Pieces>,
    pub(super) morsels: Arc<[Morsel]>,
}

impl DataSource for Replayed {
    fn open(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition > 0 {
            return internal_err!("replayed morsels are one partition, not {partition}");
        }
        let batch_size = ctx.session_config().batch_size();
        let pieces = Arc::clone(&self.pieces);
        let morsels: Vec<Morsel> = self.morsels.to_vec();
        let batches = stream::iter(morsels)
            .map(move |morsel| {
                let batches = pieces.batches(morsel.id, batch_size)?;
                Ok::<_, DataFusionError>(stream::iter(batches))
            })
            .try_flatten();
        let schema = Arc::clone(&self.schema);
        let batches = RecordBatchStreamAdapter::new(schema, batches.boxed());
        Ok(Box::pin(cooperative(batches)))
    }

    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "replayed, morsels={}", self.morsels.len())
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(1)
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics::new_unknown(&self.schema)))
    }

    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn try_swapping_with_projection(
        &self,
        _: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        Ok(None)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
