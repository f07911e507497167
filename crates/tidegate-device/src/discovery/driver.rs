//! The NVIDIA driver, opened by name, each of its functions looked up by name.
//!
//! Only functions that driver 535 has are called. Signatures are those of `cuda.h`.

#![expect(
    unsafe_code,
    reason = "a library found at run time is called through its symbols"
)]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint};
use std::fmt;
use std::mem::ManuallyDrop;

use libloading::{Library, Symbol};

use super::Outcome;
use crate::library::{CallError, check, open_library, symbol};

/// The driver's library, by the names that installations give it.
pub(super) const LIBRARIES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// What discovery asks of a driver. Devices are numbered below [`DriverCalls::count`].
pub(super) trait DriverCalls {
    /// Starts the driver; everything but the version needs that.
    fn init(&self) -> Result<(), CallError>;
    fn version(&self) -> Result<DriverVersion, CallError>;
    fn count(&self) -> Result<u32, CallError>;
    fn name(&self, ordinal: u32) -> Result<String, CallError>;
    fn memory_bytes(&self, ordinal: u32) -> Result<u64, CallError>;
    fn compute_capability(&self, ordinal: u32) -> Result<(u32, u32), CallError>;
    /// Returns `GPU-` and the UUID in its usual form.
    fn uuid(&self, ordinal: u32) -> Result<String, CallError>;
}

/// The CUDA version that a driver offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DriverVersion {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl fmt::Display for DriverVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

type Ordinal = c_int;
type Device = c_int;
type Init = unsafe extern "C" fn(c_uint) -> c_int;
type GetInt = unsafe extern "C" fn(*mut c_int) -> c_int;
type DeviceGet = unsafe extern "C" fn(*mut Device, Ordinal) -> c_int;
type GetName = unsafe extern "C" fn(*mut c_char, c_int, Device) -> c_int;
type TotalMem = unsafe extern "C" fn(*mut usize, Device) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, Device) -> c_int;
type GetUuid = unsafe extern "C" fn(*mut c_uchar, Device) -> c_int;

/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR`.
const CAPABILITY_MAJOR: c_int = 75;
/// `CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR`.
const CAPABILITY_MINOR: c_int = 76;
const NAME_BYTES: usize = 256;

/// An opened driver. It stays in the process: it keeps threads of its own once started.
pub(super) struct Driver(ManuallyDrop<Library>);

impl Driver {
    /// Opens the library of this name, or says what came of it.
    pub(super) fn open(name: &str) -> Result<Self, Outcome> {
        open_library(name.as_ref()).map(|library| Self(ManuallyDrop::new(library)))
    }

    fn device(&self, ordinal: u32) -> Result<Device, CallError> {
        // SAFETY: cuda.h declares `CUresult cuDeviceGet(CUdevice *, int)`; both are C ints.
        let get: Symbol<'_, DeviceGet> = unsafe { symbol(&self.0, "cuDeviceGet") }?;
        let mut device: Device = 0;
        // An ordinal beyond the type is beyond every count, and the driver refuses it.
        let ordinal = Ordinal::try_from(ordinal).unwrap_or(Ordinal::MAX);
        // SAFETY: `device` is a live int for the duration of the call; any ordinal may be passed.
        check("cuDeviceGet", unsafe { get(&raw mut device, ordinal) })?;
        Ok(device)
    }

    fn attribute(&self, device: Device, attribute: c_int) -> Result<u32, CallError> {
        const FUNCTION: &str = "cuDeviceGetAttribute";
        // SAFETY: cuda.h declares `CUresult cuDeviceGetAttribute(int *, CUdevice_attribute,
        // CUdevice)`; the enum is a C int.
        let get: Symbol<'_, GetAttribute> = unsafe { symbol(&self.0, FUNCTION) }?;
        let mut value: c_int = 0;
        // SAFETY: `value` is a live int for the duration of the call; an unknown attribute or
        // device is refused by the driver.
        check(FUNCTION, unsafe { get(&raw mut value, attribute, device) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }
}

impl DriverCalls for Driver {
    fn init(&self) -> Result<(), CallError> {
        // SAFETY: cuda.h declares `CUresult cuInit(unsigned int)`.
        let init: Symbol<'_, Init> = unsafe { symbol(&self.0, "cuInit") }?;
        // SAFETY: the flags must be 0, and are; the call may be made any number of times, from any
        // thread.
        check("cuInit", unsafe { init(0) })
    }

    fn version(&self) -> Result<DriverVersion, CallError> {
        const FUNCTION: &str = "cuDriverGetVersion";
        // SAFETY: cuda.h declares `CUresult cuDriverGetVersion(int *)`.
        let get: Symbol<'_, GetInt> = unsafe { symbol(&self.0, FUNCTION) }?;
        let mut version: c_int = 0;
        // SAFETY: `version` is a live int for the duration of the call; it needs no started driver.
        check(FUNCTION, unsafe { get(&raw mut version) })?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok(DriverVersion {
            major: version / 1000,
            minor: version % 1000 / 10,
        })
    }

    fn count(&self) -> Result<u32, CallError> {
        // SAFETY: cuda.h declares `CUresult cuDeviceGetCount(int *)`.
        let get: Symbol<'_, GetInt> = unsafe { symbol(&self.0, "cuDeviceGetCount") }?;
        let mut count: c_int = 0;
        // SAFETY: `count` is a live int for the duration of the call; a driver that was not started
        // answers with an error.
        check("cuDeviceGetCount", unsafe { get(&raw mut count) })?;
        Ok(u32::try_from(count).unwrap_or(0))
    }

    fn name(&self, ordinal: u32) -> Result<String, CallError> {
        let device = self.device(ordinal)?;
        // SAFETY: cuda.h declares `CUresult cuDeviceGetName(char *, int, CUdevice)`.
        let get: Symbol<'_, GetName> = unsafe { symbol(&self.0, "cuDeviceGetName") }?;
        let mut name = [0u8; NAME_BYTES];
        // SAFETY: the pointer is to NAME_BYTES writable bytes that outlive the call, of which the
        // driver is told one less, so that the last one stays zero.
        let code = unsafe { get(name.as_mut_ptr().cast(), NAME_BYTES as c_int - 1, device) };
        check("cuDeviceGetName", code)?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(name.to_string_lossy().into_owned())
    }

    fn memory_bytes(&self, ordinal: u32) -> Result<u64, CallError> {
        let device = self.device(ordinal)?;
        // SAFETY: cuda.h declares `CUresult cuDeviceTotalMem_v2(size_t *, CUdevice)`.
        let get: Symbol<'_, TotalMem> = unsafe { symbol(&self.0, "cuDeviceTotalMem_v2") }?;
        let mut bytes: usize = 0;
        // SAFETY: `bytes` is a live size_t for the duration of the call.
        check("cuDeviceTotalMem_v2", unsafe {
            get(&raw mut bytes, device)
        })?;
        Ok(bytes as u64)
    }

    fn compute_capability(&self, ordinal: u32) -> Result<(u32, u32), CallError> {
        let device = self.device(ordinal)?;
        let major = self.attribute(device, CAPABILITY_MAJOR)?;
        Ok((major, self.attribute(device, CAPABILITY_MINOR)?))
    }

    fn uuid(&self, ordinal: u32) -> Result<String, CallError> {
        const FUNCTION: &str = "cuDeviceGetUuid_v2";
        let device = self.device(ordinal)?;
        // SAFETY: cuda.h declares `CUresult cuDeviceGetUuid_v2(CUuuid *, CUdevice)`, and CUuuid is
        // a struct of 16 bytes.
        let get: Symbol<'_, GetUuid> = unsafe { symbol(&self.0, FUNCTION) }?;
        let mut bytes = [0u8; 16];
        // SAFETY: the pointer is to the 16 writable bytes of a CUuuid, which outlive the call.
        check(FUNCTION, unsafe { get(bytes.as_mut_ptr(), device) })?;
        Ok(format_uuid(bytes))
    }
}

fn format_uuid(bytes: [u8; 16]) -> String {
    let mut text = String::from("GPU");
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests;
