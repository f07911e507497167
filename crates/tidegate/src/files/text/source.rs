//! The source of scans over files of text.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use object_store::ObjectStore;
use tidegate_readers::LeftOut;

use super::Union;
use super::found::Files;
use super::opener::TextOpener;

/// Rows of a batch where nobody says how many.
const BATCH_ROWS: usize = 8_192;

/// Reads files of text; each as what was found of it.
#[derive(Clone)]
pub(super) struct TextSource {
    metrics: ExecutionPlanMetricsSet,
    projection: SplitProjection,
    table_schema: TableSchema,
    files: Arc<Files>,
    union: Union,
    /// What this scan left out, in all of its partitions.
    left_out: Arc<LeftOut>,
    batch_rows: usize,
}

impl TextSource {
    pub(super) fn new(table_schema: TableSchema, files: Arc<Files>, union: Union) -> Self {
        Self {
            metrics: ExecutionPlanMetricsSet::new(),
            projection: SplitProjection::unprojected(&table_schema),
            table_schema,
            files,
            union,
            left_out: Arc::default(),
            batch_rows: BATCH_ROWS,
        }
    }
}

impl FileSource for TextSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        _partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let opener = TextOpener {
            store,
            url: config.object_store_url.clone(),
            files: Arc::clone(&self.files),
            table: Arc::clone(self.table_schema.file_schema()),
            columns: self.projection.file_indices.clone(),
            may_lack: self.union == Union::ByName,
            batch_rows: self.batch_rows,
            left_out: Arc::clone(&self.left_out),
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

    fn with_batch_size(&self, batch_rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self {
            batch_rows,
            ..self.clone()
        })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        self.files.file_type()
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.left_out.count() {
            0 => Ok(()),
            count => write!(f, ", rows_left_out={count}"),
        }
    }

    fn supports_repartitioning(&self) -> bool {
        false
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
        let mut result = TreeNodeRecursion::Continue;
        for named in self.projection.source.iter() {
            result = f(&named.expr)?;
            if result == TreeNodeRecursion::Stop {
                break;
            }
        }
        Ok(result)
    }
}
