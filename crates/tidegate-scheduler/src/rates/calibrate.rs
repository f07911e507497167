//! What is measured before anything has run.

use std::hint::black_box;
use std::time::Instant;

use tidegate_device::{DeviceInfo, DeviceRates};

use super::HOST_ROWS_PER_SECOND;

/// Rows of the loop that the host is measured by.
const ROWS: usize = 1 << 18;

/// Times that it runs; the fastest counts.
const TIMES: usize = 5;

/// What the loop takes a row on the machine for which [`HOST_ROWS_PER_SECOND`] was measured: one
/// core of a virtual machine at 2.6 GHz.
const LOOP_SECONDS_PER_ROW: f64 = 1.2e-9;

/// How far a calibration may move the start, so that a busy moment does no harm.
const FACTOR_MAX: f64 = 4.0;

/// Measures how fast a device is, before anything has run on it.
///
/// # Contract
/// A probe takes under a second, and gives `None` if it could not measure.
pub trait Probe {
    /// Measures a device.
    fn measure(&self, info: &DeviceInfo) -> Option<DeviceRates>;
}

/// Takes a device's word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared;

impl Probe for Declared {
    fn measure(&self, info: &DeviceInfo) -> Option<DeviceRates> {
        Some(info.rates)
    }
}

/// Measures, in some milliseconds of this thread, what a row takes a host partition: a loop that
/// filters and sums, in proportion to what the same loop and a query took on a known machine.
pub fn host_seconds_per_row() -> f64 {
    let values: Vec<i64> = (0..ROWS as i64).map(|row| row * 7919 % 1000).collect();
    let fastest = (0..TIMES)
        .map(|_| {
            let started = Instant::now();
            black_box(filtered_sum(black_box(&values)));
            started.elapsed().as_secs_f64()
        })
        .fold(f64::MAX, f64::min);
    let factor = fastest / ROWS as f64 / LOOP_SECONDS_PER_ROW;
    let factor = factor.clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
    factor / HOST_ROWS_PER_SECOND
}

/// Sums what passes a filter, in groups, so that no compiler makes it a vector operation.
fn filtered_sum(values: &[i64]) -> [i64; 16] {
    let mut sums = [0_i64; 16];
    for &value in values {
        if value > 250 {
            let group = (value & 15) as usize;
            sums[group] = sums[group].wrapping_add(value);
        }
    }
    sums
}
