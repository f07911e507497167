//! What queries of a process share to be placed: rates, admission, and turns on devices.

mod compilations;

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tidegate_device::{DeviceError, DeviceId, DeviceInfo};
use tidegate_kernels::{PipelineDevice, RunError, Sample};
use tidegate_pipeline::Pipeline;

use crate::admission::{AdmissionGate, AdmissionLimits, DeviceTurns, QueryId};
use crate::ladder::{Evict, NothingCached};
use crate::rates::{Rates, ShapeKey};
use crate::run::feeding;

use compilations::Compilations;

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
    compilations: Arc<Compilations>,
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
            compilations: Arc::default(),
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

    /// Notes that a device has its kernels for a shape, and learns how many seconds that took.
    pub fn note_ready(&self, device: &DeviceInfo, shape: ShapeKey, seconds: f64) {
        let mut ready = self.ready.lock();
        if ready.len() >= READY_MAX {
            ready.clear();
        }
        if ready.insert((device.id, shape)) {
            drop(ready);
            self.rates.learn_compile(shape, device, seconds);
        }
    }

    /// Returns how many seconds a device is taken to need until it has its kernels for a shape; 0 if it
    /// has them, or needs none.
    pub fn seconds_to_ready(&self, device: &Arc<dyn PipelineDevice>, shape: ShapeKey) -> f64 {
        if !device.compiles() || self.is_ready(device.info().id, shape) {
            return 0.0;
        }
        self.rates.compile_seconds(shape, device.info())
    }

    /// Has a device compile its kernels for a shape and rows like these while others work. The future
    /// ends when that is done; it is done whether or not it is polled.
    pub(crate) fn compile_beside(
        self: &Arc<Self>,
        device: &Arc<dyn PipelineDevice>,
        pipeline: Arc<Pipeline>,
        shape: ShapeKey,
        sample: Sample,
    ) -> BoxFuture<'static, ()> {
        let began = Instant::now();
        let Some(under_way) = self.compilations.begin() else {
            return ready(()).boxed();
        };
        let compiled = device.compile(pipeline, sample);
        let (dispatch, device) = (Arc::clone(self), Arc::clone(device));
        let noted = feeding::threads().spawn(async move {
            let may_do_later = match compiled.await {
                Ok(()) => false,
                Err(RunError::Device(error)) => {
                    error.is_lost() || matches!(error, DeviceError::OutOfMemory { .. })
                }
                Err(RunError::Void) => true,
                Err(RunError::Eval(_) | RunError::Unsuited { .. }) => false,
            };
            // Why it does not compile is said by the first fold.
            if !may_do_later {
                let seconds = began.elapsed().as_secs_f64();
                dispatch.note_ready(device.info(), shape, seconds);
            }
            // Whoever waits for this means to be the last holder of both.
            drop((device, dispatch));
            drop(under_way);
        });
        noted.map(drop).boxed()
    }

    /// Compiles nothing beside any more, and waits for what is under way, but not longer than `patience`;
    /// returns whether that has ended. A process that ends while it compiles may crash there, and these
    /// compilations outlive the queries that asked for them. Whoever asks for one from now on goes on at
    /// once, without the kernels.
    pub fn end_compilations(&self, patience: Duration) -> bool {
        self.compilations.end(patience)
    }

    /// Gives a region the name by which devices know it.
    pub fn new_query(&self) -> QueryId {
        QueryId(self.next_query.fetch_add(1, Ordering::Relaxed))
    }
}
