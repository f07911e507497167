//! The process takes some memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{RealMemory, real_limit, resident_bytes};

#[test]
fn the_process_takes_some_memory() {
    let bytes = resident_bytes().unwrap();
    assert!((1 << 20..1 << 40).contains(&bytes), "{bytes}");
}

#[test]
fn what_was_there_before_is_no_statements() {
    let real = RealMemory::new(|| Some(1000));
    let idle = real.now(0, 100).unwrap();
    assert_eq!((idle.statements, idle.resident), (0, 1000));
    // What is held is part of what was there: freed memory that came to use again.
    assert_eq!(real.now(300, 100).unwrap().statements, 300);
    // The cache gave way, and what it had is the statements' now.
    assert_eq!(real.now(300, 0).unwrap().statements, 300);
    assert_eq!(real.now(950, 0).unwrap().statements, 950);
    let more = RealMemory::new(|| Some(5000));
    more.seen.lock().idle = Some(1000);
    assert_eq!(more.now(500, 0).unwrap().statements, 4000);
}

#[test]
fn where_the_system_does_not_say_nothing_is_told() {
    assert_eq!(RealMemory::new(|| None).now(1, 0), None);
}

#[test]
fn a_small_limit_holds_for_the_whole_process() {
    const MB: u64 = 1 << 20;
    // 90 MB before any statement: 225 MB in all.
    assert_eq!(real_limit(200 * MB, 90 * MB) + 90 * MB, 225 * MB);
    // A table in memory is no statement's.
    let with_table = real_limit(200 * MB, 1000 * MB);
    assert_eq!(with_table, 125 * MB);
    // A limit below what the process itself takes leaves something for statements.
    assert_eq!(real_limit(40 * MB, 90 * MB), 25 * MB);
    assert!(real_limit(64 << 30, 90 * MB) > 64 << 30);
    assert_eq!(real_limit(0, 90 * MB), 0);
}

#[test]
fn what_a_first_try_freed_is_not_the_process_own() {
    /// What is seen before and after the allocator gives back what it keeps, at the first try and at the second.
    const MEGABYTES: [u64; 4] = [105, 100, 159, 104];
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    let look = || Some(MEGABYTES[LOOKS.fetch_add(1, Ordering::Relaxed)] << 20);
    let real = RealMemory {
        close_to: 50 << 20,
        ..RealMemory::new(look)
    };
    for idle in [100, 104] {
        real.seen.lock().at = None;
        real.is_idle(0);
        assert_eq!(real.seen.lock().idle, Some(idle << 20));
    }
}
