//! Whether a device can be used: the floors of driver, device and compiler.

use super::driver::DriverVersion;
use super::nvrtc::{self, Nvrtc};

/// The CUDA version of driver 535.
const DRIVER_FLOOR: DriverVersion = DriverVersion {
    major: 12,
    minor: 2,
};

/// The least compute capability that NVRTC 13 compiles for.
const CAPABILITY_FLOOR_13: (u32, u32) = (7, 5);
/// The least compute capability that is used with NVRTC 12.
const CAPABILITY_FLOOR_12: (u32, u32) = (6, 0);

/// Says why a driver cannot be used, with the way out.
pub(super) fn refuse_driver(driver: Option<DriverVersion>) -> Option<String> {
    let old = driver.filter(|driver| *driver < DRIVER_FLOOR)?;
    Some(format!(
        "its driver offers CUDA {old} and {DRIVER_FLOOR} is needed; install driver 535 or newer"
    ))
}

/// Says why a device of this compute capability cannot be used, with the way out.
pub(super) fn refuse(
    capability: (u32, u32),
    driver: Option<DriverVersion>,
    nvrtc: Option<&Nvrtc>,
) -> Option<String> {
    if let Some(why) = refuse_driver(driver) {
        return Some(why);
    }
    let (major, minor) = capability;
    if capability < CAPABILITY_FLOOR_12 {
        let (least_major, least_minor) = CAPABILITY_FLOOR_12;
        return Some(format!(
            "its compute capability is {major}.{minor} and {least_major}.{least_minor} is needed"
        ));
    }
    let Some(nvrtc) = nvrtc else {
        let driver = older_compiler(capability).or(driver);
        return Some(format!(
            "there is no NVRTC; install it: {}",
            nvrtc::installation(driver)
        ));
    };
    if nvrtc.major >= 13 && capability < CAPABILITY_FLOOR_13 {
        return Some(format!(
            "NVRTC {}.{} does not compile for compute capability {major}.{minor}; install an \
             older one: {}",
            nvrtc.major,
            nvrtc.minor,
            nvrtc::installation(older_compiler(capability))
        ));
    }
    (nvrtc.major < 12).then(|| {
        format!(
            "NVRTC {}.{} is too old; install a newer one: {}",
            nvrtc.major,
            nvrtc.minor,
            nvrtc::installation(driver)
        )
    })
}

/// Gives the version whose compiler a device needs that the newest one left behind.
fn older_compiler(capability: (u32, u32)) -> Option<DriverVersion> {
    (capability < CAPABILITY_FLOOR_13).then_some(DRIVER_FLOOR)
}

#[cfg(test)]
mod tests;
