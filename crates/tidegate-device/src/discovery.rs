//! Finds the devices of this machine, and says for each place looked at what was there.
//!
//! The NVIDIA driver and NVRTC are opened at run time; a machine without them is no error. A
//! missing library, a missing symbol or a failing call becomes a [`Finding`], never a panic.
//! Devices are only reported: this build has no CUDA kernels, and each finding says so.

mod driver;
mod nvrtc;
mod visible;

use std::fmt;
use std::path::PathBuf;

use crate::info::{DeviceId, DeviceInfo, DeviceKind, DeviceRates};
use driver::{Driver, DriverCalls, DriverVersion};

const NOT_USED: &str = "not used: this build has no CUDA kernels yet";

/// Where to look and what to show.
#[derive(Clone, Debug, Default)]
pub struct DiscoveryOptions {
    /// Which of the driver's devices count, in which order, written as in `CUDA_VISIBLE_DEVICES`:
    /// indices and UUIDs or their unique beginnings, separated by commas; an unknown or repeated
    /// entry ends the list; empty means none. `None` takes them all.
    ///
    /// The driver itself obeys the environment variable of that name, and indices here count what
    /// it left. So this is a choice of its own: handing on the variable's indices applies them
    /// twice.
    pub visible_devices: Option<String>,
    /// Python `site-packages` folders in which the NVRTC wheel may lie.
    pub site_packages: Vec<PathBuf>,
}

/// What was found, and what was not.
#[derive(Clone, Debug)]
pub struct Discovery {
    /// The devices found, in visible order.
    pub devices: Vec<DeviceInfo>,
    /// Every place looked at, in order.
    pub findings: Vec<Finding>,
    reason: String,
}

/// A place that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// A library, a call, a device or a setting.
    pub place: String,
    /// What was there.
    pub outcome: Outcome,
}

/// What a place held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    NotFound,
    /// What was looked for; the text says which.
    Found(String),
    /// Something that cannot be used; the text says why.
    Failed(String),
}

/// Looks for the NVIDIA driver, its devices, and NVRTC.
///
/// Blocks while the driver starts, which may take a second on a machine with many GPUs.
pub fn discover(options: &DiscoveryOptions) -> Discovery {
    let mut findings = Vec::new();
    let driver = open_driver(&driver::LIBRARIES, &mut findings);
    let version = driver.as_ref().and_then(|driver| driver.version().ok());
    let devices = match &driver {
        None => Err(describe_absence(&findings)),
        Some(driver) => list_devices(driver, options.visible_devices.as_deref(), &mut findings),
    };
    nvrtc::look(&options.site_packages, version, &mut findings);
    conclude(devices, findings)
}

impl Discovery {
    /// Says in one line why no device of this machine is used.
    pub fn why_none(&self) -> String {
        format!("no device: {}", self.reason)
    }
}

impl Finding {
    fn new(place: impl Into<String>, outcome: Outcome) -> Self {
        Self {
            place: place.into(),
            outcome,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::NotFound => write!(f, "{}: not found", self.place),
            Outcome::Found(what) => write!(f, "{}: found, {what}", self.place),
            Outcome::Failed(why) => write!(f, "{}: {why}", self.place),
        }
    }
}

/// Opens the first of these libraries that there is.
fn open_driver(names: &[&str], findings: &mut Vec<Finding>) -> Option<Driver> {
    for name in names {
        match Driver::open(name) {
            Ok(driver) => {
                let version = driver.version();
                let outcome = match version {
                    Ok(version) => Outcome::Found(format!("driver {version}")),
                    Err(error) => Outcome::Failed(error.to_string()),
                };
                findings.push(Finding::new(*name, outcome));
                return Some(driver);
            }
            Err(outcome) => findings.push(Finding::new(*name, outcome)),
        }
    }
    None
}

/// Lists the visible devices, or says why there are none.
fn list_devices(
    driver: &dyn DriverCalls,
    visible_devices: Option<&str>,
    findings: &mut Vec<Finding>,
) -> Result<Vec<DeviceInfo>, String> {
    let driver_name = describe_driver(driver.version().ok());
    let started = driver.init().and_then(|()| driver.count());
    let count = started.map_err(|error| {
        findings.push(Finding::new("driver", Outcome::Failed(error.to_string())));
        format!("found {driver_name} but {error}")
    })?;
    if count == 0 {
        findings.push(Finding::new(
            "driver",
            Outcome::Failed("it has no devices".to_owned()),
        ));
        return Err(format!("found {driver_name} but it has no devices"));
    }
    let ordinals = visible_ordinals(driver, count, visible_devices, findings);
    if ordinals.is_empty() {
        let setting = visible_devices.unwrap_or_default();
        return Err(format!(
            "found {driver_name} with {count} devices, but visible devices '{setting}' leaves none"
        ));
    }
    let mut devices = Vec::new();
    for (id, ordinal) in (0..).map(DeviceId).zip(ordinals) {
        match describe_device(driver, id, ordinal) {
            Ok((device, what)) => {
                findings.push(Finding::new(device.to_string(), Outcome::Found(what)));
                devices.push(device);
            }
            Err(error) => {
                findings.push(Finding::new(
                    id.to_string(),
                    Outcome::Failed(error.to_string()),
                ));
            }
        }
    }
    if devices.is_empty() {
        return Err(format!(
            "found {driver_name}, but it describes none of its {count} devices"
        ));
    }
    Ok(devices)
}

fn visible_ordinals(
    driver: &dyn DriverCalls,
    count: u32,
    visible_devices: Option<&str>,
    findings: &mut Vec<Finding>,
) -> Vec<u32> {
    let Some(setting) = visible_devices else {
        return (0..count).collect();
    };
    let uuids: Vec<Option<String>> = (0..count).map(|i| driver.uuid(i).ok()).collect();
    let selection = visible::select(setting, &uuids);
    let outcome = match selection.ended_by {
        Some(why) => Outcome::Failed(why),
        None => Outcome::Found(format!("{} of {count} devices", selection.ordinals.len())),
    };
    findings.push(Finding::new(
        format!("visible devices '{setting}'"),
        outcome,
    ));
    selection.ordinals
}

fn describe_device(
    driver: &dyn DriverCalls,
    id: DeviceId,
    ordinal: u32,
) -> Result<(DeviceInfo, String), driver::CallError> {
    let info = DeviceInfo {
        id,
        kind: DeviceKind::Cuda,
        name: driver.name(ordinal)?,
        memory_bytes: driver.memory_bytes(ordinal)?,
        rates: DeviceRates::CUDA_START,
    };
    let (major, minor) = driver.compute_capability(ordinal)?;
    let memory = info.memory_bytes as f64 / (1u64 << 30) as f64;
    let what = format!("{memory:.1} GiB, compute capability {major}.{minor}, {NOT_USED}");
    Ok((info, what))
}

/// Says what came of looking for the driver's library.
fn describe_absence(findings: &[Finding]) -> String {
    if findings
        .iter()
        .all(|finding| finding.outcome == Outcome::NotFound)
    {
        let places: Vec<&str> = findings
            .iter()
            .map(|finding| finding.place.as_str())
            .collect();
        let places = places.join(", ");
        return format!("looked for the NVIDIA driver ({places}): not found");
    }
    let lines: Vec<String> = findings.iter().map(Finding::to_string).collect();
    format!("looked for the NVIDIA driver: {}", lines.join("; "))
}

fn describe_driver(version: Option<DriverVersion>) -> String {
    version.map_or_else(
        || "a driver of unknown version".to_owned(),
        |version| format!("driver {version}"),
    )
}

fn conclude(devices: Result<Vec<DeviceInfo>, String>, findings: Vec<Finding>) -> Discovery {
    let (devices, reason) = match devices {
        Err(reason) => (Vec::new(), reason),
        Ok(devices) => {
            let names: Vec<String> = devices.iter().map(DeviceInfo::to_string).collect();
            let reason = format!("found {}, {NOT_USED}", names.join(", "));
            (devices, reason)
        }
    };
    Discovery {
        devices,
        findings,
        reason,
    }
}

#[cfg(test)]
mod tests;
