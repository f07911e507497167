//! A guard above and below what an executor runs of a stage.
//!
//! `datafusion-distributed` takes a panic of a stage for the end of its rows, and lets a task go on whose
//! statement is over. The guard turns a panic into an error, drops what is below as soon as the task's
//! token is cancelled, and describes errors in the words that travel.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{FutureExt, StreamExt};
use tidegate::{ErrorKind, PipelineExec};
use tokio_util::sync::CancellationToken;

use crate::told::Told;

/// The task that a guard is of.
#[derive(Clone, Debug)]
pub(crate) struct GuardedTask {
    pub(crate) executor: Arc<str>,
    pub(crate) token: CancellationToken,
}

/// Puts guards above the head of a stage, and above each leaf: a leaf that stops ends operators that
/// read in tasks of their own.
///
/// # Errors
/// Those of nodes that refuse other inputs.
pub(crate) fn guarded(
    plan: Arc<dyn ExecutionPlan>,
    task: &GuardedTask,
) -> Result<Arc<dyn ExecutionPlan>> {
    let guard = |plan| -> Arc<dyn ExecutionPlan> {
        Arc::new(GuardExec {
            inner: plan,
            task: task.clone(),
        })
    };
    let plan = plan
        .transform_down(|node| {
            // A region knows its own leaf.
            if node.is::<PipelineExec>() || node.children().is_empty() {
                return Ok(Transformed::new(guard(node), true, TreeNodeRecursion::Jump));
            }
            Ok(Transformed::no(node))
        })
        .data()?;
    Ok(match plan.is::<GuardExec>() {
        true => plan,
        false => guard(plan),
    })
}

/// See the module.
#[derive(Debug)]
struct GuardExec {
    inner: Arc<dyn ExecutionPlan>,
    task: GuardedTask,
}

impl DisplayAs for GuardExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardExec")
    }
}

impl ExecutionPlan for GuardExec {
    fn name(&self) -> &str {
        "GuardExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.inner]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([inner]) = <[_; 1]>::try_from(children) else {
            return internal_err!("GuardExec has one input");
        };
        let task = self.task.clone();
        Ok(Arc::new(Self { inner, task }))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let task = self.task.clone();
        let schema = self.schema();
        if task.token.is_cancelled() {
            return Err(cancelled(&task));
        }
        let inner = self.inner.execute(partition, ctx);
        let inner = inner.map_err(|error| told(&task, &error))?;
        let rows = futures::stream::unfold(Some(inner), move |inner| {
            let task = task.clone();
            async move {
                let mut inner = inner?;
                let next = tokio::select! {
                    biased;
                    () = task.token.cancelled() => Some(Err(cancelled(&task))),
                    next = AssertUnwindSafe(inner.next()).catch_unwind() => match next {
                        Ok(next) => next.map(|next| next.map_err(|error| told(&task, &error))),
                        Err(panic) => Some(Err(panicked(&task, &*panic))),
                    },
                };
                match next? {
                    Ok(batch) => Some((Ok(batch), Some(inner))),
                    // What is below goes with the stream.
                    Err(error) => Some((Err(error), None)),
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

fn told(task: &GuardedTask, error: &DataFusionError) -> DataFusionError {
    Told::of(&task.executor, error).to_error()
}

fn cancelled(task: &GuardedTask) -> DataFusionError {
    let message = "the statement was cancelled";
    Told::new(ErrorKind::Cancelled, &task.executor, message).to_error()
}

fn panicked(task: &GuardedTask, panic: &(dyn std::any::Any + Send)) -> DataFusionError {
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
    let said = said.unwrap_or("no message");
    let message = format!("the query hit a bug in the engine: {said}");
    Told::new(ErrorKind::Internal, &task.executor, &message).to_error()
}

#[cfg(test)]
mod tests;
