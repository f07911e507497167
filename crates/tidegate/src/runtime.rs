//! What the sessions of a process share: its devices, what is kept on them, and what is remembered of
//! its queries.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tidegate_device::compiler::{Compiler, ImageCache};
use tidegate_device::cuda::{CudaDevice, CudaOptions};
use tidegate_device::{
    DeviceError, DeviceId, DeviceKind, Discovery, DiscoveryOptions, SimulatedDevice,
};
use tidegate_kernels::{CudaPipelineDevice, PipelineDevice, SimulatedPipelineDevice};
use tidegate_scheduler::{AdmissionGate, ColumnCache, Dispatch};

use crate::leaf::parquet::files::HostCache;
use crate::query::{History, QueryWatcher};
use crate::session::Clients;

pub use tidegate_device::SimulatedSpec;

/// What a process's devices are looked for and opened with.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Where to look, and which devices to show.
    pub discovery: DiscoveryOptions,
    /// Simulated devices, which are added only because somebody asked for them.
    pub simulated: Vec<SimulatedSpec>,
    /// Bytes of its memory that each GPU may use; `None` for 90 % of what is free when it is opened.
    pub device_memory_limit: Option<u64>,
    /// The folder in which compiled kernels are kept for other processes; `None` for memory alone.
    pub kernel_folder: Option<PathBuf>,
    /// The folder in which learned rates of this machine and its GPUs are kept for other processes;
    /// `None` for memory alone.
    pub rates_folder: Option<PathBuf>,
}

/// The devices of a process, the columns that are kept on them and on the host, and the history of
/// its queries.
#[derive(Debug)]
pub struct Runtime {
    devices: Vec<Arc<dyn PipelineDevice>>,
    discovery: Discovery,
    why_no_device: String,
    cache: Arc<HostCache>,
    dispatch: Arc<Dispatch>,
    history: History,
    /// Whether devices of which nothing is known are measured, or were.
    calibrated: AtomicBool,
    clients: Clients,
}

impl Runtime {
    /// Looks for devices and opens those that can be used. One that cannot be opened is left out,
    /// with the reason.
    ///
    /// # Errors
    /// Fails if a simulated device cannot be started.
    pub fn new(options: &RuntimeOptions) -> Result<Self, DeviceError> {
        let discovery = tidegate_device::discover(&options.discovery);
        let mut devices: Vec<Arc<dyn PipelineDevice>> = Vec::new();
        let mut why_no_device = discovery.why_none();
        match open_gpus(&discovery, options) {
            Ok(gpus) => devices.extend(gpus),
            Err(why) => why_no_device = why,
        }
        for spec in &options.simulated {
            let id = DeviceId(devices.len() as u32);
            let device = SimulatedDevice::new(id, spec.clone())?;
            devices.push(Arc::new(SimulatedPipelineDevice::new(device)));
        }
        let is_gpu = |device: &Arc<dyn PipelineDevice>| device.info().kind == DeviceKind::Cuda;
        let dispatch = if devices.iter().any(is_gpu) {
            Dispatch::open(options.rates_folder.clone())
        } else {
            // What simulated devices take is nothing to remember.
            Dispatch::default()
        };
        let cache: Arc<HostCache> = Arc::default();
        let dispatch = dispatch.evict_from(Arc::clone(cache.columns()) as _);
        Ok(Self {
            devices,
            dispatch: Arc::new(dispatch),
            discovery,
            why_no_device,
            cache,
            history: History::default(),
            calibrated: AtomicBool::new(false),
            clients: Clients::default(),
        })
    }

    /// Adds a device that somebody else opened, behind those that were found. Its identifier must be
    /// none of theirs.
    pub fn with_device(mut self, device: Arc<dyn PipelineDevice>) -> Self {
        self.devices.push(device);
        self
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

    /// Returns what is kept on the devices and the host from query to query.
    pub(crate) fn cache(&self) -> &Arc<ColumnCache> {
        self.cache.columns()
    }

    /// Returns the host tier with the files that its chunks come from.
    pub(crate) fn host_cache(&self) -> &Arc<HostCache> {
        &self.cache
    }

    /// Lets cached columns take so many bytes of host memory. Sessions that are built with
    /// [`crate::Session::builder`] set it; in a state that somebody else built it is 0 until this is
    /// called, for its memory pool knows nothing of the cache.
    pub fn limit_host_cache(&self, bytes: u64) {
        self.cache().host().set_limit(bytes);
    }

    /// Returns the door at which statements wait to run. Those of a session enter by themselves, but
    /// for a session made by [`crate::Session::for_client`]: whoever serves the client enters for it.
    pub fn admission(&self) -> &Arc<AdmissionGate> {
        self.dispatch.admission()
    }

    /// Returns what queries share to be placed.
    pub(crate) fn dispatch(&self) -> &Arc<Dispatch> {
        &self.dispatch
    }

    /// Measures, the first time and on a thread of its own, each GPU of which nothing is known yet;
    /// what is found is kept with the learned rates. A simulated device is what it declares.
    pub(crate) fn calibrate(&self) {
        if self.calibrated.swap(true, Ordering::Relaxed) {
            return;
        }
        let rates = Arc::clone(self.dispatch.rates());
        let unknown = self.devices.iter().filter(|device| {
            let info = device.info();
            info.kind == DeviceKind::Cuda && !rates.is_measured(info)
        });
        let unknown: Vec<_> = unknown.cloned().collect();
        if unknown.is_empty() {
            return;
        }
        let measure = move || {
            let Ok(runtime) = tokio::runtime::Builder::new_current_thread().build() else {
                return;
            };
            for device in &unknown {
                let measured = runtime.block_on(tidegate_scheduler::rates::measure(device));
                if let Some(measured) = measured {
                    rates.calibrate(device.info(), &measured);
                }
            }
            rates.save();
        };
        let thread = std::thread::Builder::new().name("tidegate-calibrate".into());
        // Without it the rates start from what is declared, as they would if it failed.
        let _ = thread.spawn(measure);
    }

    /// Returns the clients that have sessions.
    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Tells somebody of each query that ends from now on, as long as they are there.
    pub fn watch_queries(&self, watcher: Weak<dyn QueryWatcher>) {
        self.history.log().watch(watcher);
    }

    /// Returns what is remembered of queries.
    pub(crate) fn history(&self) -> &History {
        &self.history
    }
}

/// Opens the GPUs that can be used, or says why none is.
fn open_gpus(
    discovery: &Discovery,
    options: &RuntimeOptions,
) -> Result<Vec<Arc<dyn PipelineDevice>>, String> {
    let usable: Vec<_> = discovery
        .cuda
        .iter()
        .filter(|found| found.why_not.is_none())
        .collect();
    let (Some(place), false) = (&discovery.nvrtc, usable.is_empty()) else {
        return Err(discovery.why_none());
    };
    let compiler = Compiler::open(place).map_err(|error| error.to_string())?;
    let images = ImageCache::new(compiler.clone(), options.kernel_folder.clone());
    let mut gpus: Vec<Arc<dyn PipelineDevice>> = Vec::new();
    let mut trouble = Vec::new();
    for found in usable {
        let cuda = CudaOptions {
            memory_limit_bytes: options.device_memory_limit,
            ..CudaOptions::default()
        };
        let mut info = found.info.clone();
        info.id = DeviceId(gpus.len() as u32);
        match CudaDevice::open(found.ordinal, info, &cuda) {
            Ok(device) => {
                let architecture = compiler.architecture(found.capability);
                let gpu = CudaPipelineDevice::new(device, images.clone(), architecture);
                gpus.push(Arc::new(gpu));
            }
            Err(error) => trouble.push(error.to_string()),
        }
    }
    if gpus.is_empty() {
        return Err(trouble.join("; "));
    }
    Ok(gpus)
}
