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

use super::driver::{CallError, DriverVersion, check, open_library, symbol};
use super::{Finding, Outcome};

const NAMES: [&str; 2] = ["libnvrtc.so.13", "libnvrtc.so.12"];

/// Where the wheels of CUDA 13 and of CUDA 12 unpack, below `site-packages`.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// Looks for NVRTC and records every place.
pub(super) fn look(
    site_packages: &[PathBuf],
    driver: Option<DriverVersion>,
    findings: &mut Vec<Finding>,
) {
    for place in places(site_packages) {
        let outcome = open(place.as_os_str(), driver);
        let is_found = matches!(outcome, Outcome::Found(_));
        findings.push(Finding::new(place.display().to_string(), outcome));
        if is_found {
            return;
        }
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

fn open(file: &OsStr, driver: Option<DriverVersion>) -> Outcome {
    let library = match open_library(file) {
        Ok(library) => library,
        Err(outcome) => return outcome,
    };
    match version(&library) {
        Err(error) => Outcome::Failed(error.to_string()),
        Ok((major, minor)) => judge(major, minor, driver),
    }
}

/// A driver loads code of its own major version at most.
fn judge(major: c_int, minor: c_int, driver: Option<DriverVersion>) -> Outcome {
    let is_newer = |driver: &DriverVersion| i64::from(major) > i64::from(driver.major);
    match driver.filter(is_newer) {
        Some(driver) => Outcome::Failed(format!(
            "NVRTC {major}.{minor} is newer than the driver's {driver}: \
             install nvidia-cuda-nvrtc-cu{}",
            driver.major
        )),
        None => Outcome::Found(format!("NVRTC {major}.{minor}")),
    }
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
mod tests {
    use super::{NAMES, WHEEL_FOLDERS, judge, look, open};
    use crate::discovery::Outcome;
    use crate::discovery::driver::DriverVersion;

    const DRIVER_12: DriverVersion = DriverVersion {
        major: 12,
        minor: 4,
    };

    #[test]
    fn every_place_is_recorded() {
        let site = tempfile::tempdir().unwrap();
        let mut findings = Vec::new();
        look(&[site.path().to_path_buf()], None, &mut findings);
        let is_found = findings
            .iter()
            .any(|finding| matches!(finding.outcome, Outcome::Found(_)));
        // A machine with NVRTC in the loader's path stops there.
        assert!(is_found || findings.len() == NAMES.len() * (1 + WHEEL_FOLDERS.len()));
        assert_eq!(findings[0].place, "libnvrtc.so.13");
    }

    #[test]
    fn a_broken_wheel_is_a_finding() {
        let site = tempfile::tempdir().unwrap();
        let file = site.path().join(WHEEL_FOLDERS[0]).join(NAMES[0]);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "no library").unwrap();
        let outcome = open(file.as_os_str(), None);
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }

    #[test]
    fn a_compiler_newer_than_the_driver_is_refused() {
        assert!(matches!(judge(13, 0, Some(DRIVER_12)), Outcome::Failed(_)));
        assert_eq!(
            judge(12, 9, Some(DRIVER_12)),
            Outcome::Found("NVRTC 12.9".to_owned())
        );
        assert_eq!(judge(13, 0, None), Outcome::Found("NVRTC 13.0".to_owned()));
    }
}
