//! Rows that a device holds, in a shape whose kernels it has not got: whoever is done first.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use tidegate_device::SimulatedDevice;
use tidegate_kernels::{Sample, SimulatedPipelineDevice};

use super::{ALL, Bench, DEVICE, MORSELS, total, total_of};
use crate::feeder::Choice;
use crate::place::Reason;
use crate::queue::{ClaimPolicy, MorselQueue};
use crate::rates::ShapeKey;
use crate::run::{AtomicRun, MixedRun, RunFailure};

const FAST: &str = "1GB,launch=1ns,rows=1e12/s";
const LONG: Duration = Duration::from_secs(60);

/// Makes a device that holds all morsels and compiles when it is told to; returns who tells it, and
/// who hears that it begins.
async fn waiting() -> (Bench, Sender<()>, Receiver<()>) {
    let (tell, told) = channel();
    let (begins, begun) = channel();
    let told = Mutex::new(told);
    let device = SimulatedDevice::new(DEVICE, FAST.parse().unwrap()).unwrap();
    let device = SimulatedPipelineDevice::with_compiler(device, move |_| {
        begins.send(()).unwrap();
        told.lock().recv_timeout(LONG).unwrap();
    });
    let bench = Bench::on(device, 0..MORSELS).await;
    (bench.free_to_choose(), tell, begun)
}

fn shape(bench: &Bench) -> ShapeKey {
    ShapeKey::of(&bench.spec.pipeline)
}

fn is_ready(bench: &Bench) -> bool {
    bench.spec.dispatch.is_ready(DEVICE, shape(bench))
}

async fn becomes_ready(bench: &Bench) {
    let began = Instant::now();
    while !is_ready(bench) {
        assert!(began.elapsed() < LONG, "it is never ready");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Has the host take a minute for each row.
fn slow_host(bench: &Bench) {
    let rates = bench.spec.dispatch.rates();
    rates.learn_host(shape(bench), 1, 60.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_answers_what_it_has_done_before_kernels_are_there() {
    let (bench, tell, begun) = waiting().await;
    let bench = bench.holding_all_of("numbers");
    let run = MixedRun::new(bench.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(!bench.spec.queue.is_for_devices());
    let claimer = run.host_claimer();
    let visit = run.enter();
    begun.recv_timeout(LONG).unwrap();
    run.list(0).await.unwrap();
    let mut on_host = 0;
    loop {
        let claimed = claimer.claim_in_time(0, 2).await;
        if claimed.is_empty() {
            break;
        }
        on_host += claimed.len();
    }
    drop(claimer);
    let tail = visit.leave().await.unwrap().unwrap();
    // The compiler is still waiting to be told.
    assert_eq!(on_host, MORSELS);
    assert!(tail.rows.is_empty() && tail.rest.is_empty());
    assert!(!is_ready(&bench));
    assert_eq!(bench.device_report(), (0, 0, 0));
    tell.send(()).unwrap();
    becomes_ready(&bench).await;
    // The next query finds them.
    let bench = bench.free_to_choose();
    let tail = bench.run().await;
    assert!(bench.spec.queue.is_for_devices());
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn kernels_are_waited_for_where_the_host_takes_longer() {
    let (bench, tell, begun) = waiting().await;
    slow_host(&bench);
    let run = MixedRun::new(bench.spec.clone());
    run.weigh_residency().await.unwrap();
    assert!(bench.spec.queue.is_for_devices());
    let visit = run.enter();
    begun.recv_timeout(LONG).unwrap();
    tell.send(()).unwrap();
    let tail = visit.leave().await.unwrap().unwrap();
    assert_eq!((total(&tail), bench.loads()), (ALL, 0));
    assert!(is_ready(&bench));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_region_of_all_or_nothing_is_the_hosts_until_kernels_are_there() {
    let (bench, tell, begun) = waiting().await;
    let mut bench = bench.holding_all_of("numbers");
    bench.spec.choice = Choice::Always(Reason::Resident);
    let failed = AtomicRun::run(&bench.spec).await.unwrap_err();
    assert!(matches!(failed, RunFailure::Fallback(Reason::Compiling)));
    assert_eq!((bench.device_report(), bench.loads()), ((0, 0, 0), 0));
    begun.recv_timeout(LONG).unwrap();
    tell.send(()).unwrap();
    becomes_ready(&bench).await;
    let learned = bench.spec.dispatch.rates();
    let seconds = learned.compile_seconds(shape(&bench), bench.device().info());
    assert!(seconds > 0.0 && seconds < LONG.as_secs_f64());
    let rows = AtomicRun::run(&bench.spec).await.unwrap();
    assert_eq!(total_of(&rows), ALL);

    // What is asked for is waited for, and so is what the host takes longer for.
    for (requested, slow) in [(true, false), (false, true)] {
        let (bench, tell, begun) = waiting().await;
        let mut bench = bench.holding_all_of("numbers");
        bench.spec.choice = Choice::Always(match requested {
            true => Reason::DeviceRequested,
            false => Reason::Resident,
        });
        if slow {
            slow_host(&bench);
        }
        let spec = bench.spec.clone();
        let asked = tokio::spawn(async move { AtomicRun::run(&spec).await.unwrap() });
        begun.recv_timeout(LONG).unwrap();
        assert!(!asked.is_finished());
        tell.send(()).unwrap();
        assert_eq!(total_of(&asked.await.unwrap()), ALL);
        assert!(is_ready(&bench));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compiling_is_estimated_for_the_first_claim_and_no_other() {
    for as_a_whole in [true, false] {
        let (mut bench, tell, _begun) = waiting().await;
        if as_a_whole {
            bench = bench.holding_all_of("numbers");
        }
        bench.spec.choice = Choice::Always(Reason::DeviceRequested);
        tell.send(()).unwrap();
        let mut estimated = Vec::new();
        for _ in 0..2 {
            if as_a_whole {
                AtomicRun::run(&bench.spec).await.unwrap();
            } else {
                bench.spec.queue = Arc::new(MorselQueue::new(ClaimPolicy::DeviceOnly, vec![None]));
                bench.run().await;
            }
            let report = bench.spec.counters.report(|place| place.to_string());
            estimated = report[0]
                .decisions
                .iter()
                .map(|it| it.estimated_seconds)
                .collect();
        }
        assert_eq!(estimated.len(), 2, "{estimated:?}");
        // It was never seen, and then it was done.
        assert!(estimated[0] >= 0.4, "{estimated:?}");
        assert!(estimated[1] < estimated[0] - 0.2, "{estimated:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_ends_a_device_can_wait_for_what_no_query_waits_for() {
    let (bench, tell, begun) = waiting().await;
    let bench = bench.holding_all_of("numbers");
    let dispatch = Arc::clone(&bench.spec.dispatch);
    let device = Arc::clone(&bench.spec.devices[0]);
    let compile = || {
        let pipeline = Arc::clone(&bench.spec.pipeline);
        dispatch.compile_beside(&device, pipeline, shape(&bench), Sample::Loaded(Vec::new()))
    };
    let holders = || (Arc::strong_count(&device), Arc::strong_count(&dispatch));
    let before = holders();
    drop(compile());
    begun.recv_timeout(LONG).unwrap();
    assert!(!dispatch.end_compilations(Duration::from_millis(5)));
    tell.send(()).unwrap();
    assert!(dispatch.end_compilations(LONG));
    assert!(is_ready(&bench));
    assert_eq!(holders(), before);
    // None begins after that, and nobody waits for one.
    compile().await;
    assert!(begun.try_recv().is_err());
}
