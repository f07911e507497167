//! The simulated device keeps order, time, memory and its fault plan, and always ends.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::executor::block_on;
use futures::future::join_all;

use crate::pending::Pending;

use super::{Cost, SimulatedDevice, SimulatedSpec};
use crate::error::DeviceError;
use crate::info::DeviceId;

fn device(spec: SimulatedSpec) -> SimulatedDevice {
    SimulatedDevice::new(DeviceId(7), spec).unwrap()
}

fn with_faults(plan: &str) -> SimulatedDevice {
    device(SimulatedSpec {
        faults: plan.parse().unwrap(),
        ..SimulatedSpec::with_memory(1000)
    })
}

/// A device on which each row takes a millisecond and everything else nothing.
fn one_row_per_ms() -> SimulatedDevice {
    device(SimulatedSpec {
        copy_bytes_per_second: 0.0,
        rows_per_second: 1000.0,
        launch_seconds: 0.0,
        ..SimulatedSpec::with_memory(1000)
    })
}

fn rows(rows: u64) -> Cost {
    Cost {
        copy_bytes: 0,
        rows,
    }
}

fn is_launch_failure<T>(result: &Result<T, DeviceError>, expect: u64) -> bool {
    matches!(result, Err(DeviceError::LaunchFailed { launch, .. }) if *launch == expect)
}

#[test]
fn tasks_run_in_submission_order_on_one_named_thread() {
    let device = device(SimulatedSpec::with_memory(1000));
    let (sender, order) = mpsc::channel();
    let completions: Vec<Pending<Option<String>>> = (0..100)
        .map(|i| {
            let sender = sender.clone();
            device.submit(Cost::default(), move || {
                sender.send(i).unwrap();
                thread::current().name().map(str::to_owned)
            })
        })
        .collect();
    // Waiting in the opposite order must not matter.
    let names = block_on(join_all(completions.into_iter().rev()));
    for name in names {
        assert_eq!(name.unwrap().as_deref(), Some("tidegate-simulated-7"));
    }
    drop(sender);
    assert_eq!(
        order.iter().collect::<Vec<_>>(),
        (0..100).collect::<Vec<_>>()
    );
}

#[test]
fn a_completion_is_pending_until_the_work_is_done() {
    let device = device(SimulatedSpec::with_memory(1000));
    let (open, gate) = mpsc::channel::<()>();
    let mut first = device.submit(Cost::default(), move || gate.recv().is_ok());
    let mut second = device.submit(Cost::default(), || 2);
    assert!((&mut first).now_or_never().is_none());
    assert!((&mut second).now_or_never().is_none());
    open.send(()).unwrap();
    assert_eq!(block_on(second), Ok(2));
    assert_eq!(first.now_or_never(), Some(Ok(true)));
}

#[test]
fn completions_keep_the_modelled_time() {
    let device = one_row_per_ms();
    let begin = Instant::now();
    let completions: Vec<Pending<()>> = (0..3).map(|_| device.submit(rows(20), || ())).collect();
    for (i, completion) in (1..).zip(completions) {
        block_on(completion).unwrap();
        assert!(begin.elapsed() >= Duration::from_millis(20 * i));
    }
    let counters = device.counters();
    assert_eq!((counters.launches, counters.rows), (3, 60));
    assert!(counters.busy_seconds >= 0.06);
}

#[test]
fn copies_take_their_time_and_are_no_launches() {
    let device = device(SimulatedSpec {
        copy_bytes_per_second: 1e6,
        faults: "launch:1=fail".parse().unwrap(),
        ..SimulatedSpec::with_memory(1000)
    });
    let begin = Instant::now();
    block_on(device.copy(30_000)).unwrap();
    assert!(begin.elapsed() >= Duration::from_millis(30));
    let counters = device.counters();
    assert_eq!((counters.launches, counters.copied_bytes), (0, 30_000));
}

#[test]
fn every_planned_launch_fails_without_running() {
    for k in 1..=5 {
        let device = with_faults(&format!("launch:{k}=fail"));
        for launch in 1..=5 {
            let (sender, ran) = mpsc::channel();
            let result = block_on(device.submit(Cost::default(), move || sender.send(())));
            assert_eq!(is_launch_failure(&result, k), launch == k, "{k} {launch}");
            assert_eq!(ran.recv().is_ok(), launch != k);
        }
        assert!(!device.is_lost());
        assert_eq!(device.counters().launches, 5);
    }
}

#[test]
fn a_lost_device_fails_everything_afterwards() {
    for k in 1..=4 {
        let device = with_faults(&format!("launch:{k}=lost"));
        let completions: Vec<Pending<u64>> = (1..=5)
            .map(|i| device.submit(Cost::default(), move || i))
            .collect();
        for (launch, result) in (1..).zip(block_on(join_all(completions))) {
            match result {
                Ok(value) => assert!(value == launch && launch < k),
                Err(error) => assert!(error.is_lost() && launch >= k, "{error}"),
            }
        }
        assert!(device.is_lost());
        assert!(block_on(device.copy(1)).unwrap_err().is_lost());
        assert!(device.reserve(1).unwrap_err().is_lost());
    }
}

#[test]
fn every_planned_reservation_fails() {
    for k in 1..=4 {
        let device = with_faults(&format!("alloc:{k}=oom"));
        for reservation in 1..=4 {
            let result = device.reserve(10);
            assert_eq!(result.is_err(), reservation == k);
        }
        assert_eq!(device.budget().used(), 0);
    }
}

#[test]
fn reservations_share_the_memory() {
    let device = device(SimulatedSpec::with_memory(1000));
    let held = device.reserve(900).unwrap();
    assert!(!device.reserve(200).unwrap_err().is_impossible());
    assert!(device.reserve(2000).unwrap_err().is_impossible());
    drop(held);
    assert!(device.reserve(200).is_ok());
}

#[test]
fn reserved_memory_is_held_until_the_launch_is_over() {
    let device = with_faults("launch:2=fail");
    let (open, gate) = mpsc::channel::<()>();
    let memory = device.reserve(600).unwrap();
    let first = device.submit_reserved(Cost::default(), memory, move || gate.recv().is_ok());
    let memory = device.reserve(300).unwrap();
    drop(device.submit_reserved(Cost::default(), memory, || ()));
    let third = device.submit(Cost::default(), || ());
    assert_eq!(device.budget().used(), 900);
    open.send(()).unwrap();
    block_on(third).unwrap();
    // Nobody looked at the first completion, and the second launch failed.
    assert_eq!(device.budget().used(), 0);
    assert_eq!(block_on(first), Ok(true));
}

#[test]
fn a_panic_is_a_failed_launch() {
    let device = device(SimulatedSpec::with_memory(1000));
    let failed: Result<(), _> = block_on(device.submit(Cost::default(), || panic!("boom")));
    assert!(is_launch_failure(&failed, 1));
    assert!(failed.unwrap_err().to_string().contains("boom"));
    assert_eq!(block_on(device.submit(Cost::default(), || 1)), Ok(1));
}

#[test]
fn a_dropped_completion_disturbs_nothing() {
    let device = device(SimulatedSpec::with_memory(1000));
    let (sender, ran) = mpsc::channel();
    drop(device.submit(Cost::default(), move || sender.send(1)));
    assert_eq!(ran.recv(), Ok(1));
    assert_eq!(block_on(device.submit(Cost::default(), || 2)), Ok(2));
}

#[test]
fn dropping_the_device_wakes_it_and_fails_what_is_queued() {
    // Each launch is modelled to take an hour: only an interrupted sleep lets this test end.
    let device = one_row_per_ms();
    let (started, running) = mpsc::channel();
    let first = device.submit(rows(3_600_000), move || started.send(()));
    let queued: Vec<Pending<()>> = (0..10)
        .map(|_| device.submit(rows(3_600_000), || ()))
        .collect();
    running.recv().unwrap();
    drop(device);
    assert!(block_on(first).unwrap_err().is_lost());
    for result in block_on(join_all(queued)) {
        assert!(result.unwrap_err().is_lost());
    }
}

#[test]
fn an_idle_device_ends_when_dropped() {
    drop(device(SimulatedSpec::with_memory(1)));
}

#[test]
fn a_task_may_hold_the_last_reference_to_its_device() {
    let device = Arc::new(device(SimulatedSpec::with_memory(1000)));
    let (open, gate) = mpsc::channel::<()>();
    let inner = Arc::clone(&device);
    let completion = device.submit(Cost::default(), move || {
        gate.recv().unwrap();
        drop(inner);
    });
    drop(device);
    open.send(()).unwrap();
    // Whether the work counts as done depends on how far it was; that it ends is the point.
    let _ = block_on(completion);
}

#[test]
fn many_threads_submit_at_once() {
    let device = device(SimulatedSpec::with_memory(1000));
    thread::scope(|scope| {
        for thread in 0..8u64 {
            let device = &device;
            scope.spawn(move || {
                for i in 0..50 {
                    let value = thread * 1000 + i;
                    let done = block_on(device.submit(Cost::default(), move || value));
                    assert_eq!(done, Ok(value));
                }
            });
        }
    });
    assert_eq!(device.counters().launches, 400);
}
