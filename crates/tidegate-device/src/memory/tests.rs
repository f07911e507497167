//! The budget holds under every order of reserving and giving back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::{MakeRoom, MemoryBudget, Reservation};
use crate::error::DeviceError;
use crate::info::DeviceId;

fn budget(limit: u64) -> Arc<MemoryBudget> {
    MemoryBudget::new(DeviceId(0), limit)
}

#[test]
fn bytes_come_back_on_drop() {
    let budget = budget(100);
    let first = budget.reserve(60).unwrap();
    assert_eq!((budget.used(), budget.free(), first.bytes()), (60, 40, 60));
    drop(first);
    assert_eq!((budget.used(), budget.peak()), (0, 60));
}

#[test]
fn the_limit_itself_can_be_reserved() {
    let budget = budget(100);
    let all = budget.reserve(100).unwrap();
    assert!(budget.reserve(1).is_err());
    let nothing = budget.reserve(0).unwrap();
    drop((all, nothing));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_refusal_says_whether_waiting_helps() {
    let budget = budget(100);
    let _held = budget.reserve(60).unwrap();
    let possible = budget.reserve(50).unwrap_err();
    assert_eq!(
        possible,
        DeviceError::OutOfMemory {
            device: DeviceId(0),
            wanted: 50,
            free: 40,
            limit: 100
        }
    );
    assert!(!possible.is_impossible());
    assert!(budget.reserve(101).unwrap_err().is_impossible());
    assert!(budget.reserve(u64::MAX).unwrap_err().is_impossible());
    assert_eq!(budget.used(), 60);
}

#[test]
fn resize_grows_within_the_limit_or_changes_nothing() {
    let budget = budget(100);
    let mut held = budget.reserve(10).unwrap();
    held.resize(100).unwrap();
    assert_eq!((held.bytes(), budget.used()), (100, 100));
    assert!(held.resize(101).unwrap_err().is_impossible());
    assert_eq!((held.bytes(), budget.used()), (100, 100));
    held.resize(5).unwrap();
    assert_eq!((held.bytes(), budget.used()), (5, 5));
}

#[test]
fn split_moves_bytes() {
    let budget = budget(100);
    let mut held = budget.reserve(30).unwrap();
    assert!(held.split(31).is_none());
    let part = held.split(20).unwrap();
    assert_eq!((held.bytes(), part.bytes(), budget.used()), (10, 20, 30));
    drop(held);
    assert_eq!(budget.used(), 20);
    drop(part);
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_lowered_limit_keeps_promises() {
    let budget = budget(100);
    let held = budget.reserve(80).unwrap();
    budget.set_limit(50);
    assert_eq!((budget.used(), budget.free(), budget.limit()), (80, 0, 50));
    assert!(budget.reserve(1).is_err());
    drop(held);
    drop(budget.reserve(50).unwrap());
}

#[test]
fn threads_never_pass_the_limit() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 2_000;
    let budget = budget(1_000);
    let granted = AtomicU64::new(0);
    let exceeded = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (budget, granted, exceeded) = (&budget, &granted, &exceeded);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let Ok(mut held) = budget.reserve((thread * 31 + round) % 400) else {
                        continue;
                    };
                    granted.fetch_add(1, Ordering::Relaxed);
                    let part = held.split(held.bytes() / 3);
                    let _ = held.resize(round % 500);
                    if budget.used() > 1_000 {
                        exceeded.store(true, Ordering::Relaxed);
                    }
                    drop(part);
                }
            });
        }
    });
    assert!(!exceeded.load(Ordering::Relaxed));
    assert!(granted.load(Ordering::Relaxed) > 0);
    assert_eq!(budget.used(), 0);
    assert!(budget.peak() <= 1_000);
}

#[test]
fn what_grows_is_given_room_and_what_begins_is_not() {
    #[derive(Debug, Default)]
    struct Cached(Mutex<Vec<Reservation>>);

    impl MakeRoom for Cached {
        fn make_room(&self, device: DeviceId, bytes: u64) -> u64 {
            assert_eq!(device, DeviceId(3));
            let mut freed = 0;
            while freed < bytes {
                let Some(chunk) = self.0.lock().pop() else {
                    break;
                };
                freed += chunk.bytes();
            }
            freed
        }
    }

    let budget = MemoryBudget::new(DeviceId(3), 100);
    let cached = Arc::new(Cached::default());
    let weak: Weak<dyn MakeRoom> = Arc::downgrade(&(Arc::clone(&cached) as Arc<dyn MakeRoom>));
    budget.set_gives_way(weak);
    for _ in 0..8 {
        cached.0.lock().push(budget.reserve(10).unwrap());
    }
    let mut state = budget.reserve(20).unwrap();
    assert!(budget.reserve(1).is_err());
    state.resize(45).unwrap();
    assert_eq!((budget.used(), cached.0.lock().len()), (95, 5));
    // What could never fit costs nobody anything, and what does not fit all is refused.
    assert!(state.resize(101).unwrap_err().is_impossible());
    assert_eq!(cached.0.lock().len(), 5);
    let other = budget.reserve(5).unwrap();
    assert!(state.resize(96).is_err());
    drop(other);
    state.resize(100).unwrap();
    drop(cached);
    drop(state);
    assert_eq!(budget.used(), 0);
}
