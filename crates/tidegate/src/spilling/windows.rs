//! Counts the rows of windows that are computed once all of them are there.
//!
//! A `WindowAggExec` holds all of its input, puts it together, and makes a value for each row before it makes an
//! array of them, and asks no one. What goes into it is counted here as what it will take; it cannot spill.

mod growing;

use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{WindowFrame, WindowFrameBound};
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use futures::{Stream, TryStreamExt as _};

use crate::node_rule::{Replaced, over};
use crate::unary::{StreamOperator, streamed};
use growing::{Growing, Seen};

/// How often rows are there at once: as batches, as one batch, and in the output.
const COPIES: usize = 2;

/// Bytes of a row's value before it is put into an array.
const VALUE_BYTES: usize = 80;

/// Puts a [`Counted`] below a window that holds all of its rows, and below one that goes through them and has values
/// that grow.
pub(crate) fn count_windows(node: &Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Replaced {
    let whole = node.downcast_ref::<WindowAggExec>();
    let bounded = node.downcast_ref::<BoundedWindowAggExec>();
    let (exprs, input) = match (whole, bounded) {
        (Some(window), _) => (window.window_expr(), window.input()),
        (None, Some(window)) => (window.window_expr(), window.input()),
        (None, None) => return Ok(None),
    };
    let growing: Vec<Growing> = exprs.iter().filter_map(Growing::of).collect();
    if whole.is_none() && growing.is_empty() {
        return Ok(None);
    }
    let of_rows = exprs.iter().filter(|expr| !is_constant(expr));
    let counted = Counted {
        row_bytes: of_rows.count().min(1) * VALUE_BYTES,
        holds_all: whole.is_some(),
        growing,
    };
    let input = streamed(input, counted);
    over(node, vec![input]).map(Some)
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
    /// Bytes of a row beside those of its columns.
    row_bytes: usize,
    /// Whether the window holds all rows, and not those of a batch alone.
    holds_all: bool,
    growing: Vec<Growing>,
}

impl StreamOperator for Counted {
    const NAME: &'static str = "CountedExec";

    fn stream(
        &self,
        rows: SendableRecordBatchStream,
        partition: usize,
        ctx: &TaskContext,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let consumer = MemoryConsumer::new(format!("WindowAggExec[{partition}]"));
        let held = consumer.register(ctx.memory_pool());
        let (row_bytes, holds_all, growing) =
            (self.row_bytes, self.holds_all, self.growing.clone());
        let mut seen: Vec<Seen> = growing.iter().map(|_| Seen::default()).collect();
        let mut count = move |batch: &RecordBatch| -> Result<()> {
            let of_columns = batch.get_array_memory_size().saturating_mul(COPIES);
            let of_rows = batch.num_rows().saturating_mul(row_bytes);
            let (mut more, mut alone) = (0_u64, 0_u64);
            for (growing, seen) in growing.iter().zip(&mut seen) {
                let taken = growing.taken(batch, seen)?;
                more = more.saturating_add(taken.more);
                alone = alone.saturating_add(taken.alone);
            }
            // More than there is anywhere, and no overflow where it is added up.
            let bytes = |bytes: u64| bytes.min(1 << 60) as usize;
            match holds_all {
                true => {
                    let of_batch = of_columns.saturating_add(of_rows);
                    held.try_grow(of_batch.saturating_add(bytes(more)))
                }
                false => held.try_resize(bytes(alone)),
            }
        };
        rows.and_then(move |batch| {
            let taken = count(&batch);
            std::future::ready(taken.map(|()| batch))
        })
    }
}
