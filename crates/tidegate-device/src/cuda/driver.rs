//! The driver's objects, each owned by one Rust value, and the door to the driver itself.
//!
//! The bindings are cudarc's `result` and `sys`. They panic where the library or a symbol is
//! missing, so [`start`] opens the driver by our own means, starts it, and looks every symbol up
//! that is called here, before the first call. Only functions that driver 535 has are called.
//!
//! All of it stays on the device's own thread, where the primary context is current.

#![expect(unsafe_code, reason = "the driver is called through its C interface")]

mod code;
mod context;
mod memory;
mod pages;
mod stream;

use std::panic::catch_unwind;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys;

pub(super) use code::{Function, Image, ParameterBlock};
pub(super) use context::Context;
pub(super) use memory::{Pinned, Pool};
pub(super) use pages::Pages;
pub(super) use stream::{Event, Stream};

use super::fault::Fault;
use crate::discovery::start_driver;

/// Every function that is called here.
const SYMBOLS: [&str; 39] = [
    "cuCtxSetCurrent",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventElapsedTime",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuInit",
    "cuLaunchKernel",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
];

/// Starts the driver and makes sure that no call of this module can miss its function.
pub(super) fn start() -> Result<(), String> {
    start_driver()?;
    let started = catch_unwind(|| {
        if let Some(symbol) = missing_symbol() {
            return Err(format!(
                "its driver has no {symbol}; install driver 535 or newer"
            ));
        }
        done("cuInit", cudarc::driver::result::init()).map_err(Fault::describe)
    });
    started.unwrap_or_else(|_| Err("its driver cannot be opened a second time".to_owned()))
}

fn missing_symbol() -> Option<&'static str> {
    // SAFETY: this opens the driver's library by its usual names, which start_driver() has just
    // done without harm, and keeps it open.
    let library = unsafe { sys::culib() };
    SYMBOLS.into_iter().find(|&name| {
        // SAFETY: the symbol is only looked up, never called through this type.
        unsafe { library.get::<unsafe extern "C" fn()>(name) }.is_err()
    })
}

/// Names the call that failed, and takes its code as a number.
fn done<T>(call: &'static str, result: Result<T, DriverError>) -> Result<T, Fault> {
    result.map_err(|DriverError(code)| Fault {
        call,
        code: code as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::{SYMBOLS, start, start_driver};

    #[test]
    fn a_driver_has_every_symbol_and_a_machine_without_one_gets_words() {
        match start_driver() {
            Ok(()) => assert_eq!(start(), Ok(())),
            Err(why) => {
                assert!(why.contains("driver"), "{why}");
                assert_eq!(start(), Err(why));
            }
        }
    }

    #[test]
    fn no_function_is_newer_than_the_driver_floor() {
        assert!(SYMBOLS.contains(&"cuEventElapsedTime"));
        assert!(!SYMBOLS.contains(&"cuEventElapsedTime_v2"));
    }
}
