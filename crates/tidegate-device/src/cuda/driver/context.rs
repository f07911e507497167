//! The primary context of a device: retained, made current, never reset.

use cudarc::driver::{result, sys};

use super::done;
use crate::cuda::fault::Fault;

/// A device's primary context, current on the thread that made this.
pub(in crate::cuda) struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
}

impl Context {
    /// Retains the context and makes it current. The driver must be started.
    pub(in crate::cuda) fn open(ordinal: u32) -> Result<Self, Fault> {
        // A number beyond the type is beyond every count, and the driver refuses it.
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let device = done("cuDeviceGet", result::device::get(ordinal))?;
        // SAFETY: the device is one that the driver just gave.
        let retained = unsafe { result::primary_ctx::retain(device) };
        let raw = done("cuDevicePrimaryCtxRetain", retained)?;
        let context = Self { device, raw };
        // SAFETY: the context is retained until `context` is dropped.
        done("cuCtxSetCurrent", unsafe {
            result::ctx::set_current(context.raw)
        })?;
        Ok(context)
    }

    pub(in crate::cuda) fn device(&self) -> i32 {
        self.device
    }

    /// Returns an attribute of the device; negative ones are 0.
    pub(in crate::cuda) fn attribute(
        &self,
        attribute: sys::CUdevice_attribute,
    ) -> Result<u32, Fault> {
        // SAFETY: the device is one that the driver gave.
        let value = unsafe { result::device::get_attribute(self.device, attribute) };
        let value = done("cuDeviceGetAttribute", value)?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// Returns the bytes of device memory that nobody has, and all of them.
    pub(in crate::cuda) fn memory(&self) -> Result<(u64, u64), Fault> {
        let (free, total) = done("cuMemGetInfo", result::mem_get_info())?;
        Ok((free as u64, total as u64))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained once for this value, and what was made in it is gone by now or
        // was left to it. A failure leaves the context to the process's end.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}
