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
    let join = MemoryConsumer::new("HashJoinInput").register(&pool);
    sort.try_grow(1 << 30).unwrap();
    join.try_grow(10 << 20).unwrap();
    // Five gigabytes that nobody counts have come since.
    RESIDENT.store(7 << 30, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    let message = join.try_grow(1).unwrap_err().to_string();
    for named in [
        "HashJoinInput wants",
        "most is held by ExternalSorter[0]",
        "4096 MB",
    ] {
        assert!(message.contains(named), "{message}");
    }
    RESIDENT.store(2 << 30, Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(20));
    join.try_grow(1).unwrap();
}
