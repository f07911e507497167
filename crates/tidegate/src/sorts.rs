//! In-memory sort: radix partitioning of key prefixes, then one gather of the rows.
//!
//! [`HostSort`] replaces DataFusion's `SortExec` where all rows are sorted. DataFusion sorts each batch and merges
//! all of them by row comparisons. Here the batches stay as they arrived, and only 24-byte entries are sorted: a
//! 16-byte key prefix and the position of the row ([`entries`]). If the memory pool refuses, the rows gathered so far
//! and the rest of the input go to DataFusion's `SortExec`, which spills.

mod entries;

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
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

/// While rows are gathered, this many times their memory is reserved. The excess is released before the output
/// starts, so that consumers such as a merge of partitions find memory.
const RESERVE_FACTOR: usize = 2;

/// Replaces a sort of all rows by a [`HostSort`]; top-k sorts stay DataFusion's.
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

/// Returns whether a node is a [`HostSort`].
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

/// Sorts each partition of its input.
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
            have_equal_length: have_equal_length(&self.order, &schema)?,
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

/// Returns whether the encoded keys of all rows have the same length.
fn have_equal_length(order: &LexOrdering, schema: &Schema) -> Result<bool> {
    let types = order.iter().map(|sorted| sorted.expr.data_type(schema));
    let types = types.collect::<Result<Vec<_>>>()?;
    let is_fixed = |kind: &DataType| kind.is_primitive() || *kind == DataType::Boolean;
    Ok(types.iter().all(is_fixed))
}

/// The rows of one partition, gathered until the input ends.
struct Gathering {
    converter: RowConverter,
    have_equal_length: bool,
    order: LexOrdering,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    /// The encoded sort keys of `batches`.
    keys: Keys,
    memory: MemoryReservation,
    baseline: BaselineMetrics,
    metrics: ExecutionPlanMetricsSet,
    ctx: Arc<TaskContext>,
}

impl Gathering {
    /// Reads the whole input and returns its rows sorted.
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

    /// Reserves memory for a batch and encodes its keys; returns whether the memory was granted.
    fn take(&mut self, batch: &RecordBatch) -> Result<bool> {
        let of_entries = batch.num_rows() * 2 * ENTRY_BYTES;
        let before = of_entries.saturating_add(batch.get_array_memory_size());
        if self
            .memory
            .try_grow(before.saturating_mul(RESERVE_FACTOR))
            .is_err()
        {
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
            .try_grow(keys.size().saturating_mul(RESERVE_FACTOR))
            .is_ok();
        if is_given {
            self.keys.push(keys);
        }
        Ok(is_given)
    }

    /// Hands all rows to DataFusion's sort, which spills.
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
        // The counters are shared, and go on counting while the sort runs.
        for metric in sort.metrics().iter().flat_map(MetricsSet::iter) {
            self.metrics.register(Arc::clone(metric));
        }
        let schema = rows.schema();
        let rows = rows.map(|batch| compacted(batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Sorts the gathered rows and returns them in batches.
    async fn sorted(mut self) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(&self.schema);
        self.memory.resize(self.memory.size() / RESERVE_FACTOR);
        let (entries, compare_from) = self.keys.entries(self.have_equal_length).await;
        if compare_from.is_none() {
            let bytes = self.keys.memory_bytes();
            self.keys = Keys::new();
            self.memory.shrink(bytes.min(self.memory.size()));
        }
        let output = PendingOutput {
            sorted: Sorted::new(entries, compare_from),
            batch_size: self.ctx.session_config().batch_size(),
            gathering: self,
        };
        let rows = stream::try_unfold(output, |mut output| async move {
            Ok(output.next().await?.map(|batch| (batch, output)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Sorted rows that have not been returned yet.
struct PendingOutput {
    sorted: Sorted,
    batch_size: usize,
    gathering: Gathering,
}

impl PendingOutput {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let compute = self.gathering.baseline.elapsed_compute().clone();
        let _timer = compute.timer();
        let keys = &self.gathering.keys;
        let places = self.sorted.next(self.batch_size, keys).await;
        if places.is_empty() {
            return Ok(None);
        }
        let gathering = &self.gathering;
        let columns = (0..gathering.schema.fields().len()).map(|place| {
            let batches = gathering.batches.iter();
            let columns: Vec<&dyn Array> =
                batches.map(|batch| batch.column(place).as_ref()).collect();
            Ok(interleave(&columns, &places)?)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        // The batches' own schemas may be stricter about nulls than the plan's.
        let schema = Arc::clone(&gathering.schema);
        let options = RecordBatchOptions::new().with_row_count(Some(places.len()));
        // Gathered string views reference the buffers of all batches that they came from.
        let batch = compacted(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)?;
        self.gathering.baseline.record_output(batch.num_rows());
        Ok(Some(batch))
    }
}
