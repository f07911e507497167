//! Tasks of a session: queries and closures that run beside each other and use each other's values.
//!
//! How tasks are ordered and what they may take is `tidegate_scheduler::tasks`'s; here a session gives
//! them its memory pool and its devices' slots, and makes tasks of queries. A task that reserves memory
//! takes it from the pool that statements share.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt;
use tidegate_scheduler::tasks::{
    CPU_SLOTS, DEVICE_SLOTS, Executor, ExecutorOptions, GraphError, GraphHandles, Handle, Task,
    TaskContext, TaskError, TaskGraph, TaskMemory,
};

use super::{Session, TEMP_SCHEMA, client};
use crate::error::{Error, ErrorKind};

/// How long a task waits for memory that others hold before it fails.
const MEMORY_WAIT: Duration = Duration::from_secs(60);

/// Something that a session can run as a task.
pub trait IntoTask {
    /// The type of its value.
    type Value;

    /// Makes the task.
    fn into_task(self, session: &Session) -> Task<Self::Value>;
}

impl<T> IntoTask for Task<T> {
    type Value = T;

    fn into_task(self, _: &Session) -> Task<T> {
        self
    }
}

/// A query as a task: its text, and the results of other tasks that it reads.
#[derive(Clone, Debug)]
pub struct Query {
    sql: Arc<str>,
    tables: Vec<(Arc<str>, Handle<Vec<RecordBatch>>)>,
}

impl Query {
    /// Makes a query of its text.
    pub fn new(sql: impl Into<Arc<str>>) -> Self {
        Self {
            sql: sql.into(),
            tables: Vec::new(),
        }
    }

    /// Lets the query read the rows of another task as the table `temp.name`. The query starts when
    /// they are available; no other query sees the table.
    pub fn table(mut self, name: impl Into<Arc<str>>, rows: &Handle<Vec<RecordBatch>>) -> Self {
        self.tables.push((name.into(), rows.clone()));
        self
    }
}

impl IntoTask for Query {
    type Value = Vec<RecordBatch>;

    fn into_task(self, session: &Session) -> Task<Vec<RecordBatch>> {
        let after: Vec<_> = self
            .tables
            .iter()
            .map(|(_, rows)| rows.task().clone())
            .collect();
        let name: String = self.sql.chars().take(60).collect();
        let session = session.clone();
        let task = Task::future(move |context| {
            let (session, query) = (session.clone(), self.clone());
            async move { query.run(session, &context).await }
        });
        task.named(name).after(&after)
    }
}

impl IntoTask for &str {
    type Value = Vec<RecordBatch>;

    fn into_task(self, session: &Session) -> Task<Vec<RecordBatch>> {
        Query::new(self).into_task(session)
    }
}

impl IntoTask for String {
    type Value = Vec<RecordBatch>;

    fn into_task(self, session: &Session) -> Task<Vec<RecordBatch>> {
        Query::new(self).into_task(session)
    }
}

impl IntoTask for DataFrame {
    type Value = Vec<RecordBatch>;

    fn into_task(self, _: &Session) -> Task<Vec<RecordBatch>> {
        let task = Task::future(move |context| {
            let frame = self.clone();
            async move { gather(frame.execute_stream().await?, &context).await }
        });
        task.named("a frame")
    }
}

impl Query {
    async fn run(self, session: Session, context: &TaskContext) -> Result<Vec<RecordBatch>, Error> {
        if self.tables.is_empty() {
            return gather(session.execute(&self.sql).await?, context).await;
        }
        let session = client::with_own_tables(&session);
        for (name, handle) in &self.tables {
            let rows = match handle.result() {
                Some(rows) => rows?,
                None => handle.clone().await?,
            };
            let Some(first) = rows.first() else {
                let message = format!(
                    "the task whose rows are {name} gave no batch, so that its columns are not known"
                );
                return Err(Error::new(ErrorKind::Sql, message));
            };
            let table = MemTable::try_new(first.schema(), vec![rows.to_vec()])?;
            let name = format!("{TEMP_SCHEMA}.{name}");
            session.ctx.register_table(name.as_str(), Arc::new(table))?;
        }
        gather(session.execute(&self.sql).await?, context).await
    }
}

/// Collects rows, and reports how many there are. There is a batch even of no rows, for its columns.
async fn gather(
    mut stream: SendableRecordBatchStream,
    context: &TaskContext,
) -> Result<Vec<RecordBatch>, Error> {
    let (mut batches, mut rows) = (Vec::new(), 0_u64);
    while let Some(batch) = stream.try_next().await? {
        rows += batch.num_rows() as u64;
        context.report(rows, 0);
        batches.push(batch);
    }
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(stream.schema()));
    }
    Ok(batches)
}

impl Session {
    /// Submits a query (`&str`, [`Query`], a `DataFrame`) or a [`Task`] of a closure or a future.
    /// It runs when what it needs is free; the handle reports its progress, cancels it, and gives
    /// its value to whoever awaits it and to later tasks.
    ///
    /// ```
    /// use tidegate::{Query, Session, Task};
    /// # #[tokio::main(flavor = "multi_thread")]
    /// # async fn main() -> Result<(), tidegate::Error> {
    /// let session = Session::new()?;
    /// let rows = session.submit("SELECT value AS n FROM generate_series(1, 10)")?;
    /// let even = session.submit(Query::new("SELECT n FROM temp.all WHERE n % 2 = 0").table("all", &rows))?;
    /// let (left, right) = (rows.clone(), even.clone());
    /// let counted = Task::call(move |_| {
    ///     let count = |rows: &[_]| rows.iter().map(arrow_rows).sum::<usize>();
    ///     let (Some(left), Some(right)) = (left.result(), right.result()) else { return Ok((0, 0)) };
    ///     Ok::<_, tidegate::TaskError>((count(&left?), count(&right?)))
    /// });
    /// let counted = session.submit(counted.after([rows.task(), even.task()]))?;
    /// assert_eq!(*counted.await?, (10, 5));
    /// # Ok(())
    /// # }
    /// # fn arrow_rows(batch: &datafusion::arrow::array::RecordBatch) -> usize { batch.num_rows() }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::ResourcesExhausted`] if the task needs more than there is at all,
    /// [`ErrorKind::NotSupported`] outside of a tokio runtime.
    pub fn submit<W: IntoTask>(&self, work: W) -> Result<Handle<W::Value>, Error> {
        Ok(self.executor().submit(work.into_task(self))?)
    }

    /// Submits every task of a graph.
    ///
    /// # Errors
    /// [`ErrorKind::Sql`] if the tasks form a cycle, or one of them is missing.
    pub fn submit_graph(&self, graph: TaskGraph) -> Result<GraphHandles, Error> {
        Ok(graph.submit(self.executor())?)
    }

    /// Returns the slots that tasks can take, by name: `cpu`, as many as cores; `device`, as many as
    /// devices; and those of [`super::SessionBuilder::task_slots`].
    pub fn task_slots(&self) -> HashMap<String, u32> {
        let slots = self.executor().slots().iter();
        slots
            .map(|(name, count)| (name.to_string(), *count))
            .collect()
    }

    fn executor(&self) -> &Executor {
        self.tasks.executor.get_or_init(|| {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let mut slots: HashMap<Arc<str>, u32> = HashMap::from([
                (CPU_SLOTS.into(), cores as u32),
                (DEVICE_SLOTS.into(), self.runtime.devices().len() as u32),
            ]);
            slots.extend(
                self.tasks
                    .slots
                    .iter()
                    .map(|(name, count)| (name.as_str().into(), *count)),
            );
            Executor::new(ExecutorOptions {
                slots,
                memory: Arc::new(PoolMemory(self.ctx.clone())),
                memory_wait: MEMORY_WAIT,
            })
        })
    }
}

/// What the sessions of one family share to run tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    slots: HashMap<String, u32>,
    executor: std::sync::OnceLock<Executor>,
}

impl Tasks {
    pub(super) fn new(slots: HashMap<String, u32>) -> Self {
        Self {
            slots,
            executor: std::sync::OnceLock::new(),
        }
    }
}

/// The memory pool of a session, whichever it is at the time.
struct PoolMemory(SessionContext);

impl TaskMemory for PoolMemory {
    fn limit_bytes(&self) -> u64 {
        match self.0.runtime_env().memory_pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes as u64,
            _ => u64::MAX,
        }
    }

    fn try_reserve(&self, task: &str, bytes: u64) -> Option<Box<dyn Any + Send>> {
        let pool = &self.0.runtime_env().memory_pool;
        let reservation = MemoryConsumer::new(format!("task {task}")).register(pool);
        let bytes = usize::try_from(bytes).ok()?;
        reservation.try_grow(bytes).ok()?;
        Some(Box::new(reservation))
    }
}

impl From<TaskError> for Error {
    fn from(error: TaskError) -> Self {
        let kind = match error.root() {
            TaskError::Failed { cause, .. } => match cause.downcast_ref::<Self>() {
                Some(own) => own.kind(),
                None => ErrorKind::Sql,
            },
            TaskError::Cancelled { .. } => ErrorKind::Cancelled,
            TaskError::NoRoom { .. } => ErrorKind::ResourcesExhausted,
            TaskError::NoRuntime { .. } => ErrorKind::NotSupported,
            TaskError::Panicked { .. } | TaskError::NotRun { .. } => ErrorKind::Sql,
        };
        Self::with_source(kind, error.to_string(), error)
    }
}

impl From<GraphError> for Error {
    fn from(error: GraphError) -> Self {
        match error {
            GraphError::Task(error) => error.into(),
            error => Self::with_source(ErrorKind::Sql, error.to_string(), error),
        }
    }
}
