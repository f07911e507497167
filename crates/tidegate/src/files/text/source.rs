//! The source of scans over files of text.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, apply_expression_roots};
use datafusion_datasource::TableSchema;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroupPartitioner;
use datafusion_datasource::file_stream::FileOpener;
use datafusion_datasource::projection::{ProjectionOpener, SplitProjection};
use object_store::ObjectStore;
use tidegate_readers::LeftOut;

use super::Union;
use super::found::Files;
use super::opener::TextOpener;
use super::parts::{Parts, offsets};
use crate::files::file_scan;
use crate::files::guard::unguarded;

/// Rows of a batch where nobody says how many.
pub(super) const BATCH_ROWS: usize = 8_192;

/// Reads files of text; each as what was found of it.
#[derive(Clone)]
pub(super) struct TextSource {
    metrics: ExecutionPlanMetricsSet,
    projection: SplitProjection,
    table_schema: TableSchema,
    pub(super) files: Arc<Files>,
    pub(super) union: Union,
    /// What this scan left out, in all of its partitions.
    left_out: Arc<LeftOut>,
    /// The files that it reads in parts.
    parts: Arc<Parts>,
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
            parts: Arc::default(),
            batch_rows: BATCH_ROWS,
        }
    }

    /// Tells whether the files of a scan can be cut: they are files of this machine, since a cut costs
    /// another pass over what is before it.
    pub(super) fn is_cuttable(&self, config: &FileScanConfig) -> bool {
        let mut files = config.file_groups.iter().flat_map(|group| group.iter());
        let is_local = config.object_store_url.as_str().starts_with("file://");
        is_local && files.all(|file| self.files.is_splittable(&file.object_meta))
    }
}

/// Rows that a plan's scans left out because the user said so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowsLeftOut {
    pub(crate) count: u64,
    /// What was wrong with the first of them that was met.
    pub(crate) first: String,
}

/// Counts the rows that a plan's scans left out so far; `None` if there are none.
pub(crate) fn rows_left_out(plan: &Arc<dyn ExecutionPlan>) -> Option<RowsLeftOut> {
    let config = file_scan(plan);
    let source =
        config.and_then(|config| unguarded(config.file_source()).downcast_ref::<TextSource>());
    let own = source
        .map(|source| &source.left_out)
        .filter(|own| own.count() > 0);
    let mut all = own.map(|own| RowsLeftOut {
        count: own.count(),
        first: own.first().unwrap_or_default().to_string(),
    });
    for child in plan.children() {
        all = match (all, rows_left_out(child)) {
            (Some(all), Some(more)) => Some(RowsLeftOut {
                count: all.count + more.count,
                ..all
            }),
            (all, more) => all.or(more),
        };
    }
    all
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
            files: Arc::clone(&self.files),
            table: Arc::clone(self.table_schema.file_schema()),
            columns: self.projection.file_indices.clone(),
            may_lack: self.union == Union::ByName,
            batch_rows: self.batch_rows,
            left_out: Arc::clone(&self.left_out),
            parts: Arc::clone(&self.parts),
            url: config.object_store_url.clone(),
            offsets: offsets(config),
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

    fn repartitioned(
        &self,
        target_partitions: usize,
        repartition_file_min_size: usize,
        output_ordering: Option<LexOrdering>,
        config: &FileScanConfig,
    ) -> Result<Option<FileScanConfig>> {
        if !self.is_cuttable(config) {
            return Ok(None);
        }
        let groups = FileGroupPartitioner::new()
            .with_target_partitions(target_partitions)
            .with_repartition_file_min_size(repartition_file_min_size)
            .with_preserve_order_within_groups(output_ordering.is_some())
            .repartition_file_groups(&config.file_groups);
        Ok(groups.map(|file_groups| {
            let mut parted = config.clone();
            parted.file_groups = file_groups;
            parted
        }))
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
