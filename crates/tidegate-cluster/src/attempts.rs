//! A statement that runs over executors, and again over those that are left if it loses one.
//!
//! It runs again if the tasks of the executor cannot be moved (`watch`), as long as none of its rows has left,
//! and at most `tidegate.retries` times; when no executor is left it runs in the scheduler's process. After a
//! row has left, such a loss is an error.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::config::SessionConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;
use futures::future::select_all;
use parking_lot::Mutex;
use tidegate::stages::place_here;
use tidegate::{Error, ErrorKind, copied_context};

use crate::members::Usable;
use crate::planner::{Attempt, Spreader};
use crate::told::Told;

/// See the module. A leaf, since what is below runs elsewhere.
#[derive(Debug)]
pub(crate) struct SpreadExec {
    spreader: Arc<Spreader>,
    first: Mutex<Option<Attempt>>,
    names: Vec<String>,
    properties: Arc<PlanProperties>,
}

impl SpreadExec {
    pub(crate) fn new(spreader: Spreader, first: Attempt) -> Self {
        let names = first.executors.iter();
        Self {
            names: names.map(|executor| executor.name.clone()).collect(),
            properties: Arc::clone(first.plan.properties()),
            spreader: Arc::new(spreader),
            first: Mutex::new(Some(first)),
        }
    }

    /// Writes the stages of a plan that has not run.
    pub(crate) fn text(&self) -> Option<String> {
        self.first.lock().as_ref().map(Attempt::text)
    }

    /// Returns the statement's number.
    pub(crate) fn statement(&self) -> u64 {
        self.spreader.statement
    }
}

impl DisplayAs for SpreadExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpreadExec: executors=[{}]", self.names.join(", "))
    }
}

impl ExecutionPlan for SpreadExec {
    fn name(&self) -> &str {
        "SpreadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
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
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("SpreadExec has no input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(first) = self.first.lock().take() else {
            return exec_err!("partition {partition} of a statement that runs already");
        };
        let run = Run {
            spreader: Arc::clone(&self.spreader),
            ctx,
            at: At::Planned(first),
            has_left: false,
        };
        let rows = futures::stream::unfold(Some(run), |run| async move {
            let mut run = run?;
            match run.next().await {
                Ok(None) => None,
                Ok(Some(batch)) => Some((Ok(batch), Some(run))),
                Err(error) => Some((Err(error), None)),
            }
        });
        let schema = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// A statement on its way.
struct Run {
    spreader: Arc<Spreader>,
    ctx: Arc<TaskContext>,
    at: At,
    /// Some of its rows have.
    has_left: bool,
}

/// How far a statement is.
enum At {
    Planned(Attempt),
    Running(Attempt, SendableRecordBatchStream),
    /// In this process.
    Here(SendableRecordBatchStream),
    /// Between two steps, or after the last one.
    Over,
}

/// What came of waiting for rows.
enum Came {
    Batch(RecordBatch),
    End,
    Error(DataFusionError),
    Lost(Told),
}

impl Run {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            match std::mem::replace(&mut self.at, At::Over) {
                At::Over => return Ok(None),
                At::Planned(attempt) => {
                    let ctx = in_session(&self.ctx, &attempt.config);
                    let rows = attempt.plan.execute(0, ctx)?;
                    self.at = At::Running(attempt, rows);
                }
                At::Here(mut rows) => {
                    let batch = rows.next().await.transpose()?;
                    if batch.is_some() {
                        self.at = At::Here(rows);
                    }
                    return Ok(batch);
                }
                At::Running(attempt, mut rows) => {
                    match to_leave(&attempt, &mut rows, self.has_left).await {
                        Came::Batch(batch) => {
                            self.has_left |= batch.num_rows() > 0;
                            self.at = At::Running(attempt, rows);
                            return Ok(Some(batch));
                        }
                        Came::End => {
                            attempt.watch.end("done");
                            return Ok(None);
                        }
                        Came::Error(error) => {
                            attempt.watch.end("failed");
                            return Err(shown(error));
                        }
                        Came::Lost(told) => {
                            drop(rows);
                            attempt.watch.lose(&told.executor);
                            let again = Again {
                                spreader: &self.spreader,
                                ctx: &self.ctx,
                                has_left: self.has_left,
                            };
                            self.at = again.at(&attempt, told).await?;
                        }
                    }
                }
            }
        }
    }
}

/// A statement that lost an executor.
struct Again<'a> {
    spreader: &'a Spreader,
    ctx: &'a Arc<TaskContext>,
    has_left: bool,
}

impl Again<'_> {
    /// Plans the statement again, if it may run again.
    async fn at(&self, lost: &Attempt, told: Told) -> Result<At> {
        let name = lost.watch.name(&told.executor);
        let why = &told.message;
        tracing::warn!(executor = %name, attempt = lost.number, why, "a statement lost an executor");
        if told.cannot_spill {
            // Other statements may need less.
            self.spreader.leave_out(name);
            if self.has_left || lost.number > self.spreader.retries {
                return Err(told.into_shown());
            }
        } else {
            lost.watch.suspect(name);
        }
        if self.has_left {
            let message = format!(
                "executor {name} was lost after rows of the statement had left: run it again ({why})"
            );
            return Err(Error::new(ErrorKind::Lost, message).into());
        }
        if lost.number > self.spreader.retries {
            let message = format!(
                "executor {name} was lost in run {} of the statement, and tidegate.retries is {} ({why})",
                lost.number, self.spreader.retries
            );
            return Err(Error::new(ErrorKind::Lost, message).into());
        }
        let executors = self.spreader.usable();
        if !executors.is_empty() {
            let attempt = self.spreader.attempt(executors, lost.number + 1).await?;
            if let Some(attempt) = attempt {
                return Ok(At::Planned(attempt));
            }
        }
        self.here()
    }

    /// Runs the statement in this process.
    fn here(&self) -> Result<At> {
        let Spreader {
            base,
            state,
            runtime,
            ..
        } = self.spreader;
        let plan = reset_plan_states(Arc::clone(base))?;
        let plan: Arc<dyn ExecutionPlan> = match plan.output_ordering() {
            _ if plan.output_partitioning().partition_count() == 1 => plan,
            Some(ordering) => {
                let ordering = ordering.clone();
                Arc::new(SortPreservingMergeExec::new(ordering, plan))
            }
            None => Arc::new(CoalescePartitionsExec::new(plan)),
        };
        let plan = place_here(plan, runtime, state.config_options())?;
        Ok(At::Here(plan.execute(0, Arc::clone(self.ctx))?))
    }
}

/// Waits for rows, of which the first do not leave before each executor has accepted its tasks: one that was lost
/// before the statement began, and whose loss is noticed only now, costs it nothing then.
async fn to_leave(attempt: &Attempt, rows: &mut SendableRecordBatchStream, has_left: bool) -> Came {
    match came(attempt, rows).await {
        Came::Batch(batch) if !has_left && batch.num_rows() > 0 => tokio::select! {
            biased;
            told = attempt.watch.lost() => Came::Lost(told),
            told = gone(attempt) => Came::Lost(told),
            () = attempt.watch.all_accepted(attempt.tasks) => Came::Batch(batch),
        },
        came => came,
    }
}

/// Waits for rows, at most until an executor is lost.
async fn came(attempt: &Attempt, rows: &mut SendableRecordBatchStream) -> Came {
    let came = tokio::select! {
        biased;
        told = attempt.watch.lost() => Came::Lost(told),
        told = gone(attempt) => Came::Lost(told),
        next = rows.next() => match next {
            Some(Ok(batch)) => Came::Batch(batch),
            Some(Err(error)) => match Told::find(&error) {
                Some(told) if told.is_lost() => Came::Lost(told),
                _ => Came::Error(error),
            },
            None => Came::End,
        },
    };
    match (came, attempt.watch.lost_already()) {
        // An end, or an error, may be what a loss looks like from afar.
        (Came::End | Came::Error(_), Some(told)) => Came::Lost(told),
        (came, _) => came,
    }
}

/// Waits until one of the executors has left the scheduler whose tasks cannot be moved.
async fn gone(attempt: &Attempt) -> Told {
    let why = "it is gone, or silent";
    loop {
        let there = attempt.executors.iter();
        let there = there.filter(|executor| !attempt.watch.is_mended(&executor.name));
        let there: Vec<&Usable> = there.collect();
        if there.is_empty() {
            return std::future::pending().await;
        }
        let all = there
            .iter()
            .map(|executor| Box::pin(executor.gone.cancelled()));
        let (_, first, _) = select_all(all).await;
        let name = &there[first].name;
        if !attempt.watch.mend(name, why) {
            return Told::new(ErrorKind::Lost, name, why);
        }
        attempt.watch.suspect(name);
    }
}

fn shown(error: DataFusionError) -> DataFusionError {
    match Told::find(&error) {
        Some(told) => told.into_shown(),
        None => error,
    }
}

/// Makes the context of a statement's stages: the statement's memory, and the session that plans them.
fn in_session(ctx: &Arc<TaskContext>, config: &SessionConfig) -> Arc<TaskContext> {
    Arc::new(copied_context(ctx).with_session_config(config.clone()))
}
