//! A session whose statements find no memory for their first hash join, so that they are planned again for less.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use datafusion::common::DataFusionError;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{
    MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use tidegate::Session;

/// What a refusal ends with.
pub(crate) const REFUSED: &str = "as a test asks";

/// What the pool says that its limit is: no join plans to hold that much in memory.
const LIMIT: usize = 1024;

/// A session of its own, over the tables and functions of a session of Tidegate.
pub(crate) struct ReplannedSession {
    context: SessionContext,
    pool: Arc<Refusing>,
}

impl ReplannedSession {
    pub(crate) fn over(session: &Session) -> Result<Self> {
        let state = session.context().state();
        let environment = state.runtime_env();
        let pool = Arc::new(Refusing {
            inner: Arc::clone(&environment.memory_pool),
            refuses: AtomicBool::new(false),
            refused: AtomicU64::new(0),
        });
        let environment = RuntimeEnvBuilder::from_runtime_env(environment)
            .with_memory_pool(Arc::clone(&pool) as _)
            .build_arc()?;
        let state = SessionStateBuilder::new_from_existing(state)
            .with_runtime_env(environment)
            .build();
        Ok(Self {
            context: SessionContext::new_with_state(state),
            pool,
        })
    }

    pub(crate) fn context(&self) -> &SessionContext {
        &self.context
    }

    /// Returns how many hash joins were refused memory.
    pub(crate) fn refused(&self) -> u64 {
        self.pool.refused.load(Ordering::Relaxed)
    }

    /// Has the next hash join fail for want of memory.
    pub(crate) fn refuse_next(&self) {
        self.pool.refuses.store(true, Ordering::Relaxed);
    }
}

/// A pool that refuses one hash join its memory.
#[derive(Debug)]
struct Refusing {
    inner: Arc<dyn MemoryPool>,
    refuses: AtomicBool,
    refused: AtomicU64,
}

impl fmt::Display for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let name = reservation.consumer().name();
        if name.starts_with("HashJoinInput") && self.refuses.swap(false, Ordering::Relaxed) {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let message = format!("{name} is refused {additional} bytes, {REFUSED}");
            return Err(DataFusionError::ResourcesExhausted(message));
        }
        self.inner.try_grow(reservation, additional)
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(LIMIT)
    }
}
