//! A guard above and below what an executor runs of a stage.
//!
//! `datafusion-distributed` takes a panic of a stage for the end of its rows, and lets a task go on whose
//! statement is over. The guard turns a panic into an error, drops what is below as soon as the task's
//! token is cancelled, and describes errors in the words that travel. The one above the head takes the time
//! of a stage that reads one share alone.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::{FutureExt, StreamExt};
use tidegate::{ErrorKind, PipelineExec, UnaryExec, UnaryOperator};
use tokio_util::sync::CancellationToken;

use crate::told::Told;

/// The task that a guard is of.
#[derive(Clone, Debug)]
pub(crate) struct GuardedTask {
    pub(crate) executor: Arc<str>,
    pub(crate) token: CancellationToken,
}

/// How long a stage takes: from the first row that is asked for to the end of its last partition.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The number of the share that the stage reads.
    pub(crate) share: u64,
    began: OnceLock<Instant>,
    partitions: AtomicUsize,
    seconds: OnceLock<f64>,
}

impl Clock {
    fn new(share: u64, stage: &Arc<dyn ExecutionPlan>) -> Self {
        Self {
            share,
            began: OnceLock::new(),
            partitions: stage.output_partitioning().partition_count().into(),
            seconds: OnceLock::new(),
        }
    }

    /// Returns the seconds of a stage that has come to its end.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.seconds.get().copied()
    }

    fn begin(&self) {
        let _ = self.began.get_or_init(Instant::now);
    }

    fn end_partition(&self) {
        let was_last = self.partitions.fetch_sub(1, Ordering::Relaxed) == 1;
        if let (true, Some(began)) = (was_last, self.began.get()) {
            let _ = self.seconds.set(began.elapsed().as_secs_f64());
        }
    }
}

/// A guarded plan, with the clock of a stage that reads one share alone.
pub(crate) type Guarded = (Arc<dyn ExecutionPlan>, Option<Arc<Clock>>);

/// Puts guards above the head of a stage, and above each leaf: a leaf that stops ends operators that
/// read in tasks of their own. Returns the clock of a stage that reads the share of this number alone.
///
/// # Errors
/// Those of nodes that refuse other inputs.
pub(crate) fn guarded(
    plan: Arc<dyn ExecutionPlan>,
    task: &GuardedTask,
    share: Option<u64>,
) -> Result<Guarded> {
    let guard = |inner| -> Arc<dyn ExecutionPlan> {
        Arc::new(UnaryExec(Guard {
            inner,
            task: task.clone(),
            clock: None,
        }))
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
    let inner = match plan.downcast_ref::<GuardExec>() {
        Some(head) => Arc::clone(&head.0.inner),
        None => plan,
    };
    let clock = share.map(|share| Arc::new(Clock::new(share, &inner)));
    let head = Guard {
        inner,
        task: task.clone(),
        clock: clock.clone(),
    };
    Ok((Arc::new(UnaryExec(head)), clock))
}

type GuardExec = UnaryExec<Guard>;

/// See the module.
#[derive(Clone, Debug)]
struct Guard {
    inner: Arc<dyn ExecutionPlan>,
    task: GuardedTask,
    /// Of the head of a stage that reads one share alone.
    clock: Option<Arc<Clock>>,
}

impl UnaryOperator for Guard {
    const NAME: &'static str = "GuardExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.inner
    }

    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            inner,
            ..self.clone()
        }
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (task, clock) = (self.task.clone(), self.clock.clone());
        let schema = self.inner.schema();
        if task.token.is_cancelled() {
            return Err(cancelled(&task));
        }
        let inner = self.inner.execute(partition, ctx);
        let inner = inner.map_err(|error| told(&task, &error))?;
        let rows = futures::stream::unfold(Some(inner), move |inner| {
            let (task, clock) = (task.clone(), clock.clone());
            async move {
                let mut inner = inner?;
                if let Some(clock) = &clock {
                    clock.begin();
                }
                let next = tokio::select! {
                    biased;
                    () = task.token.cancelled() => Some(Err(cancelled(&task))),
                    next = AssertUnwindSafe(inner.next()).catch_unwind() => match next {
                        Ok(next) => next.map(|next| next.map_err(|error| told(&task, &error))),
                        Err(panic) => Some(Err(panicked(&task, &*panic))),
                    },
                };
                let Some(next) = next else {
                    if let Some(clock) = &clock {
                        clock.end_partition();
                    }
                    return None;
                };
                match next {
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
