//! The bytes of the host tier: who has them, and how many there may be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

/// Host memory that statements use, seen from the column cache.
pub trait HostMemory: Send + Sync {
    /// Returns the bytes that statements leave to others now.
    fn left_by_statements(&self) -> u64;
}

/// What the tier takes and may take.
#[derive(Default)]
pub(super) struct Account {
    limit: AtomicU64,
    used: AtomicU64,
    pools: RwLock<Vec<Weak<dyn HostMemory>>>,
}

impl std::fmt::Debug for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Account")
            .field("limit", &self.limit)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl Account {
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn watch(&self, pool: Weak<dyn HostMemory>) {
        let mut pools = self.pools.write();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// Returns the bytes that the tier may take now, those that it has included.
    pub(super) fn allowed(&self) -> u64 {
        let pools = self.pools.read();
        let left = pools.iter().filter_map(Weak::upgrade);
        let left = left.map(|pool| pool.left_by_statements()).min();
        self.limit().min(left.unwrap_or(u64::MAX))
    }

    /// Takes bytes that were made room for.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> HostBytes {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        HostBytes {
            account: Arc::clone(self),
            bytes,
        }
    }
}

/// Bytes of the host tier; they come back when this is dropped.
#[derive(Debug)]
#[must_use = "the bytes come back at once if they are dropped"]
pub struct HostBytes {
    account: Arc<Account>,
    bytes: u64,
}

impl HostBytes {
    /// Returns how many there are.
    pub fn get(&self) -> u64 {
        self.bytes
    }

    /// Adds bytes of the same tier.
    pub fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Moves `bytes` of these, or all if there are fewer, into a reservation of their own.
    pub(super) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            account: Arc::clone(&self.account),
            bytes,
        }
    }
}

impl Drop for HostBytes {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
