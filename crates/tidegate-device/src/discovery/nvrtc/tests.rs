//! Every place is recorded.

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
    let found = look(&[site.path().to_path_buf()], None, &mut findings);
    // A machine with NVRTC in the loader's path stops there.
    assert!(found.is_some() || findings.len() == NAMES.len() * (1 + WHEEL_FOLDERS.len()));
    assert_eq!(findings[0].place, "libnvrtc.so.13");
}

#[test]
fn a_broken_wheel_is_a_finding() {
    let site = tempfile::tempdir().unwrap();
    let file = site.path().join(WHEEL_FOLDERS[0]).join(NAMES[0]);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "no library").unwrap();
    let outcome = open(file.as_os_str(), None);
    assert!(matches!(outcome, Err(Outcome::Failed(_))), "{outcome:?}");
}

#[test]
fn a_compiler_newer_than_the_driver_is_refused() {
    let why = judge((13, 0), Some(DRIVER_12)).unwrap_err();
    assert_eq!(
        why,
        "NVRTC 13.0 is newer than the driver's 12.4; install one of its own version: \
         pip install nvidia-cuda-nvrtc-cu12"
    );
    assert_eq!(judge((12, 9), Some(DRIVER_12)), Ok((12, 9)));
    assert_eq!(judge((13, 0), None), Ok((13, 0)));
}
