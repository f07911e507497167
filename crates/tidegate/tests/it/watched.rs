//! A device that counts what is under way on it, and tells what it is asked to of its time and state:
//! how many folds a session gives it at once.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate::{FaultPlan, Session};
use tidegate_device::{
    DeviceError, DeviceId, DeviceInfo, MemoryBudget, Reservation, SimulatedDevice,
};
use tidegate_kernels::program::Generated;
use tidegate_kernels::{
    ColumnDictionary, Finished, FoldReport, GeneratedRun, PipelineDevice, PipelineRun, RunError,
    SimulatedPipelineDevice, StoredColumn, StoredRun,
};
use tidegate_pipeline::Pipeline;
use tokio::sync::Notify;

use crate::support::{answer, runtime_of, write_parquet};

/// Morsels of the table `t`, and its rows.
const MORSELS: i64 = 12;
const ROWS: i64 = 12_000;

/// A simulated device in whose runs' places others stand.
#[derive(Clone)]
pub(crate) struct Around {
    inner: SimulatedPipelineDevice,
    instead: Arc<Instead>,
    /// Floats are added in a fixed order: its own, for it folds one morsel after the other.
    is_ordered: bool,
}

/// Makes the run that stands in the place of another.
type Instead = dyn Fn(Box<dyn PipelineRun>) -> Box<dyn PipelineRun> + Send + Sync;

impl Around {
    /// A device that promises ordered sums.
    pub(crate) fn in_order(inner: SimulatedPipelineDevice) -> Self {
        Self {
            inner,
            instead: Arc::new(|run| run),
            is_ordered: true,
        }
    }
}

impl fmt::Debug for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// What a device tells of its folds, whatever they took.
#[derive(Clone, Copy, Debug)]
struct Tells {
    seconds_per_row: f64,
    state_bytes: u64,
}

/// The folds under way.
#[derive(Debug)]
struct Folds {
    now: AtomicUsize,
    most: AtomicUsize,
    /// Folds are held until so many are under way.
    held_until: usize,
    changed: Notify,
}

/// A fold under way, until it is dropped.
struct UnderWay(Arc<Folds>);

impl Folds {
    fn begin(self: &Arc<Self>) -> UnderWay {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        self.changed.notify_waiters();
        UnderWay(Arc::clone(self))
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    async fn held(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.most() >= self.held_until {
                return;
            }
            changed.await;
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PipelineDevice for Around {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn budget(&self) -> &Arc<MemoryBudget> {
        self.inner.budget()
    }

    fn refusals(&self, pipeline: &Pipeline) -> Vec<String> {
        self.inner.refusals(pipeline)
    }

    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError> {
        self.inner.reserve(bytes)
    }

    fn open(&self, pipeline: Arc<Pipeline>) -> Result<Box<dyn PipelineRun>, RunError> {
        Ok((self.instead)(self.inner.open(pipeline)?))
    }

    fn ordered(&self) -> Option<Arc<dyn PipelineDevice>> {
        self.is_ordered
            .then(|| Arc::new(self.clone()) as Arc<dyn PipelineDevice>)
    }

    fn store(
        &self,
        arrays: Vec<ArrayRef>,
        dictionary: Arc<ColumnDictionary>,
    ) -> BoxFuture<'static, Result<StoredColumn, RunError>> {
        self.inner.store(arrays, dictionary)
    }

    fn generates(&self, pipeline: &Arc<Pipeline>, source: &Arc<Generated>) -> bool {
        self.inner.generates(pipeline, source)
    }

    fn is_lost(&self) -> bool {
        self.inner.is_lost()
    }

    fn plan_faults(&self, plan: FaultPlan) {
        self.inner.plan_faults(plan);
    }

    fn planned_faults_met(&self) -> u64 {
        self.inner.planned_faults_met()
    }
}

/// A run whose folds are counted while they are under way.
struct WatchedRun {
    inner: Box<dyn PipelineRun>,
    folds: Arc<Folds>,
    tells: Tells,
}

impl PipelineRun for WatchedRun {
    fn fold(
        &mut self,
        batches: Vec<RecordBatch>,
        input: Reservation,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        let under_way = self.folds.begin();
        let fold = self.inner.fold(batches, input);
        let tells = self.tells;
        async move {
            under_way.0.held().await;
            let mut report = fold.await?;
            report.device_seconds = report.rows as f64 * tells.seconds_per_row;
            report.state_bytes = tells.state_bytes;
            Ok(report)
        }
        .boxed()
    }

    fn fold_stored(
        &mut self,
        run: Arc<StoredRun>,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.inner.fold_stored(run)
    }

    fn fold_generated(
        &mut self,
        run: GeneratedRun,
    ) -> BoxFuture<'static, Result<FoldReport, RunError>> {
        self.inner.fold_generated(run)
    }

    fn finish(self: Box<Self>) -> BoxFuture<'static, Result<Finished, RunError>> {
        self.inner.finish()
    }
}

/// Makes a session with a watched device over the table `t`.
async fn watched(held_until: usize, tells: Tells) -> (Session, Arc<Folds>, tempfile::TempDir) {
    let spec = "1GB,copy=1e15B/s,rows=1e12/s,launch=1ns".parse().unwrap();
    let device = SimulatedDevice::new(DeviceId(0), spec).unwrap();
    let folds = Arc::new(Folds {
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        held_until,
        changed: Notify::new(),
    });
    let of_runs = Arc::clone(&folds);
    let watched = move |inner: Box<dyn PipelineRun>| -> Box<dyn PipelineRun> {
        let folds = Arc::clone(&of_runs);
        Box::new(WatchedRun {
            inner,
            folds,
            tells,
        })
    };
    let device = Around {
        inner: SimulatedPipelineDevice::new(device),
        instead: Arc::new(watched),
        is_ordered: false,
    };
    let session = Session::builder().runtime(runtime_of(device));
    let session = session.target_partitions(4).build().unwrap();
    session.set("tidegate.cache", "off").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_parquet(folder.path(), 1, ROWS, (ROWS / MORSELS) as usize);
    let path = folder.path().to_string_lossy();
    session.register_parquet("t", &path).await.unwrap();
    (session, folds, folder)
}

/// Tells of the last query's one region how many device morsels, and whether its form is atomic.
fn device_side(session: &Session) -> (u64, bool) {
    let report = session.last_report().unwrap();
    assert_eq!(report.regions.len(), 1, "{report}");
    let region = &report.regions[0];
    let on_device = region.places.iter().filter(|place| place.place != "host");
    let morsels = on_device.map(|place| place.morsels).sum();
    (morsels, region.form == "atomic")
}

#[tokio::test(flavor = "multi_thread")]
async fn morsels_in_flight_keep_to_the_slots() {
    let sql = "SELECT k, sum(v), count(*) FROM t GROUP BY k";
    // Nobody else uses the device, or it would give two turns at a time.
    for at_once in [1, 2, 5] {
        for regions in ["atomic", "additive"] {
            // Where the host takes part, nobody can say how many the device gets.
            let held_until = if regions == "atomic" { at_once } else { 1 };
            let tells = Tells {
                seconds_per_row: 1e-9,
                state_bytes: 1000,
            };
            let (session, folds, _folder) = watched(held_until, tells).await;
            for (name, value) in [
                ("tidegate.placement", "device"),
                ("tidegate.regions", regions),
                ("tidegate.device_slots", &at_once.to_string()),
            ] {
                session.set(name, value).await.unwrap();
            }
            let query = tokio::time::timeout(Duration::from_secs(60), answer(&session, sql));
            let rows = query.await.unwrap_or_else(|_| {
                panic!("{regions}: {at_once} slots, and {} at once", folds.most())
            });
            assert_eq!(rows.len(), 9, "{rows:?}");
            let (morsels, is_atomic) = device_side(&session);
            assert_eq!(is_atomic, regions == "atomic");
            assert!(morsels > 0, "{regions}");
            // With two or more slots small morsels are added, up to 32.
            let range = held_until..=if at_once == 1 { 1 } else { 32 };
            assert!(
                range.contains(&folds.most()),
                "{regions} {at_once}: {folds:?}"
            );
            assert_eq!(folds.now.load(Ordering::SeqCst), 0);
        }
    }
}
