//! One partition of a region, folded by the host engine.
//!
//! Batches of the source are cut into parts, parts into blocks; row groups of Parquet files come as pages
//! ([`super::paged`]). After each part memory is reserved for what
//! the state has become, and others may run if half a millisecond has passed. A state that finds no memory,
//! or is no smaller than its rows, leaves as rows of partial states and begins anew.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use tidegate_kernels::host::{ArrowBlocks, Declined, HostProgram, HostRun, Partition, Selected};

use super::block::Stopped;
use super::declines::Declines;
use super::engine::Programs;
use super::gather::{Gather, LeavingRecords};
use super::paged::{Next, Pages};
use super::rest::Rest;
use super::split::Split;
use crate::error::{Error, ErrorKind};

/// Rows that are folded before memory is reserved and the time is looked at.
const PART_ROWS: usize = 1 << 15;

/// How long a partition folds before others may run.
pub(super) const TIME_AT_ONCE: Duration = Duration::from_micros(500);

/// A state that finds no memory after fewer rows than this will find none later.
const ROWS_PER_STATE_MIN: usize = 1 << 14;

/// Parts in a row that were declined at their first block after which a run gives up.
const DECLINED_PARTS_MAX: usize = 16;

/// Where the rows of a partition come from.
pub(super) enum Input {
    /// Batches of the source.
    Batches(SendableRecordBatchStream),
    /// Pages, and batches for what is not read as pages.
    Pages(Box<Pages>),
    /// All of them have come.
    Ended,
}

/// So many groups of a partition are many, however many rows they have taken in.
const GROUPS_MANY: usize = 1 << 17;

/// What the partitions of a region share.
pub(super) struct Fold {
    programs: Arc<Programs>,
    split: Split,
    declines: Arc<Declines>,
    ctx: Arc<TaskContext>,
    /// What becomes of many groups, if they need not leave as states.
    gather: Option<Arc<Gather>>,
}

impl Fold {
    pub(super) fn new(
        programs: Arc<Programs>,
        split: Split,
        declines: Arc<Declines>,
        ctx: Arc<TaskContext>,
    ) -> Self {
        Self {
            programs,
            split,
            declines,
            ctx,
            gather: None,
        }
    }

    /// The same for a partition whose groups are gathered with those of the others.
    pub(super) fn gathered(self, gather: &Arc<Gather>) -> Self {
        Self {
            gather: Some(Arc::clone(gather)),
            ..self
        }
    }

    /// Streams what one partition of the source becomes.
    pub(super) fn stream(
        self,
        partition: usize,
        input: Input,
        metrics: &ExecutionPlanMetricsSet,
    ) -> SendableRecordBatchStream {
        let schema = self.split.operators.schema();
        let folding = PartitionFold::new(self, partition, input, metrics);
        let rows = stream::try_unfold(folding, |mut folding| async move {
            Ok(folding.next().await?.map(|batch| (batch, folding)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// When a state leaves although rows are still to come, because it saves few of them.
struct EarlyOutput {
    /// Rows after which it is looked at.
    rows_min: usize,
    /// Groups for each row above which the state leaves.
    groups_per_row: f64,
}

struct Counters {
    folded_rows: Count,
    declined_rows: Count,
    early_states: Count,
}

/// The rows of a partition on their way through a run.
pub(super) struct PartitionFold {
    shared: Fold,
    batch_size: usize,
    early: Option<EarlyOutput>,
    input: Input,
    program: Arc<HostProgram>,
    run: HostRun,
    /// The program relies on the scan's statistics.
    assumes: bool,
    /// Rows that the state holds.
    rows: usize,
    /// Parts that were declined in a row.
    declined_parts: usize,
    /// The remaining rows go to DataFusion's operators for this reason.
    given_up: Option<String>,
    rest: Option<Rest>,
    rest_output: Option<SendableRecordBatchStream>,
    ready: VecDeque<RecordBatch>,
    /// Records that leave as states.
    leaving: Option<LeavingRecords>,
    /// The run's groups may become records.
    may_record: bool,
    /// The run makes records.
    has_records: bool,
    memory: MemoryReservation,
    began: Instant,
    baseline: BaselineMetrics,
    counters: Counters,
}

impl PartitionFold {
    pub(super) fn new(
        shared: Fold,
        partition: usize,
        input: Input,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Self {
        let config = shared.ctx.session_config();
        let execution = &config.options().execution;
        let early = shared.programs.has_keys().then_some(EarlyOutput {
            rows_min: execution.skip_partial_aggregation_probe_rows_threshold,
            groups_per_row: execution.skip_partial_aggregation_probe_ratio_threshold,
        });
        let batch_size = config.batch_size();
        let consumer = MemoryConsumer::new(format!("HostFoldExec[{partition}]"));
        let memory = consumer.register(shared.ctx.memory_pool());
        let program = Arc::clone(shared.programs.assumed());
        let count = |name: &'static str| MetricBuilder::new(metrics).counter(name, partition);
        Self {
            batch_size,
            early,
            input,
            run: program.run(),
            program,
            assumes: true,
            rows: 0,
            declined_parts: 0,
            given_up: None,
            rest: None,
            rest_output: None,
            ready: VecDeque::new(),
            leaving: None,
            may_record: shared.gather.is_some(),
            has_records: false,
            memory,
            began: Instant::now(),
            baseline: BaselineMetrics::new(metrics, partition),
            counters: Counters {
                folded_rows: count("folded_rows"),
                declined_rows: count("declined_rows"),
                early_states: count("early_states"),
            },
            shared,
        }
    }

    /// Returns the next batch that leaves. Where groups are gathered, those that need not leave stay after the
    /// last one.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop_front() {
                if self.ready.is_empty() {
                    self.free_memory();
                }
                self.baseline.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            if let Some(leaving) = &mut self.leaving {
                match leaving.next(self.batch_size)? {
                    Some(batches) => self.ready.extend(batches),
                    None => self.leaving = None,
                }
                continue;
            }
            match std::mem::replace(&mut self.input, Input::Ended) {
                Input::Batches(mut batches) => {
                    if let Some(batch) = self.next_batch(&mut batches).await? {
                        self.fold(&batch).await?;
                        self.input = Input::Batches(batches);
                    } else {
                        self.end()?;
                    }
                }
                Input::Pages(mut pages) => match self.fold_pages(&mut pages).await? {
                    true => self.input = Input::Pages(pages),
                    false => self.end()?,
                },
                Input::Ended => {
                    let Some(output) = &mut self.rest_output else {
                        return Ok(None);
                    };
                    match output.next().await.transpose()? {
                        Some(batch) => self.ready.push_back(batch),
                        None => self.rest_output = None,
                    }
                }
            }
        }
    }

    async fn next_batch(
        &mut self,
        batches: &mut SendableRecordBatchStream,
    ) -> Result<Option<RecordBatch>> {
        let batch = batches.next().await.transpose()?;
        // What is waited for is not folded.
        self.began = Instant::now();
        Ok(batch)
    }

    /// Folds what comes next of pages and of the batches between them; returns whether there was any.
    async fn fold_pages(&mut self, pages: &mut Pages) -> Result<bool> {
        let declines = Arc::clone(&self.shared.declines);
        let given_up = self.given_up.as_deref();
        let next = pages.next(&mut self.run, &self.program, &declines, given_up);
        match next.await? {
            Next::End => return Ok(false),
            Next::Batches(batches) => {
                match self.next_batch(batches).await? {
                    Some(batch) => self.fold(&batch).await?,
                    None => pages.end_batches(),
                }
                return Ok(true);
            }
            Next::RowGroup => {}
        }
        let folded = pages.fold(&mut self.run, &self.program);
        let compute = self.baseline.elapsed_compute();
        compute.add_duration(pages.take_busy());
        self.rows += folded.rows;
        self.counters.folded_rows.add(folded.rows);
        if folded.rows > 0 {
            self.declined_parts = 0;
        }
        match folded.stopped {
            None => {}
            Some(Stopped::Declined(declined)) => {
                self.make_way(&declined)?;
                declines.not_as_pages(&declined.to_string());
                pages.leave_rest()?;
            }
            Some(Stopped::Unread(why)) => {
                declines.not_as_pages(&why);
                pages.leave_rest()?;
            }
        }
        if let Err(why) = pages.reserve() {
            declines.not_as_pages(why);
            pages.leave_rest()?;
        }
        self.after_part()?;
        if pages.raises_bound() {
            self.move_rows(true)?;
        }
        self.let_others_run().await;
        Ok(true)
    }

    /// Folds a batch, part by part.
    async fn fold(&mut self, batch: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < batch.num_rows() {
            if let Some(reason) = self.given_up.clone() {
                let rows = batch.slice(from, batch.num_rows() - from);
                return self.run_elsewhere(rows, &reason).await;
            }
            let part = batch.slice(from, PART_ROWS.min(batch.num_rows() - from));
            let timer = self.baseline.elapsed_compute().timer();
            let (done, declined) = fold_part(&mut self.run, &self.program, &part);
            timer.done();
            from += done;
            self.rows += done;
            self.counters.folded_rows.add(done);
            match declined {
                None => self.declined_parts = 0,
                Some(declined) => {
                    let rows = part.slice(done, part.num_rows() - done);
                    if self.decline(declined, &rows).await? {
                        from += rows.num_rows();
                    }
                }
            }
            self.after_part()?;
            self.let_others_run().await;
        }
        Ok(())
    }

    /// Lets rows leave of which there are enough for a batch, reserves memory for what is kept, and lets a
    /// state leave that saves little.
    fn after_part(&mut self) -> Result<()> {
        self.move_rows(false)?;
        self.reserve()?;
        self.leave_early()
    }

    /// Moves rows that a program without an aggregate has gathered to what leaves next, all of them if
    /// `flush`.
    fn move_rows(&mut self, flush: bool) -> Result<()> {
        let rows = self.run.rows(self.batch_size, flush);
        self.ready.extend(rows.map_err(no_state)?);
        Ok(())
    }

    /// Does what there is to be done with rows that the run declined; returns whether that has run them.
    async fn decline(&mut self, declined: Declined, rows: &RecordBatch) -> Result<bool> {
        if self.make_way(&declined)? {
            return Ok(false);
        }
        let reason = declined.to_string();
        self.declined_parts += 1;
        self.run_elsewhere(rows.clone(), &reason).await?;
        if self.declined_parts >= DECLINED_PARTS_MAX {
            self.given_up = Some(reason);
            self.take_state()?;
        }
        Ok(true)
    }

    /// Makes way for rows that were declined, if the run, or another one, may take them then: the state so
    /// far leaves. Returns whether it did.
    fn make_way(&mut self, declined: &Declined) -> Result<bool> {
        match declined {
            Declined::OutsideFacts { .. } if self.assumes => {
                // Records of another program would not be like those of the others.
                self.leave_as_states();
                self.take_state()?;
                match self.shared.programs.general() {
                    Ok(program) => {
                        self.program = Arc::clone(program);
                        self.run = program.run();
                        self.assumes = false;
                    }
                    Err(reason) => self.given_up = Some(reason.clone()),
                }
                Ok(true)
            }
            Declined::TooLarge if self.rows > 0 => {
                self.take_state()?;
                self.counters.early_states.add(1);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Lets states leave, also those of other partitions, which the groups of this one have to meet.
    fn leave_as_states(&mut self) {
        self.may_record = false;
        if let Some(gather) = &self.shared.gather {
            gather.leave_as_states();
        }
    }

    /// Runs rows by DataFusion's operators.
    async fn run_elsewhere(&mut self, rows: RecordBatch, reason: &str) -> Result<()> {
        self.shared.declines.add(reason, rows.num_rows());
        self.counters.declined_rows.add(rows.num_rows());
        // Rows leave in the order in which they came.
        self.move_rows(true)?;
        let rest = match &mut self.rest {
            Some(rest) => rest,
            None => {
                let ctx = Arc::clone(&self.shared.ctx);
                self.rest.insert(Rest::begin(&self.shared.split, ctx)?)
            }
        };
        rest.push(rows, &mut self.ready).await
    }

    /// Reserves memory for the state as it is now; without it the state leaves.
    fn reserve(&mut self) -> Result<()> {
        if self.memory.try_resize(self.bytes()).is_ok() {
            return Ok(());
        }
        let rows = self.rows;
        self.take_state()?;
        self.counters.early_states.add(1);
        let leaving = self
            .leaving
            .as_ref()
            .map_or(0, LeavingRecords::memory_bytes);
        let is_refused = self
            .memory
            .try_resize(self.run.memory_bytes() + leaving)
            .is_err();
        if is_refused || rows < ROWS_PER_STATE_MIN {
            self.given_up = Some("no memory for groups".into());
        }
        Ok(())
    }

    /// Makes records of many groups. If there can be none, the state leaves if it has about as many groups as
    /// rows: DataFusion's partial aggregate, which skips aggregating then, takes the rows from there on.
    fn leave_early(&mut self) -> Result<()> {
        let Some(early) = &self.early else {
            return Ok(());
        };
        let num_groups = self.run.num_groups();
        let saves_little = self.rows >= early.rows_min
            && num_groups as f64 > self.rows as f64 * early.groups_per_row;
        if self.has_records || (!saves_little && num_groups < GROUPS_MANY) {
            return Ok(());
        }
        self.start_records();
        if self.has_records || !saves_little {
            return Ok(());
        }
        self.counters.early_states.add(1);
        self.given_up = Some("about as many groups as rows".into());
        self.take_state()
    }

    /// Has the run make records from now on, if it can.
    fn start_records(&mut self) {
        let Some(gather) = self.shared.gather.as_ref().filter(|_| self.may_record) else {
            return;
        };
        if let (true, Some(rows)) = (gather.is_folding(), self.run.are_rows_better()) {
            self.has_records = self.run.start_records(gather.strings(), rows);
        }
        self.may_record = self.has_records;
    }

    /// Moves the state to what leaves next; the run begins anew.
    pub(super) fn take_state(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        if let (Some(records), Some(gather)) = (self.run.take_records(), &self.shared.gather) {
            let leaving = LeavingRecords::new(&self.program, gather.strings(), records);
            self.leaving = Some(leaving.map_err(no_state)?);
            self.has_records = false;
            self.leave_as_states();
        }
        let timer = self.baseline.elapsed_compute().timer();
        let taken = self.run.take(self.batch_size);
        timer.done();
        self.ready.extend(taken.map_err(no_state)?);
        self.move_rows(true)?;
        self.rows = 0;
        self.free_memory();
        Ok(())
    }

    /// Gives memory back that neither the state nor what leaves next takes any more.
    fn free_memory(&mut self) {
        let bytes = self.bytes().min(self.memory.size());
        self.memory.resize(bytes);
    }

    /// Returns the bytes of the state and of what leaves next.
    fn bytes(&self) -> usize {
        let ready = self.ready.iter().map(RecordBatch::get_array_memory_size);
        let leaving = self
            .leaving
            .as_ref()
            .map_or(0, LeavingRecords::memory_bytes);
        self.run.memory_bytes() + ready.sum::<usize>() + leaving
    }

    /// Returns whether the run makes records.
    pub(super) fn has_records(&self) -> bool {
        self.has_records
    }

    /// Makes records of all groups that stayed; returns the records with their memory, or nothing if there can
    /// be none, and the groups are still there then.
    pub(super) fn record(&mut self) -> Option<(Vec<Partition>, MemoryReservation)> {
        let gather = self.shared.gather.as_ref().filter(|_| self.assumes)?;
        if !self.run.start_records(gather.strings(), true) || self.run.record_groups().is_err() {
            return None;
        }
        self.has_records = true;
        self.memory.try_resize(self.bytes()).ok()?;
        self.has_records = false;
        self.rows = 0;
        let records = self.run.take_records()?;
        Some((records, self.memory.take()))
    }

    /// Lets records that were made of the groups leave as states.
    pub(super) fn leave(
        &mut self,
        records: Vec<Partition>,
        memory: MemoryReservation,
    ) -> Result<()> {
        if let Some(gather) = &self.shared.gather {
            let leaving = LeavingRecords::new(&self.program, gather.strings(), records);
            (self.leaving, self.memory) = (Some(leaving.map_err(no_state)?), memory);
        }
        Ok(())
    }

    /// Ends after the last batch: the state leaves, then what DataFusion's operators have.
    fn end(&mut self) -> Result<()> {
        if self.shared.gather.is_some() && self.rest.is_none() {
            return Ok(());
        }
        // A group over everything is there without rows, once: the operators give theirs too.
        if self.rest.is_none() && !self.shared.programs.has_keys() {
            self.rows = self.rows.max(1);
        }
        self.take_state()?;
        self.rest_output = self.rest.take().map(Rest::end);
        Ok(())
    }

    async fn let_others_run(&mut self) {
        if self.began.elapsed() > TIME_AT_ONCE {
            tokio::task::yield_now().await;
            self.began = Instant::now();
        }
    }
}

/// Folds a part block by block; returns how many of its rows were folded, and why no more.
fn fold_part(
    run: &mut HostRun,
    program: &HostProgram,
    part: &RecordBatch,
) -> (usize, Option<Declined>) {
    let mut blocks = match ArrowBlocks::new(program, part) {
        Ok(blocks) => blocks,
        Err(declined) => return (0, Some(declined)),
    };
    if let Err(declined) = run.begin(&blocks.entries(), part.num_rows()) {
        return (0, Some(declined));
    }
    if run.is_ruled_out() {
        return (part.num_rows(), None);
    }
    let mut done = 0;
    while let Some((rows, chunks)) = blocks.next_block() {
        let folded = match run.select(rows, &chunks) {
            Ok(Selected::None) => Ok(()),
            Ok(Selected::Some(_)) => run.fold(rows, &chunks),
            Err(declined) => Err(declined),
        };
        if let Err(declined) = folded {
            return (done, Some(declined));
        }
        done += rows;
    }
    (done, None)
}

pub(super) fn no_state(declined: Declined) -> DataFusionError {
    let message = format!("the state of a host run cannot leave: {declined}");
    Error::new(ErrorKind::Internal, message).into()
}
