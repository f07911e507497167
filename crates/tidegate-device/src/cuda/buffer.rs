//! Device memory that is given back when it is dropped, on whatever thread.

use std::fmt;
use std::sync::Arc;

use super::shared::{Garbage, Shared};
use crate::error::DeviceError;

/// Bytes of a device's memory. Dropping it anywhere has them freed after all work that was submitted
/// before; if work that is being done drops it, they are free for what that work allocates next.
pub struct DeviceBuffer {
    shared: Arc<Shared>,
    address: u64,
    bytes: u64,
    /// It was taken in the order of the copies.
    is_for_slots: bool,
}

impl DeviceBuffer {
    /// Takes over memory of the device's pool.
    pub(super) fn new(shared: Arc<Shared>, address: u64, bytes: u64, is_for_slots: bool) -> Self {
        shared.count_buffer(bytes);
        Self {
            shared,
            address,
            bytes,
            is_for_slots,
        }
    }

    /// Makes a buffer of no bytes, at address 0.
    pub(super) fn empty(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            address: 0,
            bytes: 0,
            is_for_slots: false,
        }
    }

    /// Returns where it begins, as kernels are told; 0 if it is empty. Memory of the pool is
    /// aligned to 256 bytes at least.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns how many bytes it has.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether copies from slots need not wait for the compute stream.
    pub(super) fn is_for_slots(&self) -> bool {
        self.is_for_slots
    }

    /// Returns the address of a range, if it lies inside and the buffer is this device's.
    pub(super) fn range(
        &self,
        device: &Arc<Shared>,
        what: &str,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, DeviceError> {
        if !Arc::ptr_eq(&self.shared, device) {
            let why = format!("the buffer belongs to {}", self.shared.info.id);
            return Err(device.refuse(what, why));
        }
        match check_range(offset, bytes, self.bytes) {
            Ok(()) => Ok(self.address + offset),
            Err(why) => Err(device.refuse(what, why)),
        }
    }
}

fn check_range(offset: u64, bytes: u64, available: u64) -> Result<(), String> {
    let is_inside = offset
        .checked_add(bytes)
        .is_some_and(|end| end <= available);
    if is_inside {
        return Ok(());
    }
    Err(format!(
        "{bytes} bytes at offset {offset} are not inside of a buffer of {available} bytes"
    ))
}

/// Tells whether two ranges of equal length share a byte.
pub(super) fn overlap(one: u64, other: u64, bytes: u64) -> bool {
    one.abs_diff(other) < bytes
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        self.shared.uncount_buffer(self.bytes);
        self.shared.discard(Garbage::Memory(self.address));
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shared,
            address,
            bytes,
            ..
        } = self;
        write!(f, "{bytes} bytes at {address:#x} of {}", shared.info.id)
    }
}

#[cfg(test)]
mod tests {
    use super::{check_range, overlap};

    #[test]
    fn ranges_end_with_the_buffer() {
        assert_eq!(check_range(0, 0, 0), Ok(()));
        assert_eq!(check_range(0, 16, 16), Ok(()));
        assert_eq!(check_range(16, 0, 16), Ok(()));
        assert_eq!(
            check_range(1, 16, 16).unwrap_err(),
            "16 bytes at offset 1 are not inside of a buffer of 16 bytes"
        );
        assert!(check_range(17, 0, 16).is_err());
        assert!(check_range(u64::MAX, 2, 16).is_err());
    }

    #[test]
    fn ranges_that_touch_do_not_overlap() {
        assert!(!overlap(0, 16, 16));
        assert!(overlap(0, 15, 16));
        assert!(overlap(15, 0, 16));
        assert!(overlap(8, 8, 1));
        assert!(!overlap(8, 8, 0));
    }
}
