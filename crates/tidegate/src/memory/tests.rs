//! The pool refuses with a way out, and never refuses a repartition.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};

use super::{HostLimit, StatementPool};

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
