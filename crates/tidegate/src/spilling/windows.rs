//! Counts the rows of windows that are computed once all of them are there.
//!
//! A `WindowAggExec` holds all of its input, puts it together, and makes a value for each row before it makes an
//! array of them, and asks no one. What goes into it is counted here as what it will take; it cannot spill.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use futures::TryStreamExt as _;

use crate::node_rule::Replaced;
use crate::unary::{UnaryExec, UnaryOperator};

/// How often rows are there at once: as batches, as one batch, and in the output.
const COPIES: usize = 2;

/// Bytes of a row's value before it is put into an array.
const VALUE_BYTES: usize = 80;

/// Puts a [`Counted`] below a window that holds all of its rows.
pub(crate) fn count_windows(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let Some(window) = node.downcast_ref::<WindowAggExec>() else {
        return Ok(None);
    };
    let of_rows = window
        .window_expr()
        .iter()
        .filter(|expr| !is_constant(expr));
    let input = Arc::new(UnaryExec(Counted {
        input: Arc::clone(window.input()),
        row_bytes: of_rows.count().min(1) * VALUE_BYTES,
    }));
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Arc::clone(node)
        .replace_children(vec![input], options)
        .map(Some)
}

/// Returns whether a function has one value for all rows of a partition.
fn is_constant(expr: &Arc<dyn WindowExpr>) -> bool {
    let WindowFrame {
        start_bound,
        end_bound,
        ..
    } = expr.get_window_frame().as_ref();
    let is_open = |bound: &WindowFrameBound| bound.is_unbounded();
    expr.order_by().is_empty() && is_open(start_bound) && is_open(end_bound)
}

/// Takes memory for the rows that pass, and gives it back when nobody reads on.
#[derive(Clone, Debug)]
struct Counted {
    input: Arc<dyn ExecutionPlan>,
    /// Bytes of a row beside those of its columns.
    row_bytes: usize,
}

impl UnaryOperator for Counted {
    const NAME: &'static str = "CountedExec";
    const KEEPS_ORDER: bool = true;
    const GAINS_BY_PARTITIONS: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            ..self.clone()
        }
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let consumer = MemoryConsumer::new(format!("WindowAggExec[{partition}]"));
        let held = consumer.register(ctx.memory_pool());
        let row_bytes = self.row_bytes;
        let rows = self.input.execute(partition, ctx)?;
        let counted = rows.and_then(move |batch| {
            let of_columns = batch.get_array_memory_size().saturating_mul(COPIES);
            let of_rows = batch.num_rows().saturating_mul(row_bytes);
            let taken = held.try_grow(of_columns.saturating_add(of_rows));
            std::future::ready(taken.map(|()| batch))
        });
        let schema = self.input.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
    }
}
