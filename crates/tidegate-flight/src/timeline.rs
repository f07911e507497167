//! The last minutes: morsels by place and reason, statements and memory, twice a second.
//!
//! Samples are taken whether or not anybody looks, so that a page that is opened late shows what led
//! to what it shows.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;
use tidegate::Session;

use crate::meters::{Lanes, Meters, add_to_lanes};
use crate::sessions::Sessions;

/// Time between two samples.
const STEP: Duration = Duration::from_millis(500);

/// Samples kept: two minutes.
const SAMPLES_MAX: usize = 240;

/// What happened in one step.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sample {
    /// Milliseconds since 1970, at the end of the step.
    time_ms: u64,
    lanes: Vec<Lane>,
    /// Statements that are admitted at the end of the step.
    running: usize,
    /// Statements that wait for it.
    waiting: i64,
    /// Bytes of host memory that are taken at the end of the step.
    host_bytes: u64,
    /// Bytes of the devices' memory that are taken at the end of the step.
    device_bytes: u64,
}

/// Morsels that were counted in one step, at one place for one reason.
#[derive(Clone, Debug, Serialize)]
struct Lane {
    place: String,
    reason: &'static str,
    morsels: u64,
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
    /// Returns all samples.
    pub(crate) fn told(&self) -> Told {
        Told {
            step_ms: STEP.as_millis() as u64,
            samples: self.samples.lock().iter().cloned().collect(),
        }
    }

    /// Takes samples, for ever.
    pub(crate) async fn run(&self, session: &Session, sessions: &Sessions, meters: &Arc<Meters>) {
        let mut counted = Lanes::new();
        loop {
            tokio::time::sleep(STEP).await;
            // What ends between these two is missed here and found in the next step.
            let mut lanes = meters.lanes();
            for report in session.visible_reports(0) {
                let stats = report.regions.iter().flat_map(|region| &region.place_stats);
                stats.for_each(|stats| add_to_lanes(&mut lanes, stats));
            }
            let mut new = Vec::new();
            for ((place, reason), total) in lanes {
                let known = counted.entry((place, reason)).or_default();
                if total > *known {
                    new.push(Lane {
                        place: place.to_string(),
                        reason,
                        morsels: total - *known,
                    });
                    *known = total;
                }
            }
            let memory = session.memory();
            let used = |tier: &str, consumers: &[&str]| {
                let of = |report: &&tidegate::MemoryReport| {
                    report.tier() == tier && consumers.contains(&report.consumer.as_str())
                };
                memory.iter().filter(of).map(|report| report.used).sum()
            };
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let sample = Sample {
                time_ms: since.map_or(0, |since| since.as_millis() as u64),
                lanes: new,
                running: sessions.num_running(),
                waiting: meters.num_waiting(),
                host_bytes: used("host", &["statements", "column cache"]),
                device_bytes: used("device", &["all"]),
            };
            let mut samples = self.samples.lock();
            if samples.len() == SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(sample);
        }
    }
}
