//! What meets every floor can be used.

use super::refuse;
use crate::discovery::driver::DriverVersion;
use crate::discovery::nvrtc::Nvrtc;

fn check(capability: (u32, u32), driver: (u32, u32), nvrtc: Option<(u32, u32)>, why: Option<&str>) {
    let driver = DriverVersion {
        major: driver.0,
        minor: driver.1,
    };
    let nvrtc = nvrtc.map(|(major, minor)| Nvrtc {
        place: "libnvrtc.so".into(),
        major,
        minor,
    });
    let refused = refuse(capability, Some(driver), nvrtc.as_ref());
    assert_eq!(refused.as_deref(), why);
}

#[test]
fn what_meets_every_floor_can_be_used() {
    check((9, 0), (13, 0), Some((13, 0)), None);
    check((7, 5), (13, 0), Some((13, 3)), None);
    check((6, 0), (12, 2), Some((12, 2)), None);
    check((6, 1), (13, 0), Some((12, 9)), None);
}

#[test]
fn an_old_driver_is_refused() {
    check(
        (9, 0),
        (12, 1),
        Some((12, 1)),
        Some("its driver offers CUDA 12.1 and 12.2 is needed; install driver 535 or newer"),
    );
}

#[test]
fn an_old_device_is_refused() {
    check(
        (5, 2),
        (12, 4),
        None,
        Some("its compute capability is 5.2 and 6.0 is needed"),
    );
    check(
        (7, 0),
        (13, 0),
        Some((13, 0)),
        Some(
            "NVRTC 13.0 does not compile for compute capability 7.0; install an older one: \
             pip install nvidia-cuda-nvrtc-cu12",
        ),
    );
}

#[test]
fn a_missing_compiler_comes_with_its_command() {
    let modern = "there is no NVRTC; install it: pip install nvidia-cuda-nvrtc";
    let older = "there is no NVRTC; install it: pip install nvidia-cuda-nvrtc-cu12";
    check((9, 0), (13, 0), None, Some(modern));
    check((9, 0), (12, 4), None, Some(older));
    check((7, 0), (13, 0), None, Some(older));
}
