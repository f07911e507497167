//! A scan that lies on several devices: each folds what it holds, and what one of them gives up is done once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate_kernels::SimulatedPipelineDevice;

use super::{ALL, Bench, MORSELS, simulated, total};
use crate::queue::{ClaimPolicy, MorselQueue};
use crate::rates::ShapeKey;
use crate::run::{MixedRun, RunSpec};

/// Makes devices of these specifications, each of which holds these morsels.
async fn sharing(devices: &[(&str, &[usize])]) -> Bench {
    let made = devices.iter().enumerate();
    let made = made.map(|(number, (spec, resident))| {
        let device = SimulatedPipelineDevice::new(simulated(number, spec));
        (device, resident.to_vec())
    });
    Bench::over(made.collect()).await
}

const EVEN: [usize; 6] = [0, 2, 4, 6, 8, 10];
const ODD: [usize; 6] = [1, 3, 5, 7, 9, 11];

#[tokio::test(flavor = "multi_thread")]
async fn each_device_folds_what_it_holds() {
    // However slow one of them is, the other has no better use than to wait.
    for slow in ["1GB,rows=300/s", "1GB"] {
        let bench = sharing(&[(slow, &EVEN), ("1GB", &ODD)]).await;
        let tail = bench.run().await;
        assert_eq!(total(&tail), ALL);
        assert!(tail.rest.is_empty());
        assert_eq!((bench.loads(), bench.morsels()), (0, vec![6, 6]));
        let hits: Vec<u64> = bench.spec.cache.reports().iter().map(|c| c.hits).collect();
        assert_eq!(hits, [6, 6]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_holds_is_loaded_by_any() {
    let bench = sharing(&[("1GB", &[0, 1, 11]), ("1GB", &[3, 4]), ("1GB", &[])]).await;
    let tail = bench.run().await;
    assert_eq!(total(&tail), ALL);
    let morsels = bench.morsels();
    assert_eq!(bench.loads(), MORSELS - 5);
    assert!(morsels[0] >= 3 && morsels[1] >= 2, "{morsels:?}");
    assert_eq!(morsels.iter().sum::<u64>(), MORSELS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_lost_device_held_is_taken_over() {
    for fault in ["fail", "lost"] {
        for launch in 1..=3 {
            let faulty = format!("1GB,faults=launch:{launch}={fault}");
            let bench = sharing(&[(&faulty, &EVEN), ("1GB", &ODD)]).await;
            let tail = bench.run().await;
            assert_eq!(total(&tail), ALL, "{faulty}");
            let ids: BTreeSet<_> = tail.rest.iter().map(|morsel| morsel.id).collect();
            assert_eq!(ids.len(), tail.rest.len(), "{faulty}");
            let morsels = bench.morsels();
            assert!(morsels[1] >= 6, "{faulty}: {morsels:?}");
            let folded: u64 = morsels.iter().sum();
            assert_eq!(folded as usize + ids.len(), MORSELS, "{faulty}");
        }
    }
    // One that is lost before the run begins leaves everything to the other.
    let bench = sharing(&[("1GB,faults=launch:1=lost", &EVEN), ("1GB", &ODD)]).await;
    bench.run().await;
    assert!(bench.spec.devices[0].is_lost());
    let spec = RunSpec {
        queue: Arc::new(MorselQueue::new(ClaimPolicy::DeviceOnly, vec![None])),
        counters: Arc::default(),
        ..bench.spec.clone()
    };
    let bench = Bench { spec, ..bench };
    let tail = bench.run().await;
    assert_eq!(total(&tail), ALL);
    assert!(tail.rest.is_empty());
    assert_eq!(bench.morsels(), [0, 12]);
}

#[tokio::test(flavor = "multi_thread")]
async fn devices_that_together_hold_a_scan_get_it_if_they_are_first() {
    let fast = "1GB,launch=1ns,rows=1e12/s";
    let bench = sharing(&[(fast, &EVEN), (fast, &ODD)]).await;
    let bench = bench.free_to_choose();
    let tail = bench.run().await;
    assert!(bench.spec.queue.is_for_devices());
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));
    assert_eq!(bench.morsels(), [6, 6]);

    for devices in [
        [(fast, &EVEN[..]), (fast, &ODD[1..])],
        [(fast, &EVEN), ("1GB,rows=10/s", &ODD)],
    ] {
        let bench = sharing(&devices).await.free_to_choose();
        let run = MixedRun::new(bench.spec.clone());
        run.weigh_residency().await.unwrap();
        assert!(!bench.spec.queue.is_for_devices());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_device_holds_is_left_to_it_while_copies_of_it_come_to_lie_below() {
    let fast = "1GB,launch=1ns,rows=1e12/s,copy=1e15B/s";
    for copied in [&EVEN[..3], &EVEN] {
        let bench = sharing(&[(fast, &EVEN), (fast, &ODD)]).await;
        let bench = bench.free_to_choose();
        // The other device could take these from there, and would have all of the scan then.
        let copies = copied.iter().copied();
        bench.spec.keep_below(&bench.spec.devices[0], copies).await;
        let tail = bench.run().await;
        assert!(bench.spec.queue.is_for_devices());
        assert_eq!((total(&tail), bench.loads()), (ALL, 0));
        assert_eq!(bench.morsels(), [6, 6]);
        assert_eq!(bench.spec.cache.pinned().activity().hits, 0);
    }
}

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// What all of them are.
const EACH: [usize; MORSELS] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

/// Has the host take a minute for each row.
fn slow_host(bench: &Bench) {
    let shape = ShapeKey::of(&bench.spec.pipeline);
    bench.spec.dispatch.rates().learn_host(shape, 1, 60.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_must_move_it_takes_nothing_that_its_holder_does_before() {
    let fast = "1GB,launch=1ns,rows=1e12/s,copy=1e15B/s";
    let bench = sharing(&[("1GB,rows=3000/s", &EACH), (fast, &[])]).await;
    let bench = bench.free_to_choose();
    slow_host(&bench);
    let mover = &bench.spec.devices[1];
    bench.spec.keep_below(mover, EACH).await;
    let rates = bench.spec.dispatch.rates();
    rates.learn_pinned(mover.info(), 80, 100.0);
    let tail = bench.run().await;
    assert!(bench.spec.queue.is_for_devices());
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));
    assert_eq!(bench.morsels(), [12, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_must_move_it_takes_what_its_holder_would_do_later() {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    // The holder does nothing until it is told.
    let slow = simulated(0, "1GB,rows=100/s");
    let slow = SimulatedPipelineDevice::with_compiler(slow, move |_| {
        told.lock().recv_timeout(LONG).unwrap();
    });
    let fast = simulated(1, "1GB,launch=1ns,rows=1e12/s,copy=1e15B/s");
    let fast = SimulatedPipelineDevice::new(fast);
    let bench = Bench::over(vec![(slow, EACH.to_vec()), (fast, Vec::new())]).await;
    let bench = bench.free_to_choose();
    slow_host(&bench);
    let mover = &bench.spec.devices[1];
    bench.spec.keep_below(mover, EACH).await;
    let queue = Arc::clone(&bench.spec.queue);
    let began = Instant::now();
    let (tail, ()) = tokio::join!(bench.run(), async {
        while !queue.is_listed(0) || queue.rest().num_morsels > 0 {
            assert!(began.elapsed() < LONG, "nobody takes the rest");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tell.send(()).unwrap();
    });
    assert!(queue.is_for_devices());
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));
    // A run of one morsel in flight, one that waits for it, and one that is claimed meanwhile.
    let morsels = bench.morsels();
    assert!(morsels[1] >= 9, "{morsels:?}");
    assert_eq!(morsels.iter().sum::<u64>(), MORSELS as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_helper_declines_is_the_hosts_once_its_holder_is_lost() {
    // A turn of it is one morsel, so that most of them wait when it is lost.
    let holder = "1GB,rows=100/s,faults=launch:1=lost";
    let fast = "1GB,launch=1ns,rows=1e12/s,copy=1e15B/s";
    let bench = sharing(&[(holder, &EACH), (fast, &[])]).await;
    let bench = bench.free_to_choose();
    slow_host(&bench);
    let mover = &bench.spec.devices[1];
    bench.spec.keep_below(mover, EACH).await;
    let (rates, shape) = (
        bench.spec.dispatch.rates(),
        ShapeKey::of(&bench.spec.pipeline),
    );
    // A core that reads a row for the device takes longer than one that folds it.
    rates.learn_load(shape, 1, 100.0);
    let run = MixedRun::new(bench.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(bench.spec.queue.is_for_devices());
    // Statements get these bytes back before anybody has read them.
    bench.spec.cache.pinned().set_limit(0);
    let tail = tokio::time::timeout(LONG, run.enter().leave()).await;
    let tail = tail.unwrap().unwrap().unwrap();
    assert!(bench.spec.devices[0].is_lost());
    assert_eq!((total(&tail), tail.rest.len()), (ALL, MORSELS));
    assert_eq!((bench.loads(), bench.morsels()), (0, vec![0, 0]));
}
