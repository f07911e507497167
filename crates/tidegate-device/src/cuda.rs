//! Devices of the NVIDIA driver: memory, copies, loaded code and launches.
//!
//! A [`CudaDevice`] is a handle to the device's thread, which alone calls the driver for
//! it. Work is [submitted](CudaDevice::submit) as a closure over a [`Lane`], the set of things that
//! may be asked of the device, or [spawned](CudaDevice::spawn) as a future over it; its result arrives as
//! a [`Pending`](crate::Pending) future. What is dropped elsewhere, a [`DeviceBuffer`] say, is given back
//! by that thread.
//!
//! The device runs two streams. Launches, fills, copies on the device and downloads go to the
//! compute stream, in order; memory is taken and freed in that order too. Large uploads go to the
//! copy stream, behind what the compute stream holds at that moment, and what is put on the compute
//! stream later waits for them. So within a lane everything seems to happen in order. Memory that is taken
//! [for slots](Lane::alloc_for_slots) is filled without that wait: the driver orders it behind its use before.
//!
//! What is loaded to stay on the device passes through [`Slot`]s: any thread takes one, fills it, and
//! submits its [upload](Lane::upload_slot). What leaves the device and may come back lies in a [`Block`]
//! meanwhile.
//!
//! An error that breaks the device's context makes the device lost: from then on everything fails
//! with [`DeviceError::Lost`](crate::DeviceError::Lost), also work that waits. The primary context
//! is shared with whoever else is in the process, and never reset.

mod affinity;
mod block;
mod buffer;
mod commands;
mod copier;
mod device;
mod device_thread;
mod driver;
mod engine;
mod facts;
mod fault;
mod job;
mod lane;
mod mark;
mod module;
mod options;
mod reading;
mod shared;
mod slots;
mod staging;
mod tasks;

pub use affinity::Nearness;
pub use block::Block;
pub use buffer::DeviceBuffer;
pub use device::CudaDevice;
pub use facts::CudaFacts;
pub use lane::Lane;
pub use mark::Mark;
pub use module::{Kernel, KernelFacts, LaunchShape, Module};
pub use options::CudaOptions;
pub use reading::ReadBack;
pub use shared::{LoadingCounters, MemoryCounters};
pub use slots::{SLOT_BYTES, Slot};

#[cfg(test)]
mod tests;
