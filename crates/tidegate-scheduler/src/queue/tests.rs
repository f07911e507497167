//! Each morsel is claimed once, by whom the policy allows.

use super::{ClaimPolicy, DeviceClaim, MorselId, MorselQueue, MorselSize};
use crate::place::{Place, RecordedPlacement, Replay};
use tidegate_device::DeviceId;

const DEVICE: DeviceId = DeviceId(0);

fn size(num_rows: u64) -> MorselSize {
    MorselSize {
        num_rows,
        num_bytes: num_rows * 8,
    }
}

fn queue(policy: ClaimPolicy, pieces: &[usize]) -> MorselQueue {
    let queue = MorselQueue::new(policy, vec![None; pieces.len()]);
    for (piece, &num_morsels) in pieces.iter().enumerate() {
        queue.list(piece, (0..num_morsels).map(|_| size(10)));
    }
    queue
}

fn device(queue: &MorselQueue) -> Option<MorselId> {
    match queue.claim_for_device(DEVICE, |_, _| true) {
        DeviceClaim::Morsel(morsel) => Some(morsel.id),
        _ => None,
    }
}

#[test]
fn the_host_claims_guided_runs_from_the_front_and_the_device_from_the_back() {
    let queue = queue(ClaimPolicy::Shared, &[4, 3]);
    assert_eq!(device(&queue), Some(MorselId { piece: 1, index: 2 }));
    let run = |piece| {
        queue
            .claim_for_host(piece, usize::MAX)
            .iter()
            .map(|m| m.id.index)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(0), [0, 1]);
    assert_eq!(run(0), [2]);
    assert_eq!(run(0), [3]);
    assert_eq!(run(0), [0_usize; 0]);
    assert_eq!(device(&queue), Some(MorselId { piece: 1, index: 1 }));
    assert_eq!(run(1), [0]);
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Empty
    );
}

#[test]
fn every_morsel_is_claimed_once_under_contention() {
    let queue = queue(ClaimPolicy::Shared, &[100, 100]);
    let claimed: Vec<MorselId> = std::thread::scope(|scope| {
        let host = |piece| {
            let queue = &queue;
            scope.spawn(move || {
                let mut mine = Vec::new();
                loop {
                    let run = queue.claim_for_host(piece, usize::MAX);
                    if run.is_empty() {
                        return mine;
                    }
                    mine.extend(run.iter().map(|morsel| morsel.id));
                }
            })
        };
        let mut threads = vec![host(0), host(1)];
        threads.push(scope.spawn(|| std::iter::from_fn(|| device(&queue)).collect()));
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    let distinct: std::collections::BTreeSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), distinct.len()), (200, 200));
}

#[test]
fn a_recorded_placement_decides_alone() {
    let queue = queue(
        ClaimPolicy::Replay(Replay::Pattern("HD".parse().unwrap())),
        &[5],
    );
    let host: Vec<usize> = std::iter::from_fn(|| {
        Some(queue.claim_for_host(0, usize::MAX)).filter(|run| !run.is_empty())
    })
    .flatten()
    .map(|morsel| morsel.id.index)
    .collect();
    assert_eq!(host, [0, 2, 4]);
    assert_eq!(device(&queue).map(|id| id.index), Some(3));
    assert_eq!(device(&queue).map(|id| id.index), Some(1));
    assert_eq!(device(&queue), None);
}

#[test]
fn what_was_recorded_is_replayed_morsel_by_morsel() {
    const OTHER: DeviceId = DeviceId(1);
    let first = queue(ClaimPolicy::Shared, &[5, 3]);
    let last = device(&first).unwrap();
    let given_back = device(&first).unwrap();
    let DeviceClaim::Morsel(others) = first.claim_for_device(OTHER, |_, _| true) else {
        panic!("nothing for the other device");
    };
    first.commit(DEVICE, &[last]);
    first.commit(OTHER, &[others.id]);
    first.give_back(&[given_back]);
    assert_eq!(first.take_rest(true).len(), 6);
    let recorded = first.record().unwrap();
    assert_eq!(recorded.morsels_at(Place::Host), "0:0-4 1:1");
    assert_eq!(recorded.morsels_at(Place::Device(DEVICE)), "1:2");
    assert_eq!(recorded.morsels_at(Place::Device(OTHER)), "1:0");
    // A piece has grown since, and one has come: the host takes what is not recorded.
    let again = queue(ClaimPolicy::Replay(Replay::Recorded(recorded)), &[5, 4, 1]);
    assert_eq!(device(&again), Some(MorselId { piece: 1, index: 2 }));
    assert_eq!(device(&again), None);
    let claim = again.claim_for_device(OTHER, |_, _| true);
    assert!(matches!(claim, DeviceClaim::Morsel(morsel) if morsel.id == others.id));
    let host = |piece| {
        std::iter::from_fn(|| {
            Some(again.claim_for_host(piece, usize::MAX)).filter(|run| !run.is_empty())
        })
        .flatten()
        .count()
    };
    assert_eq!([host(0), host(1), host(2)], [5, 2, 1]);
}

#[test]
fn a_scan_that_goes_to_and_fro_too_often_is_not_recorded() {
    let places = |times: usize| {
        let pair = [Place::Host, Place::Device(DEVICE)];
        RecordedPlacement::of([pair.repeat(times)])
    };
    assert!(places(100).is_some());
    assert_eq!(places(1 << 15), None);
}

#[test]
fn what_is_given_back_is_taken_once_and_what_is_committed_never() {
    let queue = queue(ClaimPolicy::DeviceOnly, &[3]);
    assert!(queue.claim_for_host(0, usize::MAX).is_empty());
    let (last, middle) = (device(&queue).unwrap(), device(&queue).unwrap());
    queue.commit(DEVICE, &[last]);
    queue.give_back(&[middle]);
    let rest: Vec<usize> = queue
        .take_rest(true)
        .iter()
        .map(|morsel| morsel.id.index)
        .collect();
    assert_eq!(rest, [0, 1]);
    assert!(queue.take_rest(true).is_empty());
}

#[test]
fn pieces_of_a_partition_wait_until_it_is_polled() {
    let queue = MorselQueue::new(ClaimPolicy::Shared, vec![Some(0), Some(1)]);
    queue.list(0, [size(1)]);
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Later
    );
    queue.open_partition(0);
    assert_eq!(device(&queue), Some(MorselId { piece: 0, index: 0 }));
    assert!(queue.unlisted().is_empty());
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Later
    );
    queue.open_partition(1);
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Unlisted(1)
    );
    assert_eq!(queue.unlisted(), [1]);
}

#[test]
fn a_growing_piece_says_later_until_it_is_closed() {
    let queue = MorselQueue::new(ClaimPolicy::Shared, vec![None]);
    queue.grow(0);
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Later
    );
    queue.append(0, size(1), true);
    queue.append(0, size(2), false);
    assert_eq!(device(&queue), Some(MorselId { piece: 0, index: 1 }));
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Later
    );
    queue.close(0);
    assert_eq!(
        queue.claim_for_device(DEVICE, |_, _| true),
        DeviceClaim::Empty
    );
}

#[test]
fn a_device_may_decline_and_sees_the_rows_that_wait() {
    let queue = queue(ClaimPolicy::Shared, &[3]);
    let mut seen = 0;
    let claim = queue.claim_for_device(DEVICE, |_, rest| {
        seen = rest.num_rows;
        false
    });
    assert_eq!((claim, seen), (DeviceClaim::Declined, 30));
    assert_eq!(queue.claim_for_host(0, usize::MAX).len(), 2);
}
