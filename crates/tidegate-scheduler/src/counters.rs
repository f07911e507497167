//! What ran where, how much of it, and why: the books of one region.

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tidegate_kernels::Phases;

use crate::place::{Place, Reason};
use crate::queue::Morsel;

/// Counts morsels, rows, bytes and time by place, and reasons by place.
///
/// Counting is by morsel, never by row or batch, so a mutex is cheap enough.
#[derive(Debug, Default)]
pub struct RegionCounters {
    places: Mutex<BTreeMap<Place, Count>>,
}

#[derive(Clone, Debug, Default)]
struct Count {
    morsels: u64,
    rows: u64,
    bytes: u64,
    time: Duration,
    phases: Phases,
    reasons: BTreeMap<Reason, u64>,
}

/// What one place did for a region.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub phases: Phases,
    /// Why, and for how many morsels; for a region placed as a whole the count is 1.
    pub reasons: Vec<(String, u64)>,
}

/// What one place did for a region, in numbers that can be added up over queries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
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

    /// Takes morsels out of the books of a place whose work on them came to nothing.
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

    /// Returns whether anything was counted.
    pub fn is_empty(&self) -> bool {
        self.places.lock().is_empty()
    }

    /// Tells the numbers of every place that something was counted for.
    pub fn tally(&self) -> Vec<Tally> {
        let places = self.places.lock();
        let tally = |(&place, count): (&Place, &Count)| {
            let mut reasons: BTreeMap<&'static str, u64> = BTreeMap::new();
            for (why, times) in &count.reasons {
                *reasons.entry(why.kind()).or_default() += times;
            }
            Tally {
                place,
                morsels: count.morsels,
                rows: count.rows,
                bytes: count.bytes,
                reasons: reasons.into_iter().collect(),
            }
        };
        places.iter().map(tally).collect()
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
        };
        places.iter().map(report).collect()
    }
}
