//! What the driver's result codes mean for a device, in words (`cuda.h`, `CUresult`).

use crate::faults::{self, Faults, Operation};

/// A call of the driver that did not succeed, or was not made because a fault was planned for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// The driver's function.
    pub(super) call: &'static str,
    pub(super) code: u32,
}

/// What is left of the device after a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Severity {
    /// There was not enough memory, and nothing else is wrong.
    OutOfMemory,
    /// The call was refused; the device goes on.
    Refused,
    /// The context answers every later call with an error.
    Fatal,
}

pub(super) const OUT_OF_MEMORY: u32 = 2;
pub(super) const INVALID_HANDLE: u32 = 400;
pub(super) const NOT_FOUND: u32 = 500;
pub(super) const NOT_READY: u32 = 600;

/// Codes that no driver gives: the call was not made.
const PLANNED_FAILURE: u32 = u32::MAX;
const PLANNED_LOSS: u32 = u32::MAX - 1;

const FATAL: [(u32, &str); 28] = [
    (3, "the driver is not started"),
    (4, "the driver is shutting down"),
    (34, "a stub library stands in for the driver"),
    (
        46,
        "the device is unavailable, or another process uses it exclusively",
    ),
    (100, "there is no CUDA device"),
    (101, "there is no device with this number"),
    (201, "its context is not valid"),
    (214, "its memory had an error that ECC could not correct"),
    (220, "an NVLink had an error that could not be corrected"),
    (226, "an error in its memory was contained"),
    (700, "a kernel accessed an invalid memory address"),
    (702, "a kernel ran longer than the system allows"),
    (709, "its context was destroyed"),
    (710, "an assertion in a kernel failed"),
    (714, "a kernel's stack is corrupt or overflowed"),
    (
        715,
        "a kernel has an instruction that the device does not support",
    ),
    (716, "a kernel accessed a misaligned address"),
    (717, "a kernel used an address of the wrong memory space"),
    (718, "a kernel's program counter left its code"),
    (719, "a kernel failed while it ran"),
    (721, "a kernel ended without releasing its tensor memory"),
    (802, "the system is not ready to use it"),
    (803, "the driver's parts differ in version"),
    (806, "the MPS server does not answer"),
    (807, "the MPS server is not ready"),
    (810, "the MPS server ended this client"),
    (999, "an unknown error"),
    (PLANNED_LOSS, "the fault plan loses the device"),
];

const REFUSED: [(u32, &str); 15] = [
    (1, "a value is not valid"),
    (OUT_OF_MEMORY, "out of memory"),
    (200, "the kernel's image is not valid"),
    (209, "the kernel's image holds no code for this device"),
    (218, "the kernel's PTX does not compile"),
    (221, "the driver's PTX compiler is missing"),
    (222, "the kernel's PTX is newer than the driver"),
    (223, "the driver's PTX compiler is turned off"),
    (INVALID_HANDLE, "a handle is not valid"),
    (NOT_FOUND, "the name was not found"),
    (NOT_READY, "it is not done yet"),
    (
        701,
        "a launch asks for more threads, registers or shared memory than the device has",
    ),
    (800, "it is not permitted"),
    (801, "the device or the driver does not support it"),
    (PLANNED_FAILURE, "the fault plan says so"),
];

impl Fault {
    /// Counts a call that is about to be made, and fails in its place if the fault plan says so.
    pub(super) fn check(
        faults: &Faults,
        operation: Operation,
        call: &'static str,
    ) -> Result<(), Self> {
        let code = match faults.meet(operation) {
            None => return Ok(()),
            Some(faults::Fault::ReservationFails { .. }) => OUT_OF_MEMORY,
            Some(faults::Fault::DeviceLost { .. }) => PLANNED_LOSS,
            Some(_) => PLANNED_FAILURE,
        };
        Err(Self { call, code })
    }

    pub(super) fn severity(self) -> Severity {
        let is_fatal = FATAL.iter().any(|(code, _)| *code == self.code);
        match self.code {
            OUT_OF_MEMORY => Severity::OutOfMemory,
            _ if is_fatal => Severity::Fatal,
            _ => Severity::Refused,
        }
    }

    /// Says what happened, and which call told it.
    pub(super) fn describe(self) -> String {
        let known = FATAL.iter().chain(&REFUSED);
        let meaning = known
            .filter(|(code, _)| *code == self.code)
            .map(|(_, meaning)| *meaning)
            .next()
            .unwrap_or("see CUresult in the CUDA driver API");
        format!("{meaning} ({} gave {})", self.call, self.code)
    }
}

#[cfg(test)]
mod tests;
