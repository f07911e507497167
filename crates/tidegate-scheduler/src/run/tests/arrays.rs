//! Arrays that devices make: nothing is loaded, several devices share the parts, and what a device gives
//! back is made once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use futures::FutureExt;
use futures::future::BoxFuture;
use tidegate_kernels::generated::column_of;
use tidegate_kernels::program::{Generated, GeneratedColumn};
use tidegate_kernels::random::{Array, Part, Simd, Values};
use tidegate_kernels::{PipelineDevice, SimulatedPipelineDevice};

use super::{Bench, simulated, total_of};
use crate::cache::ColumnCache;
use crate::feeder::{LoadError, MorselLoader};
use crate::place::Reason;
use crate::queue::{MorselId, MorselSize};
use crate::residency::ArrayScan;
use crate::run::{AtomicRun, MixedRun, Tail};

const PART_ROWS: u64 = 100;
const PARTS: usize = 40;

/// Parts of dice; counts how often one is loaded.
#[derive(Debug)]
struct Dice {
    scan: Arc<ArrayScan>,
    loads: AtomicUsize,
}

impl Dice {
    fn new() -> Arc<Self> {
        let values = Values::Integers { low: 1, count: 6 };
        let array = Array::try_new(vec![PARTS as u64 * PART_ROWS], values, 7).unwrap();
        let mut parts = Vec::new();
        array.whole().cut(PART_ROWS, &mut parts);
        assert_eq!(parts.len(), PARTS);
        let source = Arc::new(Generated {
            array,
            columns: vec![GeneratedColumn::Value],
            step: 1,
            short_runs: false,
        });
        let parts = parts.into();
        Arc::new(Self {
            scan: Arc::new(ArrayScan { source, parts }),
            loads: AtomicUsize::new(0),
        })
    }

    fn part(&self, index: usize) -> &Part {
        &self.scan.parts[index]
    }

    fn sum_of(&self, index: usize) -> i64 {
        let mut values = vec![0; PART_ROWS as usize];
        let array = &self.scan.source.array;
        array.read_integers(Simd::Portable, self.part(index), 0, &mut values);
        values.iter().sum()
    }

    fn sum(&self) -> i64 {
        (0..PARTS).map(|index| self.sum_of(index)).sum()
    }
}

impl MorselLoader for Dice {
    fn list(&self, _: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>> {
        let size = MorselSize {
            num_rows: PART_ROWS,
            num_bytes: 8 * PART_ROWS,
        };
        futures::future::ready(Ok(vec![size; PARTS])).boxed()
    }

    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>> {
        self.loads.fetch_add(1, Ordering::Relaxed);
        let array = &self.scan.source.array;
        let (part, rows) = (self.part(morsel.index), PART_ROWS as usize);
        let column = column_of(array, part, GeneratedColumn::Value, 0, rows);
        let field = Field::new("x", DataType::Int64, false);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]);
        futures::future::ready(batch.map(|batch| vec![batch]).map_err(LoadError::from)).boxed()
    }

    fn array(&self) -> Option<Arc<ArrayScan>> {
        Some(Arc::clone(&self.scan))
    }
}

/// Makes devices of these specifications, which take everything.
fn making(devices: &[&str]) -> Bench<Dice> {
    let device = |(number, spec): (usize, &&str)| {
        let device = SimulatedPipelineDevice::new(simulated(number, spec));
        Arc::new(device) as Arc<dyn PipelineDevice>
    };
    let devices = devices.iter().enumerate().map(device).collect();
    let field = Field::new("x", DataType::Int64, false);
    let schema = Arc::new(Schema::new(vec![field]));
    Bench::of(devices, &schema, Dice::new(), ColumnCache::default())
}

impl Bench<Dice> {
    /// Sums the devices' partial rows and the morsels that the host must still run.
    fn total(&self, tail: &Tail) -> i64 {
        let rest = tail.rest.iter();
        total_of(&tail.rows)
            + rest
                .map(|rest| self.loader.sum_of(rest.id.index))
                .sum::<i64>()
    }

    fn loads(&self) -> usize {
        self.loader.loads.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_array_is_made_where_it_is_folded() {
    let bench = making(&["1GB"]);
    let tail = bench.run().await;
    assert_eq!(bench.total(&tail), bench.loader.sum());
    assert!(tail.rest.is_empty());
    assert_eq!((bench.loads(), bench.morsels()), (0, vec![PARTS as u64]));
    let reports = bench.spec.counters.report(|place| place.to_string());
    assert_eq!(reports[0].bytes, 0);
    assert_eq!(reports[0].rows, PARTS as u64 * PART_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_device_makes_a_share() {
    // 4,000 rows take one of them a second.
    let bench = making(&["1GB,rows=4e3/s"; 2]);
    let tail = bench.run().await;
    assert_eq!(bench.total(&tail), bench.loader.sum());
    assert_eq!((tail.rest.len(), bench.loads()), (0, 0));
    let morsels = bench.morsels();
    assert_eq!(morsels.iter().sum::<u64>(), PARTS as u64);
    assert!(morsels.iter().all(|own| *own >= 10), "{morsels:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_gives_each_part_back_once() {
    for fault in ["fail", "lost"] {
        for launch in 1..=4 {
            let faulty = format!("1GB,rows=1e5/s,faults=launch:{launch}={fault}");
            for devices in [vec![faulty.as_str()], vec![&faulty, "1GB,rows=1e5/s"]] {
                let bench = making(&devices);
                let tail = bench.run().await;
                assert_eq!(bench.total(&tail), bench.loader.sum(), "{devices:?}");
                let ids: BTreeSet<_> = tail.rest.iter().map(|morsel| morsel.id).collect();
                assert_eq!(ids.len(), tail.rest.len(), "{devices:?}");
                let folded: u64 = bench.morsels().iter().sum();
                assert_eq!(folded as usize + ids.len(), PARTS, "{devices:?}");
                assert_eq!(bench.loads(), 0, "{devices:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_that_are_faster_keep_an_array_from_the_host() {
    let fast = making(&["1GB,launch=1ns,rows=1e12/s"; 2]).free_to_choose();
    let tail = fast.run().await;
    assert!(fast.spec.queue.is_for_devices());
    assert_eq!(fast.total(&tail), fast.loader.sum());
    let reports = fast.spec.counters.report(|place| place.to_string());
    let reasons = reports.iter().flat_map(|report| &report.reasons);
    let reasons: BTreeSet<&str> = reasons.map(|(why, _)| why.as_str()).collect();
    let expected = Reason::Generated.to_string();
    assert_eq!(reasons, BTreeSet::from([expected.as_str()]));

    let slow = making(&["1GB,rows=10/s"]).free_to_choose();
    let run = MixedRun::new(slow.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(!slow.spec.queue.is_for_devices());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_atomic_run_makes_all_of_an_array() {
    let bench = making(&["1GB"]);
    let rows = AtomicRun::run(&bench.spec).await.unwrap();
    assert_eq!(total_of(&rows), bench.loader.sum());
    assert_eq!(bench.loads(), 0);
}
