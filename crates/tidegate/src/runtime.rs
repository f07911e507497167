//! What the sessions of a process share: its devices, and what is remembered of its queries.

use std::sync::Arc;

use tidegate_device::{DeviceError, DeviceId, Discovery, DiscoveryOptions, SimulatedDevice};
use tidegate_kernels::{PipelineDevice, SimulatedPipelineDevice};

use crate::query::History;

pub use tidegate_device::SimulatedSpec;

/// The devices of a process and the history of its queries.
#[derive(Debug)]
pub struct Runtime {
    devices: Vec<Arc<dyn PipelineDevice>>,
    discovery: Discovery,
    why_no_device: String,
    history: History,
}

impl Runtime {
    /// Looks for devices; `simulated` ones are added only because somebody asked for them.
    ///
    /// # Errors
    /// Fails if a simulated device cannot be started.
    pub fn new(
        discovery: &DiscoveryOptions,
        simulated: Vec<SimulatedSpec>,
    ) -> Result<Self, DeviceError> {
        let discovery = tidegate_device::discover(discovery);
        let devices = simulated
            .into_iter()
            .enumerate()
            .map(|(index, spec)| {
                let device = SimulatedDevice::new(DeviceId(index as u32), spec)?;
                Ok(Arc::new(SimulatedPipelineDevice::new(device)) as Arc<dyn PipelineDevice>)
            })
            .collect::<Result<Vec<_>, DeviceError>>()?;
        let why_no_device = discovery.why_none();
        Ok(Self {
            devices,
            discovery,
            why_no_device,
            history: History::default(),
        })
    }

    /// Returns the devices that regions can run on.
    pub fn devices(&self) -> &[Arc<dyn PipelineDevice>] {
        &self.devices
    }

    /// Returns what was looked for and what was found.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Says in one line what was looked for and not found.
    pub fn why_no_device(&self) -> &str {
        &self.why_no_device
    }

    /// Returns what is remembered of queries.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }
}
