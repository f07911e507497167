//! Which devices hold which morsels of a scan, so that each takes its own.

use std::collections::{BTreeSet, HashMap};

use tidegate_device::DeviceId;

use super::MorselId;

/// Who holds what of one scan.
#[derive(Debug, Default)]
pub struct Held {
    holders: HashMap<MorselId, Vec<DeviceId>>,
    by_device: HashMap<DeviceId, Vec<MorselId>>,
}

impl Held {
    /// Notes that a device holds a morsel; to be called in the order of the morsels.
    pub fn note(&mut self, morsel: MorselId, device: DeviceId) {
        self.holders.entry(morsel).or_default().push(device);
        self.by_device.entry(device).or_default().push(morsel);
    }

    /// Returns the morsels that a device holds, in order.
    pub(super) fn of(&self, device: DeviceId) -> &[MorselId] {
        self.by_device.get(&device).map_or(&[], Vec::as_slice)
    }

    /// Returns whether a device leaves a morsel to others: one of them holds it, and takes part.
    pub(super) fn is_left_to_others(
        &self,
        morsel: MorselId,
        device: DeviceId,
        present: &BTreeSet<DeviceId>,
    ) -> bool {
        let Some(holders) = self.holders.get(&morsel) else {
            return false;
        };
        !holders.contains(&device) && holders.iter().any(|holder| present.contains(holder))
    }
}
