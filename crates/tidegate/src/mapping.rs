//! Closures over batches as operators of a plan, on the host or with the stream of a device.

mod device;
mod map;

pub(crate) use device::DeviceBody;
pub use device::{DeviceBatch, DeviceColumn, DeviceWorkError};
pub(crate) use map::{Body, MapPartitions, Mapping, is_mapping, planner};

use tidegate_kernels::StreamKernel;

/// What a mapping takes while it runs.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// What plans and messages call it.
    pub name: Option<String>,
    /// Bytes that the closure may need for one batch, reserved for as long as it runs: from the memory of
    /// statements, or from that of the device for work on one.
    pub memory_bytes: u64,
    /// The most batches that are mapped at once; `None` for one in each partition.
    pub concurrency: Option<usize>,
    /// The kernels that a closure over a device's stream launches; they are compiled before it is called.
    pub kernels: Vec<StreamKernel>,
}
