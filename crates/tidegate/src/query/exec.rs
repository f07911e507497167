//! The root of every plan that a session runs.

use std::any::Any;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::future::{Either, select};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use futures_timer::Delay;

use super::cancelled;
use super::entrance::Entrance;
use super::history::{Record, Regions};
use crate::error::{Error, ErrorKind};
use crate::region::PipelineExec;
use crate::region::report::RegionReport;
use crate::stores::WriteFailures;

/// Watches over a query.
#[derive(Debug)]
pub(crate) struct QueryExec {
    plan: Arc<dyn ExecutionPlan>,
    timeout: Option<Duration>,
    entrance: Arc<Entrance>,
    record: Arc<Record>,
}

impl QueryExec {
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        timeout: Option<Duration>,
        entrance: Entrance,
        record: Arc<Record>,
    ) -> Self {
        Self {
            plan,
            timeout,
            entrance: Arc::new(entrance),
            record,
        }
    }
}

impl DisplayAs for QueryExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueryExec")
    }
}

impl ExecutionPlan for QueryExec {
    fn name(&self) -> &str {
        "QueryExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.plan]
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
        let Ok([plan]) = <[_; 1]>::try_from(children) else {
            return internal_err!("QueryExec has one input");
        };
        Ok(Arc::new(Self {
            plan,
            timeout: self.timeout,
            entrance: Arc::clone(&self.entrance),
            record: Arc::clone(&self.record),
        }))
    }

    fn execute(
        &self,
        partition: usize,
        ctx: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let num_partitions = self.plan.output_partitioning().partition_count();
        let guard = Guard {
            record: Arc::clone(&self.record),
            plan: Arc::clone(&self.plan),
            ended: false,
        };
        guard.record.begin(num_partitions);
        guard.record.runs(&self.plan);
        let schema = self.plan.schema();
        let failures = ctx.session_config().get_extension::<WriteFailures>();
        let inside = Inside {
            plan: Arc::clone(&self.plan),
            partition,
            ctx,
            entrance: Arc::clone(&self.entrance),
            record: Arc::clone(&self.record),
            timeout: self.timeout,
        };
        let caught = AssertUnwindSafe(inside.rows())
            .catch_unwind()
            .map(flatten_panic)
            .map_err(move |error| match &failures {
                Some(failures) => failures.explain(error),
                None => error,
            })
            .boxed();
        let watched = stream::unfold(
            (caught, Some(guard)),
            move |(mut inner, guard)| async move {
                let mut guard = guard?;
                let cancel = guard.record.cancel().clone();
                let item = tokio::select! {
                    biased;
                    () = cancel.cancelled() => Some(Err(cancelled().into())),
                    item = inner.next() => item,
                };
                match item {
                    Some(Ok(batch)) => {
                        guard.record.count(batch.num_rows());
                        Some((Ok(batch), (inner, Some(guard))))
                    }
                    Some(Err(error)) => {
                        guard.fail(&error);
                        Some((Err(error), (inner, None)))
                    }
                    None => {
                        guard.end();
                        None
                    }
                }
            },
        );
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, watched)))
    }
}

/// One stream of a query from the gate to its last row.
struct Inside {
    plan: Arc<dyn ExecutionPlan>,
    partition: usize,
    ctx: Arc<TaskContext>,
    entrance: Arc<Entrance>,
    record: Arc<Record>,
    timeout: Option<Duration>,
}

impl Inside {
    /// Streams the rows once the query was let in; its time runs from then on.
    fn rows(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let begun = stream::once(async move {
            let stay = self.entrance.enter(&self.ctx, &self.record).await?;
            let deadline = self.timeout.map(Deadline::after);
            let inner = self.plan.execute(self.partition, Arc::clone(&stay.ctx))?;
            Ok::<_, DataFusionError>(stream::unfold(
                (inner, deadline, stay),
                move |(mut inner, mut deadline, stay)| async move {
                    let item = match &mut deadline {
                        Some(deadline) => deadline.before(inner.next()).await,
                        None => Ok(inner.next().await),
                    };
                    let item = item.unwrap_or_else(|over| Some(Err(over.into())))?;
                    Some((item, (inner, deadline, stay)))
                },
            ))
        });
        begun.try_flatten()
    }
}

/// When a statement's time is over. A thread of its own keeps the time: the runtime's own clock
/// stands still for as long as each of its threads is busy with a batch.
pub(crate) struct Deadline {
    timeout: Duration,
    rings: Delay,
}

impl Deadline {
    /// Counts from now.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self {
            timeout,
            rings: Delay::new(timeout),
        }
    }

    /// Waits for work, at most until then.
    pub(crate) async fn before<T>(
        &mut self,
        work: impl Future<Output = T> + Unpin,
    ) -> std::result::Result<T, Error> {
        match select(work, &mut self.rings).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right(_) => Err(ran_too_long(self.timeout)),
        }
    }
}

/// Says that a statement reached `tidegate.statement_timeout`.
fn ran_too_long(timeout: Duration) -> Error {
    Error::new(
        ErrorKind::Cancelled,
        format!(
            "the statement ran longer than tidegate.statement_timeout = {} ms; raise it, or set it \
             to 0 for no limit",
            timeout.as_millis()
        ),
    )
}

pub(crate) fn flatten_panic<T>(
    caught: std::result::Result<Result<T>, Box<dyn Any + Send>>,
) -> Result<T> {
    caught.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        let message = format!("the query stopped at a defect of the engine: {text}");
        Err(DataFusionError::from(Error::new(
            ErrorKind::Internal,
            message,
        )))
    })
}

/// Sees one stream to its end, however it comes.
struct Guard {
    record: Arc<Record>,
    plan: Arc<dyn ExecutionPlan>,
    ended: bool,
}

impl Guard {
    fn end(&mut self) {
        self.ended = true;
        self.record.end_stream(|| at_the_end(&self.plan));
    }

    fn fail(mut self, error: &DataFusionError) {
        self.ended = true;
        let message = Error::from_ref(error);
        self.record.fail(message, || at_the_end(&self.plan));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.ended {
            self.record.drop_stream(|| at_the_end(&self.plan));
        }
    }
}

/// Gathers what is to be told of a plan's regions. A short query would take longer to describe
/// than to run.
pub(super) fn at_the_end(plan: &Arc<dyn ExecutionPlan>) -> Regions {
    let root = plan.downcast_ref::<PipelineExec>();
    match root.and_then(PipelineExec::atomic_region) {
        // What is below is its own other half.
        Some((region, _)) => Regions::Only(Arc::clone(region)),
        None => Regions::Told(regions(plan)),
    }
}

/// Gathers the reports of a plan's regions, from the root down.
pub(crate) fn regions(plan: &Arc<dyn ExecutionPlan>) -> Vec<RegionReport> {
    let own = plan
        .downcast_ref::<PipelineExec>()
        .map(PipelineExec::report);
    let below = plan.children().into_iter().flat_map(regions);
    own.into_iter().chain(below).collect()
}
