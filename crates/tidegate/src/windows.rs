//! Streaming window functions over sorted rows.
//!
//! [`HostWindow`] replaces DataFusion's window operators where every function of a node has a frame that starts at
//! the partition's start or a number of rows before the current row, or has no frame. It keeps the state of the
//! running functions ([`running`]) and of the last row, and buffers batches only while values depend on later rows
//! ([`deferred`]): the end of the peer group or of the partition, or the rows that `lead` looks at. DataFusion's
//! operators concatenate the buffered rows with every batch and evaluate an accumulator per row; their buffers of
//! string views grow with the input. [`merge_sliding`] has those that are left not subtract floats.

mod deferred;
mod functions;
mod past_nulls;
mod running;
mod segments;
mod sliding;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, new_null_array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan, InputOrderMode, PlanProperties};
use futures::{StreamExt as _, stream};

use crate::node_rule::Replaced;
use crate::spilling::{compacted, compacted_column};
use crate::unary::{UnaryExec, UnaryOperator};
use deferred::Column;
use functions::{Function, FunctionState};
pub(crate) use past_nulls::{is_past_nulls, lag_past_nulls, lead_past_nulls};
use running::Bounds;
use segments::Neighbours;
pub(crate) use sliding::merge_sliding;

/// The memory that one value of a function is estimated to take, in bytes.
const VALUE_BYTES: usize = 16;

/// Replaces a window operator by a [`HostWindow`] if that has all of its functions.
pub(crate) fn host_windows(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let (exprs, input) = if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        let is_sorted = window.input_order_mode == InputOrderMode::Sorted;
        if !is_sorted || window.state_observer().is_some() {
            return Ok(None);
        }
        (window.window_expr(), window.input())
    } else if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        (window.window_expr(), window.input())
    } else {
        return Ok(None);
    };
    let schema = input.schema();
    let functions = exprs.iter().map(|expr| Function::of(expr, &schema));
    let Some(functions) = functions.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    Ok(Some(Arc::new(UnaryExec(HostWindow {
        input: Arc::clone(input),
        properties: Arc::clone(node.properties()),
        exprs: exprs.to_vec(),
        functions: functions.into(),
        metrics: ExecutionPlanMetricsSet::new(),
    }))))
}

/// Window functions that share a partition and an order, by which their input is sorted.
#[derive(Clone, Debug)]
struct HostWindow {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
    exprs: Vec<Arc<dyn WindowExpr>>,
    functions: Arc<[Function]>,
    metrics: ExecutionPlanMetricsSet,
}

impl UnaryOperator for HostWindow {
    const NAME: &'static str = "HostWindowExec";
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
        let names = self.exprs.iter().map(|expr| expr.name());
        write!(f, ": {}", names.collect::<Vec<_>>().join(", "))
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let schema = Arc::clone(self.properties.eq_properties.schema());
        let consumer = MemoryConsumer::new(format!("{}[{partition}]", Self::NAME));
        let (partitions, peers) = self.grouped_by();
        let columns = self.functions.iter().map(|function| {
            Ok(FunctionColumn {
                argument: function.argument().cloned(),
                state: function.start()?,
            })
        });
        let windows = Windows {
            schema: Arc::clone(&schema),
            columns: columns.collect::<Result<Vec<_>>>()?,
            partitions,
            peers,
            pending: VecDeque::new(),
            memory: consumer.register(ctx.memory_pool()),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let input = Some(self.input.execute(partition, ctx)?);
        let rows = stream::try_unfold((windows, input), |(mut windows, mut input)| async move {
            let batch = windows.next(&mut input).await?;
            Ok(batch.map(|batch| (batch, (windows, input))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

impl HostWindow {
    /// Returns the detectors of partitions and of peer groups.
    fn grouped_by(&self) -> (Neighbours, Neighbours) {
        let Some(first) = self.exprs.first() else {
            return (Neighbours::new(Vec::new()), Neighbours::new(Vec::new()));
        };
        let partition = first.partition_by().to_vec();
        let order = first.order_by().iter().map(|sorted| &sorted.expr);
        let both = partition.iter().chain(order).cloned().collect();
        (Neighbours::new(partition), Neighbours::new(both))
    }
}

/// The state of the functions over one partition of the plan.
struct Windows {
    schema: SchemaRef,
    columns: Vec<FunctionColumn>,
    partitions: Neighbours,
    peers: Neighbours,
    /// Batches that were not returned yet, in input order.
    pending: VecDeque<Pending>,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

struct FunctionColumn {
    argument: Option<Arc<dyn PhysicalExpr>>,
    state: FunctionState,
}

/// A batch of which some function values may depend on later rows.
struct Pending {
    batch: RecordBatch,
    columns: Vec<Column>,
    /// The memory that is reserved for it.
    bytes: usize,
}

impl Windows {
    /// Returns the next batch of the output. `input` is `None` once it has ended.
    async fn next(
        &mut self,
        input: &mut Option<SendableRecordBatchStream>,
    ) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.completed()? {
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            let Some(rows) = input else {
                return Ok(None);
            };
            let batch = rows.next().await.transpose()?;
            let timer = self.metrics.elapsed_compute().clone();
            let _timer = timer.timer();
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => self.take(batch)?,
                None => {
                    *input = None;
                    self.end()?;
                }
            }
        }
    }

    /// Removes and returns the first pending batch if all of its values are known.
    fn completed(&mut self) -> Result<Option<RecordBatch>> {
        let Some(first) = self.pending.front() else {
            return Ok(None);
        };
        let values = first.columns.iter().map(|column| column.values().cloned());
        let Some(values) = values.collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let mut columns = first.batch.columns().to_vec();
        columns.extend(values);
        self.memory.shrink(first.bytes);
        self.pending.pop_front();
        Ok(Some(RecordBatch::try_new(
            Arc::clone(&self.schema),
            columns,
        )?))
    }

    /// Evaluates the functions for a non-empty batch, as far as they do not depend on later rows.
    fn take(&mut self, batch: RecordBatch) -> Result<()> {
        let bounds = Bounds {
            rows: batch.num_rows(),
            partitions: self.partitions.next(&batch)?,
            peers: self.peers.next(&batch)?,
        };
        let nothing = new_null_array(&DataType::Null, bounds.rows);
        let mut columns = Vec::with_capacity(self.columns.len());
        for (place, column) in self.columns.iter_mut().enumerate() {
            let values = match &column.argument {
                Some(argument) => argument.evaluate(&batch)?.into_array(bounds.rows)?,
                None => Arc::clone(&nothing),
            };
            let before = self.pending.iter_mut();
            let before = before.filter_map(|pending| pending.columns.get_mut(place));
            columns.push(column.state.next(&values, &bounds, before)?);
        }
        // One pending batch is normal. Memory for further ones is reserved, and they keep no foreign buffers.
        let (batch, bytes) = match self.pending.is_empty() {
            true => (batch, 0),
            false => {
                let batch = compacted(batch)?;
                let of_values = bounds.rows * self.columns.len() * VALUE_BYTES;
                let bytes = batch.get_array_memory_size().saturating_add(of_values);
                self.memory.try_grow(bytes)?;
                (batch, bytes)
            }
        };
        self.pending.push_back(Pending {
            batch,
            columns,
            bytes,
        });
        Ok(())
    }

    /// Completes the pending batches at the end of the input.
    fn end(&mut self) -> Result<()> {
        for (place, column) in self.columns.iter_mut().enumerate() {
            let before = self.pending.iter_mut();
            let before = before.filter_map(|pending| pending.columns.get_mut(place));
            column.state.end(before)?;
        }
        Ok(())
    }
}

/// Copies some rows of an array, without the rest of its buffers.
fn copied(array: &ArrayRef, rows: Range<usize>) -> Result<ArrayRef> {
    compacted_column(&array.slice(rows.start, rows.len()))
}
