//! Whether a region is shared by host and devices, or answered by one device.
//!
//! An additive region is done when host and device together have folded everything; it then pays
//! for returning the device's groups and for the host's final aggregate. An atomic region uses the
//! device alone and returns only what the query asks for. Few groups over data that must be moved
//! favour the first form; many groups, resident data and short queries the second.

use super::{DeviceState, Estimate};
use crate::queue::MorselSize;

/// How much better another form must be than the one that a region took last, so that it does not
/// go to and fro.
const HYSTERESIS: f64 = 0.8;

/// What one partial row takes to be merged on the host, with its share of the repartition before.
///
/// DataFusion's final aggregate merges 10 to 20 million groups a second and core.
const MERGE_SECONDS_PER_GROUP: f64 = 7e-8;

/// The form that a region takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RegionForm {
    /// Host and devices share its morsels.
    Additive,
    /// A device answers all of it or nothing.
    Atomic,
}

/// What is known of a region before its form is chosen. Seconds and rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionOutlook {
    /// All that the scan reads.
    pub scan: MorselSize,
    /// Morsels of the scan.
    pub num_morsels: u64,
    /// Groups that are expected; 1 without keys.
    pub groups: u64,
    /// Bytes of a group's partial state.
    pub group_bytes: u64,
    /// Rows that the atomic form returns: after HAVING and LIMIT.
    pub answer_rows: u64,
    /// Partitions of the host.
    pub host_partitions: usize,
    /// What a row takes one of them.
    pub host_seconds_per_row: f64,
    /// The device that would answer alone.
    pub device: DeviceState,
    /// What the region took last time.
    pub last: Option<RegionForm>,
}

/// The form that is done first, and what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FormChoice {
    /// Which.
    pub form: RegionForm,
    /// What it takes.
    pub estimate: Estimate,
}

/// Chooses the form that is done first; the last one unless the other is better by a fifth.
pub fn choose_form(outlook: &RegionOutlook) -> FormChoice {
    let additive = additive(outlook);
    let atomic = atomic(outlook);
    let (mut additive_weight, mut atomic_weight) = (1.0, 1.0);
    match outlook.last {
        Some(RegionForm::Additive) => additive_weight = HYSTERESIS,
        Some(RegionForm::Atomic) => atomic_weight = HYSTERESIS,
        None => {}
    }
    let fits = outlook.groups.saturating_mul(outlook.group_bytes) <= outlook.device.limit_bytes;
    let better = atomic.seconds * atomic_weight < additive.seconds * additive_weight;
    if fits && better {
        return FormChoice {
            form: RegionForm::Atomic,
            estimate: atomic,
        };
    }
    FormChoice {
        form: RegionForm::Additive,
        estimate: additive,
    }
}

/// Returns what the device takes for all of the scan.
fn alone(outlook: &RegionOutlook) -> Estimate {
    let morsels = outlook.num_morsels.max(1);
    let each = MorselSize {
        num_rows: outlook.scan.num_rows / morsels,
        num_bytes: outlook.scan.num_bytes / morsels,
    };
    if outlook.device.resident {
        // One launch takes them all.
        return outlook.device.estimate(outlook.scan);
    }
    let one = outlook.device.estimate(each);
    let worker = outlook.device.worker(each);
    Estimate {
        seconds: one.seconds + worker.per_morsel * (morsels - 1) as f64,
        bytes: outlook.scan.num_bytes,
    }
}

fn atomic(outlook: &RegionOutlook) -> Estimate {
    let alone = alone(outlook);
    let bytes = outlook.answer_rows.saturating_mul(outlook.group_bytes);
    let back = bytes as f64 * outlook.device.rate.transfer_seconds_per_byte;
    Estimate {
        seconds: alone.seconds + back,
        bytes: alone.bytes,
    }
}

fn additive(outlook: &RegionOutlook) -> Estimate {
    let partitions = outlook.host_partitions.max(1) as f64;
    let rows = outlook.scan.num_rows as f64;
    let alone = alone(outlook);
    let host = rows * outlook.host_seconds_per_row / partitions;
    // Both drain one queue, so their speeds add up.
    let together = 1.0 / (1.0 / host.max(1e-12) + 1.0 / alone.seconds.max(1e-12));
    // Groups come back from the device once; each partition of the host has its own as well.
    let device_share = together / alone.seconds.max(1e-12);
    let groups = outlook.groups as f64;
    // Nobody has more of them than rows.
    let device_groups = groups.min(rows * device_share);
    let bytes = device_groups * outlook.group_bytes as f64;
    let back = bytes * outlook.device.rate.transfer_seconds_per_byte;
    let host_groups = groups.min(rows * (1.0 - device_share) / partitions) * partitions;
    let partial_rows = device_groups + host_groups;
    Estimate {
        seconds: together + back + partial_rows * MERGE_SECONDS_PER_GROUP / partitions,
        bytes: (alone.bytes as f64 * device_share) as u64,
    }
}
