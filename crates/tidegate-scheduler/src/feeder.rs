//! One device's share of a scan: claim, load, reserve, fold, commit.
//!
//! A feeder keeps some folds in flight (two unless told otherwise, and more of what is loaded while that is
//! few bytes), so that loading and encoding overlap with the device's work. Morsels that
//! the device holds already are not loaded: they are claimed in runs and folded by one call. Those in the
//! pinned tier are moved to the device as they are encoded, and folded from there. What
//! has been folded is *uncommitted* until the device's rows are back on the host; a fault gives every
//! uncommitted morsel back to the queue, and the feeder goes on with a fresh run unless the device is
//! lost. What other devices hold is left to them, and taken over if they go. Each fold takes a turn on the device, which queries share. Short of device memory it does
//! what the [`ladder`](crate::ladder) says.

mod accounting;
mod claims;
mod open_run;
mod pinned;
mod ready;
mod room;

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use tidegate_device::DeviceError;
use tidegate_kernels::{PipelineDevice, RunError};
use tidegate_pipeline::{EvalError, Pipeline};

use crate::admission::{DeviceTurns, QueryId, Turn};
use crate::cache::{ChunkKey, ColumnCache, ScanKey};
use crate::counters::{RegionCounters, Setbacks};
use crate::dispatch::Dispatch;
use crate::ladder::Ladder;
use crate::place::{Location, Place, Reason, WorkerStates};
use crate::queue::{Morsel, MorselId, MorselQueue, MorselSize};
use crate::rates::DeviceRate;
use crate::residency::{ArrayScan, Residency};
use crate::run::RunFailure;
use open_run::{Ends, LoadedMorsel, OpenRun, Promise, Work};

/// Faults after which a feeder gives a device up for the rest of the region.
const FAULTS_TOLERATED: usize = 3;

/// Resident morsels that one launch takes at the most.
const RUN_MORSELS_MAX: usize = 1 << 16;

/// Stored rows that one launch takes at the most, unless a single morsel has more; fewer if they would
/// take longer than a turn.
const RUN_ROWS_MAX: u64 = 1 << 30;

/// Bytes of loaded rows up to which more folds are in flight than were asked for: a link takes them in about
/// a millisecond, and as many threads as encode for a device have their part of them.
const FEED_BYTES: u64 = 64 << 20;

/// Folds in flight for the sake of these bytes, at the most.
const FEED_FOLDS_MAX: usize = 32;

/// An error of whoever reads rows.
pub type LoadError = Box<dyn Error + Send + Sync>;

/// Reads a scan's morsels for a device.
///
/// # Contract
/// - `list` gives the same sizes each time.
/// - `load` gives a morsel's rows, in the columns and order of the pipeline's input, and can be
///   called again for the same morsel until that morsel is committed.
/// - `chunk_key` answers for the morsels of pieces that were listed and then identified.
pub trait MorselLoader: Debug + Send + Sync {
    /// Finds out which morsels a piece has.
    fn list(&self, piece: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>>;

    /// Reads one morsel.
    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>>;

    /// Returns whether the source can say what its chunks are read from.
    fn names_chunks(&self) -> bool {
        false
    }

    /// Finds out what a listed piece is read from now.
    fn identify(&self, _piece: usize) -> BoxFuture<'static, Result<(), LoadError>> {
        Box::pin(futures::future::ready(Ok(())))
    }

    /// Returns what a column of a morsel is read from; `None` if that cannot be told, or is no
    /// longer what it was when the scan was planned.
    fn chunk_key(&self, _morsel: MorselId, _column: usize) -> Option<ChunkKey> {
        None
    }

    /// Names the rows of the whole scan, if that can be told at once.
    fn scan_key(&self) -> Option<ScanKey> {
        None
    }

    /// Returns whether just the rows of this scan are read: for each column that is read, its
    /// position among the scan's. `None` if it cannot be told.
    fn reads_all_of(&self, _scan: &ScanKey) -> Option<Vec<usize>> {
        None
    }

    /// Finds out whether the rows of the whole scan are still those that were there when it was
    /// planned.
    fn is_as_planned(&self) -> BoxFuture<'static, Result<bool, LoadError>> {
        Box::pin(futures::future::ready(Ok(true)))
    }

    /// Returns the array whose parts the morsels are, if a device may make them itself; `load` then is
    /// for those that cannot.
    fn array(&self) -> Option<Arc<ArrayScan>> {
        None
    }

    /// Returns whether keys are addresses, good only while the arrays that `load` gave are alive.
    fn keys_are_addresses(&self) -> bool {
        false
    }
}

/// How a feeder chooses.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Takes every morsel it may, for this reason.
    Always(Reason),
    /// Takes a morsel if that helps a host of so many partitions.
    EarliestFinish {
        /// Host partitions that drain the same queue.
        host_partitions: usize,
    },
}

/// Everything a feeder needs.
#[derive(Debug)]
pub(crate) struct Feeder {
    pub(crate) device: Arc<dyn PipelineDevice>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) queue: Arc<MorselQueue>,
    pub(crate) loader: Arc<dyn MorselLoader>,
    pub(crate) cache: Arc<ColumnCache>,
    pub(crate) counters: Arc<RegionCounters>,
    pub(crate) choice: Choice,
    /// The region is atomic: one run answers all of it, over no rows too.
    pub(crate) atomic: bool,
    /// Nothing more will come to the queue.
    pub(crate) ending: Arc<AtomicBool>,
    /// The placement is strict: a morsel that comes back is a failure.
    pub(crate) strict: bool,
    /// Folds kept in flight.
    pub(crate) slots: usize,
    pub(crate) dispatch: Arc<Dispatch>,
    /// The workers of the region.
    pub(crate) workers: Arc<WorkerStates>,
    pub(crate) turns: Arc<DeviceTurns>,
    pub(crate) query: QueryId,
    /// When the workers' time began.
    pub(crate) started: Instant,
}

impl Drop for Feeder {
    fn drop(&mut self) {
        let id = self.device.info().id;
        self.workers.leave_device(id);
        self.queue.leave(id);
        self.turns.leave(self.query);
    }
}

/// What a feeder knows and has from one run on the device to the next.
struct Progress {
    /// Rows that are back on the host.
    rows: Vec<RecordBatch>,
    /// What was claimed and waits to be folded, the next first.
    pending: VecDeque<Work>,
    residency: Residency,
}

/// How one run on the device ended.
enum RunEnd {
    Drained,
    /// The state left as partial rows, or there was none worth keeping.
    Flushed,
    /// The device will not fold these as they are stored; they must be loaded.
    NotAsStored(Vec<Morsel>),
    Faulted,
}

/// What became of work that was to be folded.
enum Step {
    /// It is in flight, folded, or given back.
    Done,
    /// It waits for the oldest fold of this run.
    Blocked(Work),
    /// This must be done in its place.
    Instead(Work),
    /// It waits for the state to leave.
    Flush(Work),
    /// It was folded, and the state has no more room.
    Full,
    /// The run came to nothing, and all that was in it was given back.
    Abandoned,
}

/// Why a run cannot go on as it is.
enum Setback {
    Fault(Reason),
    StateTooLarge,
    NotAsStored(Vec<Morsel>),
}

impl Feeder {
    /// Works until the queue has nothing more for this device; returns the rows that were brought
    /// back, all committed.
    pub(crate) async fn feed(self) -> Result<Vec<RecordBatch>, RunFailure> {
        let (device, loader, pipeline) = (&self.device, &self.loader, &self.pipeline);
        let mut progress = Progress {
            rows: Vec::new(),
            pending: VecDeque::new(),
            residency: Residency::new(&self.cache, device, loader, pipeline),
        };
        if self.atomic {
            // One run answers everything, so its columns come from one place.
            let whole = progress.residency.whole_scan(&self.queue).await?;
            progress.residency.pin(whole.map(|scan| scan.origin));
        }
        self.get_ready(&progress.residency).await?;
        if matches!(self.choice, Choice::Always(_)) {
            let shape = self.workers.shape();
            let compiling = self.dispatch.seconds_to_ready(device, shape);
            self.workers.compiles_first(device.info().id, compiling);
        }
        let mut faults = 0;
        loop {
            match self.run_once(&mut progress).await? {
                RunEnd::Drained => {
                    if !self.outlasts_others().await {
                        return Ok(progress.rows);
                    }
                }
                RunEnd::Flushed => {}
                RunEnd::NotAsStored(morsels) => {
                    progress.residency.pin(None);
                    let waiting = progress.pending.drain(..).flat_map(Work::into_morsels);
                    let all: Vec<Morsel> = morsels.into_iter().chain(waiting).collect();
                    // Their estimates assumed resident data; drop them.
                    let load = |morsel| Work::Load(morsel, Promise::nothing(self.now()));
                    progress.pending.extend(all.into_iter().map(load));
                }
                RunEnd::Faulted => {
                    faults += 1;
                    if self.device.is_lost() || faults >= FAULTS_TOLERATED {
                        return Ok(progress.rows);
                    }
                }
            }
        }
    }

    /// Waits for the devices that hold what still waits; returns whether they left any of it.
    async fn outlasts_others(&self) -> bool {
        // Who may decline leaves it to the host.
        if self.atomic || !matches!(self.choice, Choice::Always(_)) {
            return false;
        }
        let mut has_waited = false;
        loop {
            let mut changed = std::pin::pin!(self.queue.changed());
            changed.as_mut().enable();
            if !self.queue.leaves_to_others(self.device.info().id) {
                return has_waited;
            }
            changed.await;
            has_waited = true;
        }
    }

    fn place(&self) -> Place {
        Place::Device(self.device.info().id)
    }

    /// Returns whether rows that raise go to the host, as after a fault: it raises with the values, which
    /// a device does not tell. An atomic region is answered by the host as a whole, not from here.
    fn leaves_raising(&self, error: &EvalError) -> bool {
        !self.atomic && !self.strict && error.is_arithmetic()
    }

    async fn run_once(&self, progress: &mut Progress) -> Result<RunEnd, RunFailure> {
        let mut open = match self.open() {
            Ok(open) => open,
            Err(RunError::Eval(error)) => return Err(RunFailure::Eval(error)),
            Err(error) if self.atomic => return Err(RunFailure::Fallback(fault(&error))),
            Err(error) => return self.give_up(progress, fault(&error)),
        };
        loop {
            if progress.pending.is_empty() && open.in_flight.len() < self.most_in_flight(&open) {
                let idle = open.in_flight.is_empty();
                let claimed = self.claim(idle, &progress.residency).await?;
                progress.pending.extend(claimed);
            }
            let Some(work) = progress.pending.pop_front() else {
                if open.in_flight.is_empty() {
                    return self.flush(open, progress, RunEnd::Drained).await;
                }
                match self.settle_oldest(open, progress).await? {
                    Ok(still_open) => open = still_open,
                    Err(end) => return Ok(end),
                }
                continue;
            };
            if !open.may_fold(&work, &self.pipeline) {
                progress.pending.push_front(work);
                return self.flush(open, progress, RunEnd::Flushed).await;
            }
            match self.advance(work, &mut open).await? {
                Step::Done => {}
                Step::Instead(work) => progress.pending.push_front(work),
                Step::Abandoned => return Ok(RunEnd::Flushed),
                Step::Full if self.atomic => {
                    return Err(RunFailure::Fallback(Reason::DeviceMemory));
                }
                Step::Full => return self.flush(open, progress, RunEnd::Flushed).await,
                Step::Flush(work) => {
                    progress.pending.push_front(work);
                    self.setback(Setbacks {
                        flushes: 1,
                        ..Setbacks::default()
                    });
                    return self.flush(open, progress, RunEnd::Flushed).await;
                }
                Step::Blocked(work) => {
                    progress.pending.push_front(work);
                    match self.settle_oldest(open, progress).await? {
                        Ok(still_open) => open = still_open,
                        Err(end) => return Ok(end),
                    }
                }
            }
        }
    }

    /// Waits for the oldest fold; returns the run if it goes on, else how it ended.
    async fn settle_oldest(
        &self,
        mut open: OpenRun,
        progress: &mut Progress,
    ) -> Result<Result<OpenRun, RunEnd>, RunFailure> {
        let end = match self.settle(&mut open).await? {
            None => return Ok(Ok(open)),
            Some(Setback::Fault(reason)) => self.give_up(progress, reason)?,
            Some(Setback::NotAsStored(morsels)) => RunEnd::NotAsStored(morsels),
            Some(Setback::StateTooLarge) if self.atomic => {
                return Err(RunFailure::Fallback(Reason::DeviceMemory));
            }
            Some(Setback::StateTooLarge) => self.flush(open, progress, RunEnd::Flushed).await?,
        };
        Ok(Err(end))
    }

    /// Brings work a step further: loads it, finds room and a turn, folds it.
    async fn advance(&self, work: Work, open: &mut OpenRun) -> Result<Step, RunFailure> {
        let loaded = match work {
            Work::Run(run) => {
                let idle = open.in_flight.is_empty();
                let size = MorselSize {
                    num_rows: run.num_rows(),
                    num_bytes: 0,
                };
                let Some(turn) = self.turn(idle, size, Location::Device).await else {
                    return Ok(Step::Blocked(Work::Run(run)));
                };
                open.fold_resident(run, turn);
                return Ok(Step::Done);
            }
            Work::Pinned(work) => return self.fold_pinned(work, open).await,
            Work::Load(morsel, promise) => LoadedMorsel {
                morsel,
                promise,
                batches: self.load(&morsel).await?,
                input: None,
                ladder: Ladder::default(),
            },
            Work::Loaded(loaded) => loaded,
        };
        self.fold_loaded(loaded, open).await
    }

    /// Returns how many folds there may be in flight. A device alone with two morsels would wait while they
    /// are encoded.
    fn most_in_flight(&self, open: &OpenRun) -> usize {
        match open.bytes_in_flight < FEED_BYTES {
            // Who asks for one at a time gets one at a time.
            true if self.slots > 1 => self.slots.max(FEED_FOLDS_MAX),
            _ => self.slots,
        }
    }

    /// Takes a turn on the device for so many rows and bytes that lie there; `None` if it must wait and
    /// this run is not idle: then its folds must be settled first.
    async fn turn(&self, idle: bool, size: MorselSize, location: Location) -> Option<Turn> {
        let most = match location {
            Location::Host => self.slots.max(FEED_FOLDS_MAX),
            Location::Device | Location::Pinned => self.slots,
        };
        let rate = match location {
            Location::Pinned => self.rate().from_pinned(),
            _ => self.rate(),
        };
        let seconds = rate.launch_seconds
            + size.num_rows as f64 * rate.kernel_seconds_per_row
            + size.num_bytes as f64 * rate.transfer_seconds_per_byte;
        if idle {
            return Some(self.turns.take(self.query, most, seconds).await);
        }
        self.turns.try_take(self.query, most, seconds)
    }

    fn rate(&self) -> DeviceRate {
        let rates = self.dispatch.rates();
        rates.device(self.workers.shape(), self.device.info())
    }

    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }

    fn open(&self) -> Result<OpenRun, RunError> {
        let run = self.device.open(Arc::clone(&self.pipeline))?;
        let ends = Ends {
            workers: Arc::clone(&self.workers),
            device: self.device.info().id,
            started: self.started,
        };
        Ok(OpenRun::new(run, ends))
    }

    /// Loads a morsel.
    async fn load(&self, morsel: &Morsel) -> Result<Vec<RecordBatch>, RunFailure> {
        let started = Instant::now();
        let batches = self
            .loader
            .load(morsel.id)
            .await
            .map_err(RunFailure::Load)?;
        let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
        let (rates, shape) = (self.dispatch.rates(), self.workers.shape());
        rates.learn_load(shape, rows, started.elapsed().as_secs_f64());
        Ok(batches)
    }

    /// Ends a run: waits for its folds, brings its rows back and commits its morsels.
    async fn flush(
        &self,
        mut open: OpenRun,
        progress: &mut Progress,
        end: RunEnd,
    ) -> Result<RunEnd, RunFailure> {
        while !open.in_flight.is_empty() {
            match self.settle(&mut open).await? {
                None | Some(Setback::StateTooLarge) => {}
                Some(Setback::Fault(reason)) => return self.give_up(progress, reason),
                Some(Setback::NotAsStored(morsels)) => return Ok(RunEnd::NotAsStored(morsels)),
            }
        }
        // A run that folded nothing has nothing to say, and an atomic one answers even over no rows.
        if open.folded.is_empty() && !self.atomic {
            return Ok(end);
        }
        let id = self.device.info().id;
        self.workers
            .begin(id, self.rate().launch_seconds, self.now());
        let began = self.now();
        let finished = open.run.finish().await;
        self.workers.end(id, self.now());
        self.workers.state_left(id);
        match finished {
            Ok(finished) => {
                let (rates, shape) = (self.dispatch.rates(), self.workers.shape());
                let seconds = self.now() - began - finished.phases.compile;
                rates.learn_finish(shape, self.device.info(), seconds);
                let compiling = open.compile_seconds + finished.phases.compile;
                self.dispatch
                    .note_ready(self.device.info(), shape, compiling);
                let ids: Vec<MorselId> = open.folded.iter().map(|morsel| morsel.id).collect();
                self.queue.commit(id, &ids);
                self.counters.phases(self.place(), finished.phases);
                progress.rows.extend(finished.batches);
                Ok(end)
            }
            Err(RunError::Eval(error)) if !self.leaves_raising(&error) => {
                Err(RunFailure::Eval(error))
            }
            Err(error) => {
                let reason = fault(&error);
                if self.atomic {
                    self.setback(Setbacks {
                        retries: open.folded.len() as u64,
                        ..Setbacks::default()
                    });
                    return Err(RunFailure::Fallback(reason));
                }
                self.abandon(&open.folded, reason.clone())?;
                self.give_up(progress, reason)
            }
        }
    }
}

/// Names a device's failure, without the numbers that vary.
pub(crate) fn fault(error: &RunError) -> Reason {
    match error {
        RunError::Device(DeviceError::OutOfMemory { .. }) => Reason::DeviceMemory,
        RunError::Unsuited { .. } | RunError::Device(DeviceError::LaunchFailed { .. }) => {
            Reason::DeviceFault("launch failed".into())
        }
        RunError::Device(DeviceError::Lost { .. }) => Reason::DeviceFault("device lost".into()),
        RunError::Eval(error) if error.is_arithmetic() => Reason::Raised(error.to_string()),
        _ => Reason::DeviceFault("run void".into()),
    }
}
