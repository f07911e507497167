//! What the queries of a process share so that each can be placed: rates, admission, and turns on
//! devices.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tidegate_device::DeviceId;

use crate::admission::{AdmissionGate, AdmissionLimits, DeviceTurns, QueryId};
use crate::ladder::{Evict, NothingCached};
use crate::rates::{Rates, ShapeKey};

/// Shared by all regions that run at once.
#[derive(Debug)]
pub struct Dispatch {
    rates: Arc<Rates>,
    admission: Arc<AdmissionGate>,
    evict: Arc<dyn Evict>,
    turns: Mutex<BTreeMap<DeviceId, Arc<DeviceTurns>>>,
    next_query: AtomicU64,
    /// Shapes for which a device has compiled its kernels.
    ready: Mutex<HashSet<(DeviceId, ShapeKey)>>,
}

/// Shapes of which that is remembered; more are forgotten together.
const READY_MAX: usize = 4096;

impl Default for Dispatch {
    fn default() -> Self {
        Self::new(Rates::default())
    }
}

impl Dispatch {
    /// Shares this book of rates.
    pub fn new(rates: Rates) -> Self {
        Self {
            rates: Arc::new(rates),
            admission: AdmissionGate::new(AdmissionLimits::default()),
            evict: Arc::new(NothingCached),
            turns: Mutex::default(),
            next_query: AtomicU64::new(0),
            ready: Mutex::default(),
        }
    }

    /// Shares the book of rates that is kept in `folder`, or one in memory.
    pub fn open(folder: Option<PathBuf>) -> Self {
        Self::new(Rates::open(folder))
    }

    /// Makes room on devices by this from now on.
    pub fn evict_from(mut self, evict: Arc<dyn Evict>) -> Self {
        self.evict = evict;
        self
    }

    /// Returns how fast everything is.
    pub fn rates(&self) -> &Arc<Rates> {
        &self.rates
    }

    /// Returns what lets queries begin.
    pub fn admission(&self) -> &Arc<AdmissionGate> {
        &self.admission
    }

    /// Returns what can make room on devices.
    pub fn evict(&self) -> &dyn Evict {
        self.evict.as_ref()
    }

    /// Returns the turns of a device.
    pub fn turns(&self, device: DeviceId) -> Arc<DeviceTurns> {
        Arc::clone(self.turns.lock().entry(device).or_default())
    }

    /// Returns whether a device has compiled its kernels for a shape.
    pub fn is_ready(&self, device: DeviceId, shape: ShapeKey) -> bool {
        self.ready.lock().contains(&(device, shape))
    }

    /// Notes that a device has compiled its kernels for a shape.
    pub fn note_ready(&self, device: DeviceId, shape: ShapeKey) {
        let mut ready = self.ready.lock();
        if ready.len() >= READY_MAX {
            ready.clear();
        }
        ready.insert((device, shape));
    }

    /// Gives a region the name by which devices know it.
    pub fn new_query(&self) -> QueryId {
        QueryId(self.next_query.fetch_add(1, Ordering::Relaxed))
    }
}
