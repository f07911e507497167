//! One device's share of a scan: claim, load, reserve, fold, commit.
//!
//! A feeder keeps two folds in flight, so that loading overlaps with the device's work. What has been
//! folded is *uncommitted* until the run's rows are back on the host; a fault gives every uncommitted
//! morsel back to the queue, and the feeder goes on with a fresh run unless the device is lost.
//! Short of device memory it waits for its own folds, then flushes the state as partial rows, then
//! leaves the morsel to the host.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesOrdered;
use tidegate_device::{DeviceError, Reservation};
use tidegate_kernels::{
    FoldReport, PipelineDevice, PipelineRun, RunError, referenced_bytes, refuse_chunk,
};
use tidegate_pipeline::Pipeline;

use crate::counters::RegionCounters;
use crate::place::{Forecast, Place, Reason, device_takes};
use crate::queue::{DeviceClaim, Morsel, MorselId, MorselQueue, MorselSize};
use crate::run::RunFailure;

/// Folds kept in flight on a device.
const FOLDS_IN_FLIGHT: usize = 2;

/// Faults after which a feeder gives a device up for the rest of the region.
const FAULTS_TOLERATED: usize = 3;

/// Rows a host partition is taken to get through in a second until it has been seen to.
///
/// A filter and group-by over Parquet on one core of the development machine: 10 to 40 million.
const HOST_ROWS_PER_SECOND: f64 = 2e7;

/// An error of whoever reads rows.
pub type LoadError = Box<dyn Error + Send + Sync>;

/// Reads a scan's morsels for a device.
///
/// # Contract
/// - `list` gives the same sizes each time.
/// - `load` gives a morsel's rows, in the columns and order of the pipeline's input, and can be
///   called again for the same morsel until that morsel is committed.
pub trait MorselLoader: Debug + Send + Sync {
    /// Finds out which morsels a piece has.
    fn list(&self, piece: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>>;

    /// Reads one morsel.
    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>>;
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

/// How one run on the device ended.
enum RunEnd {
    Drained,
    /// The state left as partial rows to make room; this morsel still waits to be folded.
    Flushed(Option<Morsel>),
    Faulted,
}

/// A run under way, with the books of what it holds.
struct OpenRun {
    run: Box<dyn PipelineRun>,
    folded: Vec<Morsel>,
    in_flight: FuturesOrdered<BoxFuture<'static, (Morsel, Result<FoldReport, RunError>)>>,
    rows_in_flight: u64,
}

/// What a device still has to do.
#[derive(Clone, Copy)]
struct Backlog {
    rows: u64,
    idle: bool,
    seconds_per_row: f64,
}

/// What became of a claimed morsel.
enum Prepared {
    Ready(Vec<RecordBatch>, Reservation),
    Returned,
    NoRoom,
}

impl Feeder {
    /// Works until the queue has nothing more for this device; returns the rows that were brought
    /// back, all committed.
    pub(crate) async fn feed(self) -> Result<Vec<RecordBatch>, RunFailure> {
        let mut rows = Vec::new();
        let mut faults = 0;
        let mut carried = None;
        let mut seconds_per_row = 1.0 / self.device.info().rates.rows_per_second;
        loop {
            match self
                .run_once(&mut rows, carried.take(), &mut seconds_per_row)
                .await?
            {
                RunEnd::Drained => return Ok(rows),
                RunEnd::Flushed(morsel) => carried = morsel,
                RunEnd::Faulted => {
                    faults += 1;
                    if self.device.is_lost() || faults >= FAULTS_TOLERATED {
                        return Ok(rows);
                    }
                }
            }
        }
    }

    fn place(&self) -> Place {
        Place::Device(self.device.info().id)
    }

    async fn run_once(
        &self,
        rows: &mut Vec<RecordBatch>,
        carried: Option<Morsel>,
        seconds_per_row: &mut f64,
    ) -> Result<RunEnd, RunFailure> {
        let mut open = match self.open() {
            Ok(open) => open,
            Err(RunError::Eval(error)) => return Err(RunFailure::Eval(error)),
            Err(error) if self.atomic => return Err(RunFailure::Fallback(fault(&error))),
            Err(error) => {
                self.give_back(carried.as_slice(), fault(&error))?;
                return Ok(RunEnd::Faulted);
            }
        };
        let mut next = carried;
        loop {
            let claimed = match next.take() {
                Some(morsel) => DeviceClaim::Morsel(morsel),
                None if open.in_flight.len() >= FOLDS_IN_FLIGHT => DeviceClaim::Declined,
                None => {
                    let (rows, idle) = (open.rows_in_flight, open.in_flight.is_empty());
                    let seconds_per_row = *seconds_per_row;
                    self.claim(Backlog {
                        rows,
                        idle,
                        seconds_per_row,
                    })
                    .await?
                }
            };
            if let DeviceClaim::Morsel(morsel) = claimed {
                match self.prepare(&morsel).await? {
                    Prepared::Ready(batches, input) => open.fold(morsel, batches, input),
                    Prepared::Returned => {}
                    Prepared::NoRoom if !open.in_flight.is_empty() => {
                        match self.settle(&mut open, seconds_per_row).await? {
                            None => next = Some(morsel),
                            Some(Setback::StateTooLarge) if !self.atomic => {
                                return self.flush(open, rows, Some(morsel)).await;
                            }
                            Some(_) => {
                                self.give_back(&[morsel], Reason::DeviceMemory)?;
                                return Ok(RunEnd::Faulted);
                            }
                        }
                    }
                    Prepared::NoRoom if !open.folded.is_empty() && !self.atomic => {
                        return self.flush(open, rows, Some(morsel)).await;
                    }
                    Prepared::NoRoom => self.give_back(&[morsel], Reason::DeviceMemory)?,
                }
                continue;
            }
            if open.in_flight.is_empty() {
                return self.flush(open, rows, None).await.map(|end| match end {
                    RunEnd::Flushed(_) => RunEnd::Drained,
                    other => other,
                });
            }
            match self.settle(&mut open, seconds_per_row).await? {
                None => {}
                Some(Setback::Fault) => return Ok(RunEnd::Faulted),
                Some(Setback::StateTooLarge) if self.atomic => {
                    return Err(RunFailure::Fallback(Reason::DeviceMemory));
                }
                Some(Setback::StateTooLarge) => return self.flush(open, rows, None).await,
            }
        }
    }

    fn open(&self) -> Result<OpenRun, RunError> {
        let run = self.device.open(Arc::clone(&self.pipeline))?;
        let in_flight = FuturesOrdered::new();
        Ok(OpenRun {
            run,
            folded: Vec::new(),
            in_flight,
            rows_in_flight: 0,
        })
    }

    /// Claims the next morsel, listing pieces on the way; waits only with nothing in flight.
    async fn claim(&self, backlog: Backlog) -> Result<DeviceClaim, RunFailure> {
        loop {
            let changed = self.queue.changed();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let accepts =
                |morsel: &Morsel, rows_waiting| self.accepts(morsel, rows_waiting, backlog);
            match self.queue.claim_for_device(self.device.info().id, accepts) {
                DeviceClaim::Unlisted(piece) => {
                    let sizes = self.loader.list(piece).await.map_err(RunFailure::Load)?;
                    self.queue.list(piece, sizes);
                }
                DeviceClaim::Later if self.ending.load(Ordering::Acquire) => {
                    return Ok(DeviceClaim::Empty);
                }
                DeviceClaim::Later if backlog.idle => changed.await,
                claim => return Ok(claim),
            }
        }
    }

    fn accepts(&self, morsel: &Morsel, rows_waiting: u64, backlog: Backlog) -> bool {
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
        device_takes(&Forecast {
            device_backlog: backlog.rows as f64 * backlog.seconds_per_row,
            transfer: morsel.size.num_bytes as f64 / rates.copy_bytes_per_second,
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
        seconds_per_row: &mut f64,
    ) -> Result<Option<Setback>, RunFailure> {
        let Some((morsel, folded)) = open.in_flight.next().await else {
            return Ok(None);
        };
        open.rows_in_flight -= morsel.size.num_rows;
        let error = match folded {
            Ok(report) => {
                self.book(&report);
                if report.rows > 0 {
                    *seconds_per_row = report.device_seconds / report.rows as f64;
                }
                let size = MorselSize {
                    num_rows: report.rows,
                    num_bytes: report.bytes,
                };
                open.folded.push(Morsel {
                    id: morsel.id,
                    size,
                });
                return Ok((!report.state_fits).then_some(Setback::StateTooLarge));
            }
            Err(RunError::Eval(error)) => return Err(RunFailure::Eval(error)),
            Err(error) => error,
        };
        let reason = fault(&error);
        let mut lost = vec![morsel];
        while let Some((other, _)) = open.in_flight.next().await {
            lost.push(other);
        }
        self.give_back(&lost, reason.clone())?;
        self.abandon(&open.folded, reason)?;
        open.folded.clear();
        Ok(Some(Setback::Fault))
    }

    fn book(&self, report: &FoldReport) {
        let reason = match &self.choice {
            Choice::Always(reason) => reason.clone(),
            Choice::EarliestFinish { .. } => Reason::EarliestFinish,
        };
        self.counters
            .morsel(self.place(), report.rows, report.bytes);
        self.counters.reason(self.place(), reason);
        let seconds = Duration::from_secs_f64(report.device_seconds.max(0.0));
        self.counters.time(self.place(), seconds);
    }

    /// Ends a run: waits for its folds, brings its rows back and commits its morsels.
    async fn flush(
        &self,
        mut open: OpenRun,
        rows: &mut Vec<RecordBatch>,
        carried: Option<Morsel>,
    ) -> Result<RunEnd, RunFailure> {
        let mut seconds_per_row = 0.0;
        while !open.in_flight.is_empty() {
            let setback = self.settle(&mut open, &mut seconds_per_row).await?;
            if matches!(setback, Some(Setback::Fault)) {
                self.give_back(
                    carried.as_slice(),
                    Reason::DeviceFault("launch failed".into()),
                )?;
                return Ok(RunEnd::Faulted);
            }
        }
        // A run that folded nothing has nothing to say, and an atomic one answers even over no rows.
        if open.folded.is_empty() && !self.atomic {
            return Ok(RunEnd::Flushed(carried));
        }
        match open.run.finish().await {
            Ok(batches) => {
                let ids: Vec<MorselId> = open.folded.iter().map(|morsel| morsel.id).collect();
                self.queue.commit(&ids);
                rows.extend(batches);
                Ok(RunEnd::Flushed(carried))
            }
            Err(RunError::Eval(error)) => Err(RunFailure::Eval(error)),
            Err(error) => {
                let reason = fault(&error);
                if self.atomic {
                    return Err(RunFailure::Fallback(reason));
                }
                self.give_back(carried.as_slice(), reason.clone())?;
                self.abandon(&open.folded, reason)?;
                Ok(RunEnd::Faulted)
            }
        }
    }

    /// Gives folded but uncommitted morsels back and takes them out of the device's books.
    fn abandon(&self, folded: &[Morsel], reason: Reason) -> Result<(), RunFailure> {
        let rows = folded.iter().map(|morsel| morsel.size.num_rows).sum();
        let bytes = folded.iter().map(|morsel| morsel.size.num_bytes).sum();
        self.counters
            .undo(self.place(), folded.len() as u64, rows, bytes);
        self.give_back(folded, reason)
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

impl OpenRun {
    fn fold(&mut self, morsel: Morsel, batches: Vec<RecordBatch>, input: Reservation) {
        let fold = self.run.fold(batches, input);
        self.rows_in_flight += morsel.size.num_rows;
        self.in_flight
            .push_back(Box::pin(async move { (morsel, fold.await) }));
    }
}

/// Why a run cannot go on as it is.
enum Setback {
    Fault,
    StateTooLarge,
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
