//! What a statement knows of its tasks while it runs: where each is, which executors were lost, and whether
//! that costs it anything.
//!
//! A task is *movable* that reads nothing but its share of tables, and whose rows the scheduler itself reads.
//! As long as nothing of it has arrived, neither a row nor the end of a partition, it can be set again on
//! another executor, with the same share: whoever waits for its rows then waits there. So the loss of an
//! executor costs a sum over an array what that executor had done, and not what the others did. If any of
//! an executor's tasks is not movable, or something of it has arrived, its loss is the statement's.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::{
    ChannelResolver, ExecuteTaskRequest, MaybeEncoded, NetworkBoundaryExt, ProducerHead,
    SetPlanRequest, TaskKey,
};
use futures::StreamExt;
use parking_lot::Mutex;
use tidegate::ErrorKind;
use tidegate::spread::TaskReport;
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;
use tonic::codegen::http::HeaderMap;
use url::Url;

use crate::channels::{Channels, Resolver, Rows};
use crate::members::{Members, Usable};
use crate::share::ShareExec;
use crate::tasks::Tasks;
use crate::told::Told;

/// How long the first rows of a statement wait for the last of its tasks to be accepted.
const ACCEPTED_MAX: Duration = Duration::from_secs(10);

/// See the module.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) statement: u64,
    pub(crate) attempt: u64,
    pub(crate) executors: Arc<[Usable]>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) members: Arc<Members>,
    pub(crate) channels: Channels,
    placed: Mutex<Placed>,
    /// Changed whenever a task moves.
    moves: Sender<()>,
    lost: Sender<Option<Told>>,
    /// How many tasks their executors have accepted, or others in their place.
    accepted: Sender<usize>,
    /// Cancelled when the statement has no use for its tasks any more.
    over: CancellationToken,
}

/// Where tasks are.
#[derive(Debug)]
struct Placed {
    by_key: BTreeMap<(usize, usize), Task>,
    /// The executors that were lost, and whether their tasks could be moved.
    lost: HashMap<Url, bool>,
    /// How many more losses may be mended.
    left: usize,
}

/// A task that was sent.
struct Task {
    url: Url,
    /// How many times it has moved.
    moves: u64,
    /// What it takes to send it again; `None` if it reads of other tasks.
    sent: Option<Sent>,
    /// How the scheduler reads it, and how many partitions have not ended; `None` if others read it.
    reading: Option<(ProducerHead, usize)>,
    /// A row of it has arrived, or the end of a partition.
    has_arrived: bool,
}

/// What it takes to send a task again.
#[derive(Clone)]
struct Sent {
    headers: HeaderMap,
    key: TaskKey,
    task_count: usize,
    plan: Arc<dyn ExecutionPlan>,
    query_start_time_ns: usize,
    ctx: Arc<TaskContext>,
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("url", &self.url)
            .field("moves", &self.moves)
            .finish_non_exhaustive()
    }
}

impl Task {
    /// Tells whether nothing is left of it to be read.
    fn is_done(&self) -> bool {
        matches!(self.reading, Some((_, 0)))
    }

    fn is_movable(&self) -> bool {
        self.sent.is_some() && self.reading.is_some() && !self.has_arrived
    }
}

impl Watch {
    /// Makes what watches a statement's tasks on these executors, of which at most `retries` may be lost
    /// without the statement.
    pub(crate) fn new(
        (statement, attempt): (u64, u64),
        executors: Arc<[Usable]>,
        tasks: Arc<Tasks>,
        members: Arc<Members>,
        channels: Channels,
        retries: usize,
    ) -> Self {
        Self {
            statement,
            attempt,
            executors,
            tasks,
            members,
            channels,
            placed: Mutex::new(Placed {
                by_key: BTreeMap::new(),
                lost: HashMap::new(),
                left: retries,
            }),
            moves: Sender::new(()),
            lost: Sender::new(None),
            accepted: Sender::new(0),
            over: CancellationToken::new(),
        }
    }

    /// Notes that a task is sent to an executor.
    pub(crate) fn begin(
        &self,
        url: &Url,
        headers: &HeaderMap,
        request: &SetPlanRequest,
        ctx: &Arc<TaskContext>,
    ) {
        let key = request.task_key;
        self.report(url, key);
        let sent = match &request.plan {
            MaybeEncoded::Decoded(plan) if reads_shares_alone(plan) => Some(Sent {
                headers: headers.clone(),
                key,
                task_count: request.task_count,
                plan: Arc::clone(plan),
                query_start_time_ns: request.query_start_time_ns,
                ctx: Arc::clone(ctx),
            }),
            _ => None,
        };
        let sent = sent.filter(|_| request.work_unit_feed_declarations.is_empty());
        let task = Task {
            url: url.clone(),
            moves: 0,
            sent,
            reading: None,
            has_arrived: false,
        };
        let mut placed = self.placed.lock();
        if self.over.is_cancelled() {
            return;
        }
        placed.by_key.insert(place_of(key), task);
        if let Some(is_mended) = placed.lost.get_mut(url) {
            // Its tasks were moved before this one was there.
            *is_mended = false;
            drop(placed);
            let why = "it was lost before it had all of its tasks";
            self.lost_for_good(&Told::new(ErrorKind::Lost, url.as_str(), why));
        }
    }

    /// Notes that an executor has accepted a task.
    pub(crate) fn accept(&self) {
        self.accepted.send_modify(|accepted| *accepted += 1);
    }

    /// Waits until so many tasks were accepted, for [`ACCEPTED_MAX`] at the most: by then a silent executor is known to
    /// be lost.
    pub(crate) async fn all_accepted(&self, tasks: usize) {
        let mut accepted = self.accepted.subscribe();
        let all = accepted.wait_for(|accepted| *accepted >= tasks);
        if tokio::time::timeout(ACCEPTED_MAX, all).await.is_err() {
            let (statement, accepted) = (self.statement, *self.accepted.borrow());
            tracing::warn!(
                statement,
                tasks,
                accepted,
                "tasks were not accepted in time"
            );
        }
    }

    fn report(&self, url: &Url, key: TaskKey) {
        self.tasks.begin(TaskReport {
            statement: self.statement,
            attempt: self.attempt,
            stage: key.stage_id as u64,
            task: key.task_number as u64,
            executor: self.name(url.as_str()).to_string(),
            state: String::new(),
            started: SystemTime::now(),
            ended: None,
        });
    }

    fn executor(&self, name_or_url: &str) -> Option<&Usable> {
        let mut all = self.executors.iter();
        all.find(|of| of.name == name_or_url || of.url.as_str() == name_or_url)
    }

    /// Returns the name of an executor of this name or URL, which is known here also when it has left.
    pub(crate) fn name<'a>(&'a self, name_or_url: &'a str) -> &'a str {
        let known = self.executor(name_or_url);
        known.map_or(name_or_url, |of| &of.name)
    }

    fn url(&self, name_or_url: &str) -> Option<&Url> {
        Some(&self.executor(name_or_url)?.url)
    }

    /// Has an executor of this name or URL not used again before it reports.
    pub(crate) fn suspect(&self, name_or_url: &str) {
        if let Some(Usable { name, url, .. }) = self.executor(name_or_url) {
            self.members.suspect(name, url);
        }
    }

    /// Notes that the scheduler reads so many partitions of a task. Returns the task if it may move.
    pub(crate) fn read(
        self: &Arc<Self>,
        key: TaskKey,
        url: &Url,
        head: ProducerHead,
        partitions: usize,
    ) -> Option<Movable> {
        let mut placed = self.placed.lock();
        let task = placed.by_key.get_mut(&place_of(key))?;
        if task.reading.is_some() || task.sent.is_none() || task.url != *url {
            return None;
        }
        task.reading = Some((head, partitions));
        Some(Movable {
            watch: Arc::clone(self),
            key,
            moves: task.moves,
        })
    }

    /// Notes how the tasks end of which nothing else is known, and that nothing more is wanted of them.
    pub(crate) fn end(&self, state: &str) {
        self.over.cancel();
        // What it takes to send a task has the session in it, and that has this.
        self.placed.lock().by_key.clear();
        self.tasks.end(state, |task| {
            task.statement == self.statement && task.attempt == self.attempt
        });
    }

    /// Notes an error of a task: a loss is the statement's, unless it can be mended.
    pub(crate) fn note(self: &Arc<Self>, told: &Told) {
        if !told.is_lost() {
            return;
        }
        if !self.mend(&told.executor, &told.message) {
            self.lost_for_good(told);
        } else if !told.cannot_spill {
            self.suspect(&told.executor);
        }
    }

    fn lost_for_good(&self, told: &Told) {
        self.lost.send_if_modified(|lost| {
            let is_first = lost.is_none();
            if is_first {
                *lost = Some(told.clone());
            }
            is_first
        });
    }

    /// Notes that an executor is lost, by its name or URL: its tasks have no other end.
    pub(crate) fn lose(&self, executor: &str) {
        let name = self.name(executor);
        self.tasks.end("lost", |task| {
            let is_own = task.statement == self.statement && task.attempt == self.attempt;
            is_own && task.executor == name
        });
    }

    /// Tells whether an executor was lost and its tasks could be moved.
    pub(crate) fn is_mended(&self, executor: &str) -> bool {
        let url = self.url(executor);
        url.is_some_and(|url| self.placed.lock().lost.get(url) == Some(&true))
    }

    /// Moves the tasks of a lost executor to another one; returns whether that could be done.
    pub(crate) fn mend(self: &Arc<Self>, executor: &str, why: &str) -> bool {
        let Some(url) = self.url(executor).cloned() else {
            return false;
        };
        let (moved, target) = {
            let mut placed = self.placed.lock();
            if let Some(is_mended) = placed.lost.get(&url) {
                return *is_mended;
            }
            let target = self.target(&placed, &url);
            let own = || {
                placed
                    .by_key
                    .values()
                    .filter(|task| task.url == url && !task.is_done())
            };
            let is_mended = own().all(Task::is_movable) && placed.left > 0 && target.is_some();
            placed.lost.insert(url.clone(), is_mended);
            let (true, Some(target)) = (is_mended, target) else {
                return false;
            };
            placed.left -= 1;
            let mut moved = Vec::new();
            for task in placed.by_key.values_mut() {
                if task.url == url && !task.is_done() {
                    task.url = target.clone();
                    task.moves += 1;
                    moved.extend(task.sent.clone());
                }
            }
            (moved, target)
        };
        let (lost, name) = (self.name(executor), self.name(target.as_str()));
        tracing::warn!(executor = %lost, why, tasks = moved.len(), to = name, "tasks are moved");
        self.lose(executor);
        for sent in moved {
            self.report(&target, sent.key);
            tokio::spawn(Arc::clone(self).send(target.clone(), sent));
        }
        self.moves.send_replace(());
        true
    }

    /// Returns who takes over from a lost executor: of those that are there, who has the fewest tasks.
    fn target(&self, placed: &Placed, lost: &Url) -> Option<Url> {
        let there = self.executors.iter().filter(|executor| {
            let url = &executor.url;
            url != lost && !placed.lost.contains_key(url) && !executor.gone.is_cancelled()
        });
        let tasks = |executor: &&Usable| {
            let tasks = placed.by_key.values();
            tasks.filter(|task| task.url == executor.url).count()
        };
        there.min_by_key(tasks).map(|executor| executor.url.clone())
    }

    /// Sends a task again, and holds it until nothing more is wanted of it.
    async fn send(self: Arc<Self>, url: Url, sent: Sent) {
        let Sent { headers, ctx, .. } = sent;
        let request = SetPlanRequest {
            task_key: sent.key,
            task_count: sent.task_count,
            plan: MaybeEncoded::Decoded(sent.plan),
            work_unit_feed_declarations: Vec::new(),
            target_worker_url: url.clone(),
            query_start_time_ns: sent.query_start_time_ns,
        };
        let wanted = futures::stream::pending().take_until(self.over.clone().cancelled_owned());
        let metrics = ExecutionPlanMetricsSet::new();
        // This channel is none of the task's first ones, which the watch hears of.
        let resolver = Resolver {
            channels: self.channels.clone(),
            watch: None,
        };
        let held = async {
            let mut client = resolver.get_worker_client_for_url(&url).await?;
            let mut messages = client
                .coordinator_channel(headers, request, wanted.boxed(), metrics, &ctx)
                .await?;
            while let Some(message) = messages.next().await {
                message?;
            }
            Ok::<_, DataFusionError>(())
        };
        let error = tokio::select! {
            () = self.over.cancelled() => return,
            held = held => match held {
                Ok(()) => return,
                Err(error) => error,
            },
        };
        if let Some(told) = Told::find(&error) {
            self.note(&told);
        }
    }

    /// Returns the executor that was lost first.
    pub(crate) fn lost_already(&self) -> Option<Told> {
        self.lost.borrow().clone()
    }

    /// Waits for an executor to be lost, and the statement with it.
    pub(crate) async fn lost(&self) -> Told {
        let mut changes = self.lost.subscribe();
        loop {
            if let Some(told) = changes.borrow_and_update().clone() {
                return told;
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

fn place_of(key: TaskKey) -> (usize, usize) {
    (key.stage_id, key.task_number)
}

/// Tells whether a task reads its shares of tables, and nothing else.
fn reads_shares_alone(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let (mut leaves, mut shares) = (0, 0);
    let looked = plan.apply(|node| {
        leaves += usize::from(node.children().is_empty() || node.is_network_boundary());
        shares += usize::from(node.is::<ShareExec>());
        Ok(TreeNodeRecursion::Continue)
    });
    looked.is_ok() && leaves == shares && shares > 0
}

/// A task whose rows the scheduler reads, wherever it is.
#[derive(Clone, Debug)]
pub(crate) struct Movable {
    watch: Arc<Watch>,
    key: TaskKey,
    /// How many times it had moved when its rows were asked for.
    moves: u64,
}

/// What became of rows that came.
enum Arrival {
    Taken,
    /// The task has moved: they are of the executor that was lost.
    Moved,
}

impl Movable {
    /// Reads a partition, wherever the task is; `rows` is its stream where it was at first.
    pub(crate) fn follow(&self, partition: usize, rows: Option<Rows>) -> Rows {
        let read = (self.clone(), rows, true);
        let followed =
            futures::stream::unfold(read, move |(mut task, mut rows, goes_on)| async move {
                if !goes_on {
                    return None;
                }
                match task.next(partition, &mut rows).await {
                    Ok(None) => None,
                    Ok(Some(batch)) => Some((Ok(batch), (task, rows, true))),
                    Err(error) => Some((Err(error), (task, None, false))),
                }
            });
        followed.boxed()
    }

    async fn next(
        &mut self,
        partition: usize,
        rows: &mut Option<Rows>,
    ) -> Result<Option<RecordBatch>> {
        loop {
            let stream = match rows {
                Some(stream) => stream,
                None => match self.open(partition).await {
                    Ok(stream) => rows.insert(stream),
                    Err(_) if self.has_moved() => continue,
                    Err(error) => return Err(error),
                },
            };
            let next = tokio::select! {
                biased;
                () = self.moved() => None,
                next = stream.next() => Some(next.transpose()),
            };
            match next {
                // What it was lost for is known by now.
                Some(Err(error)) if !self.has_moved() => return Err(error),
                Some(Ok(batch)) => match self.arrive(batch.is_none()) {
                    Arrival::Taken => return Ok(batch),
                    Arrival::Moved => {}
                },
                Some(Err(_)) | None => {}
            }
            *rows = None;
        }
    }

    fn has_moved(&self) -> bool {
        let placed = self.watch.placed.lock();
        let task = placed.by_key.get(&place_of(self.key));
        task.is_some_and(|task| task.moves != self.moves)
    }

    /// Waits until the task has moved.
    async fn moved(&self) {
        let mut moves = self.watch.moves.subscribe();
        while !self.has_moved() {
            if moves.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Notes that a row has come, or the end of a partition.
    fn arrive(&self, is_end: bool) -> Arrival {
        let mut placed = self.watch.placed.lock();
        let Some(task) = placed.by_key.get_mut(&place_of(self.key)) else {
            return Arrival::Taken;
        };
        if task.moves != self.moves {
            return Arrival::Moved;
        }
        task.has_arrived = true;
        if let (true, Some((_, left))) = (is_end, &mut task.reading) {
            *left = left.saturating_sub(1);
        }
        Arrival::Taken
    }

    /// Asks for a partition's rows where the task is now.
    async fn open(&mut self, partition: usize) -> Result<Rows> {
        let place = {
            let placed = self.watch.placed.lock();
            let task = placed.by_key.get(&place_of(self.key));
            task.and_then(|task| {
                let (head, _) = task.reading.clone()?;
                Some((task.url.clone(), task.moves, head, task.sent.clone()?))
            })
        };
        let Some((url, moves, head, sent)) = place else {
            return Err(DataFusionError::Internal(
                "a task that moved is not known".into(),
            ));
        };
        self.moves = moves;
        let resolver = Resolver {
            channels: self.watch.channels.clone(),
            watch: Some(Arc::clone(&self.watch)),
        };
        let mut client = resolver.get_worker_client_for_url(&url).await?;
        let request = ExecuteTaskRequest {
            task_key: self.key,
            target_partition_start: partition,
            target_partition_end: partition + 1,
            producer_head: head,
        };
        let metrics = ExecutionPlanMetricsSet::new();
        let streams = client
            .execute_task(sent.headers, request, metrics, &sent.ctx)
            .await?;
        streams
            .into_iter()
            .next()
            .ok_or_else(|| DataFusionError::Internal("a partition has no stream".into()))
    }
}

#[cfg(test)]
mod tests;
