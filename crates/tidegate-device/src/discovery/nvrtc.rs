//! NVRTC, the run-time compiler: where it may lie, and which one is there.
//!
//! It is no part of the driver. The system's loader is asked first, then the folders into which the
//! PyPI wheels unpack. The first one that the driver can take ends the search.

#![expect(
    unsafe_code,
    reason = "a library found at run time is called through its symbols"
)]

use std::ffi::{OsStr, c_int};
use std::path::PathBuf;

use libloading::Symbol;

use super::driver::DriverVersion;
use super::{Finding, Outcome};
use crate::library::{CallError, check, open_library, symbol};

const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];

/// Where the wheels of CUDA 13 and of CUDA 12 unpack, below `site-packages`.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// A compiler that the driver can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nvrtc {
    /// A file, or a name that the system's loader knows.
    pub(super) place: PathBuf,
    pub(super) major: u32,
    pub(super) minor: u32,
}

/// Looks for NVRTC and records every place.
pub(super) fn look(
    site_packages: &[PathBuf],
    driver: Option<DriverVersion>,
    findings: &mut Vec<Finding>,
) -> Option<Nvrtc> {
    for place in places(site_packages) {
        match open(place.as_os_str(), driver) {
            Ok((major, minor)) => {
                let what = Outcome::Found(format!("NVRTC {major}.{minor}"));
                findings.push(Finding::new(place.display().to_string(), what));
                return Some(Nvrtc {
                    place,
                    major,
                    minor,
                });
            }
            Err(outcome) => findings.push(Finding::new(place.display().to_string(), outcome)),
        }
    }
    None
}

/// Gives the command that installs an NVRTC which this driver can take.
pub(super) fn installation(driver: Option<DriverVersion>) -> &'static str {
    match driver {
        Some(driver) if driver.major < 13 => "pip install nvidia-cuda-nvrtc-cu12",
        _ => "pip install nvidia-cuda-nvrtc",
    }
}

fn places(site_packages: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let by_loader = NAMES.map(PathBuf::from).into_iter();
    let by_wheel = site_packages.iter().flat_map(|site| {
        WHEEL_FOLDERS
            .iter()
            .flat_map(move |folder| NAMES.map(|name| site.join(folder).join(name)))
    });
    by_loader.chain(by_wheel)
}

fn open(file: &OsStr, driver: Option<DriverVersion>) -> Result<(u32, u32), Outcome> {
    let library = open_library(file)?;
    let version = version(&library).map_err(|error| Outcome::Failed(error.to_string()))?;
    judge(version, driver).map_err(Outcome::Failed)
}

/// A driver loads code of its own major version at most.
fn judge(
    (major, minor): (c_int, c_int),
    driver: Option<DriverVersion>,
) -> Result<(u32, u32), String> {
    let is_newer = |driver: &DriverVersion| i64::from(major) > i64::from(driver.major);
    if let Some(newest) = driver.filter(is_newer) {
        return Err(format!(
            "NVRTC {major}.{minor} is newer than the driver's {newest}; install one of its own \
             version: {}",
            installation(driver)
        ));
    }
    let number = |part: c_int| u32::try_from(part).unwrap_or(0);
    Ok((number(major), number(minor)))
}

type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

fn version(library: &libloading::Library) -> Result<(c_int, c_int), CallError> {
    // SAFETY: nvrtc.h declares `nvrtcResult nvrtcVersion(int *, int *)`; the result is a C int.
    let get: Symbol<'_, Version> = unsafe { symbol(library, "nvrtcVersion") }?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both pointers are to live ints, distinct, for the duration of the call.
    check("nvrtcVersion", unsafe {
        get(&raw mut major, &raw mut minor)
    })?;
    Ok((major, minor))
}

#[cfg(test)]
mod tests;
