//! The vocabulary of placement: [`finish`] decides on a morsel, [`form`] on a region,
//! [`worker_states`] keeps what decisions depend on while a region runs, [`replay`] repeats earlier
//! placements.

pub mod finish;
pub mod form;
pub mod replay;
pub mod worker_states;

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use tidegate_device::DeviceId;

pub use finish::{Decision, DeviceState, Estimate, Late, Outlook, Rest, Worker};
pub use form::{FormChoice, RegionForm, RegionOutlook, choose_form};
pub use replay::{PlacementPattern, RecordedPlacement, RecordedRegion, Replay};
pub use worker_states::{HostClaim, HostStream, WorkerStates};

/// Where a morsel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// DataFusion's own operators.
    Host,
    /// A fused program on this device.
    Device(DeviceId),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Host => f.write_str("host"),
            Place::Device(id) => write!(f, "{id}"),
        }
    }
}

/// Where a morsel's rows lie before a device folds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Location {
    /// On the device, or it makes them: nothing moves.
    Device,
    /// In pinned memory, as a device stores them: they are only moved.
    Pinned,
    /// On the host, or in files: they are read, encoded and moved.
    Host,
}

/// What the user asked for: `tidegate.placement`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PlacementMode {
    /// Whoever finishes first.
    #[default]
    Auto,
    /// Never a device.
    Host,
    /// A device wherever one can; the host for the rest.
    Device,
    /// As `Device`, and an error where that would fall back to the host.
    Strict,
}

impl PlacementMode {
    /// The accepted spellings.
    pub const NAMES: [&'static str; 4] = ["auto", "host", "device", "strict"];
}

impl fmt::Display for PlacementMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Host => "host",
            Self::Device => "device",
            Self::Strict => "strict",
        })
    }
}

impl FromStr for PlacementMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            "device" => Ok(Self::Device),
            "strict" => Ok(Self::Strict),
            _ => Err(format!(
                "unknown placement '{text}': expected one of {}",
                Self::NAMES.join(", ")
            )),
        }
    }
}

/// Why a morsel, or a whole region, ran where it did. The text is stable, so that reasons can be
/// counted; it never carries a number that varies from morsel to morsel.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// There is no device; the text says what was looked for.
    NoDevice(String),
    /// `tidegate.placement = 'host'`.
    HostRequested,
    /// `tidegate.placement = 'device'` or `'strict'`.
    DeviceRequested,
    /// A recorded placement was replayed.
    Replayed,
    /// The query whose placement is replayed had no such region.
    NotRecorded,
    /// `tidegate.devices` names none of the devices that there are.
    NotListed(String),
    /// It finishes there first.
    EarliestFinish,
    /// All that the region reads is in the column cache, and the device is done with it before the
    /// host would be.
    Resident,
    /// The device makes the array that the region reads, and is done with it before the host would be.
    Generated,
    /// The host is done before the device has compiled its kernels, which the next query will find.
    Compiling,
    /// The region returns its rows to the host: moving them costs more than filtering them.
    RowsReturn,
    /// The program, or one of its parts, has no device form.
    NotLowered(String),
    /// The device refused the program.
    DeviceRefused(String),
    /// The device's memory limit.
    DeviceMemory,
    /// The device's memory limit, of which tables of `CACHE TABLE` hold a part.
    DeviceMemoryKept,
    /// The host could not retain the morsel's rows for a device.
    HostMemory,
    /// The device failed; what it had not committed ran again.
    DeviceFault(String),
    /// A row raised on the device; the host runs the same rows, and raises in its own words.
    Raised(String),
}

impl Reason {
    /// Returns the reason's kind in one word, which names neither devices nor causes: there are few.
    pub fn kind(&self) -> &'static str {
        match self {
            Reason::NoDevice(_) => "no_device",
            Reason::HostRequested => "host_requested",
            Reason::DeviceRequested => "device_requested",
            Reason::Replayed => "replayed",
            Reason::NotRecorded => "not_recorded",
            Reason::NotListed(_) => "not_listed",
            Reason::EarliestFinish => "earliest_finish",
            Reason::Resident => "resident",
            Reason::Generated => "generated",
            Reason::Compiling => "compiling",
            Reason::RowsReturn => "rows_return",
            Reason::NotLowered(_) => "not_lowered",
            Reason::DeviceRefused(_) => "device_refused",
            Reason::DeviceMemory | Reason::DeviceMemoryKept => "device_memory",
            Reason::HostMemory => "host_memory",
            Reason::DeviceFault(_) => "device_fault",
            Reason::Raised(_) => "raised",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoDevice(looked_for) => f.write_str(looked_for),
            Reason::HostRequested => f.write_str("tidegate.placement = 'host'"),
            Reason::DeviceRequested => f.write_str("device requested by tidegate.placement"),
            Reason::Replayed => f.write_str("replayed placement"),
            Reason::NotRecorded => f.write_str(
                "the query of tidegate.replay_placement had no such region: placed anew",
            ),
            Reason::NotListed(list) => {
                write!(f, "tidegate.devices = '{list}' names no available device")
            }
            Reason::EarliestFinish => f.write_str("earliest finish"),
            Reason::Resident => f.write_str("resident in the column cache"),
            Reason::Generated => f.write_str("generated on the device"),
            Reason::Compiling => {
                f.write_str("the host finishes before the device's kernels are compiled")
            }
            Reason::RowsReturn => f.write_str(
                "the rows return to the host: moving them costs more than filtering them",
            ),
            Reason::NotLowered(what) => write!(f, "not lowered: {what}"),
            Reason::DeviceRefused(why) => write!(f, "refused by the device: {why}"),
            Reason::DeviceMemory => f.write_str("device memory limit reached"),
            Reason::DeviceMemoryKept => f.write_str(
                "device memory limit reached, and tables of CACHE TABLE ON DEVICE stay; UNCACHE one \
                 to make room",
            ),
            Reason::HostMemory => {
                f.write_str("host memory limit reached: a pulled morsel could not be retained")
            }
            Reason::DeviceFault(what) => write!(f, "device fault: {what}"),
            Reason::Raised(what) => write!(f, "a row raised on the device: {what}"),
        }
    }
}

#[cfg(test)]
mod tests;
