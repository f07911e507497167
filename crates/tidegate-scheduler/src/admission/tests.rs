//! The queue and the turns by a virtual clock, and the gate that tasks wait at.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::Duration;

use super::turns::{QueryId, SECONDS_OUT, TURNS_OUT, Turns};
use super::{
    AdmissionError, AdmissionGate, AdmissionLimits, AdmissionQueue, AdmissionRequest, DeviceTurns,
};

fn request(priority: i32) -> AdmissionRequest {
    AdmissionRequest {
        priority,
        expected_bytes: 0,
    }
}

fn limits(running_max: usize, waiting_max: usize) -> AdmissionLimits {
    AdmissionLimits {
        running_max,
        waiting_max,
        expected_bytes_max: u64::MAX,
        wait_max: Duration::from_secs(3600),
    }
}

#[test]
fn the_oldest_of_the_highest_priority_goes_first() {
    let mut queue = AdmissionQueue::new(limits(1, 10));
    let runs = queue.arrive(request(0), 0.0).unwrap();
    let [low, first, second] =
        [-1, 0, 0].map(|priority| queue.arrive(request(priority), 1.0).unwrap());
    let high = queue.arrive(request(5), 2.0).unwrap();
    assert!(queue.runs(runs) && !queue.runs(high));
    let mut order = vec![runs];
    for now in 3..7 {
        let last = *order.last().unwrap();
        order.extend(queue.leave(last, f64::from(now)));
    }
    assert_eq!(order, [runs, high, first, second, low]);
}

#[test]
fn waiting_raises_a_priority_so_that_none_waits_for_ever() {
    let mut queue = AdmissionQueue::new(limits(1, 1000));
    let mut running = queue.arrive(request(0), 0.0).unwrap();
    let patient = queue.arrive(request(0), 0.0).unwrap();
    for second in 0..1000 {
        let now = f64::from(second);
        queue.arrive(request(3), now).unwrap();
        let next = queue.leave(running, now);
        running = next[0];
        if running == patient {
            assert!(second > 10, "priorities count");
            return;
        }
    }
    panic!("the patient query starved");
}

#[test]
fn a_full_queue_refuses_and_says_so() {
    let mut queue = AdmissionQueue::new(limits(1, 1));
    let first = queue.arrive(request(0), 0.0).unwrap();
    let second = queue.arrive(request(0), 0.0).unwrap();
    let refused = queue.arrive(request(9), 0.0).unwrap_err();
    assert!(
        refused.to_string().contains("1 statements run and 1 wait"),
        "{refused}"
    );
    assert!(queue.leave(second, 1.0).is_empty());
    assert_eq!((queue.num_running(), queue.num_waiting()), (1, 0));
    assert!(queue.leave(first, 1.0).is_empty());
    let again = queue.arrive(request(0), 2.0).unwrap();
    assert!(queue.runs(again));
    let waits = queue.arrive(request(0), 2.0).unwrap();
    assert_eq!(queue.set_limits(limits(2, 1), 3.0), [waits]);
}

#[test]
fn device_time_is_shared_evenly_however_long_turns_are() {
    let mut turns = Turns::default();
    let lengths = BTreeMap::from([
        (QueryId(0), 0.050),
        (QueryId(1), 0.005),
        (QueryId(2), 0.020),
    ]);
    let mut out = std::collections::VecDeque::new();
    let mut used: BTreeMap<QueryId, f64> = BTreeMap::new();
    for _ in 0..3000 {
        for (&query, &seconds) in &lengths {
            if let Some(turn) = turns.request(query, TURNS_OUT, seconds, true) {
                out.push_back((turn, query, seconds));
            }
        }
        assert!(out.len() <= TURNS_OUT);
        let (turn, query, seconds) = out.pop_front().unwrap();
        turns.end(turn, seconds);
        *used.entry(query).or_default() += seconds;
    }
    let (least, most) = used
        .values()
        .fold((f64::MAX, 0.0_f64), |(least, most), &time| {
            (least.min(time), most.max(time))
        });
    assert!(most / least < 1.1, "{used:?}");
}

#[test]
fn a_turn_that_took_longer_than_it_said_is_paid_for() {
    let mut turns = Turns::default();
    let (honest, other) = (QueryId(0), QueryId(1));
    let mut used = [0.0, 0.0];
    let mut out = std::collections::VecDeque::new();
    for _ in 0..2000 {
        for (query, said, real) in [(honest, 0.01, 0.01), (other, 0.01, 0.05)] {
            if let Some(turn) = turns.request(query, TURNS_OUT, said, true) {
                out.push_back((turn, query, real));
            }
        }
        let (turn, query, real) = out.pop_front().unwrap();
        turns.end(turn, real);
        used[query.0 as usize] += real;
    }
    assert!((used[0] / used[1] - 1.0).abs() < 0.1, "{used:?}");
}

#[test]
fn a_query_that_comes_late_has_saved_nothing() {
    let mut turns = Turns::default();
    for _ in 0..100 {
        let turn = turns.request(QueryId(0), TURNS_OUT, 1.0, true).unwrap();
        turns.end(turn, 1.0);
    }
    let mut given = [0, 0];
    for _ in 0..20 {
        for query in 0..2 {
            if let Some(turn) = turns.request(QueryId(query), TURNS_OUT, 1.0, true) {
                given[query as usize] += 1;
                turns.end(turn, 1.0);
            }
        }
    }
    assert!(given[0] >= 9 && given[1] >= 9, "{given:?}");
}

#[tokio::test]
async fn the_gate_lets_the_next_in_and_forgets_who_gives_up() {
    let gate = AdmissionGate::new(limits(1, 10));
    let first = gate.admit(request(0)).await.unwrap();
    let gives_up = gate.admit(request(0));
    assert!(
        tokio::time::timeout(Duration::from_millis(5), gives_up)
            .await
            .is_err()
    );
    assert_eq!(gate.counts(), (1, 0));
    let waiting = tokio::spawn({
        let gate = std::sync::Arc::clone(&gate);
        async move { gate.admit(request(0)).await }
    });
    while gate.counts() != (1, 1) {
        tokio::task::yield_now().await;
    }
    drop(first);
    let second = waiting.await.unwrap().unwrap();
    assert_eq!(gate.counts(), (1, 0));
    drop(second);
    assert_eq!(gate.counts(), (0, 0));
}

#[tokio::test]
async fn who_waits_too_long_is_told_the_limit_and_the_way_out() {
    let gate = AdmissionGate::new(AdmissionLimits {
        wait_max: Duration::from_millis(5),
        ..limits(1, 10)
    });
    let first = gate.admit(request(0)).await.unwrap();
    let refused = gate.admit(request(0)).await.unwrap_err();
    assert!(matches!(
        refused,
        AdmissionError::WaitedTooLong { running_max: 1, .. }
    ));
    assert!(
        refused.to_string().contains("waited 5ms for one of 1"),
        "{refused}"
    );
    assert_eq!(gate.counts(), (1, 0));
    drop(first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_wait_ends_while_every_thread_of_the_runtime_is_busy() {
    let gate = AdmissionGate::new(AdmissionLimits {
        wait_max: Duration::from_millis(5),
        ..limits(1, 10)
    });
    let first = gate.admit(request(0)).await.unwrap();
    // The one thread that keeps the runtime's clock does not look at it for a minute, or until it is told.
    let (tell, told) = channel();
    let (begins, begun) = channel();
    let busy = tokio::spawn(async move {
        begins.send(()).unwrap();
        told.recv_timeout(Duration::from_secs(60))
    });
    begun.recv().unwrap();
    let refused = gate.admit(request(0)).await;
    assert!(matches!(refused, Err(AdmissionError::WaitedTooLong { .. })));
    tell.send(()).unwrap();
    assert_eq!(
        busy.await.unwrap(),
        Ok(()),
        "it came before the minute was over"
    );
    drop(first);
}

#[test]
fn a_turn_that_is_set_aside_leaves_the_device_to_others() {
    let mut turns = Turns::default();
    let (slow, other) = (QueryId(1), QueryId(2));
    let own: Vec<u64> = (0..TURNS_OUT)
        .map(|_| turns.request(slow, TURNS_OUT, 1.0, false).unwrap())
        .collect();
    assert_eq!(turns.request(other, TURNS_OUT, 1.0, true), None);
    for turn in &own {
        turns.set_aside(*turn);
    }
    assert_eq!(turns.seconds_of_others(other), 0.0);
    assert_eq!(
        turns.request(slow, TURNS_OUT, 0.0, true),
        None,
        "it waits for kernels"
    );
    let theirs: Vec<u64> = (0..TURNS_OUT)
        .map(|_| turns.request(other, TURNS_OUT, 1.0, false).unwrap())
        .collect();
    turns.resume(own[0]);
    assert_eq!(turns.request(other, TURNS_OUT, 1.0, true), None);
    turns.end(own[0], 1.0);
    // One that ends while it is aside is over as well.
    turns.end(own[1], 1.0);
    for turn in theirs {
        turns.end(turn, 1.0);
    }
    assert_eq!(turns.seconds_of_others(QueryId(3)), 1.0, "both wait");
    turns.withdraw(other);
    assert!(turns.request(slow, TURNS_OUT, 1.0, true).is_some());
}

#[tokio::test]
async fn a_turn_is_waited_for_and_given_back() {
    let device = std::sync::Arc::new(DeviceTurns::default());
    let (one, two) = (QueryId(0), QueryId(1));
    let held: Vec<_> = (0..TURNS_OUT)
        .map(|_| device.try_take(one, TURNS_OUT, 0.01).unwrap())
        .collect();
    assert!(device.try_take(one, TURNS_OUT, 0.01).is_none());
    assert!((device.seconds_of_others(two) - 0.02).abs() < 1e-9);
    let waits = tokio::time::timeout(Duration::from_millis(5), device.take(two, TURNS_OUT, 0.01));
    assert!(waits.await.is_err());
    drop(held);
    let turn = device.take(two, TURNS_OUT, 0.01).await;
    assert!(device.others_are_known(one));
    drop(turn);
    device.leave(one);
    device.leave(two);
    assert!(!device.others_are_known(one));
}

#[test]
fn who_is_alone_may_have_more_turns_until_another_comes() {
    let mut turns = Turns::default();
    let (one, two) = (QueryId(0), QueryId(1));
    let ask = |turns: &mut Turns, query, most| turns.request(query, most, 0.01, true);
    let out: Vec<u64> = (0..5).map(|_| ask(&mut turns, one, 5).unwrap()).collect();
    assert_eq!(ask(&mut turns, one, 5), None, "so many and no more");
    assert_eq!(ask(&mut turns, two, 5), None);
    // All but one must end before the other has one; and the first gets no more than that meanwhile.
    for turn in &out[..3] {
        turns.end(*turn, 0.01);
        assert_eq!(ask(&mut turns, one, 5), None);
        assert_eq!(ask(&mut turns, two, 5), None);
    }
    turns.end(out[3], 0.01);
    let other = ask(&mut turns, two, 5).unwrap();
    assert_eq!(
        ask(&mut turns, two, 5),
        None,
        "two at once where there are two"
    );
    turns.end(other, 0.01);
    turns.leave(two);
    assert!((0..4).all(|_| ask(&mut turns, one, 5).is_some()));
    assert_eq!(ask(&mut turns, one, 5), None);
    // Short ones do not keep another waiting.
    let ask = |turns: &mut Turns, query| turns.request(query, TURNS_OUT, SECONDS_OUT / 4.5, true);
    let mut turns = Turns::default();
    assert!(ask(&mut turns, two).is_some());
    assert!((0..3).all(|_| ask(&mut turns, one).is_some()));
    assert_eq!(ask(&mut turns, one), None);
    // Less than what keeps the device busy is for whoever asks to see to.
    assert!(Turns::default().request(one, 1, 0.01, false).is_some());
}

#[test]
fn queries_run_beside_each_other_as_far_as_their_memory_goes_round() {
    let mut queue = AdmissionQueue::new(AdmissionLimits {
        expected_bytes_max: 100,
        ..limits(10, 10)
    });
    let of = |expected_bytes| AdmissionRequest {
        priority: 0,
        expected_bytes,
    };
    let huge = queue.arrive(of(500), 0.0).unwrap();
    assert!(queue.runs(huge), "alone anything runs");
    let [sixty, fifty, nothing] = [60, 50, 0].map(|bytes| queue.arrive(of(bytes), 0.0).unwrap());
    assert!(!queue.runs(sixty) && !queue.runs(nothing));
    assert_eq!(queue.leave(huge, 1.0), [sixty]);
    // Nobody overtakes who is next, or that one might wait for ever.
    assert!(!queue.runs(fifty) && !queue.runs(nothing));
    assert_eq!(queue.leave(sixty, 2.0), [fifty, nothing]);
}
