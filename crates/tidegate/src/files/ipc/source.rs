//! The source of scans over Arrow files.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::apply_expression_roots;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_stream::{FileOpenFuture, FileOpener};
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion_datasource::{PartitionedFile, TableSchema};
use futures::{FutureExt, StreamExt, stream};
use object_store::ObjectStore;

use super::messages::{Messages, Window};
use crate::files::name_in;
use crate::options::TidegateOptions;

/// Reads files of both formats; each is opened as what it begins as.
#[derive(Clone)]
pub(crate) struct IpcSource {
    metrics: ExecutionPlanMetricsSet,
    projection: SplitProjection,
    table_schema: TableSchema,
    batch_bytes_max: u64,
}

impl IpcSource {
    pub(crate) fn new(table_schema: TableSchema) -> Self {
        Self {
            metrics: ExecutionPlanMetricsSet::new(),
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            batch_bytes_max: TidegateOptions::default().max_page_size,
        }
    }

    /// Sets how many bytes the compressed buffers of a batch may expand to.
    pub(crate) fn with_batch_bytes_max(&self, batch_bytes_max: u64) -> Self {
        Self {
            batch_bytes_max,
            ..self.clone()
        }
    }
}

impl FileSource for IpcSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = IpcOpener {
            store,
            url: config.object_store_url.clone(),
            table: Arc::clone(self.table_schema.file_schema()),
            wanted: self.projection.file_indices.clone().into(),
            batch_bytes_max: self.batch_bytes_max,
        };
        ProjectionOpener::try_new(
            self.projection.clone(),
            Arc::new(opener),
            self.table_schema.file_schema(),
        )
    }

    fn table_schema(&self) -> &TableSchema {
        &self.table_schema
    }

    fn with_batch_size(&self, _: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "arrow"
    }

    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        let merged = self.projection.source.try_merge(projection)?;
        let mut source = self.clone();
        source.projection = SplitProjection::new(self.table_schema.file_schema(), &merged);
        Ok(Some(Arc::new(source)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

struct IpcOpener {
    store: Arc<dyn ObjectStore>,
    url: ObjectStoreUrl,
    /// The columns of the table, of which a file may have others.
    table: SchemaRef,
    wanted: Arc<[usize]>,
    batch_bytes_max: u64,
}

impl FileOpener for IpcOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let name = name_in(&self.url, &file.object_meta.location).into();
        let window = Window::new(Arc::clone(&self.store), file.object_meta, name);
        let range = file
            .range
            .map(|range| range.start.max(0) as u64..range.end.max(0) as u64);
        let (table, wanted) = (Arc::clone(&self.table), Arc::clone(&self.wanted));
        let most = self.batch_bytes_max;
        Ok(async move {
            let messages = Messages::open(window, &table, &wanted, range, most).await?;
            let batches = stream::try_unfold(messages, |mut messages| async move {
                let batch = messages.next().await?;
                Ok(batch.map(|batch| (batch, messages)))
            });
            Ok(batches.boxed())
        }
        .boxed())
    }
}
