//! The workers of a region's queue, and until when each is busy.
//!
//! A host partition is a [`HostStream`]: when it comes back for its next run, the last one is done, and
//! how long that took is known. A device's feeder reports what it begins and what ends. A worker that is
//! overdue is assumed to need as long again as it is late, and to be as slow as that shows, or as what was
//! learned meanwhile says; a device that stalls is therefore soon ignored.
//!
//! Nothing here reads a clock: `now` is in seconds, from an origin that the caller chooses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_device::{DeviceId, DeviceInfo};

use super::Location;
use super::finish::{Decision, DeviceState, Estimate, Late, Outlook, Rest};
use crate::queue::{Morsel, MorselQueue, MorselSize};
use crate::rates::{DeviceRate, Rates, ShapeKey};

/// The shortest time, in seconds, after which whoever declined asks again.
const ASK_AGAIN_MIN: f64 = 5e-4;

/// The longest.
const ASK_AGAIN_MAX: f64 = 2e-2;

/// What a device may be late, in seconds, before it counts as slow: a thread's wait for its core.
const LATE_MIN: f64 = 5e-4;

/// The workers of one region, and what each is busy with.
#[derive(Debug)]
pub struct WorkerStates {
    rates: Arc<Rates>,
    shape: ShapeKey,
    workers: Mutex<Workers>,
}

#[derive(Debug)]
struct Workers {
    /// Host partitions that may still come.
    expected: usize,
    /// The host claims nothing, however many of its partitions there are.
    host_stays_out: bool,
    next_stream: u64,
    host: BTreeMap<u64, HostWorker>,
    devices: BTreeMap<DeviceId, DeviceWorker>,
    /// Devices that hold all that the region reads.
    holders: BTreeSet<DeviceId>,
}

#[derive(Debug, Default)]
struct HostWorker {
    has: Option<Has>,
    /// Since when it leaves the rest to devices.
    declines_since: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Has {
    rows: u64,
    since: f64,
}

#[derive(Debug)]
struct DeviceWorker {
    info: DeviceInfo,
    limit_bytes: u64,
    /// What it has begun, the oldest first.
    has: VecDeque<Begun>,
    /// When the oldest began.
    since: f64,
    /// What compiling is expected to take that has not begun.
    compiling: f64,
    /// Where the morsel of its last claim lay.
    location: Location,
    /// Bytes of state that must come back, as far as it has grown.
    state_bytes: u64,
    /// Until other queries leave it free.
    others: f64,
    /// What its last claim was expected to take.
    promised: Estimate,
}

/// Something that a device has begun.
#[derive(Clone, Copy, Debug)]
struct Begun {
    /// What it was expected to take, from the end of what was begun before it.
    seconds: f64,
    /// How fast the device was taken to be, if that follows from it.
    rate: Option<DeviceRate>,
}

/// What a host partition's claim found.
#[derive(Clone, Debug, PartialEq)]
pub enum HostClaim {
    /// These morsels are its own now.
    Run(Vec<Morsel>),
    /// The devices will be done first, as it seems: it should claim again after this time.
    Later(Duration),
    /// Nothing is left for it.
    Empty,
}

/// What an idle host partition should do.
enum HostRun {
    /// Claim so many morsels.
    Take(u64),
    /// Ask again after so many seconds.
    Wait(f64),
}

/// A host partition among the workers; it leaves when this is dropped.
#[derive(Debug)]
pub struct HostStream {
    states: Arc<WorkerStates>,
    number: u64,
}

impl Drop for HostStream {
    fn drop(&mut self) {
        self.states.workers.lock().host.remove(&self.number);
    }
}

impl WorkerStates {
    /// Makes the workers of a region of this shape; `host_partitions` may join.
    pub fn new(rates: Arc<Rates>, shape: ShapeKey, host_partitions: usize) -> Arc<Self> {
        Arc::new(Self {
            rates,
            shape,
            workers: Mutex::new(Workers {
                expected: host_partitions,
                host_stays_out: false,
                next_stream: 0,
                host: BTreeMap::new(),
                devices: BTreeMap::new(),
                holders: BTreeSet::new(),
            }),
        })
    }

    /// Returns the rates that decisions are made by.
    pub fn rates(&self) -> &Arc<Rates> {
        &self.rates
    }

    /// Returns the region's shape.
    pub fn shape(&self) -> ShapeKey {
        self.shape
    }

    /// Adds a host partition.
    pub fn join_host(self: &Arc<Self>) -> HostStream {
        let mut workers = self.workers.lock();
        let number = workers.next_stream;
        workers.next_stream += 1;
        workers.expected = workers.expected.saturating_sub(1);
        workers.host.insert(number, HostWorker::default());
        HostStream {
            states: Arc::clone(self),
            number,
        }
    }

    /// Adds a device with this memory limit.
    pub fn join_device(&self, info: &DeviceInfo, limit_bytes: u64) {
        let mut workers = self.workers.lock();
        let worker = DeviceWorker {
            info: info.clone(),
            limit_bytes,
            has: VecDeque::new(),
            since: 0.0,
            compiling: 0.0,
            location: match workers.holders.contains(&info.id) {
                true => Location::Device,
                false => Location::Host,
            },
            state_bytes: 0,
            others: 0.0,
            promised: Estimate::default(),
        };
        workers.devices.insert(info.id, worker);
    }

    /// Notes that devices have all of the work to themselves.
    pub fn keep_from_host(&self) {
        self.workers.lock().host_stays_out = true;
    }

    /// Notes, before a device joins, that it holds all that the region reads.
    pub fn holds_all(&self, device: DeviceId) {
        self.workers.lock().holders.insert(device);
    }

    /// Returns how many rows of what waits a device takes at once: all, or where others could take
    /// them half of its share, so that all are done at about the same time.
    pub fn share_of(&self, rest: Rest) -> u64 {
        match self.workers.lock().devices.len() as u64 {
            0 | 1 => rest.num_rows,
            devices => rest.num_rows.div_ceil(2 * devices),
        }
    }

    /// Counts a device out.
    pub fn leave_device(&self, device: DeviceId) {
        self.workers.lock().devices.remove(&device);
    }

    /// Decides whether a device takes the next morsel of a queue, which counts in `rest`;
    /// `others` is when other queries leave the device free. If it does, that is noted.
    pub fn decide(
        &self,
        device: DeviceId,
        morsel: MorselSize,
        location: Location,
        rest: Rest,
        others: f64,
        now: f64,
    ) -> Decision {
        let mut workers = self.workers.lock();
        if let Some(worker) = workers.devices.get_mut(&device) {
            worker.location = location;
            worker.others = others;
        }
        let outlook = self.outlook(&workers, rest, now);
        let decision = outlook.decide(device, morsel);
        if decision.takes
            && let Some(worker) = workers.devices.get_mut(&device)
            && let Some(state) = outlook.devices.iter().find(|state| state.id == device)
        {
            worker.claim(state, decision.estimate, now);
        }
        decision
    }

    /// Notes that a device takes morsels of this size together, whoever decided so.
    pub fn takes(
        &self,
        device: DeviceId,
        morsels: MorselSize,
        location: Location,
        others: f64,
        now: f64,
    ) {
        let mut workers = self.workers.lock();
        let Some(worker) = workers.devices.get_mut(&device) else {
            return;
        };
        worker.location = location;
        worker.others = others;
        let state = worker.state(device, &self.rates, self.shape, now);
        worker.claim(&state, state.estimate(morsels), now);
    }

    /// Notes that a device must compile for so many seconds before it folds what it claims next.
    pub fn compiles_first(&self, device: DeviceId, seconds: f64) {
        if let Some(worker) = self.workers.lock().devices.get_mut(&device) {
            worker.compiling = seconds;
        }
    }

    /// Returns what the last claim of a device was expected to take: how much later the device is done
    /// with its folds for it, and what other queries keep the device from it if it had nothing else.
    pub fn promised(&self, device: DeviceId) -> Estimate {
        let workers = self.workers.lock();
        let worker = workers.devices.get(&device);
        worker.map_or_else(Estimate::default, |worker| worker.promised)
    }

    /// Notes that a device begins something that is expected to take so many seconds.
    pub fn begin(&self, device: DeviceId, seconds: f64, now: f64) {
        if let Some(worker) = self.workers.lock().devices.get_mut(&device) {
            worker.begin(seconds, None, now);
        }
    }

    /// Notes that the oldest thing that a device began has ended.
    pub fn end(&self, device: DeviceId, now: f64) {
        if let Some(worker) = self.workers.lock().devices.get_mut(&device) {
            worker.has.pop_front();
            worker.since = now;
        }
    }

    /// Notes that the newest thing that a device began came to nothing.
    pub fn cancel(&self, device: DeviceId) {
        if let Some(worker) = self.workers.lock().devices.get_mut(&device) {
            worker.has.pop_back();
        }
    }

    /// Notes how large the state is that a device must bring back.
    pub fn state_is(&self, device: DeviceId, bytes: u64) {
        if let Some(worker) = self.workers.lock().devices.get_mut(&device) {
            worker.state_bytes = bytes;
        }
    }

    /// Notes that a device has brought its state back, and learns how large that was.
    pub fn state_left(&self, device: DeviceId) {
        let mut workers = self.workers.lock();
        if let Some(worker) = workers.devices.get_mut(&device) {
            let bytes = std::mem::take(&mut worker.state_bytes);
            self.rates.learn_state(self.shape, bytes);
        }
    }

    /// Claims for a host partition a run of a listed piece of `queue`, of at most `limit` morsels and
    /// if the placement is `free` no more than half of its share; or says that it should wait,
    /// because the devices will be done first. What the partition had before is done, and is learned
    /// from.
    pub fn claim_for_host(
        &self,
        stream: &HostStream,
        queue: &MorselQueue,
        piece: usize,
        limit: usize,
        free: bool,
        now: f64,
    ) -> HostClaim {
        self.host_came_back(stream, now);
        let mut limit = limit;
        if free && !queue.is_for_devices() && queue.waiting(piece) > 0 {
            match self.host_run(stream, queue.rest(), limit, now) {
                HostRun::Take(morsels) => {
                    limit = usize::try_from(morsels)
                        .unwrap_or(limit)
                        .clamp(1, limit.max(1));
                }
                HostRun::Wait(seconds) => {
                    return HostClaim::Later(Duration::from_secs_f64(seconds));
                }
            }
        }
        let run = queue.claim_for_host(piece, limit);
        if run.is_empty() {
            return HostClaim::Empty;
        }
        let rows = run.iter().map(|morsel| morsel.size.num_rows).sum();
        if let Some(worker) = self.workers.lock().host.get_mut(&stream.number) {
            worker.has = Some(Has { rows, since: now });
        }
        HostClaim::Run(run)
    }

    /// Notes that a host partition is done with what it had, and learns from it.
    fn host_came_back(&self, stream: &HostStream, now: f64) {
        let mut workers = self.workers.lock();
        let had = workers.host.get_mut(&stream.number);
        let Some(had) = had.and_then(|worker| worker.has.take()) else {
            return;
        };
        // All partitions were polled by now, or come after this one.
        workers.expected = 0;
        drop(workers);
        self.rates.learn_host(self.shape, had.rows, now - had.since);
    }

    /// Says what a host partition that has nothing should do.
    ///
    /// Whoever waits claims in the end: once it has waited for as long as one morsel would have
    /// taken it, the devices have not kept their promise.
    fn host_run(&self, stream: &HostStream, rest: Rest, limit: usize, now: f64) -> HostRun {
        let mut workers = self.workers.lock();
        let outlook = self.outlook(&workers, rest, now);
        let number = workers.host.range(..stream.number).count();
        let mut limit = u64::try_from(limit).unwrap_or(u64::MAX);
        if !self.rates.host_is_measured(self.shape) {
            // No share can be told of yet.
            limit = 1;
        }
        let morsels = outlook.host_run(number, limit);
        let Some(worker) = workers.host.get_mut(&stream.number) else {
            return HostRun::Take(1);
        };
        if morsels > 0 {
            worker.declines_since = None;
            return HostRun::Take(morsels);
        }
        let own = rest.mean().num_rows as f64 * outlook.host_seconds_per_row;
        let since = *worker.declines_since.get_or_insert(now);
        if now - since >= own {
            worker.declines_since = None;
            return HostRun::Take(1);
        }
        HostRun::Wait(own.clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX))
    }

    /// Returns how long a device that declined should wait before it asks again, in seconds: what
    /// the fastest worker takes for a morsel, since much may have changed by then.
    pub fn ask_again(&self, rest: Rest, now: f64) -> f64 {
        let outlook = self.outlook(&self.workers.lock(), rest, now);
        outlook.fastest_morsel().clamp(ASK_AGAIN_MIN, ASK_AGAIN_MAX)
    }

    fn outlook(&self, workers: &Workers, rest: Rest, now: f64) -> Outlook {
        let learned = self.rates.host(self.shape);
        let has = workers.host.values().filter_map(|worker| worker.has);
        let shown = has
            .map(|has| (now - has.since) / has.rows.max(1) as f64)
            .fold(f64::MAX, f64::min);
        let slower = shown > learned && shown < f64::MAX;
        let host_seconds_per_row = if slower { shown } else { learned };
        let mut host_free_in: Vec<f64> = workers
            .host
            .values()
            .map(|worker| {
                worker.has.map_or(0.0, |has| {
                    let expected = has.rows as f64 * host_seconds_per_row;
                    (expected - (now - has.since)).abs()
                })
            })
            .collect();
        host_free_in.extend(std::iter::repeat_n(0.0, workers.expected));
        if workers.host_stays_out {
            host_free_in.clear();
        }
        Outlook {
            rest,
            host_free_in,
            host_seconds_per_row,
            devices: workers
                .devices
                .iter()
                .map(|(&id, worker)| worker.state(id, &self.rates, self.shape, now))
                .collect(),
        }
    }
}

impl DeviceWorker {
    fn begin(&mut self, seconds: f64, rate: Option<DeviceRate>, now: f64) {
        if self.has.is_empty() {
            self.since = now;
        }
        self.has.push_back(Begun { seconds, rate });
    }

    /// Takes a claim, of which this was expected in this state.
    fn claim(&mut self, state: &DeviceState, estimate: Estimate, now: f64) {
        let compiling = std::mem::take(&mut self.compiling);
        // The state comes back once, whatever is claimed.
        let before = state.free_in + state.returns;
        let own = (estimate.seconds - before).max(0.0) + compiling;
        let others = if self.has.is_empty() {
            self.others
        } else {
            0.0
        };
        self.promised = Estimate {
            seconds: own + others,
            bytes: estimate.bytes,
        };
        // Compiling tells nothing about folds.
        let rate = (compiling <= 0.0).then_some(state.rate);
        self.begin(own, rate, now);
    }

    fn state(&self, id: DeviceId, rates: &Rates, shape: ShapeKey, now: f64) -> DeviceState {
        let mut rate = rates.device(shape, &self.info);
        if self.location == Location::Pinned {
            rate = rate.from_pinned();
        }
        let mut free_in = self.has.iter().map(|begun| begun.seconds).sum::<f64>();
        let mut late = None;
        if let Some(oldest) = self.has.front() {
            let (expected, took) = (oldest.seconds, now - self.since);
            free_in -= expected;
            free_in += (expected - took).abs();
            if took > expected + LATE_MIN {
                let times = took / expected.max(LATE_MIN);
                late = oldest.rate.map(|rate| Late { rate, times });
            }
        }
        // The state comes back after the last morsel, whichever that is.
        let state_bytes = rates.state_bytes(shape).max(self.state_bytes as f64);
        let returns = rates.finish_seconds(shape, &self.info);
        DeviceState {
            id,
            free_in: free_in.max(0.0) + self.others,
            rate,
            late,
            resident: self.location == Location::Device,
            returns: returns
                .unwrap_or(rate.launch_seconds + state_bytes * rate.transfer_seconds_per_byte),
            limit_bytes: self.limit_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
