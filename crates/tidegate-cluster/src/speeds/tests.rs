//! Which parts follow from which speeds.

use tokio_util::sync::CancellationToken;
use url::Url;

use super::{SECONDS_MIN, Speeds};
use crate::members::Usable;

fn executors(cores: &[u64]) -> Vec<Usable> {
    let executor = |(number, cores): (usize, &u64)| Usable {
        name: format!("e{number}"),
        url: Url::parse(&format!("http://127.0.0.1:{}", number + 1)).unwrap(),
        cores: *cores,
        memory_limit: 1 << 30,
        gone: CancellationToken::new(),
    };
    cores.iter().enumerate().map(executor).collect()
}

/// Has executors of these speeds do a kind of work once, as it is shared; returns their parts in percent.
fn run(speeds: &Speeds, kind: u64, executors: &[Usable], per_second: &[f64]) -> Vec<u64> {
    let weights = speeds.weights(kind, executors);
    for ((executor, weight), speed) in executors.iter().zip(&weights).zip(per_second) {
        let number = speeds.give(kind, &executor.name);
        speeds.learn(number, &executor.name, *weight, *weight as f64 / speed);
    }
    let whole: u64 = weights.iter().sum();
    weights
        .iter()
        .map(|weight| (weight * 100 + whole / 2) / whole)
        .collect()
}

#[test]
fn parts_follow_speeds() {
    let speeds = Speeds::default();
    let three = executors(&[2, 2, 4]);
    assert_eq!(
        run(&speeds, 1, &three, &[100.0, 700.0, 100.0]),
        [25, 25, 50]
    );
    // The first run may have read what the second one finds.
    assert_eq!(
        run(&speeds, 1, &three, &[100.0, 700.0, 100.0]),
        [25, 25, 50]
    );
    // An executor's part is at most twice that of its cores before it was seen three times.
    assert_eq!(
        run(&speeds, 1, &three, &[100.0, 700.0, 100.0]),
        [15, 69, 15]
    );
    assert_eq!(
        run(&speeds, 1, &three, &[100.0, 700.0, 100.0]),
        [11, 78, 11]
    );
    let relative = speeds.relative(&[("e0", 2), ("e1", 2), ("e2", 4), ("e3", 2)]);
    let percent = relative
        .into_iter()
        .map(|speed| speed.map(|speed| (speed * 100.0).round() as u64));
    // 900 of 8 cores.
    assert_eq!(
        percent.collect::<Vec<_>>(),
        [Some(44), Some(311), Some(22), None]
    );
    assert_eq!(speeds.relative(&[("e0", 2), ("e3", 2)]), [None, None]);
    // Another kind of work is shared by cores.
    assert_eq!(run(&speeds, 2, &three, &[1.0; 3]), [25, 25, 50]);
    // One that joins is as fast as the others' cores.
    let mut four = executors(&[2, 2, 4, 2]);
    assert_eq!(run(&speeds, 1, &four, &[100.0; 4]), [9, 62, 9, 20]);
    four.remove(1);
    let parts = run(&speeds, 1, &four, &[100.0; 3]);
    assert!(parts.iter().all(|part| *part >= 25), "{parts:?}");
}

#[test]
fn small_differences_move_nothing() {
    let speeds = Speeds::default();
    let two = executors(&[1, 1]);
    run(&speeds, 1, &two, &[100.0, 100.0]);
    for second in [90.0, 115.0, 85.0, 108.0] {
        assert_eq!(run(&speeds, 1, &two, &[100.0, second]), [50, 50]);
    }
    for _ in 0..4 {
        run(&speeds, 1, &two, &[100.0, 200.0]);
    }
    let parts = run(&speeds, 1, &two, &[100.0, 200.0]);
    assert!(parts[1] >= 62, "{parts:?}");
}

#[test]
fn what_tells_nothing_is_not_believed() {
    let speeds = Speeds::default();
    let two = executors(&[1, 1]);
    for _ in 0..5 {
        // Too short, by another executor, without rows, or told twice.
        let number = speeds.give(1, "e0");
        speeds.learn(number, "e0", 1_000, SECONDS_MIN / 2.0);
        let number = speeds.give(1, "e0");
        speeds.learn(number, "e1", 1_000, 1.0);
        let number = speeds.give(1, "e1");
        speeds.learn(number, "e1", 0, 1.0);
        speeds.learn(number, "e1", 1_000, 1.0);
        speeds.learn(u64::MAX, "e1", 1_000, 1.0);
        for seconds in [f64::NAN, f64::INFINITY, -1.0] {
            let number = speeds.give(1, "e1");
            speeds.learn(number, "e1", 1_000, seconds);
        }
    }
    assert_eq!(speeds.weights(1, &two), [500_000, 500_000]);
}
