//! Who worked when: the time that each operator was busy, in short steps.
//!
//! Operators and regions keep count of the time that they were busy anyway. Whoever watches a query reads these
//! counts again and again: what was added between two readings was done in that step. A lane is a partition of the
//! host, or a device, and a step is a bar's resolution, not its length: within a step a lane's operators are
//! drawn one after the other, from the leaves up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricValue;
use parking_lot::Mutex;
use serde::Serialize;

use crate::region::PipelineExec;

/// Steps that are kept of a query; when there are more, two become one.
const STEPS_MAX: usize = 256;

/// Pieces of work that wait to be asked for.
const WORK_MAX: usize = 20_000;

/// What file scans count beside the time that is theirs alone.
const SCAN_TIME: &str = "time_elapsed_processing";

/// Where work is done: a partition of the host, or a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Lane {
    Host(usize),
    Device(String),
}

impl Lane {
    fn name(&self) -> String {
        match self {
            Self::Host(partition) => format!("host {partition}"),
            Self::Device(name) => name.clone(),
        }
    }
}

/// What is busy: an operator of a plan in a lane, with work or with copies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Busy {
    lane: Lane,
    number: usize,
    is_copy: bool,
}

/// A piece of work: when an operator was busy in a lane.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkPiece {
    /// `host 0` is the first partition on the host; a device has one lane.
    pub lane: String,
    /// The operator, as in [`super::OperatorReport::number`].
    pub number: usize,
    /// Whether it copied between host and device.
    pub is_copy: bool,
    /// Seconds from the beginning of the query.
    pub start: f64,
    /// Seconds from the beginning of the query.
    pub end: f64,
}

/// The time that operators of one name were busy in a lane, of all queries since it was last asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LaneWork {
    /// As in [`WorkPiece::lane`].
    pub lane: String,
    /// The operator's name.
    pub operator: String,
    /// Whether it copied between host and device.
    pub is_copy: bool,
    /// Seconds.
    pub seconds: f64,
}

/// The work of all queries of a process since it was last asked for; nothing unless somebody asks.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    is_on: AtomicBool,
    work: Mutex<HashMap<(Lane, String, bool), u64>>,
}

impl Watched {
    pub(crate) fn turn_on(&self) {
        self.is_on.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    fn add(&self, lane: Lane, operator: &str, is_copy: bool, nanos: u64) {
        let mut work = self.work.lock();
        let key = (lane, operator.to_string(), is_copy);
        if work.len() < WORK_MAX || work.contains_key(&key) {
            *work.entry(key).or_default() += nanos;
        }
    }

    /// Takes what was done, by lane.
    pub(crate) fn take(&self) -> Vec<LaneWork> {
        let taken = std::mem::take(&mut *self.work.lock());
        let mut taken: Vec<_> = taken.into_iter().collect();
        taken.sort_unstable();
        let told = taken
            .into_iter()
            .map(|((lane, operator, is_copy), nanos)| LaneWork {
                lane: lane.name(),
                operator,
                is_copy,
                seconds: nanos as f64 / 1e9,
            });
        told.collect()
    }
}

#[derive(Clone, Debug)]
struct Step {
    start: f64,
    end: f64,
    busy: HashMap<Busy, u64>,
}

/// The steps of one query.
#[derive(Debug)]
pub(crate) struct Trace {
    began: Instant,
    began_at: SystemTime,
    /// Nanoseconds that each was busy when it was read last.
    seen: HashMap<Busy, u64>,
    steps: Vec<Step>,
}

impl Trace {
    pub(crate) fn new(began: Instant) -> Self {
        Self {
            began,
            began_at: SystemTime::now(),
            seen: HashMap::new(),
            steps: Vec::new(),
        }
    }

    /// Returns when the query began.
    pub(crate) fn began_at(&self) -> SystemTime {
        self.began_at
    }

    /// Reads what a plan has done since the step before, and tells it to whoever watches all queries.
    pub(crate) fn step(&mut self, plan: &Arc<dyn ExecutionPlan>, watched: &Watched) {
        let mut busy = HashMap::new();
        let mut names = Vec::new();
        read(plan, &mut names, &mut busy);
        let mut step = Step {
            start: self.steps.last().map_or(0.0, |last| last.end),
            end: self.began.elapsed().as_secs_f64(),
            busy: HashMap::new(),
        };
        for (key, nanos) in busy {
            let seen = self.seen.entry(key.clone()).or_default();
            let new = nanos.saturating_sub(*seen);
            *seen = nanos.max(*seen);
            if new > 0 {
                let name = names.get(key.number).map_or("", String::as_str);
                watched.add(key.lane.clone(), name, key.is_copy, new);
                step.busy.insert(key, new);
            }
        }
        self.steps.push(step);
        if self.steps.len() > STEPS_MAX {
            self.halve();
        }
    }

    fn halve(&mut self) {
        let mut halved: Vec<Step> = Vec::with_capacity(self.steps.len().div_ceil(2));
        for (place, step) in self.steps.drain(..).enumerate() {
            match halved.last_mut() {
                Some(before) if place % 2 == 1 => {
                    before.end = step.end;
                    for (key, nanos) in step.busy {
                        *before.busy.entry(key).or_default() += nanos;
                    }
                }
                _ => halved.push(step),
            }
        }
        self.steps = halved;
    }

    /// Lays out the work of each step in its lanes.
    pub(crate) fn pieces(&self) -> Vec<WorkPiece> {
        self.steps.iter().flat_map(Step::pieces).collect()
    }
}

impl Step {
    fn pieces(&self) -> Vec<WorkPiece> {
        let mut busy: Vec<(&Busy, f64)> = self
            .busy
            .iter()
            .map(|(key, nanos)| (key, *nanos as f64 / 1e9))
            .collect();
        // Copies come before the work on what was copied, and inputs before what reads them.
        busy.sort_by(|(left, _), (right, _)| {
            let order = |busy: &Busy| (std::cmp::Reverse(busy.number), !busy.is_copy);
            left.lane
                .cmp(&right.lane)
                .then_with(|| order(left).cmp(&order(right)))
        });
        let length = (self.end - self.start).max(1e-9);
        let mut pieces = Vec::with_capacity(busy.len());
        for lane in busy.chunk_by(|(left, _), (right, _)| left.lane == right.lane) {
            let total: f64 = lane.iter().map(|(_, seconds)| seconds).sum();
            // Several threads may work for one partition.
            let scale = (length / total.max(1e-12)).min(1.0);
            let mut at = self.start;
            for (key, seconds) in lane {
                let end = at + seconds * scale;
                pieces.push(WorkPiece {
                    lane: key.lane.name(),
                    number: key.number,
                    is_copy: key.is_copy,
                    start: at,
                    end,
                });
                at = end;
            }
        }
        pieces
    }
}

/// Reads the time that each operator of a plan has been busy so far, and their names.
fn read(plan: &Arc<dyn ExecutionPlan>, names: &mut Vec<String>, busy: &mut HashMap<Busy, u64>) {
    let number = names.len();
    names.push(plan.name().to_string());
    match plan.downcast_ref::<PipelineExec>() {
        Some(region) => read_region(region, number, busy),
        None => read_metrics(plan, number, busy),
    }
    for input in plan.children() {
        read(input, names, busy);
    }
}

/// Reads what devices did for a region; its host's half tells of itself.
fn read_region(region: &PipelineExec, number: usize, busy: &mut HashMap<Busy, u64>) {
    for place in region.report().places {
        if place.place == "host" {
            continue;
        }
        let copied = place.phases.upload + place.phases.download;
        let worked = (place.seconds - copied).max(0.0);
        for (is_copy, seconds) in [(true, copied), (false, worked)] {
            let key = Busy {
                lane: Lane::Device(short(&place.place).into()),
                number,
                is_copy,
            };
            *busy.entry(key).or_default() += (seconds * 1e9) as u64;
        }
    }
}

/// Returns a device's name without what it is.
fn short(place: &str) -> &str {
    place.split(" (").next().unwrap_or(place)
}

fn read_metrics(plan: &Arc<dyn ExecutionPlan>, number: usize, busy: &mut HashMap<Busy, u64>) {
    let mut lanes: HashMap<usize, [u64; 2]> = HashMap::new();
    for metric in plan.metrics().unwrap_or_default().iter() {
        let partition = metric.partition().unwrap_or(0);
        let (kind, time) = match metric.value() {
            MetricValue::ElapsedCompute(time) => (0, time),
            MetricValue::Time { name, time } if name == SCAN_TIME => (1, time),
            _ => continue,
        };
        lanes.entry(partition).or_default()[kind] += time.value() as u64;
    }
    for (partition, kinds) in lanes {
        let key = Busy {
            lane: Lane::Host(partition),
            number,
            is_copy: false,
        };
        busy.insert(key, kinds.into_iter().max().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests;
