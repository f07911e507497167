//! Finds the devices of this machine, and says for each place looked at what was there.
//!
//! The NVIDIA driver and NVRTC are opened at run time; a machine without them is no error. A
//! missing library, a missing symbol or a failing call becomes a [`Finding`], never a panic.
//! Each device found is judged: it can be used, or its finding says why not and what helps.

mod driver;
mod nvrtc;
mod usable;
mod visible;

use std::fmt;
use std::path::PathBuf;

use crate::info::{DeviceId, DeviceInfo, DeviceKind, DeviceRates};
use crate::library::CallError;
use driver::{Driver, DriverCalls, DriverVersion};
use nvrtc::Nvrtc;

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
    /// The devices found, in visible order, also those that cannot be used.
    pub devices: Vec<DeviceInfo>,
    /// The same devices, with what opening one needs.
    pub cuda: Vec<CudaFound>,
    /// Where NVRTC is: a file, or a name that the system's loader knows.
    pub nvrtc: Option<PathBuf>,
    /// Every place looked at, in order.
    pub findings: Vec<Finding>,
    reason: String,
}

/// A device of the NVIDIA driver.
#[derive(Clone, Debug, PartialEq)]
pub struct CudaFound {
    /// What it is called.
    pub info: DeviceInfo,
    /// Its index as the driver counts.
    pub ordinal: u32,
    /// Its compute capability, major and minor.
    pub capability: (u32, u32),
    /// Why it cannot be used, with what helps; `None` if it can.
    pub why_not: Option<String>,
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
    // The devices are judged by the compiler that there is, and reported before it.
    let mut places = Vec::new();
    let nvrtc = nvrtc::look(&options.site_packages, version, &mut places);
    let devices = match &driver {
        None => Err(describe_absence(&findings)),
        Some(driver) => {
            let visible_devices = options.visible_devices.as_deref();
            list_devices(driver, visible_devices, nvrtc.as_ref(), &mut findings)
        }
    };
    findings.append(&mut places);
    conclude(devices, nvrtc, findings)
}

/// Starts the driver, or says why it cannot be used. Cheap once it is started.
pub(crate) fn start_driver() -> Result<(), String> {
    let mut findings = Vec::new();
    let Some(driver) = open_driver(&driver::LIBRARIES, &mut findings) else {
        return Err(describe_absence(&findings));
    };
    let refused = |error: CallError| format!("its driver does not start: {error}");
    let version = driver.version().map_err(refused)?;
    if let Some(why) = usable::refuse_driver(Some(version)) {
        return Err(why);
    }
    driver.init().map_err(refused)
}

impl Discovery {
    /// Says in one line why no device of this machine is used.
    pub fn why_none(&self) -> String {
        format!("no device: {}", self.reason)
    }
}

impl CudaFound {
    /// Says what the device is and whether it can be used.
    fn describe(&self) -> String {
        let memory = self.info.memory_bytes as f64 / (1u64 << 30) as f64;
        let (major, minor) = self.capability;
        let what = format!("{memory:.1} GiB, compute capability {major}.{minor}");
        match &self.why_not {
            None => format!("{what}, can be used"),
            Some(why) => format!("{what}, cannot be used: {why}"),
        }
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
    nvrtc: Option<&Nvrtc>,
    findings: &mut Vec<Finding>,
) -> Result<Vec<CudaFound>, String> {
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
        match describe_device(driver, id, ordinal, nvrtc) {
            Ok(device) => {
                let what = Outcome::Found(device.describe());
                findings.push(Finding::new(device.info.to_string(), what));
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
    nvrtc: Option<&Nvrtc>,
) -> Result<CudaFound, CallError> {
    let info = DeviceInfo {
        id,
        kind: DeviceKind::Cuda,
        name: driver.name(ordinal)?,
        memory_bytes: driver.memory_bytes(ordinal)?,
        rates: DeviceRates::CUDA_START,
    };
    let capability = driver.compute_capability(ordinal)?;
    Ok(CudaFound {
        info,
        ordinal,
        capability,
        why_not: usable::refuse(capability, driver.version().ok(), nvrtc),
    })
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

fn conclude(
    cuda: Result<Vec<CudaFound>, String>,
    nvrtc: Option<Nvrtc>,
    findings: Vec<Finding>,
) -> Discovery {
    let (cuda, reason) = match cuda {
        Err(reason) => (Vec::new(), reason),
        Ok(cuda) => {
            let reason = describe_use(&cuda);
            (cuda, reason)
        }
    };
    Discovery {
        devices: cuda.iter().map(|found| found.info.clone()).collect(),
        cuda,
        nvrtc: nvrtc.map(|nvrtc| nvrtc.place),
        findings,
        reason,
    }
}

/// Says of the devices found which cannot be used and why, or that they were left alone.
fn describe_use(cuda: &[CudaFound]) -> String {
    let usable: Vec<String> = cuda
        .iter()
        .filter(|found| found.why_not.is_none())
        .map(|found| found.info.to_string())
        .collect();
    if !usable.is_empty() {
        return format!("found {}, not opened", usable.join(", "));
    }
    let refused: Vec<String> = cuda
        .iter()
        .map(|found| {
            let why = found.why_not.as_deref().unwrap_or_default();
            format!("found {} but cannot use it: {why}", found.info)
        })
        .collect();
    refused.join("; ")
}

#[cfg(test)]
mod tests;
