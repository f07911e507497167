//! One device's share of a scan: claim, load, reserve, fold, commit.
//!
//! A feeder keeps two folds in flight, so that loading overlaps with the device's work. Morsels that
//! the device holds already are not loaded: they are claimed in runs and folded by one call. What
//! has been folded is *uncommitted* until the device's rows are back on the host; a fault gives every
//! uncommitted morsel back to the queue, and the feeder goes on with a fresh run unless the device is
//! lost. Short of device memory it waits for its own folds, then flushes the state as partial rows,
//! then leaves the morsel to the host.

mod open_run;

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use tidegate_device::{DeviceError, Reservation};
use tidegate_kernels::{
    FoldReport, PipelineDevice, RunError, StoredMorsel, referenced_bytes, refuse_chunk,
};
use tidegate_pipeline::Pipeline;

use crate::cache::{CachedTable, ChunkKey, ColumnCache};
use crate::counters::RegionCounters;
use crate::place::{Forecast, Place, Reason, device_takes};
use crate::queue::{DeviceClaim, Morsel, MorselId, MorselQueue, MorselSize};
use crate::residency::{Residency, identify};
use crate::run::RunFailure;
use open_run::{Backlog, OpenRun, Origin, ResidentRun, Work, loaded};

/// Folds kept in flight on a device.
const FOLDS_IN_FLIGHT: usize = 2;

/// Faults after which a feeder gives a device up for the rest of the region.
const FAULTS_TOLERATED: usize = 3;

/// Resident morsels that one launch takes at the most.
const RUN_MORSELS_MAX: usize = 1 << 16;

/// Rows that one launch takes at the most, unless a single morsel has more.
const RUN_ROWS_MAX: u64 = 1 << 30;

/// Rows a host partition is taken to get through in a second until it has been seen to.
///
/// A filter and group-by over Parquet on one core of the development machine: 10 to 40 million.
pub(crate) const HOST_ROWS_PER_SECOND: f64 = 2e7;

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
    pub(crate) started: Instant,
}

/// What a feeder knows and has from one run on the device to the next.
struct Progress {
    /// Rows that are back on the host.
    rows: Vec<RecordBatch>,
    /// What was claimed and waits to be folded, the next first.
    pending: VecDeque<Work>,
    residency: Residency,
    seconds_per_row: f64,
}

/// How one run on the device ended.
enum RunEnd {
    Drained,
    /// The state left as partial rows.
    Flushed,
    /// The device will not fold these as they are stored; they must be loaded.
    NotAsStored(Vec<Morsel>),
    Faulted,
}

/// What a claim found.
enum Claim {
    Work(Work),
    /// Nothing for now, or nothing at all.
    Nothing,
}

/// What became of a claimed morsel.
enum Prepared {
    Ready(Vec<RecordBatch>, Reservation),
    Returned,
    NoRoom,
}

/// Why a run cannot go on as it is.
enum Setback {
    Fault,
    StateTooLarge,
    NotAsStored(Vec<Morsel>),
}

impl Feeder {
    /// Works until the queue has nothing more for this device; returns the rows that were brought
    /// back, all committed.
    pub(crate) async fn feed(self) -> Result<Vec<RecordBatch>, RunFailure> {
        let (id, loader, pipeline) = (self.device.info().id, &self.loader, &self.pipeline);
        let mut progress = Progress {
            rows: Vec::new(),
            pending: VecDeque::new(),
            residency: Residency::new(&self.cache, id, loader, pipeline),
            seconds_per_row: 1.0 / self.device.info().rates.rows_per_second,
        };
        if self.atomic {
            // One run answers everything, so its columns come from one place.
            let whole = progress.residency.whole_scan(&self.queue).await?;
            progress.residency.pin(whole.map(|scan| scan.table));
        }
        let mut faults = 0;
        loop {
            match self.run_once(&mut progress).await? {
                RunEnd::Drained => return Ok(progress.rows),
                RunEnd::Flushed => {}
                RunEnd::NotAsStored(morsels) => {
                    progress.residency.pin(None);
                    let waiting = progress.pending.drain(..).flat_map(Work::into_morsels);
                    let all: Vec<Morsel> = morsels.into_iter().chain(waiting).collect();
                    progress.pending.extend(all.into_iter().map(Work::Load));
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

    fn place(&self) -> Place {
        Place::Device(self.device.info().id)
    }

    async fn run_once(&self, progress: &mut Progress) -> Result<RunEnd, RunFailure> {
        let mut open = match self.open() {
            Ok(open) => open,
            Err(RunError::Eval(error)) => return Err(RunFailure::Eval(error)),
            Err(error) if self.atomic => return Err(RunFailure::Fallback(fault(&error))),
            Err(error) => return self.give_up(progress, fault(&error)),
        };
        loop {
            let work = match progress.pending.pop_front() {
                Some(work) => Some(work),
                None if open.in_flight.len() >= FOLDS_IN_FLIGHT => None,
                None => match self
                    .claim(open.backlog(progress.seconds_per_row), &progress.residency)
                    .await?
                {
                    Claim::Work(work) => Some(work),
                    Claim::Nothing => None,
                },
            };
            let Some(work) = work else {
                if open.in_flight.is_empty() {
                    return self.flush(open, progress, RunEnd::Drained).await;
                }
                match self.settle(&mut open, progress).await? {
                    None => {}
                    Some(Setback::Fault) => return self.give_up_run(progress),
                    Some(Setback::NotAsStored(morsels)) => return Ok(RunEnd::NotAsStored(morsels)),
                    Some(Setback::StateTooLarge) if self.atomic => {
                        return Err(RunFailure::Fallback(Reason::DeviceMemory));
                    }
                    Some(Setback::StateTooLarge) => {
                        return self.flush(open, progress, RunEnd::Flushed).await;
                    }
                }
                continue;
            };
            if !open.may_fold(&work, &self.pipeline) {
                progress.pending.push_front(work);
                return self.flush(open, progress, RunEnd::Flushed).await;
            }
            let morsel = match work {
                Work::Run(run) => {
                    open.fold_stored(run);
                    continue;
                }
                Work::Load(morsel) => morsel,
            };
            match self.prepare(&morsel).await? {
                Prepared::Ready(batches, input) => open.fold(morsel, batches, input),
                Prepared::Returned => {}
                Prepared::NoRoom if !open.in_flight.is_empty() => {
                    match self.settle(&mut open, progress).await? {
                        None => progress.pending.push_front(Work::Load(morsel)),
                        Some(Setback::StateTooLarge) if !self.atomic => {
                            progress.pending.push_front(Work::Load(morsel));
                            return self.flush(open, progress, RunEnd::Flushed).await;
                        }
                        Some(Setback::NotAsStored(mut morsels)) => {
                            morsels.push(morsel);
                            return Ok(RunEnd::NotAsStored(morsels));
                        }
                        Some(_) => {
                            self.give_back(&[morsel], Reason::DeviceMemory)?;
                            return self.give_up(progress, Reason::DeviceMemory);
                        }
                    }
                }
                Prepared::NoRoom if !open.folded.is_empty() && !self.atomic => {
                    progress.pending.push_front(Work::Load(morsel));
                    return self.flush(open, progress, RunEnd::Flushed).await;
                }
                Prepared::NoRoom => self.give_back(&[morsel], Reason::DeviceMemory)?,
            }
        }
    }

    fn open(&self) -> Result<OpenRun, RunError> {
        let run = self.device.open(Arc::clone(&self.pipeline))?;
        Ok(OpenRun::new(run))
    }

    /// Claims what comes next, listing pieces on the way; waits only with nothing in flight.
    async fn claim(&self, backlog: Backlog, residency: &Residency) -> Result<Claim, RunFailure> {
        loop {
            let changed = self.queue.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            if matches!(self.choice, Choice::Always(_))
                && let Some(run) = self.claim_run(residency)
            {
                return Ok(Claim::Work(Work::Run(run)));
            }
            let mut found = None;
            let accepts = |morsel: &Morsel, rows_waiting| {
                found = residency.find(morsel.id);
                self.accepts(morsel, rows_waiting, found.is_some(), backlog)
            };
            match self.queue.claim_for_device(self.device.info().id, accepts) {
                DeviceClaim::Unlisted(piece) if residency.is_empty() => {
                    let sizes = self.loader.list(piece).await.map_err(RunFailure::Load)?;
                    self.queue.list(piece, sizes);
                }
                DeviceClaim::Unlisted(_) => {
                    identify(&self.loader, &self.queue, self.queue.unlisted()).await?;
                }
                DeviceClaim::Later if self.ending.load(Ordering::Acquire) => {
                    return Ok(Claim::Nothing);
                }
                DeviceClaim::Later if backlog.idle => changed.await,
                DeviceClaim::Later | DeviceClaim::Declined | DeviceClaim::Empty => {
                    return Ok(Claim::Nothing);
                }
                DeviceClaim::Morsel(morsel) => {
                    let Some(resident) = found else {
                        return Ok(Claim::Work(Work::Load(morsel)));
                    };
                    resident.hit();
                    return Ok(Claim::Work(Work::Run(ResidentRun {
                        table: resident.table,
                        morsels: vec![morsel],
                        stored: vec![resident.stored],
                    })));
                }
            }
        }
    }

    /// Claims resident morsels, as many of one table as there are in a row.
    fn claim_run(&self, residency: &Residency) -> Option<ResidentRun> {
        if residency.is_empty() {
            return None;
        }
        let mut table: Option<Arc<CachedTable>> = None;
        let mut stored: Vec<StoredMorsel> = Vec::new();
        let mut num_rows = 0;
        let morsels = self
            .queue
            .claim_run_for_device(self.device.info().id, |morsel| {
                let Some(resident) = residency.find(morsel.id) else {
                    return false;
                };
                let of_table = table.get_or_insert_with(|| Arc::clone(&resident.table));
                let rows = num_rows + resident.stored.num_rows;
                let fits =
                    stored.is_empty() || (stored.len() < RUN_MORSELS_MAX && rows <= RUN_ROWS_MAX);
                if !fits || !Arc::ptr_eq(of_table, &resident.table) {
                    return false;
                }
                resident.hit();
                num_rows = rows;
                stored.push(resident.stored);
                true
            });
        (!morsels.is_empty()).then_some(())?;
        Some(ResidentRun {
            table: table?,
            morsels,
            stored,
        })
    }

    fn accepts(
        &self,
        morsel: &Morsel,
        rows_waiting: u64,
        is_resident: bool,
        backlog: Backlog,
    ) -> bool {
        let Choice::EarliestFinish { host_partitions } = self.choice else {
            return true;
        };
        let rates = &self.device.info().rates;
        let host_rows = self.counters.rows(Place::Host) as f64;
        let elapsed = self.started.elapsed().as_secs_f64();
        let assumed = HOST_ROWS_PER_SECOND * host_partitions as f64;
        let host_rate = if host_rows > 0.0 && elapsed > 1e-3 {
            host_rows / elapsed
        } else {
            assumed
        };
        let bytes_to_move = if is_resident {
            0
        } else {
            morsel.size.num_bytes
        };
        device_takes(&Forecast {
            device_backlog: backlog.rows as f64 * backlog.seconds_per_row,
            transfer: bytes_to_move as f64 / rates.copy_bytes_per_second,
            kernel: rates.launch_seconds + morsel.size.num_rows as f64 * backlog.seconds_per_row,
            host_rest: rows_waiting as f64 / host_rate,
        })
    }

    /// Loads a morsel and reserves room for it, or says why it will not be folded.
    async fn prepare(&self, morsel: &Morsel) -> Result<Prepared, RunFailure> {
        let batches = self
            .loader
            .load(morsel.id)
            .await
            .map_err(RunFailure::Load)?;
        let refused = batches
            .iter()
            .find_map(|batch| refuse_chunk(&self.pipeline, batch));
        if let Some(why) = refused {
            self.give_back(&[*morsel], Reason::ChunkRefused(why))?;
            return Ok(Prepared::Returned);
        }
        let bytes = batches.iter().map(referenced_bytes).sum();
        match self.device.reserve(bytes) {
            Ok(reservation) => Ok(Prepared::Ready(batches, reservation)),
            Err(DeviceError::OutOfMemory { .. }) => Ok(Prepared::NoRoom),
            Err(error) => {
                self.give_back(&[*morsel], fault(&RunError::Device(error)))?;
                Ok(Prepared::Returned)
            }
        }
    }

    /// Waits for the oldest fold and books it.
    async fn settle(
        &self,
        open: &mut OpenRun,
        progress: &mut Progress,
    ) -> Result<Option<Setback>, RunFailure> {
        let Some(settled) = open.next_settled().await else {
            return Ok(None);
        };
        let error = match settled.folded {
            Ok(report) => {
                if report.rows > 0 {
                    progress.seconds_per_row = report.device_seconds / report.rows as f64;
                }
                let folded = match settled.origin {
                    Origin::Cached(_) => settled.morsels,
                    Origin::Loaded => loaded(&settled.morsels, &report),
                };
                self.book(&folded, &report);
                open.folded.extend(folded);
                return Ok((!report.state_fits).then_some(Setback::StateTooLarge));
            }
            Err(RunError::Eval(error)) => return Err(RunFailure::Eval(error)),
            Err(error) => error,
        };
        let mut lost = settled.morsels;
        while let Some(other) = open.next_settled().await {
            lost.extend(other.morsels);
        }
        let refused = matches!(error, RunError::Device(DeviceError::Refused { .. }));
        if refused && matches!(settled.origin, Origin::Cached(_)) {
            self.take_out_of_books(&open.folded);
            lost.append(&mut open.folded);
            return Ok(Some(Setback::NotAsStored(lost)));
        }
        let reason = fault(&error);
        self.give_back(&lost, reason.clone())?;
        self.abandon(&open.folded, reason)?;
        open.folded.clear();
        Ok(Some(Setback::Fault))
    }

    fn book(&self, folded: &[Morsel], report: &FoldReport) {
        let reason = match &self.choice {
            Choice::Always(reason) => reason.clone(),
            Choice::EarliestFinish { .. } => Reason::EarliestFinish,
        };
        self.counters.morsels(self.place(), folded, reason);
        let seconds = Duration::from_secs_f64(report.device_seconds.max(0.0));
        self.counters.time(self.place(), seconds);
    }

    /// Ends a run: waits for its folds, brings its rows back and commits its morsels.
    async fn flush(
        &self,
        mut open: OpenRun,
        progress: &mut Progress,
        end: RunEnd,
    ) -> Result<RunEnd, RunFailure> {
        while !open.in_flight.is_empty() {
            match self.settle(&mut open, progress).await? {
                None | Some(Setback::StateTooLarge) => {}
                Some(Setback::Fault) => return self.give_up_run(progress),
                Some(Setback::NotAsStored(morsels)) => return Ok(RunEnd::NotAsStored(morsels)),
            }
        }
        // A run that folded nothing has nothing to say, and an atomic one answers even over no rows.
        if open.folded.is_empty() && !self.atomic {
            return Ok(end);
        }
        match open.run.finish().await {
            Ok(batches) => {
                let ids: Vec<MorselId> = open.folded.iter().map(|morsel| morsel.id).collect();
                self.queue.commit(&ids);
                progress.rows.extend(batches);
                Ok(end)
            }
            Err(RunError::Eval(error)) => Err(RunFailure::Eval(error)),
            Err(error) => {
                let reason = fault(&error);
                if self.atomic {
                    return Err(RunFailure::Fallback(reason));
                }
                self.abandon(&open.folded, reason.clone())?;
                self.give_up(progress, reason)
            }
        }
    }

    /// Gives everything back that waits to be folded, after a fold that failed.
    fn give_up_run(&self, progress: &mut Progress) -> Result<RunEnd, RunFailure> {
        self.give_up(progress, Reason::DeviceFault("launch failed".into()))
    }

    /// Gives everything back that waits to be folded.
    fn give_up(&self, progress: &mut Progress, reason: Reason) -> Result<RunEnd, RunFailure> {
        let waiting = progress.pending.drain(..).flat_map(Work::into_morsels);
        let waiting: Vec<Morsel> = waiting.collect();
        self.give_back(&waiting, reason)?;
        Ok(RunEnd::Faulted)
    }

    /// Gives folded but uncommitted morsels back and takes them out of the device's books.
    fn abandon(&self, folded: &[Morsel], reason: Reason) -> Result<(), RunFailure> {
        self.take_out_of_books(folded);
        self.give_back(folded, reason)
    }

    fn take_out_of_books(&self, folded: &[Morsel]) {
        let rows = folded.iter().map(|morsel| morsel.size.num_rows).sum();
        let bytes = folded.iter().map(|morsel| morsel.size.num_bytes).sum();
        self.counters
            .undo(self.place(), folded.len() as u64, rows, bytes);
    }

    fn give_back(&self, morsels: &[Morsel], reason: Reason) -> Result<(), RunFailure> {
        if morsels.is_empty() {
            return Ok(());
        }
        if self.atomic || self.strict {
            return Err(RunFailure::Fallback(reason));
        }
        for _ in morsels {
            self.counters.reason(Place::Host, reason.clone());
        }
        let ids: Vec<MorselId> = morsels.iter().map(|morsel| morsel.id).collect();
        self.queue.give_back(&ids);
        Ok(())
    }
}

/// Names a device's failure, without the numbers that vary.
fn fault(error: &RunError) -> Reason {
    match error {
        RunError::Device(DeviceError::OutOfMemory { .. }) => Reason::DeviceMemory,
        RunError::Device(DeviceError::LaunchFailed { .. }) => {
            Reason::DeviceFault("launch failed".into())
        }
        RunError::Device(DeviceError::Lost { .. }) => Reason::DeviceFault("device lost".into()),
        _ => Reason::DeviceFault("run void".into()),
    }
}
