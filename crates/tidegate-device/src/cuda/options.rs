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
mod tests {
    use super::CudaOptions;

    const GIB: u64 = 1 << 30;

    fn limit(bytes: u64) -> CudaOptions {
        CudaOptions {
            memory_limit_bytes: Some(bytes),
            staging_bytes: None,
        }
    }

    #[test]
    fn nine_tenths_of_a_large_device_are_taken() {
        let all = CudaOptions::default();
        assert_eq!(all.budget_bytes(100 * GIB), 100 * GIB / 10 * 9);
        assert_eq!(all.budget_bytes(4 * GIB), 4 * GIB - (640 << 20));
        assert_eq!(all.budget_bytes(GIB / 2), 0);
    }

    #[test]
    fn a_limit_leaves_something_to_cuda() {
        assert_eq!(limit(GIB).budget_bytes(100 * GIB), GIB);
        assert_eq!(
            limit(100 * GIB).budget_bytes(8 * GIB),
            8 * GIB - (640 << 20)
        );
    }

    #[test]
    fn there_are_at_least_two_slots() {
        assert_eq!(CudaOptions::default().num_slots(), 256);
        let small = CudaOptions {
            memory_limit_bytes: None,
            staging_bytes: Some(1),
        };
        assert_eq!(small.num_slots(), 2);
    }
}
