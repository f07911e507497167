//! Queries over one machine by a virtual clock: host partitions and devices of any speed, whose true
//! rates nobody knows at first, with the decisions, the queue, the turns, the ladder, the admission
//! and the budgets that run in earnest.
//!
//! Only time is simulated: an event happens, the production code decides, and what it decides takes
//! its true time. Devices fold one morsel after the other; host partitions share cores.

mod feeding;
mod tests;
mod workload;

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use tidegate_device::{DeviceId, DeviceInfo, DeviceKind, DeviceRates, MemoryBudget, Reservation};

use crate::admission::turns::QueryId;
use crate::admission::{AdmissionLimits, AdmissionQueue, AdmissionRequest, Turns};
use crate::place::{HostClaim, HostStream, WorkerStates};
use crate::queue::{ClaimPolicy, MorselQueue};
use crate::rates::Rates;
use feeding::Feeder;
use workload::{QuerySpec, Workload};

/// Who may run morsels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sides {
    Mixed,
    HostAlone,
    DevicesAlone,
}

/// Something that happens to a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Arrives,
    /// A host partition is done with what it had, or asks again.
    Partition(usize, u64),
    /// A device's feeder should look what there is to do.
    Feed(usize),
    Loaded(usize),
    Folded(usize),
    Flushed(usize),
    /// The host is done with what was left.
    TailDone,
}

#[derive(Debug, PartialEq)]
struct Scheduled {
    time: f64,
    number: u64,
    query: usize,
    event: Event,
}

impl Eq for Scheduled {}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        let earlier = other.time.total_cmp(&self.time);
        earlier.then(other.number.cmp(&self.number))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A device as it really is.
struct Device {
    info: DeviceInfo,
    budget: Arc<MemoryBudget>,
    /// Chunks that are only cached.
    cached: Vec<Reservation>,
    turns: Turns,
    free_at: f64,
    /// Bytes that are in use in truth.
    used: u64,
    used_max: u64,
}

struct Query {
    spec: QuerySpec,
    queue: MorselQueue,
    workers: Arc<WorkerStates>,
    streams: Vec<Option<HostStream>>,
    /// Pieces that each partition still opens.
    piece_of: Vec<usize>,
    next_piece: usize,
    /// Partitions that work on a run.
    busy: Vec<bool>,
    /// The event that each partition waits for; others are of the past.
    awaited: Vec<u64>,
    feeders: Vec<Feeder>,
    ticket: Option<crate::admission::Ticket>,
    begun: bool,
    tail: bool,
    finished: Option<f64>,
    /// Times that each morsel counted.
    counted: BTreeMap<crate::queue::MorselId, u32>,
}

/// What came of a workload.
struct Outcome {
    /// When each query was done.
    finished: Vec<f64>,
    /// Morsels that devices committed.
    on_devices: u64,
}

struct World<'a> {
    workload: &'a Workload,
    sides: Sides,
    now: f64,
    next_event: u64,
    events: BinaryHeap<Scheduled>,
    rates: Arc<Rates>,
    devices: Vec<Device>,
    queries: Vec<Query>,
    admission: AdmissionQueue,
    tickets: BTreeMap<crate::admission::Ticket, usize>,
    busy_cores: usize,
    on_devices: u64,
}

/// Runs a workload to its end, and checks on the way that no budget is exceeded and no morsel is lost
/// or counted twice.
fn run(workload: &Workload, sides: Sides, rates: &Arc<Rates>) -> Outcome {
    let mut world = World::new(workload, sides, Arc::clone(rates));
    for (query, spec) in workload.queries.iter().enumerate() {
        world.at(spec.arrives, query, Event::Arrives);
    }
    let mut events = 0;
    while let Some(next) = world.events.pop() {
        assert!(next.time >= world.now, "time goes on");
        world.now = next.time;
        world.happens(next.query, next.event);
        events += 1;
        assert!(events < 5_000_000, "no end in sight: {workload:?}");
    }
    world.check(workload);
    let finished = world.queries.iter().map(|query| query.finished);
    Outcome {
        finished: finished
            .map(|time| time.unwrap_or_else(|| panic!("a query starved: {workload:?}")))
            .collect(),
        on_devices: world.on_devices,
    }
}

impl<'a> World<'a> {
    fn new(workload: &'a Workload, sides: Sides, rates: Arc<Rates>) -> Self {
        let devices = workload.devices.iter().enumerate().map(|(number, truth)| {
            let id = DeviceId(number as u32);
            let budget = MemoryBudget::new(id, truth.limit_bytes);
            let cached = (0..4).filter_map(|_| budget.reserve(truth.cached_bytes / 4).ok());
            let cached: Vec<Reservation> = cached.collect();
            let used = cached.iter().map(Reservation::bytes).sum();
            Device {
                info: info(number, truth.believed),
                cached,
                budget,
                turns: Turns::default(),
                free_at: 0.0,
                used,
                used_max: used,
            }
        });
        let devices: Vec<Device> = devices.collect();
        let limits = AdmissionLimits {
            running_max: workload.running_max,
            waiting_max: usize::MAX,
            wait_max: Duration::MAX,
            expected_bytes_max: u64::MAX,
        };
        let mut world = Self {
            workload,
            sides,
            now: 0.0,
            next_event: 0,
            events: BinaryHeap::new(),
            rates,
            devices,
            queries: Vec::new(),
            admission: AdmissionQueue::new(limits),
            tickets: BTreeMap::new(),
            busy_cores: 0,
            on_devices: 0,
        };
        world.queries = workload
            .queries
            .iter()
            .map(|spec| world.query(spec))
            .collect();
        world
    }

    fn query(&self, spec: &QuerySpec) -> Query {
        let partitions = match self.sides {
            Sides::DevicesAlone => 0,
            _ => self.workload.partitions,
        };
        let queue = MorselQueue::new(ClaimPolicy::Shared, vec![None; spec.pieces]);
        let mut rest = spec.morsels.as_slice();
        for piece in 0..spec.pieces {
            let (these, others) = rest.split_at(rest.len() / (spec.pieces - piece));
            queue.list(piece, these.iter().copied());
            rest = others;
        }
        Query {
            spec: spec.clone(),
            queue,
            workers: WorkerStates::new(Arc::clone(&self.rates), spec.shape, partitions),
            streams: Vec::new(),
            piece_of: vec![usize::MAX; partitions],
            next_piece: 0,
            busy: vec![false; partitions],
            awaited: vec![0; partitions],
            feeders: Vec::new(),
            ticket: None,
            begun: false,
            tail: false,
            finished: None,
            counted: BTreeMap::new(),
        }
    }

    fn at(&mut self, time: f64, query: usize, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.events.push(Scheduled {
            time,
            number,
            query,
            event,
        });
    }

    fn happens(&mut self, query: usize, event: Event) {
        match event {
            Event::Arrives => {
                let request = AdmissionRequest {
                    priority: self.queries[query].spec.priority,
                    expected_bytes: 0,
                };
                let arrived = self.admission.arrive(request, self.now);
                let ticket = arrived.unwrap();
                self.queries[query].ticket = Some(ticket);
                self.tickets.insert(ticket, query);
                if self.admission.runs(ticket) {
                    self.begin(query);
                }
            }
            Event::Partition(partition, number) => {
                if self.queries[query].awaited[partition] == number {
                    self.partition(query, partition);
                }
            }
            Event::Feed(device) => self.feed(query, device),
            Event::Loaded(device) => self.loaded(query, device),
            Event::Folded(device) => self.folded(query, device),
            Event::Flushed(device) => self.flushed(query, device),
            Event::TailDone => self.finish(query),
        }
        for device in &self.devices {
            assert!(device.budget.used() <= device.budget.limit(), "over budget");
            assert!(device.used <= device.budget.used(), "used but not promised");
        }
        assert!(self.admission.num_running() <= self.workload.running_max);
    }

    fn begin(&mut self, query: usize) {
        assert!(!self.queries[query].begun, "a query begins once");
        self.queries[query].begun = true;
        let partitions = self.queries[query].piece_of.len();
        for partition in 0..partitions {
            let stream = self.queries[query].workers.join_host();
            self.queries[query].streams.push(Some(stream));
            self.ask(self.now, query, partition);
        }
        if self.sides != Sides::HostAlone {
            for number in 0..self.devices.len() {
                let device = &self.devices[number];
                let (workers, limit) = (&self.queries[query].workers, device.budget.limit());
                if self.queries[query].spec.resident_of_100 == 100 {
                    workers.holds_all(device.info.id);
                }
                workers.join_device(&device.info, limit);
                let state = device.budget.reserve(0).unwrap();
                self.queries[query].feeders.push(Feeder::new(state));
                self.at(self.now, query, Event::Feed(number));
            }
        }
        self.end_if_done(query);
    }

    /// A host partition claims its next run, of its own piece or the next that nobody has opened.
    fn partition(&mut self, number: usize, partition: usize) {
        let now = self.now;
        let free = self.sides == Sides::Mixed;
        let query = &mut self.queries[number];
        if std::mem::take(&mut query.busy[partition]) {
            self.busy_cores -= 1;
        }
        let claimed = loop {
            let piece = query.piece_of[partition];
            let stream = query.streams[partition].as_ref().unwrap();
            let claimed = if piece < query.spec.pieces {
                let limit = query.spec.run_max;
                let queue = &query.queue;
                query
                    .workers
                    .claim_for_host(stream, queue, piece, limit, free, now)
            } else {
                HostClaim::Empty
            };
            if claimed != HostClaim::Empty {
                break claimed;
            }
            if query.spec.pieces == 1 && piece == usize::MAX {
                query.piece_of[partition] = 0;
            } else if query.next_piece < query.spec.pieces && query.spec.pieces > 1 {
                query.piece_of[partition] = query.next_piece;
                query.next_piece += 1;
            } else {
                break HostClaim::Empty;
            }
        };
        match claimed {
            HostClaim::Run(run) => {
                query.busy[partition] = true;
                let mut rows = 0;
                for morsel in &run {
                    rows += morsel.size.num_rows;
                    *query.counted.entry(morsel.id).or_default() += 1;
                }
                self.busy_cores += 1;
                let crowded = self.busy_cores as f64 / self.workload.partitions as f64;
                let seconds = rows as f64 * self.workload.host_seconds_per_row * crowded.max(1.0);
                self.ask(now + seconds, number, partition);
            }
            HostClaim::Later(time) => {
                self.ask(now + time.as_secs_f64(), number, partition);
            }
            HostClaim::Empty => {
                query.streams[partition] = None;
                if query.streams.iter().all(Option::is_none) {
                    // Feeders that declined must not wait for more.
                    self.poke(number);
                }
                self.end_if_done(number);
            }
        }
    }

    /// Lets a partition claim at this time, and not at any other that was meant before.
    fn ask(&mut self, time: f64, query: usize, partition: usize) {
        let number = self.next_event;
        self.queries[query].awaited[partition] = number;
        self.at(time, query, Event::Partition(partition, number));
    }

    /// Lets the partitions that wait for devices claim now.
    fn wake(&mut self, query: usize) {
        for partition in 0..self.queries[query].busy.len() {
            let waits = self.queries[query].streams[partition].is_some();
            if waits && !self.queries[query].busy[partition] {
                self.ask(self.now, query, partition);
            }
        }
    }

    fn poke(&mut self, query: usize) {
        for device in 0..self.queries[query].feeders.len() {
            self.at(self.now, query, Event::Feed(device));
        }
    }

    /// Runs on one partition what is left, once everybody else has ended.
    fn end_if_done(&mut self, number: usize) {
        let query = &mut self.queries[number];
        let streams = query.streams.iter().all(Option::is_none);
        let feeders = query.feeders.iter().all(|feeder| feeder.ended);
        if !streams || !feeders || query.tail || !query.begun {
            return;
        }
        query.tail = true;
        let rest = query.queue.take_rest(true);
        let rows: u64 = rest.iter().map(|morsel| morsel.size.num_rows).sum();
        for morsel in rest {
            *query.counted.entry(morsel.id).or_default() += 1;
        }
        let seconds = rows as f64 * self.workload.host_seconds_per_row;
        self.at(self.now + seconds, number, Event::TailDone);
    }

    fn finish(&mut self, query: usize) {
        self.queries[query].finished = Some(self.now);
        if let Some(ticket) = self.queries[query].ticket {
            for admitted in self.admission.leave(ticket, self.now) {
                let next = self.tickets[&admitted];
                self.begin(next);
            }
        }
    }

    fn check(&self, workload: &Workload) {
        for query in &self.queries {
            assert_eq!(
                query.counted.len(),
                query.spec.morsels.len(),
                "a morsel was lost"
            );
            let once = query.counted.values().all(|&times| times == 1);
            assert!(once, "a morsel counts twice");
        }
        for device in &self.devices {
            let cached: u64 = device.cached.iter().map(Reservation::bytes).sum();
            assert_eq!(
                device.budget.used(),
                cached + self.promised(),
                "a leak: {workload:?}"
            );
            assert!(device.used_max <= device.budget.limit());
            assert!(device.budget.peak() <= device.budget.limit());
        }
    }

    /// Returns what ended feeders still hold: nothing, if all is well.
    fn promised(&self) -> u64 {
        let feeders = self.queries.iter().flat_map(|query| &query.feeders);
        feeders.map(Feeder::promised).sum()
    }
}

fn info(number: usize, rates: DeviceRates) -> DeviceInfo {
    DeviceInfo {
        id: DeviceId(number as u32),
        kind: DeviceKind::Cuda,
        name: format!("simulated {number}"),
        memory_bytes: 1 << 40,
        rates,
    }
}

fn query_id(query: usize) -> QueryId {
    QueryId(query as u64)
}
