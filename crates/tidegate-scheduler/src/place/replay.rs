//! Replaying placements: which morsels of a scan run where, morsel by morsel.
//!
//! A [`RecordedPlacement`] is the state of a scan's queue at the end: for each piece, runs of
//! morsels that ran at one place. Replaying it gives every morsel to the place that ran it; the
//! host runs those that the record does not contain, which is always possible.

use std::fmt;
use std::str::FromStr;

use tidegate_device::DeviceId;

use super::Place;
use crate::queue::MorselId;

/// Runs of morsels that a record holds at the most; a scan that went to and fro more often is not
/// recorded. Half a MB.
const RUNS_MAX: usize = 1 << 15;

/// A placement to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Letters, over and over.
    Pattern(PlacementPattern),
    /// What a query did.
    Recorded(RecordedPlacement),
}

impl Replay {
    /// Returns whether the host runs this morsel.
    pub fn on_host(&self, morsel: MorselId) -> bool {
        match self {
            Self::Pattern(pattern) => !pattern.on_device(morsel.number()),
            Self::Recorded(recorded) => recorded.place_of(morsel) == Place::Host,
        }
    }

    /// Returns whether this device may run the morsel.
    pub fn on_device(&self, morsel: MorselId, device: DeviceId) -> bool {
        match self {
            Self::Pattern(pattern) => pattern.on_device(morsel.number()),
            Self::Recorded(recorded) => recorded.place_of(morsel) == Place::Device(device),
        }
    }
}

/// A placement in letters, morsel by morsel, over and over: `HD` places even morsels on the host and
/// odd ones on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementPattern(Vec<bool>);

impl PlacementPattern {
    /// Returns whether the morsel with this number goes to a device.
    pub fn on_device(&self, morsel_number: usize) -> bool {
        self.0[morsel_number % self.0.len()]
    }
}

impl fmt::Display for PlacementPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|&device| f.write_str(if device { "D" } else { "H" }))
    }
}

impl FromStr for PlacementPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let places: Option<Vec<bool>> = text
            .chars()
            .map(|letter| match letter.to_ascii_uppercase() {
                'H' => Some(false),
                'D' => Some(true),
                _ => None,
            })
            .collect();
        match places {
            Some(places) if !places.is_empty() => Ok(Self(places)),
            _ => Err(format!(
                "'{text}' is not a placement to replay: expected letters H (host) and D (device), \
                 such as HD"
            )),
        }
    }
}

/// Where each morsel of a scan ran.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedPlacement {
    /// For each piece its runs in order: where each ends, and its place.
    pieces: Vec<Vec<(usize, Place)>>,
}

impl RecordedPlacement {
    /// Records the places of each piece's morsels, in order; `None` if they alternate too often to
    /// be remembered.
    pub fn of(pieces: impl IntoIterator<Item = Vec<Place>>) -> Option<Self> {
        let mut recorded = Self::default();
        let mut num_runs = 0;
        for places in pieces {
            let mut runs: Vec<(usize, Place)> = Vec::new();
            for (index, place) in places.into_iter().enumerate() {
                match runs.last_mut() {
                    Some((end, last)) if *last == place => *end = index + 1,
                    _ => runs.push((index + 1, place)),
                }
            }
            num_runs += runs.len();
            if num_runs > RUNS_MAX {
                return None;
            }
            recorded.pieces.push(runs);
        }
        Some(recorded)
    }

    /// Returns where a morsel ran; the host if that is not known.
    pub fn place_of(&self, morsel: MorselId) -> Place {
        let Some(runs) = self.pieces.get(morsel.piece) else {
            return Place::Host;
        };
        let run = runs.partition_point(|(end, _)| *end <= morsel.index);
        runs.get(run).map_or(Place::Host, |(_, place)| *place)
    }

    /// Lists the morsels that ran at a place, as `piece:first-last`, in order.
    pub fn morsels_at(&self, place: Place) -> String {
        let mut listed = Vec::new();
        for (piece, runs) in self.pieces.iter().enumerate() {
            let mut first = 0;
            for &(end, ran_at) in runs {
                if ran_at == place {
                    listed.push(match end - first {
                        1 => format!("{piece}:{first}"),
                        _ => format!("{piece}:{first}-{}", end - 1),
                    });
                }
                first = end;
            }
        }
        listed.join(" ")
    }
}

/// How a region ran that may be run again in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordedRegion {
    /// One place ran all of it.
    Whole(Place),
    /// Host and devices shared its morsels.
    Shared(RecordedPlacement),
}
