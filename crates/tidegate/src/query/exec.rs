//! The root of every plan that a session runs.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::future::{Either, select};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use futures_timer::Delay;
use parking_lot::Mutex;
use tidegate_device::panic_text;

use super::admission::{Admission, Admitted};
use super::again::{SecondTry, Tries, lacks_memory};
use super::cancelled;
use super::history::{Record, Regions};
use super::long_rows::with_small_batches;
use super::yielding::{Stop, arm};
use crate::error::{Error, ErrorKind, in_one_text};
use crate::region::PipelineExec;
use crate::region::report::RegionReport;
use crate::spilling::LongRows;
use crate::stores::WriteFailures;
use crate::unary::{UnaryExec, UnaryOperator};

/// The node of a [`Watcher`].
pub(crate) type QueryExec = UnaryExec<Watcher>;

/// Watches over a query.
#[derive(Debug)]
pub(crate) struct Watcher {
    plan: Arc<dyn ExecutionPlan>,
    running: Running,
    tries: Arc<Tries>,
    timeout: Option<Duration>,
    /// Time that planning has taken of it.
    planned_in: Duration,
    admission: Arc<Admission>,
    record: Arc<Record>,
}

impl QueryExec {
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        again: Option<SecondTry>,
        (timeout, planned_in): (Option<Duration>, Duration),
        admission: Admission,
        record: Arc<Record>,
    ) -> Self {
        Self(Watcher {
            running: Running::new(&plan),
            plan,
            tries: Arc::new(Tries::new(again)),
            timeout,
            planned_in,
            admission: Arc::new(admission),
            record,
        })
    }
}

impl UnaryOperator for Watcher {
    const NAME: &'static str = "QueryExec";

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.plan
    }

    fn over(&self, plan: Arc<dyn ExecutionPlan>) -> Self {
        // What would be planned again is not this plan.
        Self {
            running: Running::new(&plan),
            plan,
            tries: Arc::new(Tries::new(None)),
            timeout: self.timeout,
            planned_in: self.planned_in,
            admission: Arc::clone(&self.admission),
            record: Arc::clone(&self.record),
        }
    }

    fn rows(&self, partition: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let num_partitions = self.plan.output_partitioning().partition_count();
        let guard = Guard {
            record: Arc::clone(&self.record),
            running: self.running.clone(),
            ended: false,
        };
        guard.record.begin(num_partitions);
        guard.record.runs(&self.plan);
        let schema = self.plan.schema();
        let failures = ctx.session_config().get_extension::<WriteFailures>();
        let inside = Inside {
            running: self.running.clone(),
            tries: Arc::clone(&self.tries),
            partition,
            ctx,
            admission: Arc::clone(&self.admission),
            record: Arc::clone(&self.record),
            timeout: self.timeout,
            planned_in: self.planned_in,
        };
        let caught = AssertUnwindSafe(inside.rows())
            .catch_unwind()
            .map(flatten_panic)
            .map_err(move |error| match &failures {
                Some(failures) => failures.explain(in_one_text(error)),
                None => in_one_text(error),
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

/// The plan that a query runs, for its streams and for who asks how it went.
#[derive(Clone, Debug)]
struct Running(Arc<Mutex<Arc<dyn ExecutionPlan>>>);

impl Running {
    fn new(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self(Arc::new(Mutex::new(Arc::clone(plan))))
    }

    fn plan(&self) -> Arc<dyn ExecutionPlan> {
        Arc::clone(&self.0.lock())
    }

    fn set(&self, plan: &Arc<dyn ExecutionPlan>) {
        *self.0.lock() = Arc::clone(plan);
    }
}

/// One stream of a query from the gate to its last row.
struct Inside {
    running: Running,
    tries: Arc<Tries>,
    partition: usize,
    ctx: Arc<TaskContext>,
    admission: Arc<Admission>,
    record: Arc<Record>,
    timeout: Option<Duration>,
    planned_in: Duration,
}

impl Inside {
    /// Streams the rows once the query was let in; its time runs from then on.
    fn rows(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        let begun = stream::once(async move {
            let admitted = self.admission.enter(&self.ctx, &self.record).await?;
            let deadline = self
                .timeout
                .map(|timeout| Deadline::with(timeout, self.planned_in));
            let mut run = Run {
                rows: None,
                may_be_replaced: self.tries.may_run_again(),
                deadline,
                admitted,
                running: self.running,
                tries: self.tries,
                record: self.record,
            };
            if !run.tries.is_replaced() {
                let plan = run.running.plan();
                run.arm(&plan)?;
                let ctx = with_small_batches(Arc::clone(&run.admitted.ctx), &plan)?;
                run.rows = Some(plan.execute(self.partition, ctx)?);
            }
            Ok::<_, DataFusionError>(stream::unfold(run, |mut run| async move {
                let item = run.next().await?;
                Some((item, run))
            }))
        });
        begun.try_flatten()
    }
}

/// One stream of a query that was let in.
struct Run {
    /// `None` if the second try, which another stream runs, gives all rows.
    rows: Option<SendableRecordBatchStream>,
    /// Nothing has left, and the query may be planned again.
    may_be_replaced: bool,
    deadline: Option<Deadline>,
    admitted: Arc<Admitted>,
    running: Running,
    tries: Arc<Tries>,
    record: Arc<Record>,
}

impl Run {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if !self.may_be_replaced {
            return self.item().await;
        }
        let tries = Arc::clone(&self.tries);
        let item = tokio::select! {
            biased;
            () = tries.replaced() => None,
            item = self.item() => item,
        };
        if let Some(Err(error)) = &item
            && lacks_memory(error)
            && let Some(second) = tries.begin_again()
        {
            self.may_be_replaced = false;
            return match self.first_again(second, error).await {
                // Operators that spill repeat rows, too.
                Some(Err(error)) if LongRows::of(&error).is_some() => {
                    self.first_again(second, &error).await
                }
                item => item,
            };
        }
        let item = item.filter(|_| tries.leave());
        match item {
            Some(_) => self.may_be_replaced = false,
            None => self.rows = None,
        }
        item
    }

    /// Begins again, and returns what comes first.
    async fn first_again(
        &mut self,
        second: &SecondTry,
        why: &DataFusionError,
    ) -> Option<Result<RecordBatch>> {
        match self.run_again(second, why).await {
            Ok(()) => self.item().await,
            Err(error) => Some(Err(error)),
        }
    }

    async fn item(&mut self) -> Option<Result<RecordBatch>> {
        let rows = self.rows.as_mut()?;
        let item = match &mut self.deadline {
            Some(deadline) => deadline.before(rows.next()).await,
            None => Ok(rows.next().await),
        };
        item.unwrap_or_else(|over| Some(Err(over.into())))
    }

    /// Tells a plan's conditions what stops the query.
    fn arm(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
        let stop = Stop {
            cancel: self.record.cancel().clone(),
            deadline: self.deadline.as_ref().and_then(Deadline::end),
            read: Arc::downgrade(&self.admitted),
        };
        arm(plan, &stop)
    }

    /// Replaces what runs by a plan that needs less memory.
    async fn run_again(&mut self, second: &SecondTry, why: &DataFusionError) -> Result<()> {
        self.rows = None;
        let ctx = &self.admitted.ctx;
        let (plan, ctx) = second.plan(ctx, why).await?;
        let why = Error::from_ref(why);
        let note = format!("planned again, since its first plan lacked memory: {why}");
        self.record.runs_instead(&plan, note);
        // With its last reference the first plan gives back what it holds.
        self.running.set(&plan);
        self.admitted.holds_nothing().await;
        self.arm(&plan)?;
        let ctx = with_small_batches(self.admitted.in_own_pool(&ctx), &plan)?;
        self.rows = Some(plan.execute(0, ctx)?);
        Ok(())
    }
}

/// When a statement's time is over. A thread of its own keeps the time: the runtime's own clock
/// stands still for as long as each of its threads is busy with a batch.
pub(crate) struct Deadline {
    timeout: Duration,
    /// `None` for later than there are instants.
    at: Option<Instant>,
    rings: Delay,
}

impl Deadline {
    /// Counts from now.
    pub(crate) fn after(timeout: Duration) -> Self {
        Self::with(timeout, Duration::ZERO)
    }

    /// Counts from now, when some of the time has been spent.
    fn with(timeout: Duration, spent: Duration) -> Self {
        let left = timeout.saturating_sub(spent);
        Self {
            timeout,
            at: Instant::now().checked_add(left),
            rings: Delay::new(left),
        }
    }

    /// Returns when it is, and how long after the start.
    fn end(&self) -> Option<(Instant, Duration)> {
        Some((self.at?, self.timeout))
    }

    /// Waits for work, at most until then.
    pub(crate) async fn before<T>(
        &mut self,
        work: impl Future<Output = T> + Unpin,
    ) -> std::result::Result<T, Error> {
        // Of what is ready at once only the first is asked: work that always is would never end.
        match select(&mut self.rings, work).await {
            Either::Left(_) => Err(ran_too_long(self.timeout)),
            Either::Right((done, _)) => Ok(done),
        }
    }
}

/// Says that a statement reached `tidegate.statement_timeout`.
pub(super) fn ran_too_long(timeout: Duration) -> Error {
    Error::new(
        ErrorKind::TimedOut,
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
    caught.unwrap_or_else(|panic| Err(panicked(&*panic).into()))
}

/// Says that the engine met a panic.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Error {
    let text = panic_text(panic);
    let message = format!("the query hit a bug in the engine: {text}");
    Error::of_panic(text, message)
}

/// Sees one stream to its end, however it comes.
struct Guard {
    record: Arc<Record>,
    running: Running,
    ended: bool,
}

impl Guard {
    fn end(&mut self) {
        self.ended = true;
        self.record.end_stream(|| at_the_end(&self.running.plan()));
    }

    fn fail(mut self, error: &DataFusionError) {
        self.ended = true;
        let message = Error::from_ref(error);
        self.record
            .fail(message, || at_the_end(&self.running.plan()));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.ended {
            self.record.drop_stream(|| at_the_end(&self.running.plan()));
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
