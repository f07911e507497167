//! What a device is called and how fast it is taken to be.

use std::fmt;

/// The number of a device in this process, as placements and messages print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u32);

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

/// What stands behind a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceKind {
    /// A GPU reached through the NVIDIA driver.
    Cuda,
    /// A thread of this process that models a device.
    Simulated,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda => f.write_str("CUDA device"),
            Self::Simulated => f.write_str("simulated device, not a GPU"),
        }
    }
}

/// The rates that a placement starts from; what is measured later takes their place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    /// Host to device and back, each way.
    pub copy_bytes_per_second: f64,
    /// Rows folded by a kernel, over resident input.
    pub rows_per_second: f64,
    /// What a launch costs before its first row.
    pub launch_seconds: f64,
}

impl DeviceRates {
    /// Gives the rates that a CUDA device starts from until its own are measured: a PCIe 4 x16 link
    /// and a kernel that is bound by memory on a mid-range card.
    pub const CUDA_START: Self = Self {
        copy_bytes_per_second: 20e9,
        rows_per_second: 10e9,
        launch_seconds: 1e-5,
    };
}

/// One device, as found.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceInfo {
    /// Its number in this process.
    pub id: DeviceId,
    /// What stands behind it.
    pub kind: DeviceKind,
    /// The driver's name for it, or `simulated`.
    pub name: String,
    /// All of its memory, in use or not.
    pub memory_bytes: u64,
    /// The rates that placements start from.
    pub rates: DeviceRates,
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            DeviceKind::Cuda => write!(f, "{} ({})", self.id, self.name),
            DeviceKind::Simulated => write!(f, "{} ({})", self.id, self.kind),
        }
    }
}

#[cfg(test)]
mod tests;
