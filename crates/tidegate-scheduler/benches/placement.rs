//! What deciding about one morsel costs: at most 10 µs, and at most 10 s for a million of them.
//!
//! A queue is drained by sixteen host partitions and four devices in turn, each asking before it
//! claims, as a region's run does.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use arrow_schema::Schema;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tidegate_device::{DeviceId, DeviceInfo, DeviceKind, DeviceRates};
use tidegate_pipeline::Pipeline;
use tidegate_scheduler::place::{HostClaim, Location, WorkerStates};
use tidegate_scheduler::queue::DeviceClaim;
use tidegate_scheduler::rates::{Rates, ShapeKey};
use tidegate_scheduler::{ClaimPolicy, MorselQueue, MorselSize};

const PARTITIONS: usize = 16;
const DEVICES: u32 = 4;

const SIZE: MorselSize = MorselSize {
    num_rows: 100_000,
    num_bytes: 1 << 20,
};

fn device(id: u32) -> DeviceInfo {
    DeviceInfo {
        id: DeviceId(id),
        kind: DeviceKind::Simulated,
        name: "simulated".into(),
        memory_bytes: 1 << 30,
        rates: DeviceRates {
            copy_bytes_per_second: 25e9,
            rows_per_second: 2e9,
            launch_seconds: 1e-5,
        },
    }
}

/// Drains a queue of so many morsels; returns how many each side claimed.
fn drain(num_morsels: usize) -> (usize, usize) {
    let schema = Arc::new(Schema::empty());
    let shape = ShapeKey::of(&Pipeline {
        input: Arc::clone(&schema),
        parameters: Vec::new(),
        steps: Vec::new(),
        output: schema,
    });
    let workers = WorkerStates::new(Arc::new(Rates::default()), shape, PARTITIONS);
    let queue = MorselQueue::new(ClaimPolicy::Shared, vec![None]);
    queue.list(0, std::iter::repeat_n(SIZE, num_morsels));
    let streams: Vec<_> = (0..PARTITIONS).map(|_| workers.join_host()).collect();
    for id in 0..DEVICES {
        workers.join_device(&device(id), 1 << 30);
    }
    let (mut host, mut devices) = (0, 0);
    let mut now = 0.0;
    while queue.rest().num_morsels > 0 {
        for stream in &streams {
            now += 1e-4;
            let claim = workers.claim_for_host(stream, &queue, 0, 1, true, now);
            if let HostClaim::Run(run) = claim {
                host += run.len();
            }
        }
        for id in (0..DEVICES).map(DeviceId) {
            workers.end(id, now);
            let claim = queue.claim_for_device(id, |morsel, rest| {
                let decision = workers.decide(id, morsel.size, Location::Host, rest, 0.0, now);
                decision.takes
            });
            devices += usize::from(matches!(claim, DeviceClaim::Morsel(_)));
        }
    }
    (host, devices)
}

fn placement(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place");
    for num_morsels in [1_000, 100_000, 1_000_000] {
        let (host, devices) = drain(num_morsels);
        assert_eq!(host + devices, num_morsels, "each morsel is claimed");
        assert!(host > 0 && devices > 0, "both sides take part");
        group.throughput(Throughput::Elements(num_morsels as u64));
        group.sample_size(10);
        group.warm_up_time(Duration::from_millis(100));
        group.bench_function(format!("{num_morsels} morsels"), |bencher| {
            bencher.iter(|| black_box(drain(num_morsels)));
        });
    }
    group.finish();
}

criterion_group!(benches, placement);
criterion_main!(benches);
