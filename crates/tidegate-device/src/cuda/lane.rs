//! What work on a device's thread may ask of the device.
//!
//! Everything here is queued on the device in the order of the calls; only downloads,
//! [`elapsed_seconds`](Lane::elapsed_seconds) and [`synchronize`](Lane::synchronize) wait. An error
//! of a kernel shows at some later call.

#![expect(
    unsafe_code,
    reason = "device memory is used through addresses that the buffers' ranges vouch for"
)]

mod blocks;
mod launch;
mod transfer;

use std::sync::Arc;

use super::buffer::{DeviceBuffer, overlap};
use super::driver::Event;
use super::engine::Engine;
use super::facts::CudaFacts;
use super::fault::Fault;
use super::mark::Mark;
use super::shared::Shared;
use crate::error::DeviceError;
use crate::info::DeviceId;

/// A device, as work on its own thread sees it. It cannot leave that thread:
///
/// ```compile_fail,E0277
/// fn leaves<T: Send>() {}
/// leaves::<tidegate_device::cuda::Lane<'static>>();
/// ```
///
/// # Errors
/// Every call may fail with [`DeviceError::Lost`]. A range that is not inside of its buffer, or what
/// belongs to another device, is [`DeviceError::Refused`], and nothing is done.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    engine: &'a Engine,
}

impl<'a> Lane<'a> {
    pub(super) fn new(engine: &'a Engine) -> Self {
        Self { engine }
    }

    /// Says whether the result of work may be believed.
    pub(super) fn verdict(&self, ran: Result<(), String>) -> Result<(), DeviceError> {
        self.engine.verdict(ran)
    }
}

impl Lane<'_> {
    /// Returns the device.
    pub fn device(&self) -> DeviceId {
        self.shared().info.id
    }

    /// Returns the numbers that a kernel's shape depends on.
    pub fn facts(&self) -> &CudaFacts {
        &self.shared().facts
    }

    /// Returns the driver's handle of the compute stream, a `CUstream`, for code that launches on it by
    /// other ways. It is good while the work runs that was given this lane; what that copies from slots
    /// later the stream does not wait for.
    pub fn stream_handle(&self) -> usize {
        self.engine.share_compute()
    }

    /// Takes device memory, which is not initialised; an empty buffer takes none.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], with the budget's numbers.
    pub fn alloc(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        self.take(bytes, false)
    }

    /// Takes device memory to which slots are copied: these copies wait for nothing that the device
    /// computes. Nothing else may be done to it before the last of them was asked for.
    ///
    /// # Errors
    /// As [`Lane::alloc`].
    pub fn alloc_for_slots(&self, bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        self.take(bytes, true)
    }

    fn take(&self, bytes: u64, for_slots: bool) -> Result<DeviceBuffer, DeviceError> {
        self.shared().check_alive()?;
        let shared = Arc::clone(self.shared());
        if bytes == 0 {
            return Ok(DeviceBuffer::empty(shared));
        }
        let address = self.engine.alloc(bytes, for_slots)?;
        Ok(DeviceBuffer::new(shared, address, bytes, for_slots))
    }

    /// Sets each byte of a range to `value`.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn fill(
        &self,
        buffer: &DeviceBuffer,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "fill a buffer";
        let address = self.range(WHAT, buffer, offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        let bytes = self.size(WHAT, bytes)?;
        // SAFETY: the range was checked to lie in the buffer, which is freed on this stream, after
        // what is queued here.
        let filled = unsafe { self.engine.compute().fill(address, bytes, value) };
        self.done(WHAT, filled)
    }

    /// Copies between buffers of the device; ranges that overlap are refused.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn copy(
        &self,
        from: &DeviceBuffer,
        from_offset: u64,
        to: &DeviceBuffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        const WHAT: &str = "copy between buffers";
        let from = self.range(WHAT, from, from_offset, bytes)?;
        let to = self.range(WHAT, to, to_offset, bytes)?;
        if bytes == 0 {
            return Ok(());
        }
        if overlap(from, to, bytes) {
            return Err(self.shared().refuse(WHAT, "the ranges overlap"));
        }
        let bytes = self.size(WHAT, bytes)?;
        // SAFETY: both ranges were checked to lie in their buffers, which are freed on this stream,
        // after what is queued here, and not to overlap.
        let copied = unsafe { self.engine.compute().copy(from, to, bytes) };
        self.done(WHAT, copied)
    }

    /// Marks this moment of the compute stream.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn mark(&self) -> Result<Mark, DeviceError> {
        const WHAT: &str = "mark a moment";
        self.shared().check_alive()?;
        let event = self.done(WHAT, Event::timed(self.engine.compute()))?;
        self.done(WHAT, event.record(self.engine.compute()))?;
        Ok(Mark::new(Arc::clone(self.shared()), event))
    }

    /// Waits until the device has passed `to`, and returns the seconds since it passed `from`.
    ///
    /// # Errors
    /// As [`Lane`] says.
    pub fn elapsed_seconds(&self, from: &Mark, to: &Mark) -> Result<f64, DeviceError> {
        const WHAT: &str = "measure between marks";
        self.shared().check_alive()?;
        let (Some(from), Some(to)) = (from.event(self.shared()), to.event(self.shared())) else {
            return Err(self
                .shared()
                .refuse(WHAT, "a mark belongs to another device"));
        };
        // `from` may have been set after `to`.
        self.done(WHAT, from.wait())?;
        self.done(WHAT, to.wait())?;
        let milliseconds = self.done(WHAT, from.milliseconds_to(to))?;
        Ok(f64::from(milliseconds) / 1e3)
    }

    /// Waits until the device has done all that was asked of it.
    ///
    /// # Errors
    /// As [`Lane`] says; errors of kernels show here at the latest.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        const WHAT: &str = "end its work";
        self.shared().check_alive()?;
        self.done(WHAT, self.engine.synchronize())
    }

    fn shared(&self) -> &Arc<Shared> {
        self.engine.shared()
    }

    fn done<T>(&self, what: &str, outcome: Result<T, Fault>) -> Result<T, DeviceError> {
        outcome.map_err(|fault| self.engine.error(what, 0, fault))
    }

    /// Checks that the device lives and that the range lies inside; returns its address.
    fn range(
        &self,
        what: &str,
        buffer: &DeviceBuffer,
        offset: u64,
        bytes: u64,
    ) -> Result<u64, DeviceError> {
        self.shared().check_alive()?;
        buffer.range(self.shared(), what, offset, bytes)
    }

    fn size(&self, what: &str, bytes: u64) -> Result<usize, DeviceError> {
        usize::try_from(bytes).map_err(|_| {
            self.shared()
                .refuse(what, "the host cannot count so many bytes")
        })
    }
}
