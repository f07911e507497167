//! A region's run: feeders start when its first stream is polled, and the last stream to end emits
//! the devices' rows and what is left for the host.

mod atomic;
mod claimer;
pub(crate) mod feeding;
mod holders;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use thiserror::Error;
use tidegate_device::DeviceId;
use tidegate_kernels::PipelineDevice;
use tidegate_pipeline::{EvalError, Pipeline};
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

use crate::admission::QueryId;
use crate::cache::ColumnCache;
use crate::counters::RegionCounters;
use crate::dispatch::Dispatch;
use crate::feeder::{Choice, Feeder, LoadError, MorselLoader};
use crate::place::{Place, Reason, WorkerStates};
use crate::queue::{ClaimPolicy, Morsel, MorselQueue};
use crate::rates::ShapeKey;
use crate::residency::identify;
use crate::resident::faster_with_all;
pub use atomic::AtomicRun;
pub use claimer::HostClaimer;
use holders::Holders;

/// Why a region's device half came to nothing.
#[derive(Debug, Error)]
pub enum RunFailure {
    /// The rows could not be read.
    #[error("{0}")]
    Load(LoadError),
    /// A selected row must raise; the host would raise the same class.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// Something would have had to go to the host, and must not.
    #[error("{0}")]
    Fallback(Reason),
    /// A feeder died.
    #[error("a device feeder stopped: {0}")]
    Feeder(#[from] tokio::task::JoinError),
}

/// What a region's runs have in common.
#[derive(Clone, Debug)]
pub struct RunSpec {
    /// The program.
    pub pipeline: Arc<Pipeline>,
    /// The devices that take part.
    pub devices: Vec<Arc<dyn PipelineDevice>>,
    /// The scan.
    pub queue: Arc<MorselQueue>,
    /// How its morsels are read.
    pub loader: Arc<dyn MorselLoader>,
    /// What devices hold from query to query.
    pub cache: Arc<ColumnCache>,
    /// Its counters.
    pub counters: Arc<RegionCounters>,
    /// How devices choose.
    pub choice: Choice,
    /// The host runs the pipeline as a row program, and not by DataFusion's operators.
    pub host_engine: bool,
    /// Partitions that the host would work on at once if it answered an atomic region.
    pub host_partitions: usize,
    /// Falling back to the host is a failure.
    pub strict: bool,
    /// Folds that each device has in flight at the most, at least one.
    pub device_slots: usize,
    /// What it shares with other queries.
    pub dispatch: Arc<Dispatch>,
}

/// The workers of a region, and the clock by which they are timed.
#[derive(Clone, Debug)]
struct Workers {
    states: Arc<WorkerStates>,
    query: QueryId,
    started: Instant,
}

impl Workers {
    fn of(spec: &RunSpec) -> Self {
        let host_partitions = match spec.choice {
            Choice::EarliestFinish { host_partitions } => host_partitions,
            Choice::Always(_) => 0,
        };
        let rates = Arc::clone(spec.dispatch.rates());
        let shape = ShapeKey::of(&spec.pipeline);
        let array = spec.loader.array();
        let shape = array.map_or(shape, |array| shape.over(&array.source));
        rates.host_runs_on_engine(shape, spec.host_engine);
        Self {
            states: WorkerStates::new(rates, shape, host_partitions),
            query: spec.dispatch.new_query(),
            started: Instant::now(),
        }
    }

    fn now(&self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}

impl RunSpec {
    /// Returns whether a device would be done with so many rows before the host if it held them;
    /// always, if a device was asked for.
    pub fn gains_on(&self, device: &Arc<dyn PipelineDevice>, num_rows: u64) -> bool {
        let Choice::EarliestFinish { host_partitions } = self.choice else {
            return true;
        };
        let (rates, shape) = (self.dispatch.rates(), ShapeKey::of(&self.pipeline));
        faster_with_all(rates, shape, device, 0.0, num_rows, host_partitions)
    }

    /// Returns why devices take what they take.
    fn reason(&self) -> Reason {
        match &self.choice {
            Choice::Always(reason) => reason.clone(),
            Choice::EarliestFinish { .. } => Reason::EarliestFinish,
        }
    }

    fn feeder(
        &self,
        device: &Arc<dyn PipelineDevice>,
        choice: Choice,
        atomic: bool,
        ending: Arc<AtomicBool>,
        workers: &Workers,
    ) -> Feeder {
        let info = device.info();
        workers.states.join_device(info, device.budget().limit());
        self.queue.join(info.id);
        Feeder {
            device: Arc::clone(device),
            pipeline: Arc::clone(&self.pipeline),
            queue: Arc::clone(&self.queue),
            loader: Arc::clone(&self.loader),
            cache: Arc::clone(&self.cache),
            counters: Arc::clone(&self.counters),
            choice,
            atomic,
            ending,
            strict: self.strict,
            slots: self.device_slots.max(1),
            dispatch: Arc::clone(&self.dispatch),
            workers: Arc::clone(&workers.states),
            turns: self.dispatch.turns(info.id),
            query: workers.query,
            started: workers.started,
        }
    }
}

/// What is left to emit when the last stream of a region has ended.
#[derive(Debug)]
pub struct Tail {
    /// Rows of the devices.
    pub rows: Vec<RecordBatch>,
    /// Morsels for the host to run, in order.
    pub rest: Vec<Morsel>,
}

/// An additive region under way: several streams on the host, a feeder for each device.
///
/// # Contract
/// Each stream of the region calls [`MixedRun::enter`] at its first poll and [`Visit::leave`] at its
/// end. The stream that leaves no other behind gets the [`Tail`]. Streams may come one after another.
#[derive(Debug)]
pub struct MixedRun {
    spec: RunSpec,
    workers: Workers,
    /// The devices that get the whole scan because they have all of it, once that was weighed.
    holders: OnceCell<Option<Holders>>,
    live: Mutex<Live>,
}

#[derive(Debug, Default)]
struct Live {
    streams: usize,
    /// Set when the last stream has ended, for the feeders of that generation.
    ending: Arc<AtomicBool>,
    feeders: JoinSet<Fed>,
    /// Held by the feeder that works for a device: where streams come while the last generation ends,
    /// the next one waits for it.
    places: BTreeMap<DeviceId, Arc<Turnstile>>,
}

/// What a feeder brings back.
type Fed = Result<Vec<RecordBatch>, RunFailure>;

/// Lets one feeder through at a time.
type Turnstile = tokio::sync::Mutex<()>;

impl MixedRun {
    /// Makes a run that nobody has entered yet.
    pub fn new(spec: RunSpec) -> Arc<Self> {
        Arc::new(Self {
            workers: Workers::of(&spec),
            spec,
            holders: OnceCell::new(),
            live: Mutex::default(),
        })
    }

    /// Returns what it was made of.
    pub fn spec(&self) -> &RunSpec {
        &self.spec
    }

    /// Returns the scan's queue.
    pub fn queue(&self) -> &Arc<MorselQueue> {
        &self.spec.queue
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Arc<RegionCounters> {
        &self.spec.counters
    }

    /// Returns how morsels are read.
    pub fn loader(&self) -> &Arc<dyn MorselLoader> {
        &self.spec.loader
    }

    /// Returns whether the host may claim nothing.
    pub fn devices_only(&self) -> bool {
        self.spec.queue.is_for_devices()
    }

    /// Makes the morsels of a piece known, if they are not; by name if a device may have some of them.
    pub async fn list(&self, piece: usize) -> Result<(), RunFailure> {
        let RunSpec {
            devices,
            loader,
            queue,
            ..
        } = &self.spec;
        let mut devices = devices.iter();
        if devices.any(|device| !self.residency_on(device).is_empty()) {
            return identify(loader, queue, vec![piece]).await;
        }
        let sizes = loader.list(piece).await.map_err(RunFailure::Load)?;
        queue.list(piece, sizes);
        Ok(())
    }

    /// Gives a host partition its place among those that drain the queue.
    pub fn host_claimer(self: &Arc<Self>) -> HostClaimer {
        HostClaimer {
            run: Arc::clone(self),
            stream: self.workers.states.join_host(),
            has: Mutex::default(),
        }
    }

    /// Books a morsel that the host has claimed, and why it was left to it.
    pub fn count_host(&self, morsel: &Morsel) {
        let counters = &self.spec.counters;
        counters.morsel(Place::Host, morsel.size.num_rows, morsel.size.num_bytes);
        counters.reason(Place::Host, self.host_reason());
    }

    fn host_reason(&self) -> Reason {
        match self.spec.queue.policy() {
            ClaimPolicy::Replay(_) => Reason::Replayed,
            _ => Reason::EarliestFinish,
        }
    }

    /// Starts the feeders if this is the only stream. Must be called within a tokio runtime.
    pub fn enter(self: &Arc<Self>) -> Visit {
        let mut live = self.live.lock();
        live.streams += 1;
        if live.streams == 1 && live.feeders.is_empty() {
            live.ending = Arc::default();
            let Live { ending, places, .. } = &mut *live;
            let mut feed = |devices: &[Arc<dyn PipelineDevice>], choice: Choice| {
                let each = devices.iter();
                let feeders = each.map(|device| self.feed(device, choice.clone(), ending, places));
                feeders.collect::<Vec<BoxFuture<'static, Fed>>>()
            };
            // All of them take part before the first one claims.
            let feeders = match self.holders.get().and_then(Option::as_ref) {
                Some(holders) => {
                    let mut feeders =
                        feed(&holders.devices, Choice::Always(holders.reason.clone()));
                    let helps = Choice::EarliestFinish { host_partitions: 0 };
                    feeders.extend(feed(&holders.helpers, helps));
                    feeders
                }
                None => feed(&self.spec.devices, self.spec.choice.clone()),
            };
            let threads = feeding::threads();
            for feeder in feeders {
                live.feeders.spawn_on(feeder, &threads);
            }
        }
        Visit {
            run: Arc::clone(self),
            left: false,
        }
    }

    /// Has a device take part at once; if the feeder of the last generation still works for it, when
    /// that one has left.
    fn feed(
        &self,
        device: &Arc<dyn PipelineDevice>,
        choice: Choice,
        ending: &Arc<AtomicBool>,
        places: &mut BTreeMap<DeviceId, Arc<Turnstile>>,
    ) -> BoxFuture<'static, Fed> {
        let place = Arc::clone(places.entry(device.info().id).or_default());
        let (spec, workers) = (self.spec.clone(), self.workers.clone());
        let (device, ending) = (Arc::clone(device), Arc::clone(ending));
        let feeder = move || spec.feeder(&device, choice, false, ending, &workers);
        match Arc::clone(&place).try_lock_owned() {
            Ok(alone) => {
                let feeder = feeder();
                let feed = async move {
                    let _alone = alone;
                    feeder.feed().await
                };
                feed.boxed()
            }
            Err(_) => {
                let feed = async move {
                    let _alone = place.lock_owned().await;
                    feeder().feed().await
                };
                feed.boxed()
            }
        }
    }
}

/// A stream's stay in a [`MixedRun`]. Dropped without [`Visit::leave`] it was cancelled; with the
/// last one the feeders stop.
#[derive(Debug)]
pub struct Visit {
    run: Arc<MixedRun>,
    left: bool,
}

impl Visit {
    /// Ends the stay. Returns the tail if no other stream is left, else nothing.
    pub async fn leave(mut self) -> Result<Option<Tail>, RunFailure> {
        self.left = true;
        let spec = &self.run.spec;
        let mut feeders = {
            let mut live = self.run.live.lock();
            live.streams -= 1;
            if live.streams > 0 {
                return Ok(None);
            }
            // Nobody is left who could open or grow a piece: these feeders must not wait for it.
            live.ending.store(true, Ordering::Release);
            spec.queue.wake();
            std::mem::take(&mut live.feeders)
        };
        let mut rows = Vec::new();
        while let Some(fed) = feeders.join_next().await {
            rows.extend(fed??);
        }
        for piece in spec.queue.unlisted() {
            self.run.list(piece).await?;
        }
        let rates = Arc::clone(spec.dispatch.rates());
        // The answer does not wait for it.
        drop(tokio::task::spawn_blocking(move || rates.save_if_due()));
        let rest = spec.queue.take_rest(true);
        spec.counters.record(spec.queue.record());
        if spec.strict && !rest.is_empty() {
            let why = "a device abandoned morsels".to_string();
            return Err(RunFailure::Fallback(Reason::DeviceFault(why)));
        }
        Ok(Some(Tail { rows, rest }))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let mut live = self.run.live.lock();
        live.streams -= 1;
        if live.streams == 0 {
            live.feeders.abort_all();
            live.feeders = JoinSet::new();
        }
    }
}

#[cfg(test)]
mod tests;
