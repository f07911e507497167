//! What a device's claims are estimated to take, by a clock that is only told.

use std::sync::Arc;

use tidegate_device::{DeviceId, DeviceInfo, DeviceKind, DeviceRates};

use super::{Location, WorkerStates};
use crate::place::Rest;
use crate::queue::MorselSize;
use crate::rates::{Rates, ShapeKey};

const DEVICE: DeviceId = DeviceId(0);
const ROWS: u64 = 130_000;

fn size() -> MorselSize {
    MorselSize {
        num_rows: ROWS,
        num_bytes: 2 * ROWS,
    }
}

fn info() -> DeviceInfo {
    DeviceInfo {
        id: DEVICE,
        kind: DeviceKind::Simulated,
        name: "d".into(),
        memory_bytes: 1 << 30,
        rates: DeviceRates::CUDA_START,
    }
}

fn shape() -> ShapeKey {
    ShapeKey::try_from("1".to_string()).unwrap()
}

/// The workers of a region, of which one is a device.
fn workers() -> Arc<WorkerStates> {
    let workers = WorkerStates::new(Arc::default(), shape(), 1);
    workers.join_device(&info(), 1 << 30);
    workers
}

/// Claims a morsel that must be read; returns what that is estimated to take, in seconds.
fn claim(workers: &WorkerStates, others: f64, now: f64) -> f64 {
    workers.takes(DEVICE, size(), Location::Host, others, now);
    workers.promised(DEVICE).seconds
}

/// Lets the device have run this shape, so that nothing is doubted: reading takes 10 ms a morsel,
/// folding 4 ms.
fn learn(rates: &Rates) {
    rates.learn_load(shape(), ROWS, 0.010);
    for _ in 0..8 {
        rates.learn_transfer(shape(), &info(), 2 * ROWS, 0.001);
        let kernel = 0.003;
        rates.learn_fold(shape(), &info(), ROWS, 0, kernel);
    }
}

#[test]
fn what_makes_a_claim_late_is_not_counted_twice() {
    let workers = workers();
    let first = claim(&workers, 0.0, 0.0);
    assert!(first > 0.0 && first < 0.1, "{first}");
    // Reading took four seconds; it is known, and the claim is late for the same.
    workers.rates().learn_load(shape(), ROWS, 4.0);
    let second = claim(&workers, 0.0, 4.0);
    assert!((3.9..5.0).contains(&second), "{second}");
    // As long as nothing is learned, the claim alone tells.
    let workers = self::workers();
    claim(&workers, 0.0, 0.0);
    let second = claim(&workers, 0.0, 4.0);
    assert!((2.0..5.0).contains(&second), "{second}");
    // What has ended is not late any more.
    workers.end(DEVICE, 4.0);
    workers.end(DEVICE, 4.0);
    let third = claim(&workers, 0.0, 8.0);
    assert!(third < 0.1, "{third}");
}

#[test]
fn claims_that_wait_side_by_side_are_estimated_to_take_what_passes() {
    let workers = workers();
    learn(workers.rates());
    // Two in flight; the device is done with one whenever another was read.
    let (mut estimated, mut now) = (0.0, 0.0);
    for _ in 0..46 {
        estimated += claim(&workers, 0.0, now);
        now += 0.010;
        workers.end(DEVICE, now + 0.004);
    }
    let passed = now + 0.004;
    assert!(
        estimated > 0.9 * passed && estimated < 1.5 * passed,
        "{estimated} of {passed}"
    );
    // And if all of them wait at once.
    let workers = WorkerStates::new(Arc::clone(workers.rates()), shape(), 1);
    workers.join_device(&info(), 1 << 30);
    let estimated: f64 = (0..46).map(|_| claim(&workers, 0.0, 0.0)).sum();
    let passed = 46.0 * 0.010 + 0.004;
    assert!(
        (estimated / passed - 1.0).abs() < 0.1,
        "{estimated} of {passed}"
    );
}

#[test]
fn compiling_is_estimated_once_and_does_not_make_folds_slow() {
    let workers = workers();
    learn(workers.rates());
    workers.compiles_first(DEVICE, 0.4);
    let first = claim(&workers, 0.0, 0.0);
    assert!((first - 0.414).abs() < 1e-3, "{first}");
    let second = claim(&workers, 0.0, 0.0);
    assert!(second < 0.02, "{second}");
    workers.end(DEVICE, 0.1);
    workers.end(DEVICE, 0.1);
    // That compiling is late tells nothing of folds.
    workers.compiles_first(DEVICE, 0.4);
    claim(&workers, 0.0, 1.0);
    let late = claim(&workers, 0.0, 5.0);
    assert!(late < 0.02, "{late}");
}

#[test]
fn the_turns_of_others_are_waited_for_once() {
    let workers = workers();
    learn(workers.rates());
    let (first, second) = (claim(&workers, 1.0, 0.0), claim(&workers, 1.0, 0.0));
    assert!((1.0..1.1).contains(&first), "{first}");
    assert!(second < 0.1, "{second}");
}

#[test]
fn the_state_comes_back_once() {
    let workers = workers();
    learn(workers.rates());
    workers.rates().learn_finish(shape(), &info(), 1.0);
    // A slow host leaves everything to the device.
    workers.rates().learn_host(shape(), 1, 60.0);
    let rest = Rest {
        num_morsels: 10,
        num_rows: 10 * ROWS,
        num_bytes: 20 * ROWS,
    };
    let decide = || workers.decide(DEVICE, size(), Location::Host, rest, 0.0, 0.0);
    for claims in 1..=3 {
        let decision = decide();
        assert!(decision.takes);
        let promised = workers.promised(DEVICE).seconds;
        assert!(promised < 0.1, "{promised}");
        let until = decision.estimate.seconds;
        assert!(
            (1.0..1.1).contains(&until),
            "after {claims} claims: {until}"
        );
    }
}
