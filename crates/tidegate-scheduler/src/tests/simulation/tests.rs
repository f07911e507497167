//! What must hold of every workload.
//!
//! Each run also checks that no budget is exceeded, no morsel is lost or counted twice, every byte
//! comes back, and every query ends.

use super::workload::{Range, Workload};
use super::{Sides, run};

/// What the constants of asking again and of lateness may cost, in seconds.
const SLACK: f64 = 2e-3;

/// The times of the first query: mixed, on the host alone, on devices alone.
struct Times {
    mixed: f64,
    host: f64,
    devices: f64,
}

impl Times {
    fn measured(workload: &Workload) -> Self {
        let time = |sides| run(workload, sides, &workload.measured()).finished[0];
        Self {
            mixed: time(Sides::Mixed),
            host: time(Sides::HostAlone),
            devices: time(Sides::DevicesAlone),
        }
    }

    fn better(&self) -> f64 {
        self.host.min(self.devices)
    }
}

/// Checks workloads of these seeds against a bound, and names the worst.
fn check(
    seeds: std::ops::Range<u64>,
    range: Range,
    bound: impl Fn(&Workload, &Times) -> f64,
    times: impl Fn(&Workload) -> Times,
) {
    let mut failed = Vec::new();
    let num_seeds = seeds.clone().count();
    for seed in seeds {
        let workload = Workload::random(seed, range);
        let times = times(&workload);
        let allowed = bound(&workload, &times);
        if times.mixed > allowed {
            let query = &workload.queries[0];
            failed.push(format!(
                "seed {seed}: mixed {:.4} > {allowed:.4}, host {:.4}, devices {:.4}; {} partitions, \
                 {} devices, {} morsels in {} pieces, {} % resident",
                times.mixed,
                times.host,
                times.devices,
                workload.partitions,
                workload.devices.len(),
                query.morsels.len(),
                query.pieces,
                query.resident_of_100,
            ));
        }
    }
    assert!(
        failed.is_empty(),
        "{} of {num_seeds}:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

const MANY: Range = Range {
    devices: (0, 4),
    morsels: (50, 5000),
    queries: (1, 1),
    speed: (0.1, 100.0),
    wrong_by: 1.0,
    memory: (1000.0, 1000.0),
};

/// Returns what a morsel takes one host partition.
fn host_morsel(workload: &Workload) -> f64 {
    let rows = workload.queries[0].morsels.iter().map(|size| size.num_rows);
    rows.max().unwrap_or(0) as f64 * workload.host_seconds_per_row
}

/// Returns what a morsel takes the slowest device, its loading included.
fn device_morsel(workload: &Workload) -> f64 {
    let rows = workload.queries[0].morsels.iter().map(|size| size.num_rows);
    let rows = rows.max().unwrap_or(0) as f64;
    let on_device = |device: &super::workload::DeviceTruth| {
        device.launch_seconds
            + rows * (device.kernel_seconds_per_row + 8.0 * device.transfer_seconds_per_byte)
    };
    let slowest = workload.devices.iter().map(on_device).fold(0.0, f64::max);
    slowest + rows * workload.load_seconds_per_row
}

#[test]
fn with_fifty_morsels_mixed_is_a_tenth_slower_than_the_better_side_at_most() {
    check(
        0..600,
        MANY,
        |_, times| 1.1 * times.better() + SLACK,
        Times::measured,
    );
}

#[test]
fn a_device_that_is_ten_times_slower_costs_a_tenth_at_most() {
    let range = Range {
        devices: (1, 1),
        speed: (0.1, 0.1),
        ..MANY
    };
    check(
        1000..1300,
        range,
        |_, times| 1.1 * times.host + SLACK,
        Times::measured,
    );
}

#[test]
fn with_few_morsels_mixed_is_within_one_morsel_of_the_better_side() {
    let range = Range {
        morsels: (1, 49),
        ..MANY
    };
    let bound = |workload: &Workload, times: &Times| {
        times.better() + host_morsel(workload).max(device_morsel(workload)) + SLACK
    };
    check(2000..3000, range, bound, Times::measured);
}

#[test]
fn rates_that_are_wrong_by_ten_cost_some_morsels_until_they_are_learned() {
    let range = Range {
        wrong_by: 10.0,
        ..MANY
    };
    let bound = |workload: &Workload, times: &Times| {
        1.1 * times.better() + 2.0 * (host_morsel(workload) + device_morsel(workload)) + SLACK
    };
    check(4000..4500, range, bound, |workload| Times {
        mixed: run(workload, Sides::Mixed, &workload.believed()).finished[0],
        ..Times::measured(workload)
    });
}

#[test]
fn nobody_starves_and_no_budget_is_exceeded_however_scarce_memory_is() {
    let range = Range {
        morsels: (1, 300),
        queries: (1, 8),
        wrong_by: 10.0,
        memory: (0.3, 30.0),
        ..MANY
    };
    let (mut mixed, mut on_devices) = (0, 0);
    for seed in 5000..6000 {
        let workload = Workload::random(seed, range);
        let outcome = run(&workload, Sides::Mixed, &workload.believed());
        on_devices += outcome.on_devices;
        mixed += usize::from(outcome.on_devices > 0);
        // At worst everything runs on one partition, with the devices in the way.
        let all_rows = workload.queries.iter().flat_map(|query| &query.morsels);
        let rows: u64 = all_rows.map(|size| size.num_rows).sum();
        let alone = rows as f64 * workload.host_seconds_per_row;
        let last = workload.queries.iter().map(|query| query.arrives);
        let last = last.fold(0.0, f64::max);
        let queries = workload.queries.len() as f64;
        let bound = last + 2.0 * alone + 4.0 * queries * device_morsel(&workload) + 1.0;
        for finished in &outcome.finished {
            assert!(*finished <= bound, "seed {seed}: {finished} > {bound}");
        }
    }
    assert!(
        mixed > 300 && on_devices > 1000,
        "devices took part: {mixed}, {on_devices}"
    );
}
