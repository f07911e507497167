//! Settings that name devices: which a session uses, and how much memory each may take.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use tidegate_device::DeviceId;

use super::parse_bytes;

/// The places that regions may use: `tidegate.devices`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceList {
    host: bool,
    devices: BTreeSet<DeviceId>,
}

impl DeviceList {
    /// Returns whether the host is one of them.
    pub fn has_host(&self) -> bool {
        self.host
    }

    /// Returns whether this device is one of them.
    pub fn has(&self, device: DeviceId) -> bool {
        self.devices.contains(&device)
    }

    /// Returns the devices of the list in order.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        self.devices.iter().copied()
    }
}

impl FromStr for DeviceList {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut list = Self {
            host: false,
            devices: BTreeSet::new(),
        };
        for name in text.split(',') {
            match name.trim().to_ascii_lowercase().as_str() {
                "host" => list.host = true,
                device => {
                    list.devices.insert(device_of(device).ok_or(())?);
                }
            }
        }
        Ok(list)
    }
}

impl fmt::Display for DeviceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.then(|| "host".to_string());
        let devices = self.devices.iter().map(|id| format!("device:{}", id.0));
        let names: Vec<String> = host.into_iter().chain(devices).collect();
        f.write_str(&names.join(", "))
    }
}

/// Bytes that devices may take: `tidegate.device_memory_limit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceLimits {
    /// Each so many.
    Every(u64),
    /// These so many, and others as many as they were opened with.
    Named(BTreeMap<DeviceId, u64>),
}

impl DeviceLimits {
    /// Returns the limit of a device, if it has one.
    pub fn of(&self, device: DeviceId) -> Option<u64> {
        match self {
            Self::Every(bytes) => Some(*bytes),
            Self::Named(limits) => limits.get(&device).copied(),
        }
    }

    /// Returns the devices that are named.
    pub fn named(&self) -> Vec<DeviceId> {
        match self {
            Self::Every(_) => Vec::new(),
            Self::Named(limits) => limits.keys().copied().collect(),
        }
    }
}

impl FromStr for DeviceLimits {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = |text: &str| parse_bytes(text).filter(|bytes| *bytes > 0).ok_or(());
        if !text.contains('=') {
            return Ok(Self::Every(bytes(text)?));
        }
        let mut limits = BTreeMap::new();
        for entry in text.split(',') {
            let (device, limit) = entry.split_once('=').ok_or(())?;
            let device = device_of(&device.trim().to_ascii_lowercase()).ok_or(())?;
            limits.insert(device, bytes(limit.trim())?);
        }
        Ok(Self::Named(limits))
    }
}

impl fmt::Display for DeviceLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(bytes) => write!(f, "{bytes}"),
            Self::Named(limits) => {
                let named = limits.iter();
                let named = named.map(|(id, bytes)| format!("device:{}={bytes}", id.0));
                f.write_str(&named.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// Reads `device:0`, or `device 0` as system tables write it.
fn device_of(name: &str) -> Option<DeviceId> {
    let number = name.strip_prefix("device")?;
    let number = number.strip_prefix(':').or(number.strip_prefix(' '))?;
    number.trim().parse().ok().map(DeviceId)
}
