//! Sorts in memory: keys as numbers, parted by their first bits, and rows gathered once.
//!
//! DataFusion sorts each batch and merges them, comparing rows through a tree of all batches. A [`HostSort`] keeps
//! the batches as they come, and sorts entries of 24 bytes: 16 bytes of a row's key in which keys differ, and the
//! row's place. Entries are spread by their leading bits over groups that fit a cache, and each group is sorted when
//! its rows are asked for. Where memory is refused, all rows go to DataFusion's sort, which
//! spills.

mod entries;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt as _, TryStreamExt as _, stream};

use crate::node_rule::Replaced;
use crate::region::leaf_of;
use crate::spilling::compacted;
use crate::unary::{UnaryExec, UnaryOperator};
use entries::{ENTRY_BYTES, Keys, Sorted};

/// How much more than it holds is reserved while rows come: as much again is left to who takes the rows, such as a
/// merge of partitions, or all rows are spilled.
const SHARES: usize = 2;

/// Buffers of a column of strings above which its strings are copied: who takes them would hold them all.
const BUFFERS_MAX: usize = 16;

/// Puts a [`HostSort`] in the place of a sort of all rows.
pub(crate) fn host_sorts(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(sort) = node.downcast_ref::<SortExec>() else {
        return Ok(None);
    };
    let fields = fields_of(sort.expr(), &sort.input().schema());
    let is_sorted_here = fields.is_ok_and(|fields| RowConverter::supports_fields(&fields));
    if sort.fetch().is_some() || !is_sorted_here {
        return Ok(None);
    }
    Ok(Some(Arc::new(UnaryExec(HostSort {
        input: Arc::clone(sort.input()),
        order: sort.expr().clone(),
        properties: Arc::clone(node.properties()),
        metrics: ExecutionPlanMetricsSet::new(),
    }))))
}

/// Returns whether a node holds all of its rows to sort them.
pub(crate) fn is_host_sort(node: &dyn ExecutionPlan) -> bool {
    node.is::<UnaryExec<HostSort>>()
}

fn fields_of(order: &LexOrdering, schema: &Schema) -> Result<Vec<SortField>> {
    let fields = order.iter().map(|sorted| {
        let data_type = sorted.expr.data_type(schema)?;
        Ok(SortField::new_with_options(data_type, sorted.options))
    });
    fields.collect()
}

/// The sort of each partition of its input.
#[derive(Clone, Debug)]
struct HostSort {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl UnaryOperator for HostSort {
    const NAME: &'static str = "HostSortExec";
    const KEEPS_ORDER: bool = false;
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            metrics: ExecutionPlanMetricsSet::new(),
            ..self.clone()
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn detail(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": expr=[{}]", self.order)
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&ctx))?;
        let schema = input.schema();
        let consumer = MemoryConsumer::new(format!("{}[{partition}]", Self::NAME));
        let consumer = consumer.with_can_spill(true);
        let gathering = Gathering {
            converter: RowConverter::new(fields_of(&self.order, &schema)?)?,
            has_fixed_keys: has_fixed_keys(&self.order, &schema)?,
            order: self.order.clone(),
            schema: Arc::clone(&schema),
            batches: Vec::new(),
            keys: Keys::new(),
            memory: consumer.register(ctx.memory_pool()),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            metrics: self.metrics.clone(),
            ctx,
        };
        let rows = stream::once(gathering.run(input)).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Returns whether the keys of all rows have the same number of bytes.
fn has_fixed_keys(order: &LexOrdering, schema: &Schema) -> Result<bool> {
    let types = order.iter().map(|sorted| sorted.expr.data_type(schema));
    let types = types.collect::<Result<Vec<_>>>()?;
    let is_fixed = |kind: &DataType| kind.is_primitive() || *kind == DataType::Boolean;
    Ok(types.iter().all(is_fixed))
}

/// The rows of one partition that have come.
struct Gathering {
    converter: RowConverter,
    has_fixed_keys: bool,
    order: LexOrdering,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The keys of each batch.
    keys: Keys,
    memory: MemoryReservation,
    baseline: BaselineMetrics,
    metrics: ExecutionPlanMetricsSet,
    ctx: Arc<TaskContext>,
}

impl Gathering {
    /// Takes all rows in, and returns them sorted.
    async fn run(
        mut self,
        mut input: SendableRecordBatchStream,
    ) -> Result<SendableRecordBatchStream> {
        while let Some(batch) = input.next().await.transpose()? {
            if batch.num_rows() == 0 {
                continue;
            }
            let compute = self.baseline.elapsed_compute().clone();
            let _timer = compute.timer();
            let batch = compacted(batch)?;
            if !self.take(&batch)? {
                self.batches.push(batch);
                return self.spilling(input);
            }
            self.batches.push(batch);
        }
        drop(input);
        self.sorted().await
    }

    /// Takes the keys of a batch; returns whether there is memory for them and it.
    fn take(&mut self, batch: &RecordBatch) -> Result<bool> {
        let of_entries = batch.num_rows() * 2 * ENTRY_BYTES;
        let before = of_entries.saturating_add(batch.get_array_memory_size());
        if self.memory.try_grow(before.saturating_mul(SHARES)).is_err() {
            return Ok(false);
        }
        let columns = self.order.iter().map(|sorted| {
            let values = sorted.expr.evaluate(batch)?;
            values.into_array(batch.num_rows())
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let keys = self.converter.convert_columns(&columns)?;
        let is_given = self
            .memory
            .try_grow(keys.size().saturating_mul(SHARES))
            .is_ok();
        if is_given {
            self.keys.push(keys);
        }
        Ok(is_given)
    }

    /// Leaves the rows to DataFusion's sort.
    fn spilling(mut self, input: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        self.keys = Keys::new();
        self.memory.free();
        let schema = input.schema();
        let gathered = std::mem::take(&mut self.batches);
        let gathered = stream::iter(gathered.into_iter().map(Ok));
        let rest = input.map(|batch| compacted(batch?));
        let rows = RecordBatchStreamAdapter::new(Arc::clone(&schema), gathered.chain(rest));
        let leaf = leaf_of(schema, vec![Box::pin(rows)])?;
        let sort = SortExec::new(self.order.clone(), leaf);
        let rows = sort.execute(0, self.ctx)?;
        // They go on counting.
        for metric in sort.metrics().iter().flat_map(MetricsSet::iter) {
            self.metrics.register(Arc::clone(metric));
        }
        let schema = rows.schema();
        let rows = rows.map(|batch| {
            let batch = batch?;
            let columns = batch.columns().iter().cloned().map(with_few_buffers);
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = columns.collect();
            Ok(RecordBatch::try_new_with_options(
                batch.schema(),
                columns,
                &options,
            )?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Sorts the rows, which leave in batches.
    async fn sorted(mut self) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.schema);
        self.memory.resize(self.memory.size() / SHARES);
        let (entries, behind) = self.keys.entries(self.has_fixed_keys).await;
        if behind.is_none() {
            let bytes = self.keys.memory_bytes();
            self.keys = Keys::new();
            self.memory.shrink(bytes.min(self.memory.size()));
        }
        let leaving = Leaving {
            sorted: Sorted::new(entries, behind),
            rows: self.ctx.session_config().batch_size(),
            gathering: self,
        };
        let rows = stream::try_unfold(leaving, |mut leaving| async move {
            Ok(leaving.next()?.map(|batch| (batch, leaving)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Sorted rows that leave in batches.
struct Leaving {
    sorted: Sorted,
    /// Rows of a batch.
    rows: usize,
    gathering: Gathering,
}

impl Leaving {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        let compute = self.gathering.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let places = self.sorted.next(self.rows, &self.gathering.keys);
        if places.is_empty() {
            return Ok(None);
        }
        let gathering = &self.gathering;
        let columns = (0..gathering.schema.fields().len()).map(|place| {
            let batches = gathering.batches.iter();
            let columns: Vec<&dyn Array> =
                batches.map(|batch| batch.column(place).as_ref()).collect();
            Ok(with_few_buffers(interleave(&columns, &places)?))
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        // A batch may declare less than its plan does, so the schema is the plan's.
        let schema = Arc::clone(&gathering.schema);
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        self.gathering.baseline.record_output(batch.num_rows());
        Ok(Some(batch))
    }
}

/// Copies strings that lie in many buffers.
fn with_few_buffers(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View if column.as_string_view().data_buffers().len() > BUFFERS_MAX => {
            Arc::new(column.as_string_view().gc())
        }
        DataType::BinaryView if column.as_binary_view().data_buffers().len() > BUFFERS_MAX => {
            Arc::new(column.as_binary_view().gc())
        }
        _ => column,
    }
}
