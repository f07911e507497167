//! The gate around DataFusion's Parquet source.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::morsel::Morselizer;
use datafusion_datasource::{PartitionedFile, TableSchema};
use object_store::ObjectStore;

use super::loader::RowGroups;
use super::planner::GatedMorselizer;
use crate::leaf::Slot;

/// A `ParquetSource` that yields only what its region's run leaves to the host.
///
/// It is put in place after every planning rule has run, so it answers no more pushdown.
#[derive(Clone)]
pub(super) struct GatedSource {
    inner: Arc<dyn FileSource>,
    slot: Arc<Slot>,
    row_groups: Arc<RowGroups>,
}

impl GatedSource {
    pub(super) fn new(
        inner: Arc<dyn FileSource>,
        slot: Arc<Slot>,
        row_groups: Arc<RowGroups>,
    ) -> Self {
        Self {
            inner,
            slot,
            row_groups,
        }
    }

    /// Returns what it claims by.
    pub(super) fn gate(&self) -> Gate {
        Gate {
            slot: Arc::clone(&self.slot),
            row_groups: Arc::clone(&self.row_groups),
        }
    }

    /// Returns the source behind the gate.
    pub(super) fn inner(&self) -> &Arc<dyn FileSource> {
        &self.inner
    }
}

/// What a gated source claims by.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) slot: Arc<Slot>,
    pub(super) row_groups: Arc<RowGroups>,
}

impl FileSource for GatedSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        self.inner
            .create_file_opener(object_store, base_config, partition)
    }

    fn create_morselizer(
        &self,
        object_store: Arc<dyn ObjectStore>,
        base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let inner = self
            .inner
            .create_morselizer(object_store, base_config, partition)?;
        match self.slot.run() {
            None => Ok(inner),
            Some(run) => {
                let inner: Arc<dyn Morselizer> = Arc::from(inner);
                let (run, row_groups) = (Arc::clone(run), Arc::clone(&self.row_groups));
                Ok(Box::new(GatedMorselizer {
                    inner,
                    run,
                    row_groups,
                    partition,
                }))
            }
        }
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    // Called each time the scan is opened: what comes back must still be gated.
    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            inner: self.inner.with_batch_size(batch_size),
            ..self.clone()
        })
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.inner.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        self.inner.file_type()
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(format, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.inner.supports_repartitioning()
    }

    fn reorder_files(&self, files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        self.inner.reorder_files(files)
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}
