//! It waits for a moment without statements but not for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::Calibration;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn it_waits_for_a_moment_without_statements_but_not_for_ever() {
    let looked = Arc::new(AtomicUsize::new(0));
    for idle_at in [2, usize::MAX] {
        let (sender, measured) = mpsc::channel();
        let looks = Arc::clone(&looked);
        looked.store(0, Ordering::Relaxed);
        let _calibration = Calibration::begin(
            move || looks.fetch_add(1, Ordering::Relaxed) + 1 >= idle_at,
            move || sender.send(()).unwrap(),
        );
        measured.recv_timeout(LONG).unwrap();
        assert!(looked.load(Ordering::Relaxed) >= 2);
    }
}

#[test]
fn what_has_not_begun_does_not_and_what_has_is_waited_for() {
    let began = Arc::new(AtomicUsize::new(0));
    let begin = Arc::clone(&began);
    drop(Calibration::begin(
        || false,
        move || {
            begin.fetch_add(1, Ordering::Relaxed);
        },
    ));
    assert_eq!(began.load(Ordering::Relaxed), 0);

    let (sender, measuring) = mpsc::channel();
    let ended = Arc::new(AtomicUsize::new(0));
    let end = Arc::clone(&ended);
    let calibration = Calibration::begin(
        || true,
        move || {
            sender.send(()).unwrap();
            thread::sleep(Duration::from_millis(50));
            end.fetch_add(1, Ordering::Relaxed);
        },
    );
    measuring.recv_timeout(LONG).unwrap();
    drop(calibration);
    assert_eq!(ended.load(Ordering::Relaxed), 1);
}
