//! Jobs share a few threads that stay.

use std::collections::HashSet;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use super::Threads;

#[test]
fn jobs_share_a_few_threads_that_stay() {
    let threads = Threads::new("test", 3);
    let (sender, done) = mpsc::channel();
    let mut seen = HashSet::new();
    for round in 0..20 {
        for job in 0..8 {
            let sender = sender.clone();
            threads.run(move || {
                if job == 5 {
                    panic!("one of them fails");
                }
                sender.send((round, thread::current().id())).unwrap();
            });
        }
        for _ in 0..7 {
            let (of_round, thread) = done.recv().unwrap();
            assert_eq!(of_round, round);
            seen.insert(thread);
        }
    }
    assert!((1..=3).contains(&seen.len()), "{}", seen.len());
    assert!(!seen.contains(&thread::current().id()));
}

#[test]
fn what_was_given_is_done_also_after_the_last_handle_is_gone() {
    let (sender, done) = mpsc::channel();
    let threads = Threads::new("test", 1);
    for job in 0..5 {
        let sender = sender.clone();
        threads.run(move || sender.send(job).unwrap());
    }
    drop((threads, sender));
    assert_eq!(done.iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
}

#[test]
fn jobs_at_once_have_threads_of_their_own() {
    let threads = Threads::new("test", 3);
    let together = Arc::new(Barrier::new(3));
    thread::scope(|scope| {
        for _ in 0..3 {
            let (threads, together) = (threads.clone(), Arc::clone(&together));
            let wait = move || threads.wait_for(move || together.wait().is_leader());
            scope.spawn(move || wait().unwrap());
        }
    });
}

#[test]
fn a_panic_is_an_error() {
    let threads = Threads::new("test", 1);
    let error = threads.wait_for::<()>(|| panic!("a test"));
    assert_eq!(error, Err("its thread panicked".to_owned()));
    assert_eq!(threads.wait_for(|| 7), Ok(7));
}
