//! Gathers the rows of a sort's inputs side by side, and returns them sorted.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::row::RowConverter;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use tokio_util::sync::CancellationToken;

use super::entries::{Common, ENTRY_BYTES, Keys};
use super::ranges::{Range, Ranges};
use super::{fields_of, joined, side_by_side};
use crate::region::leaf_of;
use crate::spilling::{compacted, compacted_column};

/// While rows are gathered, this many times their memory is reserved. The excess is released before the output
/// starts, so that the consumers of the rows find memory.
const RESERVE_FACTOR: usize = 2;

/// One sort: what its tasks share.
pub(super) struct Sort {
    order: LexOrdering,
    schema: SchemaRef,
    converter: RowConverter,
    have_equal_length: bool,
    memory: MemoryReservation,
    /// Cancelled when memory was refused: no input is gathered any further.
    refused: CancellationToken,
    baseline: BaselineMetrics,
    metrics: ExecutionPlanMetricsSet,
    ctx: Arc<TaskContext>,
}

/// The gathered rows of one input.
struct Part {
    batches: Vec<RecordBatch>,
    keys: Keys,
    common: Common,
    /// What was not read, because memory was refused.
    rest: Option<SendableRecordBatchStream>,
}

impl Sort {
    /// Makes the sort of an output partition, which counts in `metrics`.
    pub(super) fn new(
        order: &LexOrdering,
        schema: &SchemaRef,
        (metrics, partition): (&ExecutionPlanMetricsSet, usize),
        ctx: Arc<TaskContext>,
    ) -> Result<Self> {
        let consumer = MemoryConsumer::new(format!("HostSortExec[{partition}]"));
        let consumer = consumer.with_can_spill(true);
        Ok(Self {
            order: order.clone(),
            schema: Arc::clone(schema),
            converter: RowConverter::new(fields_of(order, schema)?)?,
            have_equal_length: have_equal_length(order, schema)?,
            memory: consumer.register(ctx.memory_pool()),
            refused: CancellationToken::new(),
            baseline: BaselineMetrics::new(metrics, partition),
            metrics: metrics.clone(),
            ctx,
        })
    }

    /// Reads the inputs whole and returns their rows sorted.
    pub(super) async fn run(
        self: Arc<Self>,
        inputs: Vec<SendableRecordBatchStream>,
    ) -> Result<SendableRecordBatchStream> {
        let inputs = inputs.into_iter();
        let parts = inputs.map(|input| Arc::clone(&self).gather(input));
        let parts = side_by_side(parts.collect()).await?;
        match self.refused.is_cancelled() {
            true => self.spilling(parts),
            false => self.sorted(parts).await,
        }
    }

    async fn gather(self: Arc<Self>, mut input: SendableRecordBatchStream) -> Result<Part> {
        let mut part = Part {
            batches: Vec::new(),
            keys: Keys::default(),
            common: Common::new(self.have_equal_length),
            rest: None,
        };
        let compute = self.baseline.elapsed_compute().clone();
        loop {
            let batch = tokio::select! {
                biased;
                () = self.refused.cancelled() => {
                    part.rest = Some(input);
                    return Ok(part);
                }
                batch = input.next() => batch.transpose()?,
            };
            let Some(batch) = batch else {
                return Ok(part);
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let _timer = compute.timer();
            let batch = compacted(batch)?;
            if !self.take(&batch, &mut part)? {
                self.refused.cancel();
            }
            part.batches.push(batch);
        }
    }

    /// Reserves memory for a batch and encodes its keys; returns whether the memory was granted.
    fn take(&self, batch: &RecordBatch, part: &mut Part) -> Result<bool> {
        let of_entries = batch.num_rows() * 2 * ENTRY_BYTES;
        let before = of_entries.saturating_add(batch.get_array_memory_size());
        if !self.reserve(before) {
            return Ok(false);
        }
        let columns = self.order.iter().map(|sorted| {
            let values = sorted.expr.evaluate(batch)?;
            values.into_array(batch.num_rows())
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let keys = self.converter.convert_columns(&columns)?;
        let is_given = self.reserve(keys.size());
        if is_given {
            part.common.add(&keys);
            part.keys.push(keys);
        }
        Ok(is_given)
    }

    fn reserve(&self, bytes: usize) -> bool {
        let bytes = bytes.saturating_mul(RESERVE_FACTOR);
        self.memory.try_grow(bytes).is_ok()
    }

    /// Hands all rows to DataFusion's sort, which spills.
    fn spilling(&self, parts: Vec<Part>) -> Result<SendableRecordBatchStream> {
        let rows = parts.into_iter().map(|part| {
            let gathered = stream::iter(part.batches.into_iter().map(Ok));
            let rest = stream::iter(part.rest).flatten();
            let rest = rest.map(|batch| compacted(batch?));
            let schema = Arc::clone(&self.schema);
            let rows = RecordBatchStreamAdapter::new(schema, gathered.chain(rest));
            Box::pin(rows) as SendableRecordBatchStream
        });
        let leaf = leaf_of(Arc::clone(&self.schema), rows.collect())?;
        self.memory.free();
        // One sort merges what it spills with the memory that there is. Sorts of each input and a merge of them would
        // hold batches of each input besides.
        let all = Arc::new(CoalescePartitionsExec::new(leaf));
        let sort = SortExec::new(self.order.clone(), all);
        let rows = sort.execute(0, Arc::clone(&self.ctx))?;
        // The counters are shared, and go on counting while the sort runs.
        for metric in sort.metrics().iter().flat_map(MetricsSet::iter) {
            self.metrics.register(Arc::clone(metric));
        }
        let schema = rows.schema();
        let rows = rows.map(|batch| compacted(batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    /// Sorts the gathered rows and returns them in batches.
    async fn sorted(self: Arc<Self>, parts: Vec<Part>) -> Result<SendableRecordBatchStream> {
        self.memory.resize(self.memory.size() / RESERVE_FACTOR);
        let schema = Arc::clone(&self.schema);
        let tasks = parts.len();
        let mut common = Common::new(self.have_equal_length);
        let (mut batches, mut keys, mut of_parts) =
            (Vec::<RecordBatch>::new(), Keys::default(), Vec::new());
        for part in parts {
            let start = batches.len();
            common.join(&part.common);
            batches.extend(part.batches);
            keys.append(part.keys);
            of_parts.push(start..batches.len());
        }
        let (mut keys, held) = (Arc::new(keys), Arc::new(common.held()));
        let entries = of_parts.into_iter().map(|batches| {
            let (keys, held) = (Arc::clone(&keys), Arc::clone(&held));
            async move { Ok(keys.entries(batches, &held).await) }
        });
        let entries = side_by_side(entries.collect()).await?;
        if held.compare_from.is_none() {
            self.memory.shrink(keys.memory_bytes());
            keys = Arc::default();
        }
        let ranges = Ranges::new(entries, held.compare_from);
        let rows = Arc::new(Gathered {
            batches,
            keys,
            sort: self,
        });
        let groups = stream::try_unfold((ranges, rows), |(mut ranges, rows)| async move {
            let batch_size = rows.sort.ctx.session_config().batch_size();
            let next = ranges.next(batch_size, &rows.keys).await?;
            let group = (!next.is_empty()).then(|| (next, Arc::clone(&rows)));
            Ok(group.map(|group| (group, (ranges, rows))))
        });
        let groups = groups.map_ok(move |(ranges, rows)| async move {
            let work = async move { rows.sorted(ranges) };
            match tasks {
                1 => work.await,
                _ => joined(SpawnedTask::spawn(work)).await,
            }
        });
        let batches = groups.try_buffered(tasks);
        let batches = batches.map_ok(|batches| stream::iter(batches.into_iter().map(Ok)));
        let batches = batches.try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// Returns whether the encoded keys of all rows have the same length.
fn have_equal_length(order: &LexOrdering, schema: &Schema) -> Result<bool> {
    let types = order.iter().map(|sorted| sorted.expr.data_type(schema));
    let types = types.collect::<Result<Vec<_>>>()?;
    let is_fixed = |kind: &DataType| kind.is_primitive() || *kind == DataType::Boolean;
    Ok(types.iter().all(is_fixed))
}

/// All rows of a sort.
struct Gathered {
    batches: Vec<RecordBatch>,
    /// The encoded keys; empty if entries hold all in which they differ.
    keys: Arc<Keys>,
    sort: Arc<Sort>,
}

impl Gathered {
    /// Returns the rows of consecutive ranges in order, in batches of about equal length.
    fn sorted(&self, ranges: Vec<Range>) -> Result<Vec<RecordBatch>> {
        let _timer = self.sort.baseline.elapsed_compute().timer();
        let positions = ranges
            .into_iter()
            .flat_map(|range| range.sorted(&self.keys));
        let positions = positions.map(|entry| entry.position());
        let positions: Vec<(usize, usize)> = positions.collect();
        let batch_size = self.sort.ctx.session_config().batch_size();
        let batches = positions.len().div_ceil(batch_size).max(1);
        let of_batches = positions.chunks(positions.len().div_ceil(batches).max(1));
        of_batches.map(|positions| self.batch(positions)).collect()
    }

    fn batch(&self, positions: &[(usize, usize)]) -> Result<RecordBatch> {
        let columns = (0..self.sort.schema.fields().len()).map(|column| {
            let arrays = self.batches.iter();
            let arrays = arrays.map(|batch| batch.column(column).as_ref());
            let arrays: Vec<&dyn Array> = arrays.collect();
            // Gathered string views reference the buffers of all batches that they came from.
            compacted_column(&interleave(&arrays, positions)?)
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        // The batches' own schemas may be stricter about nulls than the plan's.
        let schema = Arc::clone(&self.sort.schema);
        let options = RecordBatchOptions::new().with_row_count(Some(positions.len()));
        self.sort.baseline.record_output(positions.len());
        Ok(RecordBatch::try_new_with_options(
            schema, columns, &options,
        )?)
    }
}
