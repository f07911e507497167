//! Counters of one region: what ran where, how much of it, why, and how good the estimates were.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tidegate_kernels::Phases;

use crate::place::{Estimate, Place, Reason, RecordedPlacement};
use crate::queue::Morsel;

/// Decisions that are told one by one for each place; what comes after counts in the sums alone.
pub const DECISIONS_MAX: usize = 128;

/// Counts morsels, rows, bytes and time by place, and reasons by place.
///
/// Counting is by morsel, never by row or batch, so a mutex is cheap enough.
#[derive(Debug, Default)]
pub struct RegionCounters {
    places: Mutex<BTreeMap<Place, Count>>,
    recorded: Mutex<Option<RecordedPlacement>>,
}

#[derive(Clone, Debug, Default)]
struct Count {
    morsels: u64,
    rows: u64,
    bytes: u64,
    time: Duration,
    phases: Phases,
    reasons: BTreeMap<Reason, u64>,
    setbacks: Setbacks,
    claim_stats: ClaimStats,
    /// With the time of each one's end.
    decisions: Vec<(Decided, SystemTime)>,
}

/// One claim and how it went: a morsel, or some that were claimed together.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// Why it was claimed.
    pub reason: Reason,
    /// Morsels of the claim.
    pub morsels: u64,
    /// Their rows, as read.
    pub rows: u64,
    /// Bytes that were moved for it; on the host an estimate of those that were read.
    pub bytes: u64,
    /// What it was expected to take: how much later the place would be done for it.
    pub estimate: Estimate,
    /// What that took, in seconds: from the claim, or from the end of the one before it at a device, to
    /// its end.
    pub seconds: f64,
}

/// A [`Decided`], as it is told.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DecisionReport {
    /// Why the place claimed it.
    pub reason: String,
    /// Morsels of the claim.
    pub morsels: u64,
    /// Their rows.
    pub rows: u64,
    /// Bytes that were moved for it; on the host an estimate of those that were read.
    pub bytes: u64,
    /// Bytes that were expected to move.
    pub estimated_bytes: u64,
    /// Seconds by which the place was expected to be done later for it: reading, moving and compiling
    /// included, what was claimed before it left out.
    pub estimated_seconds: f64,
    /// Seconds that this took.
    pub seconds: f64,
    /// When it ended; it began so many seconds before.
    pub ended: SystemTime,
}

/// What the claims of a place were expected to take, and what they took; sums over all of them, which
/// are the same quantity and can be compared; with those whose rows had to run again elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClaimStats {
    /// Claims.
    pub claims: u64,
    /// Bytes that were expected to move.
    pub estimated_bytes: u64,
    /// Seconds that were expected.
    pub estimated_seconds: f64,
    /// Seconds that these took, each from the end of the one before it: on a device no more than the time
    /// that passed, on the host as much for each of its partitions.
    pub seconds: f64,
}

/// What went otherwise than planned at a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setbacks {
    /// Morsels that were taken and could not be kept: each ran again, here or elsewhere.
    pub retries: u64,
    /// Morsels that were cut in parts for lack of memory.
    pub splits: u64,
    /// Times that the state left as partial rows to make room.
    pub flushes: u64,
    /// Waits for memory that others held.
    pub waits: u64,
    /// Bytes of cached chunks that went to make room.
    pub evicted_bytes: u64,
}

impl AddAssign for Setbacks {
    fn add_assign(&mut self, other: Self) {
        self.retries += other.retries;
        self.splits += other.splits;
        self.flushes += other.flushes;
        self.waits += other.waits;
        self.evicted_bytes += other.evicted_bytes;
    }
}

/// What one place did for a region.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlaceReport {
    /// `host`, or the device.
    pub place: String,
    /// Morsels that ran here to the end.
    pub morsels: u64,
    /// Their rows, as read.
    pub rows: u64,
    /// Their bytes: on a device what was copied to it, on the host an estimate.
    pub bytes: u64,
    /// Seconds of work: on a device its own, on the host the time its streams were busy.
    pub seconds: f64,
    /// Where a device's seconds went; what it worked on side by side counts for each.
    #[serde(skip_deserializing)]
    pub phases: Phases,
    /// Why, and for how many morsels; for a region placed as a whole the count is 1.
    pub reasons: Vec<(String, u64)>,
    /// What went otherwise than planned.
    pub setbacks: Setbacks,
    /// What its claims took, beside their estimates.
    pub claim_stats: ClaimStats,
    /// The first [`DECISIONS_MAX`] of its claims, in the order in which they ended.
    #[serde(skip)]
    pub decisions: Vec<DecisionReport>,
}

impl PlaceReport {
    /// Describes a place of which only this much is known.
    pub fn new(place: String, morsels: u64, rows: u64, bytes: u64, seconds: f64) -> Self {
        Self {
            place,
            morsels,
            rows,
            bytes,
            seconds,
            phases: Phases::default(),
            reasons: Vec::new(),
            setbacks: Setbacks::default(),
            claim_stats: ClaimStats::default(),
            decisions: Vec::new(),
        }
    }
}

/// What one place did for a region, in numbers that can be added up over queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceStats {
    /// Where.
    pub place: Place,
    /// Morsels that ran here to the end.
    pub morsels: u64,
    /// Their rows, as read.
    pub rows: u64,
    /// Their bytes, as in [`PlaceReport::bytes`].
    pub bytes: u64,
    /// Kinds of reasons, as in [`Reason::kind`], and for how many morsels.
    pub reasons: Vec<(&'static str, u64)>,
}

impl RegionCounters {
    /// Counts a morsel that runs at `place`.
    pub fn morsel(&self, place: Place, rows: u64, bytes: u64) {
        let mut places = self.places.lock();
        let count = places.entry(place).or_default();
        count.morsels += 1;
        count.rows += rows;
        count.bytes += bytes;
    }

    /// Counts morsels that run at `place` for one reason.
    pub fn morsels(&self, place: Place, morsels: &[Morsel], reason: Reason) {
        let mut places = self.places.lock();
        let count = places.entry(place).or_default();
        let num_morsels = morsels.len() as u64;
        count.morsels += num_morsels;
        count.rows += morsels
            .iter()
            .map(|morsel| morsel.size.num_rows)
            .sum::<u64>();
        count.bytes += morsels
            .iter()
            .map(|morsel| morsel.size.num_bytes)
            .sum::<u64>();
        *count.reasons.entry(reason).or_default() += num_morsels;
    }

    /// Writes down how a claim of `place` went, beside what is counted of its morsels.
    pub fn decided(&self, place: Place, decided: Decided) {
        let mut places = self.places.lock();
        let count = places.entry(place).or_default();
        count.claim_stats.claims += 1;
        count.claim_stats.estimated_bytes += decided.estimate.bytes;
        count.claim_stats.estimated_seconds += decided.estimate.seconds;
        count.claim_stats.seconds += decided.seconds;
        if count.decisions.len() < DECISIONS_MAX {
            count.decisions.push((decided, SystemTime::now()));
        }
    }

    /// Counts what went otherwise than planned at `place`.
    pub fn setback(&self, place: Place, setbacks: Setbacks) {
        self.places.lock().entry(place).or_default().setbacks += setbacks;
    }

    /// Writes down where each morsel of the scan ran, in place of what was written before.
    pub fn record(&self, placement: Option<RecordedPlacement>) {
        *self.recorded.lock() = placement;
    }

    /// Returns where each morsel of the scan ran, if the scan came to its end.
    pub fn recorded(&self) -> Option<RecordedPlacement> {
        self.recorded.lock().clone()
    }

    /// Takes morsels out of the counters of a place whose work on them failed.
    pub fn undo(&self, place: Place, morsels: u64, rows: u64, bytes: u64) {
        let mut places = self.places.lock();
        let count = places.entry(place).or_default();
        count.morsels = count.morsels.saturating_sub(morsels);
        count.rows = count.rows.saturating_sub(rows);
        count.bytes = count.bytes.saturating_sub(bytes);
    }

    /// Adds to the time that a place worked.
    pub fn time(&self, place: Place, time: Duration) {
        self.places.lock().entry(place).or_default().time += time;
    }

    /// Adds to where the time of a place went.
    pub fn phases(&self, place: Place, phases: Phases) {
        self.places.lock().entry(place).or_default().phases += phases;
    }

    /// Counts all morsels of a scan at `place`, which were there already.
    pub fn whole(&self, place: Place, morsels: u64, rows: u64, reason: Reason) {
        let mut places = self.places.lock();
        let count = places.entry(place).or_default();
        count.morsels += morsels;
        count.rows += rows;
        *count.reasons.entry(reason).or_default() += morsels;
    }

    /// Counts why something went to `place`.
    pub fn reason(&self, place: Place, reason: Reason) {
        let mut places = self.places.lock();
        *places
            .entry(place)
            .or_default()
            .reasons
            .entry(reason)
            .or_default() += 1;
    }

    /// Returns the rows counted at `place`.
    pub fn rows(&self, place: Place) -> u64 {
        self.places.lock().get(&place).map_or(0, |count| count.rows)
    }

    /// Returns the rows counted at all places, and whether devices had them all already.
    pub fn rows_read(&self) -> (u64, bool) {
        let places = self.places.lock();
        let rows = places.values().map(|count| count.rows).sum();
        let mut read = places.iter().filter(|(_, count)| count.rows > 0);
        let resident = read.all(|(place, count)| *place != Place::Host && count.bytes == 0);
        (rows, resident && rows > 0)
    }

    /// Returns whether anything was counted.
    pub fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }

    /// Tells the numbers of every place that something was counted for.
    pub fn place_stats(&self) -> Vec<PlaceStats> {
        let places = self.places.lock();
        let stats = |(&place, count): (&Place, &Count)| {
            let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
            for (why, times) in &count.reasons {
                *reasons.entry(why.kind()).or_default() += times;
            }
            PlaceStats {
                place,
                morsels: count.morsels,
                rows: count.rows,
                bytes: count.bytes,
                reasons: reasons.into_iter().collect(),
            }
        };
        places.iter().map(stats).collect()
    }

    /// Reports every place that something was counted for; `name` says what to call it.
    pub fn report(&self, name: impl Fn(Place) -> String) -> Vec<PlaceReport> {
        let places = self.places.lock();
        let report = |(&place, count): (&Place, &Count)| PlaceReport {
            place: name(place),
            morsels: count.morsels,
            rows: count.rows,
            bytes: count.bytes,
            seconds: count.time.as_secs_f64(),
            phases: count.phases,
            reasons: count
                .reasons
                .iter()
                .map(|(why, times)| (why.to_string(), *times))
                .collect(),
            setbacks: count.setbacks,
            claim_stats: count.claim_stats,
            decisions: count.decisions.iter().map(DecisionReport::of).collect(),
        };
        places.iter().map(report).collect()
    }
}

impl DecisionReport {
    /// Returns when it began.
    pub fn started(&self) -> SystemTime {
        let took = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        self.ended.checked_sub(took).unwrap_or(self.ended)
    }

    fn of((decided, ended): &(Decided, SystemTime)) -> Self {
        Self {
            reason: decided.reason.to_string(),
            morsels: decided.morsels,
            rows: decided.rows,
            bytes: decided.bytes,
            estimated_bytes: decided.estimate.bytes,
            estimated_seconds: decided.estimate.seconds,
            seconds: decided.seconds,
            ended: *ended,
        }
    }
}
