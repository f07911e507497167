//! Layers in front of a source of files, each of which changes how a file is planned and opened.
//!
//! They are put in place when all rules of DataFusion's have run, so they answer no pushdown.

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

/// What a layer does; everything else is the source's.
pub(crate) trait Layer: Clone + Send + Sync + 'static {
    /// Wraps what plans the files of one partition.
    fn morselizer(&self, inner: Box<dyn Morselizer>, opening: Opening<'_>) -> Box<dyn Morselizer>;

    /// Wraps what opens a file.
    fn opener(&self, inner: Arc<dyn FileOpener>) -> Arc<dyn FileOpener> {
        inner
    }

    /// Returns the layer in front of a source whose batches have so many rows.
    fn with_batch_size(&self, _: usize) -> Self {
        self.clone()
    }
}

/// A partition of a scan that is being opened.
pub(crate) struct Opening<'a> {
    /// The source behind the layer.
    pub(crate) source: &'a Arc<dyn FileSource>,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) config: &'a FileScanConfig,
    pub(crate) partition: usize,
}

/// A source with a layer in front of it.
#[derive(Clone)]
pub(crate) struct Layered<L> {
    pub(crate) inner: Arc<dyn FileSource>,
    pub(crate) layer: L,
}

impl<L: Layer> FileSource for Layered<L> {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = self.inner.create_file_opener(store, config, partition)?;
        Ok(self.layer.opener(opener))
    }

    fn create_morselizer(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        partition: usize,
    ) -> Result<Box<dyn Morselizer>> {
        let (source, of) = (&self.inner, Arc::clone(&store));
        let inner = source.create_morselizer(of, config, partition)?;
        let opening = Opening {
            source,
            store,
            config,
            partition,
        };
        Ok(self.layer.morselizer(inner, opening))
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    // Called each time the scan is opened: what comes back must still be behind the layer.
    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            inner: self.inner.with_batch_size(batch_size),
            layer: self.layer.with_batch_size(batch_size),
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
