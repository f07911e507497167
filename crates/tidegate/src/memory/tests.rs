//! The pool refuses with a way out, and never refuses a repartition.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};

use super::real::RealMemory;
use super::{HostLimit, QueryPool, StatementPool};

#[test]
fn a_refusal_names_the_operator_the_bytes_and_the_setting() {
    let pool = StatementPool::new(1 << 20, &Arc::default()) as Arc<dyn MemoryPool>;
    let sort = MemoryConsumer::new("ExternalSorter[0]")
        .with_can_spill(true)
        .register(&pool);
    let message = sort.try_grow(2 << 20).unwrap_err().to_string();
    for part in [
        "ExternalSorter[0]",
        "2.0 MB",
        "tidegate.memory_limit (now 1 MB)",
    ] {
        assert!(message.contains(part), "{message}");
    }
}

/// Spilling is what deadlocks in #24883, so a repartition must not be asked to.
#[test]
fn a_repartition_is_charged_but_never_refused() {
    let pool = StatementPool::new(1 << 20, &Arc::default()) as Arc<dyn MemoryPool>;
    let exchange = MemoryConsumer::new("RepartitionExec[1]")
        .with_can_spill(true)
        .register(&pool);
    exchange.try_grow(4 << 20).unwrap();
    assert_eq!(pool.reserved(), 4 << 20);
    let merge = MemoryConsumer::new("RepartitionExec[Merge 1]").register(&pool);
    assert!(merge.try_grow(4 << 20).is_err());
}

#[test]
fn the_default_limit_is_a_share_of_what_there_is() {
    let limit = HostLimit::of_machine();
    assert!(limit.bytes > 0, "{limit:?}");
    assert!(limit.origin.starts_with("70 % of"), "{limit:?}");
}

#[test]
fn a_statement_is_refused_what_is_over_its_part_and_others_are_not() {
    let pool = StatementPool::new(10 << 20, &Arc::default()) as Arc<dyn MemoryPool>;
    let own = QueryPool::new(&pool, Some(1 << 20));
    let part: Arc<dyn MemoryPool> = Arc::clone(&own) as _;
    let sort = MemoryConsumer::new("ExternalSorter[0]").register(&part);
    sort.try_grow(1 << 20).unwrap();
    let message = sort.try_grow(1).unwrap_err().to_string();
    for named in [
        "ExternalSorter[0]",
        "tidegate.query_memory_limit (1048576 bytes)",
    ] {
        assert!(message.contains(named), "{message}");
    }
    let exchange = MemoryConsumer::new("RepartitionExec[1]").register(&part);
    exchange.try_grow(1 << 20).unwrap();
    assert_eq!((own.peak(), pool.reserved()), (2 << 20, 2 << 20));
    let other = MemoryConsumer::new("other").register(&pool);
    other.try_grow(5 << 20).unwrap();
    drop((sort, exchange, other));
    assert_eq!((own.peak(), pool.reserved()), (2 << 20, 0));
}

#[test]
fn statements_that_take_more_than_they_count_are_refused_by_name() {
    static RESIDENT: AtomicU64 = AtomicU64::new(1 << 30);
    let real = RealMemory::new(|| Some(RESIDENT.load(Ordering::Relaxed)));
    let pool = StatementPool::looking(4 << 30, &Arc::default(), real) as Arc<dyn MemoryPool>;
    let sort = MemoryConsumer::new("ExternalSorter[0]").register(&pool);
    let window = MemoryConsumer::new("WindowAggStream").register(&pool);
    sort.try_grow(1 << 30).unwrap();
    window.try_grow(10 << 20).unwrap();
    // Five gigabytes that nobody counts have come since.
    RESIDENT.store(7 << 30, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    let message = window.try_grow(1).unwrap_err().to_string();
    for named in [
        "WindowAggStream wants",
        "most is held by ExternalSorter[0]",
        "4096 MB",
    ] {
        assert!(message.contains(named), "{message}");
    }
    RESIDENT.store(2 << 30, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    window.try_grow(1).unwrap();
}

#[test]
fn what_can_spill_is_refused_by_what_the_process_takes_and_small_holders_are_not() {
    const MB: u64 = 1 << 20;
    static RESIDENT: AtomicU64 = AtomicU64::new(90 << 20);
    let real = RealMemory::new(|| Some(RESIDENT.load(Ordering::Relaxed)));
    let pool = StatementPool::looking(200 * MB, &Arc::default(), real) as Arc<dyn MemoryPool>;
    let sort = MemoryConsumer::new("ExternalSorter[0]")
        .with_can_spill(true)
        .register(&pool);
    let stays = MemoryConsumer::new("GroupsThatStay").register(&pool);
    sort.try_grow(40 << 20).unwrap();
    stays.try_grow(10 << 20).unwrap();
    // 90 MB before the statement, 140 MB of it: 5 MB over an eighth more than the limit.
    RESIDENT.store(230 * MB, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    let message = sort.try_grow(1 << 20).unwrap_err().to_string();
    assert!(message.contains("and use 146800640 in fact"), "{message}");
    stays.try_grow(1 << 20).unwrap();
    // It has spilled, and begins again whatever the allocator keeps.
    sort.free();
    sort.try_grow(1 << 20).unwrap();
}

#[test]
fn who_copies_what_it_holds_is_refused_what_would_not_fit_together_with_the_copy() {
    let real = RealMemory::new(|| None);
    let pool = StatementPool::looking(100 << 20, &Arc::default(), real) as Arc<dyn MemoryPool>;
    for name in ["HashJoinInput[1]", "CrossJoinExec", "AggregateStream[0]"] {
        let join = MemoryConsumer::new(name).register(&pool);
        join.try_grow(40 << 20).unwrap();
        let message = join.try_grow(20 << 20).unwrap_err().to_string();
        for part in [
            name,
            "copies what it holds, 62914560 bytes",
            "tidegate.memory_limit (100 MB)",
        ] {
            assert!(message.contains(part), "{message}");
        }
        // Many small batches are no less than a large one.
        while join.size() + (100 << 10) <= 50 << 20 {
            join.try_grow(100 << 10).unwrap();
        }
        join.try_grow(100 << 10).unwrap_err();
    }
}

#[test]
fn merges_share_half_of_the_limit() {
    let real = RealMemory::new(|| None);
    let pool = StatementPool::looking(64 << 20, &Arc::default(), real) as Arc<dyn MemoryPool>;
    let merge = |number: usize| {
        MemoryConsumer::new(format!("ExternalSorterMerge[{number}]")).register(&pool)
    };
    let (first, second) = (merge(0), merge(1));
    // What it reserves before it knows its files.
    first.try_grow(10 << 20).unwrap();
    first.try_grow(6 << 20).unwrap();
    let message = first.try_grow(1).unwrap_err().to_string();
    assert!(
        message.contains("2 merges share half of tidegate.memory_limit (64 MB)"),
        "{message}"
    );
    drop(second);
    first.try_grow(16 << 20).unwrap();
}

/// An aggregation whose table is emptied still has more than it was given before.
#[test]
fn what_is_kept_after_spilling_is_given() {
    // Its statement's limit refuses it, or that of all.
    for limit in [Some(8 << 20), None] {
        let pool = StatementPool::new(8 << 20, &Arc::default()) as Arc<dyn MemoryPool>;
        let pool: Arc<dyn MemoryPool> = QueryPool::new(&pool, limit);
        let others = MemoryConsumer::new("HashJoinInput").register(&pool);
        others.grow(7 << 20);
        let groups = MemoryConsumer::new("FinalHashAggregateStream[0]")
            .with_can_spill(true)
            .register(&pool);
        groups.try_grow(4 << 20).unwrap_err();
        groups.try_resize(3 << 20).unwrap();
        // That holds once, and not for as much again.
        groups.try_grow(2 << 20).unwrap_err();
        groups.try_grow(2 << 20).unwrap_err();
        // Whoever cannot spill keeps nothing of what it was refused.
        let sums = MemoryConsumer::new("AggregateStream[0]").register(&pool);
        sums.try_grow(4 << 20).unwrap_err();
        sums.try_grow(3 << 20).unwrap_err();
    }
}

#[test]
fn what_cannot_spill_and_holds_much_is_refused_before_others() {
    const MB: u64 = 1 << 20;
    static RESIDENT: AtomicU64 = AtomicU64::new(90 << 20);
    let real = RealMemory::new(|| Some(RESIDENT.load(Ordering::Relaxed)));
    let pool = StatementPool::looking(200 * MB, &Arc::default(), real) as Arc<dyn MemoryPool>;
    let values = MemoryConsumer::new("AggregateStream[0]").register(&pool);
    let window = MemoryConsumer::new("WindowAggStream").register(&pool);
    values.try_grow(40 << 20).unwrap();
    window.try_grow(10 << 20).unwrap();
    // It is to copy what it holds.
    for (resident, is_refused) in [(250, false), (310, true)] {
        RESIDENT.store(resident * MB, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(values.try_grow(1).is_err(), is_refused, "{resident} MB");
        window.try_grow(1).unwrap();
    }
}
