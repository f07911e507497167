//! A statement on its way: planned, admitted, started.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef, UInt64Type};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use tidegate::{CancelHandle, Planned};
use tonic::Status;

use crate::admission::Admission;
use crate::executors::{Executors, Rows};
use crate::job::Job;
use crate::meters::Meters;
use crate::options::Limits;
use crate::running::{Held, PermitState, RowStream, Stops, ran_too_long};
use crate::sessions::{ClientSession, Prepared};
use crate::status::{defect, status};
use crate::traces::statement_handle;
use crate::wire::{stamp, wire_schema};

/// Runs work that a defect of the engine may end with a panic.
pub(crate) async fn caught<T>(work: impl Future<Output = Result<T, Status>>) -> Result<T, Status> {
    let caught = AssertUnwindSafe(work).catch_unwind().await;
    caught.unwrap_or_else(|_| {
        let what = std::io::Error::other("a panic");
        Err(defect("the statement hit a bug in the engine", &what))
    })
}

/// What running statements takes.
#[derive(Debug)]
pub(crate) struct Statements {
    pub(crate) admission: Arc<Admission>,
    pub(crate) limits: Limits,
    pub(crate) meters: Arc<Meters>,
    pub(crate) executors: Arc<Executors>,
}

impl Statements {
    /// Plans a statement's text.
    pub(crate) async fn plan(&self, caller: &ClientSession, sql: &str) -> Result<Planned, Status> {
        self.check_size(sql)?;
        self.in_time(async { caller.session.plan(sql).await.map_err(status) })
            .await
    }

    /// Plans the text of a prepared statement.
    pub(crate) async fn plan_cacheable(
        &self,
        caller: &ClientSession,
        sql: &str,
    ) -> Result<Planned, Status> {
        self.check_size(sql)?;
        self.in_time(async { caller.session.plan_cacheable(sql).await.map_err(status) })
            .await
    }

    /// Plans for as long as a statement may run.
    async fn in_time<T>(
        &self,
        planning: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let Some(limit) = self.limits.statement_timeout else {
            return caught(planning).await;
        };
        let planned = tokio::time::timeout(limit, caught(planning)).await;
        planned.unwrap_or_else(|_| Err(ran_too_long(limit)))
    }

    fn check_size(&self, sql: &str) -> Result<(), Status> {
        let limit = self.limits.statement_bytes;
        if sql.len() > limit {
            return Err(Status::resource_exhausted(format!(
                "the statement has {} bytes, and the limit is {limit}: send values as parameters, \
                 or rows by ingest",
                sql.len()
            )));
        }
        Ok(())
    }

    /// Plans a statement that is given without parameters.
    pub(crate) async fn job(&self, caller: &ClientSession, sql: &str) -> Result<Job, Status> {
        Ok(Job::new(vec![self.plan(caller, sql).await?]))
    }

    /// Plans a prepared statement with what was bound to it.
    pub(crate) async fn prepared_job(
        &self,
        caller: &ClientSession,
        prepared: &Prepared,
    ) -> Result<Job, Status> {
        let planned = match prepared.planned.is_current().await {
            true => prepared.planned.clone(),
            false => self.plan(caller, prepared.planned.sql()).await?,
        };
        let mut runs = Vec::new();
        for batch in &prepared.parameters {
            for row in 0..batch.num_rows() {
                runs.push(planned.bind(batch, row).await.map_err(status)?);
            }
        }
        if runs.is_empty() {
            runs.push(planned);
        }
        Ok(Job::new(runs))
    }

    /// Waits for a job's permit and starts it; `number` is that of its result, if it was kept.
    pub(crate) async fn start(
        &self,
        caller: &Arc<ClientSession>,
        job: Job,
        cancel: CancelHandle,
        number: Option<u64>,
    ) -> Result<RowStream, Status> {
        let guard = caller.running(number);
        self.admission.check_open()?;
        let permit = match job.is_control() {
            true => PermitState::Unneeded,
            false => {
                let _waiting = self.meters.wait();
                tokio::select! {
                    permit = self.admission.permit(&caller.user) => PermitState::Held {
                        permit: permit?,
                        admission: Arc::clone(&self.admission),
                        user: Arc::clone(&caller.user),
                    },
                    () = cancel.cancelled() => return Err(Status::cancelled("the statement was cancelled")),
                    () = caller.closed.cancelled() => return Err(Status::cancelled("the session has ended")),
                }
            }
        };
        let limit = self.limits.statement_timeout;
        let stops = Stops {
            cancel: cancel.clone(),
            closed: caller.closed.clone(),
            deadline: limit.map(|limit| (Instant::now() + limit, limit)),
            stall: self.limits.stall,
        };
        let mut runs = job.runs.into_iter();
        let Some(first) = runs.next() else {
            let rows = stream::iter(job.done.into_iter().map(Ok)).boxed();
            let schema = job.schema.unwrap_or_else(|| Arc::new(Schema::empty()));
            let held = Held {
                rows,
                permit,
                _guard: guard,
            };
            return Ok(RowStream::new(schema, held, stops));
        };
        let run = caught({
            let cancel = cancel.clone();
            async move { started(first, runs, cancel).await }
        });
        let (schema, rows) = match &permit {
            // What steers the server needs no threads of its own.
            PermitState::Unneeded => stops.or(run).await?,
            _ => {
                stops
                    .or(self.executors.lend()?.run(cancel.clone(), run))
                    .await?
            }
        };
        let held = Held {
            rows,
            permit,
            _guard: guard,
        };
        Ok(RowStream::new(schema, held, stops))
    }

    /// Decides how a query runs, so that its columns are certain.
    pub(crate) async fn ready(&self, mut job: Job, cancel: &CancelHandle) -> Result<Job, Status> {
        if let Some(first) = job.runs.first_mut() {
            *first = self
                .in_time(async { first.ready(cancel).await.map_err(status) })
                .await?;
        }
        let columns = job.runs.first().and_then(Planned::schema);
        job.schema = columns.map(|columns| wire_schema(&columns));
        Ok(job)
    }

    /// Runs a job that changes something, and keeps what it gives; a query is only made ready.
    ///
    /// A client that has asked for a change takes it for done, whether or not it fetches the answer.
    pub(crate) async fn settle(
        &self,
        caller: &Arc<ClientSession>,
        job: Job,
        cancel: &CancelHandle,
    ) -> Result<Job, Status> {
        if job.is_query() {
            return self.ready(job, cancel).await;
        }
        let rows = self.start(caller, job, cancel.clone(), None).await?;
        let schema = SchemaRef::clone(rows.schema());
        let done = rows.try_collect().await?;
        Ok(Job::done(schema, done))
    }

    /// Runs a job to its end; returns how many rows it changed, or -1 if that cannot be said.
    pub(crate) async fn update(
        &self,
        caller: &Arc<ClientSession>,
        job: Job,
    ) -> Result<i64, Status> {
        let is_query = job.is_query();
        let mut rows = self.start(caller, job, statement_handle(), None).await?;
        let mut counts = Vec::new();
        while let Some(batch) = rows.try_next().await? {
            counts.push(count_of(&batch));
        }
        // A statement that says nothing, such as CREATE TABLE, does not count rows.
        let is_counted = !is_query && !counts.is_empty();
        let changed = counts.into_iter().sum::<Option<u64>>();
        let changed = changed.filter(|_| is_counted);
        Ok(changed.map_or(-1, |changed| i64::try_from(changed).unwrap_or(i64::MAX)))
    }
}

/// Starts a job's first run, and streams the rows of all of them.
async fn started(
    first: Planned,
    others: impl Iterator<Item = Planned> + Send + 'static,
    cancel: CancelHandle,
) -> Result<(SchemaRef, Rows), Status> {
    let first = first.start(&cancel).await.map_err(status)?;
    let schema = wire_schema(&first.schema());
    let others = stream::iter(others).then(move |run| {
        let cancel = cancel.clone();
        async move { run.start(&cancel).await.map_err(status) }
    });
    let stamped = Arc::clone(&schema);
    let rows = stream::once(async { Ok(first) })
        .chain(others)
        .map_ok(|rows| rows.map_err(status))
        .try_flatten()
        .map(move |batch| {
            stamp(&batch?, &stamped)
                .map_err(|error| defect("the rows do not fit their columns", &error))
        });
    Ok((schema, rows.boxed()))
}

/// Reads the number of changed rows from what INSERT, UPDATE, DELETE and COPY answer.
fn count_of(batch: &RecordBatch) -> Option<u64> {
    let [column] = batch.columns() else {
        return None;
    };
    let schema = batch.schema();
    if schema.field(0).name() != "count" || *column.data_type() != DataType::UInt64 {
        return None;
    }
    let counts = column.as_primitive::<UInt64Type>();
    Some(counts.iter().flatten().sum())
}
