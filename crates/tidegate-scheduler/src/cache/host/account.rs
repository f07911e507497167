//! The bytes of the host tier: who uses them, and their limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::RwLock;

/// Host memory that statements use, seen from the column cache.
pub trait HostMemory: Send + Sync {
    /// Returns the bytes that statements leave to others now.
    fn left_by_statements(&self) -> u64;
}

/// What the tier takes and may take.
#[derive(Default)]
pub(in crate::cache) struct Account {
    limit: AtomicU64,
    used: AtomicU64,
    pools: RwLock<Vec<Weak<dyn HostMemory>>>,
    /// Another tier that shares with this one what statements leave.
    beside: OnceLock<Weak<Account>>,
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
    pub(in crate::cache) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(in crate::cache) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(in crate::cache) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(in crate::cache) fn watch(&self, pool: Weak<dyn HostMemory>) {
        let mut pools = self.pools.write();
        pools.retain(|pool| pool.strong_count() > 0);
        pools.push(pool);
    }

    /// Lets two tiers share what statements leave.
    pub(in crate::cache) fn pair(one: &Arc<Self>, other: &Arc<Self>) {
        one.beside.get_or_init(|| Arc::downgrade(other));
        other.beside.get_or_init(|| Arc::downgrade(one));
    }

    /// Returns the bytes that the tier may take now, those that it has included.
    pub(in crate::cache) fn allowed(&self) -> u64 {
        let pools = self.pools.read();
        let left = pools.iter().filter_map(Weak::upgrade);
        let left = left.map(|pool| pool.left_by_statements()).min();
        let beside = self.beside.get().and_then(Weak::upgrade);
        let left = left.map(|left| left.saturating_sub(beside.map_or(0, |tier| tier.used())));
        self.limit().min(left.unwrap_or(u64::MAX))
    }

    /// Takes bytes that were made room for.
    pub(in crate::cache) fn take(self: &Arc<Self>, bytes: u64) -> HostBytes {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        HostBytes {
            account: Arc::clone(self),
            bytes,
        }
    }
}

/// Bytes of a tier in host memory; they come back when this is dropped.
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
    pub(in crate::cache) fn split(&mut self, bytes: u64) -> Self {
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
