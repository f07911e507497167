//! A run over a simulated device, with and without morsels in the column cache.

mod arrays;
mod below;
mod ready;
mod shares;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_device::{Cost, DeviceId, SimulatedDevice, SimulatedSpec};
use tidegate_kernels::{PipelineDevice, SimulatedPipelineDevice};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, Expr, Pipeline, Step,
};

use super::{AtomicRun, MixedRun, RunFailure, RunSpec, Tail};
use crate::cache::{CachedChunk, CachedTable, ChunkKey, ColumnCache, ScanKey, ScanRows};
use crate::feeder::{Choice, LoadError, MorselLoader};
use crate::place::{Place, Reason};
use crate::queue::{ClaimPolicy, MorselId, MorselQueue, MorselSize};

const DEVICE: DeviceId = DeviceId(0);
const ROWS: i64 = 10;
const MORSELS: usize = 12;

/// Morsels of ten rows; counts how often one is loaded.
#[derive(Debug)]
struct Numbers {
    schema: SchemaRef,
    loads: AtomicUsize,
}

impl Numbers {
    fn new() -> Arc<Self> {
        let field = Field::new("v", DataType::Int64, true);
        Arc::new(Self {
            schema: Arc::new(Schema::new(vec![field])),
            loads: AtomicUsize::new(0),
        })
    }

    fn column(index: usize) -> ArrayRef {
        let first = index as i64 * ROWS;
        Arc::new(Int64Array::from_iter_values(first..first + ROWS))
    }
}

impl MorselLoader for Numbers {
    fn list(&self, _: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>> {
        let size = MorselSize {
            num_rows: ROWS as u64,
            num_bytes: 8 * ROWS as u64,
        };
        futures::future::ready(Ok(vec![size; MORSELS])).boxed()
    }

    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let columns = vec![Self::column(morsel.index)];
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        futures::future::ready(batch.map(|batch| vec![batch]).map_err(LoadError::from)).boxed()
    }

    fn names_chunks(&self) -> bool {
        true
    }

    fn chunk_key(&self, morsel: MorselId, _: usize) -> Option<ChunkKey> {
        Some(key(morsel.index))
    }

    fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        match scan.rows() {
            ScanRows::Named(name) if name.as_ref() == "numbers" => scan.positions(&[0]),
            _ => None,
        }
    }
}

fn key(index: usize) -> ChunkKey {
    ChunkKey {
        source: "numbers".into(),
        column: "v".into(),
        part: index as u64,
    }
}

/// `sum(v)`, as partial state.
fn sum(input: &SchemaRef) -> Arc<Pipeline> {
    let state = vec![Field::new("s", DataType::Int64, true)];
    let argument = Expr::column(0, DataType::Int64).unwrap();
    let call = AggregateCall::new(
        AggregateFunction::Sum,
        Some(argument),
        None,
        DataType::Int64,
        state,
        "v",
    )
    .unwrap();
    let step = Step::Aggregate(Aggregate {
        keys: vec![],
        calls: vec![call],
        output: AggregateOutput::State,
    });
    Arc::new(Pipeline {
        input: Arc::clone(input),
        parameters: vec![],
        output: Arc::new(step.output_schema(input)),
        steps: vec![step],
    })
}

/// A run over devices that take everything.
struct Bench<L = Numbers> {
    spec: RunSpec,
    loader: Arc<L>,
}

impl<L: MorselLoader + 'static> Bench<L> {
    fn of(
        devices: Vec<Arc<dyn PipelineDevice>>,
        schema: &SchemaRef,
        loader: Arc<L>,
        cache: ColumnCache,
    ) -> Self {
        let spec = RunSpec {
            pipeline: sum(schema),
            devices,
            queue: Arc::new(MorselQueue::new(ClaimPolicy::DeviceOnly, vec![None])),
            loader: Arc::clone(&loader) as _,
            cache: Arc::new(cache),
            counters: Arc::default(),
            choice: Choice::Always(Reason::DeviceRequested),
            host_engine: false,
            host_partitions: 1,
            strict: false,
            device_slots: 2,
            dispatch: Arc::default(),
        };
        Self { spec, loader }
    }

    fn free_to_choose(mut self) -> Self {
        self.spec.queue = Arc::new(MorselQueue::new(ClaimPolicy::Shared, vec![None]));
        self.spec.choice = Choice::EarliestFinish { host_partitions: 1 };
        self
    }

    /// Runs a region whose host never claims; returns its tail.
    async fn run(&self) -> Tail {
        let run = MixedRun::new(self.spec.clone());
        run.weigh_residency().await.unwrap();
        run.enter().leave().await.unwrap().unwrap()
    }

    /// Returns how many morsels each device folded.
    fn morsels(&self) -> Vec<u64> {
        let report = self.spec.counters.report(|place| place.to_string());
        let of_device = |device: &Arc<dyn PipelineDevice>| {
            let name = Place::Device(device.info().id).to_string();
            let own = report.iter().find(|report| report.place == name);
            own.map_or(0, |own| own.morsels)
        };
        self.spec.devices.iter().map(of_device).collect()
    }
}

impl Bench {
    /// Makes a device of this specification that holds these morsels.
    async fn new(device: &str, resident: impl IntoIterator<Item = usize>) -> Self {
        let device = SimulatedPipelineDevice::new(simulated(0, device));
        Self::on(device, resident).await
    }

    /// Has this device hold these morsels.
    async fn on(
        device: SimulatedPipelineDevice,
        resident: impl IntoIterator<Item = usize>,
    ) -> Self {
        let resident = resident.into_iter().collect();
        Self::over(vec![(device, resident)]).await
    }

    /// Has each of these devices hold these morsels.
    async fn over(devices: Vec<(SimulatedPipelineDevice, Vec<usize>)>) -> Self {
        let cache = ColumnCache::default();
        let mut made = Vec::new();
        for (device, resident) in devices {
            let device: Arc<dyn PipelineDevice> = Arc::new(device);
            let id = device.info().id;
            let mut table = CachedTable::new("t", id, ["v".to_string()]);
            for index in resident {
                let dictionary = Arc::clone(table.dictionary(0));
                let stored = device.store(vec![Numbers::column(index)], dictionary).await;
                let chunk = CachedChunk {
                    stored: Arc::new(stored.unwrap()),
                    anchor: vec![],
                };
                table.insert_morsel(vec![(key(index), chunk)]);
            }
            cache.insert(table);
            made.push(device);
        }
        let loader = Numbers::new();
        let schema = Arc::clone(&loader.schema);
        Self::of(made, &schema, loader, cache)
    }

    /// Declares what is resident to be all of a scan.
    fn holding_all_of(self, name: &str) -> Self {
        let cache = &self.spec.cache;
        let table = cache.remove("t").pop().and_then(Arc::into_inner);
        let mut table = table.unwrap();
        table.holds_all_of(ScanKey::new(ScanRows::Named(name.into()), vec![0]));
        cache.insert(table);
        self
    }

    /// Returns the first device.
    fn device(&self) -> &Arc<dyn PipelineDevice> {
        &self.spec.devices[0]
    }

    fn loads(&self) -> usize {
        self.loader.loads.load(Ordering::Relaxed)
    }

    fn device_report(&self) -> (u64, u64, u64) {
        let report = self.spec.counters.report(|place| place.to_string());
        let name = Place::Device(DEVICE).to_string();
        let own = report.into_iter().find(|report| report.place == name);
        own.map_or((0, 0, 0), |own| (own.morsels, own.rows, own.bytes))
    }
}

fn simulated(number: usize, spec: &str) -> SimulatedDevice {
    let spec: SimulatedSpec = spec.parse().unwrap();
    SimulatedDevice::new(DeviceId(number as u32), spec).unwrap()
}

/// Sums the device's partial rows and the morsels that the host must still run.
fn total(tail: &Tail) -> i64 {
    let rest = tail.rest.iter().map(|morsel| {
        let first = morsel.id.index as i64 * ROWS;
        (first..first + ROWS).sum::<i64>()
    });
    total_of(&tail.rows) + rest.sum::<i64>()
}

/// Sums partial rows.
fn total_of(rows: &[RecordBatch]) -> i64 {
    let sums = rows.iter().map(|batch| {
        let column = batch.column(0).as_primitive::<Int64Type>();
        column.iter().flatten().sum::<i64>()
    });
    sums.sum()
}

const ALL: i64 = (MORSELS as i64 * ROWS) * (MORSELS as i64 * ROWS - 1) / 2;

#[tokio::test(flavor = "multi_thread")]
async fn resident_morsels_are_folded_in_one_run_without_being_loaded() {
    let bench = Bench::new("1GB", 0..MORSELS).await;
    let tail = bench.run().await;
    assert_eq!(total(&tail), ALL);
    assert!(tail.rest.is_empty());
    assert_eq!(bench.loads(), 0);
    assert_eq!(bench.device_report(), (12, 120, 0));
    assert_eq!(bench.spec.cache.reports()[0].hits, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_resident_is_loaded() {
    let bench = Bench::new("1GB", [0, 1, 5, 6, 7]).await;
    let tail = bench.run().await;
    assert_eq!(total(&tail), ALL);
    assert_eq!(bench.loads(), 7);
    assert_eq!(bench.device_report(), (12, 120, 7 * 80));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_few_bytes_is_loaded_while_more_than_two_are_in_flight() {
    for (device_slots, loads) in [(1, 1), (2, MORSELS)] {
        let device = SimulatedDevice::new(DEVICE, SimulatedSpec::with_memory(1 << 30)).unwrap();
        let device = SimulatedPipelineDevice::new(device);
        let mut bench = Bench::on(device.clone(), []).await;
        bench.spec.device_slots = device_slots;
        // Until it is let go on the device folds nothing.
        let (go_on, held) = std::sync::mpsc::channel::<()>();
        let hold = device.device().submit(Cost::default(), move || held.recv());
        let watch = async {
            while bench.loads() < loads {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
            let seen = bench.loads();
            drop(go_on);
            seen
        };
        let (tail, seen) = tokio::join!(bench.run(), watch);
        assert!(hold.await.is_ok());
        assert_eq!((total(&tail), seen), (ALL, loads));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_run_takes_columns_from_one_place() {
    for (resident, loads) in [(BTreeSet::from([0, 1, 5]), 12), ((0..MORSELS).collect(), 0)] {
        let bench = Bench::new("1GB", resident).await;
        let rows = AtomicRun::run(&bench.spec).await.unwrap();
        let rest = Vec::new();
        assert_eq!(total(&Tail { rows, rest }), ALL);
        assert_eq!(bench.loads(), loads);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_is_there_as_a_whole_needs_no_queue() {
    let bench = Bench::new("1GB", 0..MORSELS).await;
    let bench = bench.holding_all_of("numbers");
    for run in 1..=2 {
        let rows = AtomicRun::run(&bench.spec).await.unwrap();
        let rest = Vec::new();
        assert_eq!(total(&Tail { rows, rest }), ALL);
        assert_eq!(bench.device_report(), (12 * run, 120 * run, 0));
        assert_eq!(bench.spec.cache.reports()[0].hits, 12 * run);
    }
    assert!(bench.spec.queue.morsels().is_empty());
    // Another scan is not taken for it: its morsels are found one by one.
    let bench = Bench::new("1GB", 0..MORSELS).await.holding_all_of("other");
    let rows = AtomicRun::run(&bench.spec).await.unwrap();
    let rest = Vec::new();
    assert_eq!(total(&Tail { rows, rest }), ALL);
    assert_eq!(bench.spec.queue.morsels().len(), MORSELS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_placed_for_being_resident_goes_back_if_it_is_not() {
    let mut bench = Bench::new("1GB", 0..MORSELS).await;
    bench.spec.choice = Choice::Always(Reason::Resident);
    let bench = bench.holding_all_of("numbers");
    assert!(AtomicRun::run(&bench.spec).await.is_ok());
    bench.spec.cache.remove("t");
    let failed = AtomicRun::run(&bench.spec).await.unwrap_err();
    assert!(matches!(
        failed,
        RunFailure::Fallback(Reason::EarliestFinish)
    ));
    assert_eq!(bench.loads(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_a_resident_scan_leaves_nothing_counted() {
    for fault in ["fail", "lost"] {
        for launch in 1..=2 {
            let device = format!("1GB,faults=launch:{launch}={fault}");
            let bench = Bench::new(&device, 0..MORSELS).await;
            let bench = bench.holding_all_of("numbers");
            let failed = AtomicRun::run(&bench.spec).await.unwrap_err();
            assert!(matches!(failed, RunFailure::Fallback(_)), "{device}");
            assert_eq!(bench.device_report(), (0, 0, 0), "{device}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_gives_each_resident_row_back_once() {
    for fault in ["fail", "lost"] {
        // Storing copies and is no launch; the first launch folds, the second finishes.
        for launch in 1..=4 {
            let device = format!("1GB,faults=launch:{launch}={fault}");
            let bench = Bench::new(&device, [0, 1, 2, 3, 9, 10, 11]).await;
            let tail = bench.run().await;
            assert_eq!(total(&tail), ALL, "{device}");
            let ids: BTreeSet<_> = tail.rest.iter().map(|morsel| morsel.id).collect();
            assert_eq!(ids.len(), tail.rest.len(), "{device}");
            let (morsels, rows, _) = bench.device_report();
            assert_eq!(morsels as usize + ids.len(), MORSELS, "{device}");
            assert_eq!(rows, morsels * ROWS as u64, "{device}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_fault_is_a_failure() {
    let mut bench = Bench::new("1GB,faults=launch:1=fail", 0..MORSELS).await;
    bench.spec.strict = true;
    let run = MixedRun::new(bench.spec.clone());
    let failed = run.enter().leave().await.unwrap_err();
    assert!(matches!(failed, RunFailure::Fallback(_)), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_that_is_wholly_resident_is_kept_from_the_host() {
    let fast = "1GB,launch=1ns,rows=1e12/s";
    let bench = Bench::new(fast, 0..MORSELS).await.free_to_choose();
    let run = MixedRun::new(bench.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(bench.spec.queue.claim_for_host(0, 1).is_empty());
    let tail = run.enter().leave().await.unwrap().unwrap();
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));

    let partly = Bench::new(fast, 1..MORSELS).await.free_to_choose();
    let run = MixedRun::new(partly.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(!partly.spec.queue.is_for_devices());

    let slow = Bench::new("1GB,rows=10/s", 0..MORSELS)
        .await
        .free_to_choose();
    let run = MixedRun::new(slow.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(!slow.spec.queue.is_for_devices());
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_comes_back_when_a_table_goes() {
    let bench = Bench::new("1GB", 0..MORSELS).await;
    assert_eq!(bench.device().budget().used(), 12 * 80);
    assert_eq!(bench.spec.cache.remove("t").len(), 1);
    assert!(bench.spec.cache.remove("t").is_empty());
    assert_eq!(bench.device().budget().used(), 0);
    assert_eq!(total(&bench.run().await), ALL);
    assert_eq!(bench.loads(), 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_claims_took_adds_up_to_no_more_than_the_time_that_passed() {
    for resident in [0..0, 0..5, 0..MORSELS] {
        let bench = Bench::new("1GB,rows=10000/s", resident).await;
        let began = Instant::now();
        bench.run().await;
        let passed = began.elapsed().as_secs_f64();
        let report = bench.spec.counters.report(|place| place.to_string());
        let claims = report[0].claim_stats;
        // A device takes as long as its rows do.
        let least = MORSELS as f64 * ROWS as f64 / 10_000.0;
        assert!(claims.seconds >= 0.9 * least, "{claims:?}");
        assert!(claims.seconds <= passed, "{claims:?} in {passed}");
        assert!(claims.estimated_seconds >= 0.9 * least, "{claims:?}");
    }
}
