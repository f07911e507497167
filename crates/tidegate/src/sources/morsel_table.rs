//! A table over a [`MorselSource`], and the plain scan of it: partitions take morsels from one
//! counter, so that no core waits while another has work.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, Partitioning};
use datafusion_datasource::source::OpenArgs;
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::MorselSource;

/// A read-only table over a [`MorselSource`].
#[derive(Clone, Debug)]
pub struct MorselTable {
    source: Arc<dyn MorselSource>,
}

impl MorselTable {
    /// Makes the table.
    pub fn new(source: Arc<dyn MorselSource>) -> Self {
        Self { source }
    }
}

#[async_trait]
impl TableProvider for MorselTable {
    fn schema(&self) -> SchemaRef {
        self.source.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        let pushed = |filter: &&Expr| match self.source.narrowed(filter) {
            Some(_) => TableProviderFilterPushDown::Exact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(pushed).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut source = Arc::clone(&self.source);
        for filter in filters {
            match source.narrowed(filter) {
                Some(narrowed) => source = narrowed,
                None => return internal_err!("a filter that {} cannot apply", source.name()),
            }
        }
        let all = || (0..self.source.schema().fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let partitions = state.config().target_partitions();
        let partitions = partitions.min(source.morsels().len());
        let scan = MorselScan::try_new(source, &columns, partitions, limit)?;
        Ok(DataSourceExec::from_data_source(scan))
    }
}

/// A scan of some columns of a [`MorselSource`].
#[derive(Clone, Debug)]
pub(crate) struct MorselScan {
    pub(crate) source: Arc<dyn MorselSource>,
    pub(crate) columns: Arc<[usize]>,
    schema: SchemaRef,
    partitions: usize,
    pub(crate) limit: Option<usize>,
    metrics: ExecutionPlanMetricsSet,
}

/// The next morsel that nobody has taken.
pub(crate) type Counter = Arc<AtomicUsize>;

impl MorselScan {
    /// Scans some columns of a source, in at least one partition.
    ///
    /// # Errors
    /// For a column that the source does not have.
    pub(crate) fn try_new(
        source: Arc<dyn MorselSource>,
        columns: &[usize],
        partitions: usize,
        limit: Option<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(source.schema().project(columns)?);
        Ok(Self {
            source,
            columns: columns.into(),
            schema,
            partitions: partitions.max(1),
            limit,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Scans the same columns of another source that has them, in at least one partition.
    pub(crate) fn of_source(&self, source: Arc<dyn MorselSource>, partitions: usize) -> Self {
        Self {
            source,
            partitions: partitions.max(1),
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    /// Returns how many partitions the scan has.
    pub(crate) fn partitions(&self) -> usize {
        self.partitions
    }

    fn stream(
        &self,
        partition: usize,
        counter: Counter,
        batch_size: usize,
    ) -> SendableRecordBatchStream {
        let scan = self.clone();
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let batches = self
            .taken(counter)
            .map(move |index| {
                let batches = scan.source.batches(index, &scan.columns, batch_size)?;
                let output_rows = output_rows.clone();
                let counted = batches.inspect(move |batch| {
                    output_rows.add(batch.as_ref().map_or(0, RecordBatch::num_rows))
                });
                Ok::<_, DataFusionError>(stream::iter(counted))
            })
            .try_flatten();
        let schema = Arc::clone(&self.schema);
        let batches = cut(batches, self.limit).boxed();
        Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, batches)))
    }

    /// Takes morsels until there are none.
    fn taken(&self, counter: Counter) -> impl Stream<Item = usize> + Send + use<> {
        let num_morsels = self.source.morsels().len();
        stream::unfold(counter, move |counter| async move {
            let index = counter.fetch_add(1, Ordering::Relaxed);
            (index < num_morsels).then_some((index, counter))
        })
    }

    /// Takes morsels for one partition, which are folded in the place of being read, and counts their
    /// rows as read.
    pub(crate) fn taken_whole(
        &self,
        partition: usize,
        counter: Counter,
    ) -> impl Stream<Item = usize> + Send + use<> {
        let output_rows = MetricBuilder::new(&self.metrics).output_rows(partition);
        let source = Arc::clone(&self.source);
        self.taken(counter).inspect(move |&index| {
            let size = source.morsels().get(index);
            output_rows.add(size.map_or(0, |size| size.num_rows as usize));
        })
    }
}

/// Ends a stream after `limit` rows, whole batches only: a scan's limit is a hint.
fn cut(
    batches: impl Stream<Item = Result<RecordBatch>>,
    limit: Option<usize>,
) -> impl Stream<Item = Result<RecordBatch>> {
    let mut left = limit.unwrap_or(usize::MAX);
    batches.take_while(move |batch| {
        let go_on = left > 0;
        left = left.saturating_sub(batch.as_ref().map_or(0, |batch| batch.num_rows()));
        futures::future::ready(go_on)
    })
}

impl DataSource for MorselScan {
    fn open(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.partitions > 1 {
            return internal_err!("a scan of several partitions must share its counter");
        }
        Ok(self.stream(
            partition,
            Counter::default(),
            ctx.session_config().batch_size(),
        ))
    }

    fn create_sibling_state(&self, _: &ConfigOptions) -> Option<Arc<dyn Any + Send + Sync>> {
        Some(Arc::new(Counter::default()))
    }

    fn open_with_args(&self, args: OpenArgs) -> Result<SendableRecordBatchStream> {
        let shared = args
            .sibling_state
            .as_ref()
            .and_then(|state| state.downcast_ref::<Counter>());
        match shared {
            Some(counter) => {
                let batch_size = args.context.session_config().batch_size();
                Ok(self.stream(args.partition, Arc::clone(counter), batch_size))
            }
            None => self.open(args.partition, args.context),
        }
    }

    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|field| field.name().as_str())
            .collect();
        let num_morsels = self.source.morsels().len();
        write!(
            f,
            "{}, morsels={num_morsels}, projection=[{}]",
            self.source.name(),
            names.join(", ")
        )
    }

    fn output_partitioning(&self) -> Partitioning {
        Partitioning::UnknownPartitioning(self.partitions)
    }

    fn scheduling_type(&self) -> SchedulingType {
        SchedulingType::Cooperative
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        EquivalenceProperties::new(Arc::clone(&self.schema))
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let rows: u64 = self.source.morsels().iter().map(|size| size.num_rows).sum();
        if partition.is_none() && self.limit.is_none() {
            let exact = self.source.exact_rows();
            let rows = rows as usize;
            statistics.num_rows = if exact {
                Precision::Exact(rows)
            } else {
                Precision::Inexact(rows)
            };
        }
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    // A limit is a hint here: whole batches leave, and whoever needs exactly n rows must cut them, so
    // the scan takes no limit over from the nodes above.
    fn with_fetch(&self, _: Option<usize>) -> Option<Arc<dyn DataSource>> {
        None
    }

    fn fetch(&self) -> Option<usize> {
        None
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let plain = crate::lower::plan::plain_columns(projection.iter().map(|named| &named.expr));
        let renamed = projection
            .iter()
            .any(|named| self.schema.column_with_name(&named.alias).is_none());
        match plain {
            Some(indices) if !renamed => {
                let columns = indices.iter().map(|&index| self.columns[index]).collect();
                let schema = Arc::new(self.schema.project(&indices)?);
                Ok(Some(Arc::new(Self {
                    columns,
                    schema,
                    ..self.clone()
                })))
            }
            _ => Ok(None),
        }
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }
}
