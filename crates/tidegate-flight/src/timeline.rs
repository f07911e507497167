//! The last minutes: what worked in which lane, statements and memory, twice a second.
//!
//! Samples are taken whether or not anybody looks, so that a page that is opened late shows what led
//! to what it shows.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;
use tidegate::{LaneWork, MemoryReport, Session};

use crate::meters::Meters;
use crate::sessions::Sessions;

/// Time between two samples.
const STEP: Duration = Duration::from_millis(500);

/// Readings in one step; a query's own picture has this resolution.
const READINGS: u32 = 5;

/// Samples kept: two minutes.
const SAMPLES_MAX: usize = 240;

/// What happened in one step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    /// Milliseconds since 1970, at the end of the step.
    time_ms: u64,
    work: Vec<LaneWork>,
    /// Statements that are admitted at the end of the step.
    running: usize,
    /// Statements that wait for it.
    waiting: i64,
    memory: MemoryByTier,
}

/// Bytes that are taken at one time.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MemoryByTier {
    statements: u64,
    host_cache: u64,
    pinned: u64,
    devices: u64,
}

impl MemoryByTier {
    /// Adds up what is taken in each tier.
    pub fn of(reports: &[MemoryReport]) -> Self {
        let used = |tier: &str, consumer: &str| {
            let of = |report: &&MemoryReport| report.tier() == tier && report.consumer == consumer;
            reports.iter().filter(of).map(|report| report.used).sum()
        };
        Self {
            statements: used("host", "statements"),
            host_cache: used("host", "column cache"),
            pinned: used("pinned", "column cache"),
            devices: used("device", "all"),
        }
    }
}

/// The samples, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    samples: Mutex<VecDeque<Sample>>,
}

/// The samples and the time between them, as they are sent.
#[derive(Debug, Serialize)]
pub(crate) struct Told {
    step_ms: u64,
    samples: Vec<Sample>,
}

impl Timeline {
    /// Returns the samples that are later than a time in milliseconds since 1970.
    pub(crate) fn told(&self, since_ms: u64) -> Told {
        let samples = self.samples.lock();
        let new = samples.iter().filter(|sample| sample.time_ms > since_ms);
        Told {
            step_ms: STEP.as_millis() as u64,
            samples: new.cloned().collect(),
        }
    }

    /// Returns the memory that was taken at these times in milliseconds since 1970.
    pub(crate) fn memory(&self, from_ms: u64, to_ms: u64) -> Vec<(u64, MemoryByTier)> {
        let samples = self.samples.lock();
        let within = samples
            .iter()
            .filter(|sample| (from_ms..=to_ms).contains(&sample.time_ms));
        within
            .map(|sample| (sample.time_ms, sample.memory))
            .collect()
    }

    /// Takes samples, for ever.
    pub(crate) async fn run(&self, session: &Session, sessions: &Sessions, meters: &Meters) {
        session.watch_work();
        loop {
            let work = work_of_step(session).await;
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let sample = Sample {
                time_ms: since.map_or(0, |since| since.as_millis() as u64),
                work,
                running: sessions.num_running(),
                waiting: meters.num_waiting(),
                memory: MemoryByTier::of(&session.memory()),
            };
            let mut samples = self.samples.lock();
            if samples.len() == SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(sample);
        }
    }
}

/// Waits for a step to pass; returns what was done in it.
async fn work_of_step(session: &Session) -> Vec<LaneWork> {
    let mut done: BTreeMap<(String, String, bool), f64> = BTreeMap::new();
    for _ in 0..READINGS {
        tokio::time::sleep(STEP / READINGS).await;
        for work in session.work() {
            let key = (work.lane, work.operator, work.is_copy);
            *done.entry(key).or_default() += work.seconds;
        }
    }
    let told = done
        .into_iter()
        .map(|((lane, operator, is_copy), seconds)| LaneWork {
            lane,
            operator,
            is_copy,
            seconds,
        });
    told.collect()
}
