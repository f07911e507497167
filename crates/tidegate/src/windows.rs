//! Window functions over sorted rows, computed batch by batch.
//!
//! DataFusion's operators put the rows that they keep together with each batch that comes, take a row at a time
//! through an accumulator, and keep the strings of all rows that have passed. A [`HostWindow`] runs in their
//! place where all functions of a node have frames that begin with their partition, or none: it keeps a value or
//! two of the rows that have passed, and batches only until their values are known. That is at once, or when rows
//! that are equal in the order have come ([`late`]), or the partition has.

mod functions;
mod late;
mod running;
mod segments;

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
use functions::{Begun, Function};
use late::Column;
use running::Bounds;
use segments::Neighbours;

/// Bytes that the value of a function is taken to need.
const VALUE_BYTES: usize = 16;

/// Puts a [`HostWindow`] in the place of a window whose functions it has.
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
    const KEEPS_ORDER: bool = true;
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
                function: function.begin()?,
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
    /// Returns what finds partitions, and the rows of a partition that are equal in its order.
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

/// One partition of the input on its way through the functions.
struct Windows {
    schema: SchemaRef,
    columns: Vec<FunctionColumn>,
    partitions: Neighbours,
    peers: Neighbours,
    /// Batches that have not left, in the order in which they came.
    pending: VecDeque<Pending>,
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

struct FunctionColumn {
    argument: Option<Arc<dyn PhysicalExpr>>,
    function: Begun,
}

/// A batch with the values of its functions, of which some are not known yet.
struct Pending {
    batch: RecordBatch,
    columns: Vec<Column>,
    /// What of it is reserved.
    bytes: usize,
}

impl Windows {
    /// Returns the next batch that leaves. `input` is `None` once it has ended.
    async fn next(
        &mut self,
        input: &mut Option<SendableRecordBatchStream>,
    ) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.leaving()? {
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

    /// Returns the first batch if all of its values are known.
    fn leaving(&mut self) -> Result<Option<RecordBatch>> {
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

    /// Computes what can be computed of a batch that has rows.
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
            columns.push(column.function.next(&values, &bounds, before)?);
        }
        // One batch always waits for the next; what waits beside it is counted, and holds no more than its rows.
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

    /// Computes what was not known before the input's end.
    fn end(&mut self) -> Result<()> {
        for (place, column) in self.columns.iter_mut().enumerate() {
            let before = self.pending.iter_mut();
            let before = before.filter_map(|pending| pending.columns.get_mut(place));
            column.function.end(before)?;
        }
        Ok(())
    }
}

/// Copies some rows of an array, without what they hold on to beside themselves.
fn copied(array: &ArrayRef, rows: Range<usize>) -> Result<ArrayRef> {
    compacted_column(&array.slice(rows.start, rows.len()))
}
