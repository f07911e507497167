//! How much memory a device's runtime takes, on the device and pinned on the host.

use super::slots::SLOT_BYTES;

/// What is left to CUDA itself: code, stacks, and what libraries beside us take.
const LEFT_TO_CUDA_BYTES: u64 = 640 << 20;
const STAGING_BYTES: u64 = 1 << 30;

/// The memory that a device may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// The budget of device memory: by default 90 % of what is free when the device is opened. At
    /// least 640 MiB of it are left to CUDA, whatever this says.
    pub memory_limit_bytes: Option<u64>,
    /// The most pinned host memory through which values pass on their way to the device; by default 1 GiB.
    /// It is taken in slots, when it is needed.
    pub staging_bytes: Option<u64>,
}

impl CudaOptions {
    /// Returns the budget on a device with so much free memory.
    pub(super) fn budget_bytes(&self, free: u64) -> u64 {
        // In this order nothing overflows, and 10 bytes more or less do not matter.
        let wanted = self.memory_limit_bytes.unwrap_or(free / 10 * 9);
        wanted.min(free.saturating_sub(LEFT_TO_CUDA_BYTES))
    }

    /// Returns how many slots there may be for what is written for the device, at least two.
    pub(super) fn num_slots(&self) -> usize {
        let bytes = self.staging_bytes.unwrap_or(STAGING_BYTES);
        let slots = bytes / SLOT_BYTES as u64;
        usize::try_from(slots).unwrap_or(usize::MAX).max(2)
    }
}

#[cfg(test)]
mod tests;
