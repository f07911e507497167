//! Libraries found at run time: opened by name or path, their functions looked up by name.
//!
//! A missing library, a missing symbol or a failing call is a value, never a panic.

#![expect(
    unsafe_code,
    reason = "a library found at run time is called through its symbols"
)]

use std::error::Error as _;
use std::ffi::{OsStr, c_int};

use libloading::{Library, Symbol};
use thiserror::Error;

use crate::discovery::Outcome;

/// Why a call of a library gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum CallError {
    #[error("the symbol {0} is missing")]
    Missing(&'static str),
    #[error("{function} failed with {code} ({})", meaning(*code))]
    Failed { function: &'static str, code: c_int },
}

/// Gives the meaning of the codes that a start of the driver is known to end with (`cuda.h`).
fn meaning(code: c_int) -> &'static str {
    match code {
        1 => "invalid value",
        2 => "out of memory",
        3 => "not initialised",
        34 => "a stub library, not a driver",
        46 => "device unavailable",
        100 => "no CUDA-capable device",
        101 => "invalid device",
        802 => "system not yet ready",
        803 => "the driver's parts differ in version",
        804 => "no forward compatibility on this GPU",
        _ => "see CUresult in the CUDA driver API",
    }
}

/// Opens a library, or says whether it is not there or cannot be opened.
pub(crate) fn open_library(file: &OsStr) -> Result<Library, Outcome> {
    // SAFETY: opening runs the library's initialisers. The names opened here are those of NVIDIA's
    // driver and compiler, which are made to be opened at run time from any thread.
    unsafe { Library::new(file) }.map_err(|error| {
        let text = error
            .source()
            .map_or_else(|| error.to_string(), ToString::to_string);
        // The loader names the file that it misses: another one's absence is another matter.
        let misses_it = text.starts_with(&*file.to_string_lossy());
        if misses_it && text.ends_with("No such file or directory") {
            return Outcome::NotFound;
        }
        Outcome::Failed(format!("cannot be opened: {text}"))
    })
}

/// Looks a function up.
///
/// # Safety
/// `T` must be the function pointer type of the library's declaration of `name`.
pub(crate) unsafe fn symbol<'lib, T>(
    library: &'lib Library,
    name: &'static str,
) -> Result<Symbol<'lib, T>, CallError> {
    // SAFETY: the caller vouches for the type; the symbol cannot outlive the library it borrows.
    unsafe { library.get(name) }.map_err(|_| CallError::Missing(name))
}

/// Turns a result code into a result; 0 is success in the driver and in NVRTC.
pub(crate) fn check(function: &'static str, code: c_int) -> Result<(), CallError> {
    if code == 0 {
        return Ok(());
    }
    Err(CallError::Failed { function, code })
}

#[cfg(test)]
mod tests {
    use super::open_library;
    use crate::discovery::Outcome;

    #[test]
    fn a_file_that_is_no_library_cannot_be_opened() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let outcome = open_library(file.path().as_os_str()).err();
        assert!(matches!(outcome, Some(Outcome::Failed(_))), "{outcome:?}");
    }
}
