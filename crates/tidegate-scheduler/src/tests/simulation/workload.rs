//! Random workloads, each from a seed.

use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_device::DeviceRates;

use super::info;
use crate::queue::{MorselId, MorselSize};
use crate::rates::{Rates, ShapeKey};

/// A device's true speed and memory, and what it says of itself.
#[derive(Clone, Debug)]
pub(super) struct DeviceTruth {
    pub(super) transfer_seconds_per_byte: f64,
    pub(super) kernel_seconds_per_row: f64,
    pub(super) launch_seconds: f64,
    pub(super) limit_bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) believed: DeviceRates,
}

#[derive(Clone, Debug)]
pub(super) struct QuerySpec {
    pub(super) arrives: f64,
    pub(super) priority: i32,
    pub(super) shape: ShapeKey,
    pub(super) morsels: Vec<MorselSize>,
    pub(super) pieces: usize,
    /// Morsels that a host partition claims at once at the most.
    pub(super) run_max: usize,
    /// Which of a hundred morsels a device holds.
    pub(super) resident_of_100: usize,
    /// What the state grows by with each fold, and how far.
    pub(super) state_growth: u64,
    pub(super) state_bytes_max: u64,
}

impl QuerySpec {
    pub(super) fn is_resident(&self, morsel: MorselId, device: usize) -> bool {
        (morsel.index * 37 + morsel.piece * 11 + device * 53) % 100 < self.resident_of_100
    }
}

#[derive(Clone, Debug)]
pub(super) struct Workload {
    pub(super) partitions: usize,
    pub(super) host_seconds_per_row: f64,
    /// To read a row for a device.
    pub(super) load_seconds_per_row: f64,
    /// What the host is taken for at first, as a factor.
    pub(super) host_believed: f64,
    pub(super) devices: Vec<DeviceTruth>,
    pub(super) queries: Vec<QuerySpec>,
    pub(super) running_max: usize,
}

/// What a workload is drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) devices: (usize, usize),
    pub(super) morsels: (usize, usize),
    pub(super) queries: (usize, usize),
    /// How fast all of a device is, against all of the host.
    pub(super) speed: (f64, f64),
    /// By what factor a rate may be wrong at first, either way.
    pub(super) wrong_by: f64,
    /// Device memory in morsels; a large one is never short.
    pub(super) memory: (f64, f64),
}

impl Default for Range {
    fn default() -> Self {
        Self {
            devices: (1, 4),
            morsels: (1, 5000),
            queries: (1, 1),
            speed: (0.1, 100.0),
            wrong_by: 1.0,
            memory: (1000.0, 1000.0),
        }
    }
}

fn log_uniform(random: &mut StdRng, (least, most): (f64, f64)) -> f64 {
    (random.random_range(least.ln()..=most.ln())).exp()
}

impl Workload {
    pub(super) fn random(seed: u64, range: Range) -> Self {
        let random = &mut StdRng::seed_from_u64(seed);
        let partitions = random.random_range(1..=32);
        let rows = log_uniform(random, (2e4, 2e6));
        let host_seconds_per_row = log_uniform(random, (1e-8, 2e-7));
        let num_devices = random.random_range(range.devices.0..=range.devices.1);
        let devices = (0..num_devices).map(|_| {
            let host = host_seconds_per_row / partitions as f64;
            DeviceTruth::random(random, range, host, rows)
        });
        let devices: Vec<DeviceTruth> = devices.collect();
        let num_queries = random.random_range(range.queries.0..=range.queries.1);
        let mut arrives = 0.0;
        let queries = (0..num_queries).map(|_| {
            let query = QuerySpec::random(random, range, rows, arrives, partitions);
            let alone = query.morsels.len() as f64 * rows * host_seconds_per_row;
            arrives += random.random_range(0.0..0.3) * alone / partitions as f64;
            query
        });
        let queries = queries.collect();
        Self {
            partitions,
            host_seconds_per_row,
            load_seconds_per_row: host_seconds_per_row * random.random_range(0.001..0.9),
            queries,
            host_believed: log_uniform(random, (1.0 / range.wrong_by, range.wrong_by)),
            devices,
            running_max: random.random_range(1..=8),
        }
    }

    /// Returns a book that knows no more than what everybody says of itself.
    pub(super) fn believed(&self) -> Arc<Rates> {
        Arc::new(Rates::new(self.host_seconds_per_row * self.host_believed))
    }

    /// Returns a book that has seen everything before.
    pub(super) fn measured(&self) -> Arc<Rates> {
        let rates = Rates::new(self.host_seconds_per_row);
        for query in &self.queries {
            let (rows, shape) = (1_000_000, query.shape);
            rates.learn_host(shape, rows, rows as f64 * self.host_seconds_per_row);
            let share = query.morsels.len() as u64 / (self.devices.len() as u64 + 1);
            rates.learn_state(shape, query.state_bytes_max.min(share * query.state_growth));
            for (number, truth) in self.devices.iter().enumerate() {
                let known = info(number, truth.believed);
                rates.learn_load(shape, rows, rows as f64 * self.load_seconds_per_row);
                let kernel = truth.launch_seconds + rows as f64 * truth.kernel_seconds_per_row;
                for _ in 0..60 {
                    rates.learn_fold(shape, &known, rows, 0, kernel);
                    let moved = 8_000_000;
                    let transfer = moved as f64 * truth.transfer_seconds_per_byte;
                    rates.learn_fold(shape, &known, rows, moved, kernel + transfer);
                }
            }
        }
        Arc::new(rates)
    }
}

impl DeviceTruth {
    /// Draws a device; `host` is what a row takes all of the host together.
    fn random(random: &mut StdRng, range: Range, host: f64, rows: f64) -> Self {
        let per_row = host / log_uniform(random, range.speed);
        // What a row takes in all is divided among the stages.
        let transfer_share = random.random_range(0.0..0.8);
        let kernel_seconds_per_row = per_row * (1.0 - transfer_share);
        let transfer_seconds_per_byte = per_row * transfer_share / 8.0;
        let launch_seconds = random.random_range(0.0..0.05) * per_row * rows;
        let wrong =
            |random: &mut StdRng| log_uniform(random, (1.0 / range.wrong_by, range.wrong_by));
        let morsels = log_uniform(random, range.memory);
        let limit_bytes = (morsels * 8.0 * rows) as u64;
        Self {
            transfer_seconds_per_byte,
            kernel_seconds_per_row,
            launch_seconds,
            limit_bytes,
            cached_bytes: (limit_bytes as f64 * random.random_range(0.0..0.9)) as u64,
            believed: DeviceRates {
                copy_bytes_per_second: wrong(random) / transfer_seconds_per_byte.max(1e-30),
                rows_per_second: wrong(random) / kernel_seconds_per_row,
                launch_seconds,
            },
        }
    }
}

impl QuerySpec {
    fn random(
        random: &mut StdRng,
        range: Range,
        rows: f64,
        arrives: f64,
        partitions: usize,
    ) -> Self {
        let (least, most) = (range.morsels.0 as f64, range.morsels.1 as f64);
        let num_morsels = log_uniform(random, (least, most)).round() as usize;
        let uneven: f64 = [0.0, 0.0, 0.5][random.random_range(0..3)];
        let morsels = (0..num_morsels).map(|_| {
            let factor: f64 = 1.0 + uneven * random.random_range(-1.0..1.0);
            let num_rows = (rows * factor) as u64 + 1;
            MorselSize {
                num_rows,
                num_bytes: num_rows * 8,
            }
        });
        let morsels: Vec<MorselSize> = morsels.collect();
        let shared = random.random_bool(0.5);
        let pieces = if shared {
            1
        } else {
            partitions * random.random_range(1..=4)
        };
        let growth = random.random_range(0.0..0.3);
        Self {
            arrives,
            priority: random.random_range(-1..=1),
            shape: ShapeKey::try_from(format!("{:x}", random.random_range(0..3_u32))).unwrap(),
            pieces,
            run_max: if shared { 1 } else { usize::MAX },
            resident_of_100: [0, 0, 50, 100][random.random_range(0..4)],
            state_growth: (8.0 * rows * growth) as u64,
            state_bytes_max: (8.0 * rows * random.random_range(0.0..20.0)) as u64,
            morsels,
        }
    }
}
