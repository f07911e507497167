//! A scan that a device holds as a whole: one run over it, without queue, feeder or loader.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use futures::future::BoxFuture;
use tidegate_device::{DeviceError, DeviceId};
use tidegate_kernels::{Finished, FoldReport, PipelineDevice, RunError, Sample};
use tidegate_pipeline::{EvalError, Pipeline};

use crate::cache::{CachedTable, ColumnCache, ScanKey, WholeRun};
use crate::counters::{Decided, RegionCounters};
use crate::dispatch::Dispatch;
use crate::feeder::fault;
use crate::place::{DeviceState, Outlook, Place, Reason, Rest};
use crate::queue::MorselSize;
use crate::rates::{Rates, ShapeKey};

/// How many times as long as the host takes a query waits for kernels at the most: each later one of its
/// shape finds them, and so gains what this one waits.
pub(crate) const PATIENCE: f64 = 8.0;

/// A scan that is on a device as a whole, in the columns that a pipeline reads.
#[derive(Clone, Debug)]
pub struct ResidentScan {
    /// What holds it.
    pub table: Arc<CachedTable>,
    /// What is folded.
    pub run: Arc<WholeRun>,
}

/// Why a resident scan gave no rows. Nothing has left the device.
#[derive(Debug)]
pub enum ResidentFailure {
    /// A selected row must raise; the host would raise the same class.
    Eval(EvalError),
    /// The device cannot run this pipeline over columns as they are stored.
    NotAsStored,
    /// The device failed, or has no room for the answer.
    Device(Reason),
}

impl ResidentScan {
    /// Finds a table on the device that holds all rows that are read; see
    /// [`MorselLoader::reads_all_of`](crate::MorselLoader::reads_all_of).
    pub fn find(
        cache: &ColumnCache,
        device: DeviceId,
        pipeline: &Pipeline,
        reads_all_of: &dyn Fn(&ScanKey) -> Option<Vec<usize>>,
    ) -> Option<Self> {
        // A pipeline of no columns reads nothing that could be resident.
        if pipeline.input.fields().is_empty() || cache.is_empty() {
            return None;
        }
        let mut tables = cache.on_device(device).into_iter();
        tables.find_map(|table| Self::of(table, reads_all_of))
    }

    /// As [`ResidentScan::find`], in this table.
    pub fn of(
        table: Arc<CachedTable>,
        reads_all_of: &dyn Fn(&ScanKey) -> Option<Vec<usize>>,
    ) -> Option<Self> {
        let run = table.whole_run(reads_all_of)?;
        Some(Self { table, run })
    }

    /// Returns whether the device would be done with all of it before a host of so many partitions.
    pub fn is_faster(
        &self,
        rates: &Rates,
        pipeline: &Pipeline,
        device: &Arc<dyn PipelineDevice>,
        host_partitions: usize,
    ) -> bool {
        let (shape, num_rows) = (ShapeKey::of(pipeline), self.run.num_rows);
        num_rows > 0 && faster_with_all(rates, shape, device, 0.0, num_rows, host_partitions)
    }

    /// Returns whether a host of so many partitions would be done with all of it long before the device has
    /// compiled the kernels of a pipeline of this shape: waiting would take more than eight times as
    /// long. They are compiled beside then, for the next query.
    pub fn is_left_to_host(
        &self,
        dispatch: &Arc<Dispatch>,
        (pipeline, shape): (&Arc<Pipeline>, ShapeKey),
        device: &Arc<dyn PipelineDevice>,
        host_partitions: usize,
    ) -> bool {
        let num_rows = self.run.num_rows;
        let seconds = dispatch.seconds_to_ready(device, shape);
        let Some(run) = self.run.runs.first().filter(|_| seconds > 0.0) else {
            return false;
        };
        let (rates, waits) = (dispatch.rates(), seconds / PATIENCE);
        if faster_with_all(rates, shape, device, waits, num_rows, host_partitions) {
            return false;
        }
        let sample = Sample::Stored(Arc::clone(run));
        // Nobody waits for it.
        drop(dispatch.compile_beside(device, Arc::clone(pipeline), shape, sample));
        true
    }

    /// Has a device compile its kernels for the pipeline over all of it; ends when that is done, and at
    /// once if it was.
    pub async fn compile(
        &self,
        dispatch: &Arc<Dispatch>,
        pipeline: &Arc<Pipeline>,
        device: &Arc<dyn PipelineDevice>,
    ) {
        let shape = ShapeKey::of(pipeline);
        if let Some(run) = self.run.runs.first()
            && dispatch.seconds_to_ready(device, shape) > 0.0
        {
            let (pipeline, sample) = (Arc::clone(pipeline), Sample::Stored(Arc::clone(run)));
            dispatch
                .compile_beside(device, pipeline, shape, sample)
                .await;
        }
    }

    /// Runs the pipeline over all of it and returns its rows.
    ///
    /// # Errors
    /// [`ResidentFailure`]; the counters then have nothing of it.
    pub async fn answer(
        &self,
        device: &Arc<dyn PipelineDevice>,
        pipeline: Arc<Pipeline>,
        dispatch: &Dispatch,
        counters: &RegionCounters,
        reason: Reason,
    ) -> Result<Vec<RecordBatch>, ResidentFailure> {
        let begun = self.begin(device, pipeline)?;
        begun.end(dispatch, counters, reason).await
    }

    /// Has the device begin with the pipeline over all of it, and returns at once. What is begun is
    /// done, also if nobody waits for its end.
    ///
    /// # Errors
    /// As [`ResidentScan::answer`].
    pub fn begin(
        &self,
        device: &Arc<dyn PipelineDevice>,
        pipeline: Arc<Pipeline>,
    ) -> Result<BegunAnswer, ResidentFailure> {
        let began = Instant::now();
        let mut run = device.open(Arc::clone(&pipeline))?;
        let runs = self.run.runs.iter();
        let folds = runs.map(|stored| run.fold_stored(Arc::clone(stored)));
        let folds = folds.collect();
        Ok(BegunAnswer {
            scan: self.clone(),
            device: Arc::clone(device),
            pipeline,
            began,
            folds,
            // Asked for at once, so that the device does not wait for whoever hears of the folds.
            finishing: run.finish(),
        })
    }
}

/// A pipeline that a device runs over a resident scan.
pub struct BegunAnswer {
    scan: ResidentScan,
    device: Arc<dyn PipelineDevice>,
    pipeline: Arc<Pipeline>,
    began: Instant,
    folds: Vec<BoxFuture<'static, Result<FoldReport, RunError>>>,
    finishing: BoxFuture<'static, Result<Finished, RunError>>,
}

impl fmt::Debug for BegunAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BegunAnswer")
            .field("scan", &self.scan)
            .finish_non_exhaustive()
    }
}

impl BegunAnswer {
    /// Waits for the rows.
    ///
    /// # Errors
    /// As [`ResidentScan::answer`].
    pub async fn end(
        self,
        dispatch: &Dispatch,
        counters: &RegionCounters,
        reason: Reason,
    ) -> Result<Vec<RecordBatch>, ResidentFailure> {
        // The device works meanwhile.
        let (device, rates) = (&self.device, dispatch.rates());
        let shape = ShapeKey::of(&self.pipeline);
        let WholeRun {
            num_morsels,
            num_rows,
            ref columns,
            ..
        } = *self.scan.run;
        let compiling = dispatch.seconds_to_ready(device, shape);
        let estimate = alone(rates, shape, device, compiling).estimate(all_of(num_rows));
        let place = Place::Device(device.info().id);
        let mut reports = Vec::with_capacity(self.folds.len());
        for fold in self.folds {
            reports.push(fold.await?);
        }
        let folded = Instant::now();
        let finished = self.finishing.await?;
        let seconds = folded.elapsed().as_secs_f64() - finished.phases.compile;
        rates.learn_finish(shape, device.info(), seconds);
        let compiling = reports.iter().map(|report| report.phases.compile);
        let compiling = compiling.sum::<f64>() + finished.phases.compile;
        dispatch.note_ready(device.info(), shape, compiling);
        for report in reports {
            let FoldReport {
                rows,
                bytes,
                device_seconds,
                ..
            } = report;
            rates.learn_fold(shape, device.info(), rows, bytes, device_seconds);
            let seconds = Duration::try_from_secs_f64(report.device_seconds).unwrap_or_default();
            counters.time(place, seconds);
            counters.phases(place, report.phases);
        }
        counters.phases(place, finished.phases);
        counters.whole(place, num_morsels, num_rows, reason.clone());
        let decided = Decided {
            reason,
            morsels: num_morsels,
            rows: num_rows,
            bytes: 0,
            estimate,
            seconds: self.began.elapsed().as_secs_f64(),
        };
        counters.decided(place, decided);
        for column in columns {
            self.scan.table.hit(*column, num_morsels);
        }
        Ok(finished.batches)
    }
}

impl From<RunError> for ResidentFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Eval(error) => Self::Eval(error),
            RunError::Device(DeviceError::Refused { .. }) => Self::NotAsStored,
            other => Self::Device(fault(&other)),
        }
    }
}

impl From<DeviceError> for ResidentFailure {
    fn from(error: DeviceError) -> Self {
        RunError::from(error).into()
    }
}

/// Returns whether a device that holds so many rows would be done with them before a host of so many
/// partitions; `waits` are the seconds until the device is free.
pub(crate) fn faster_with_all(
    rates: &Rates,
    shape: ShapeKey,
    device: &Arc<dyn PipelineDevice>,
    waits: f64,
    num_rows: u64,
    host_partitions: usize,
) -> bool {
    faster_with_share(
        rates,
        shape,
        device,
        waits,
        (num_rows, num_rows),
        host_partitions,
    )
}

/// As [`faster_with_all`], of a device that holds the first of these numbers of rows, while the host
/// would have to do the second.
pub(crate) fn faster_with_share(
    rates: &Rates,
    shape: ShapeKey,
    device: &Arc<dyn PipelineDevice>,
    waits: f64,
    (num_rows, of_rows): (u64, u64),
    host_partitions: usize,
) -> bool {
    let times = of_rows as f64 / num_rows.max(1) as f64;
    let outlook = Outlook {
        rest: Rest {
            num_morsels: 1,
            num_rows,
            num_bytes: 0,
        },
        host_free_in: vec![0.0],
        // The whole host as one worker, for which the scan is one morsel.
        host_seconds_per_row: times * rates.host(shape) / host_partitions.max(1) as f64,
        devices: vec![alone(rates, shape, device, waits)],
    };
    outlook.decide(device.info().id, all_of(num_rows)).takes
}

/// A device that holds all rows, and is free after so many seconds.
fn alone(
    rates: &Rates,
    shape: ShapeKey,
    device: &Arc<dyn PipelineDevice>,
    waits: f64,
) -> DeviceState {
    let info = device.info();
    DeviceState {
        id: info.id,
        free_in: waits,
        rate: rates.device(shape, info),
        late: None,
        resident: true,
        returns: rates.finish_seconds(shape, info).unwrap_or(0.0),
        limit_bytes: device.budget().limit(),
    }
}

fn all_of(num_rows: u64) -> MorselSize {
    MorselSize {
        num_rows,
        num_bytes: 0,
    }
}
