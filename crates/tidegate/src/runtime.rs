//! What the sessions of a process share: its devices, what is kept on them, and what is remembered of
//! its queries.

mod calibration;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tidegate_device::compiler::{Compiler, ImageCache};
use tidegate_device::cuda::{CudaDevice, CudaOptions, Nearness};
use tidegate_device::{
    DeviceError, DeviceId, DeviceKind, Discovery, DiscoveryOptions, Finding, MakeRoom, Outcome,
    SimulatedDevice,
};
use tidegate_kernels::{CudaPipelineDevice, PipelineDevice, SimulatedPipelineDevice};
use tidegate_scheduler::{AdmissionGate, ColumnCache, Dispatch};

use crate::error::{Error, ErrorKind};
use crate::options::{DeviceLimits, DeviceList};

use calibration::Calibration;

pub use tidegate_device::{FaultPlan, SimulatedSpec};

/// Options for discovering and opening a process's devices.
#[derive(Clone, Debug, Default)]
pub struct RuntimeOptions {
    /// Where to look, and which devices to show.
    pub discovery: DiscoveryOptions,
    /// Simulated devices, which are added on request only.
    pub simulated: Vec<SimulatedSpec>,
    /// Memory limit of each GPU in bytes; `None` for 90 % of what is free when it is opened.
    pub device_memory_limit: Option<u64>,
    /// The folder in which compiled kernels are kept for other processes; `None` for memory alone.
    pub kernel_folder: Option<PathBuf>,
    /// The folder in which learned rates of this machine and its GPUs are kept for other processes;
    /// `None` for memory alone.
    pub rates_folder: Option<PathBuf>,
}

/// How long the end of a runtime waits for kernels that are compiled for later queries.
const COMPILING_MAX: Duration = Duration::from_secs(5);

/// The devices of a process, the columns that are kept on them and on the host, and the history of
/// its queries.
///
/// Dropped with the last session that uses it, it waits for a measurement of a GPU that has begun, and some
/// seconds at the most for what its devices still do or compile: a process that ends meanwhile may crash
/// in the driver or the compiler. One that is kept in a `static` is never dropped.
#[derive(Debug)]
pub struct Runtime {
    /// Set once devices of which nothing is known are to be measured.
    calibration: OnceLock<Option<Calibration>>,
    devices: Vec<Arc<dyn PipelineDevice>>,
    /// The memory limits that the devices were opened with.
    device_limits: Vec<u64>,
    discovery: Discovery,
    why_no_device: String,
    cache: Arc<ColumnCache>,
    dispatch: Arc<Dispatch>,
    /// What other modules keep for the whole runtime, by its type.
    shared: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Runtime {
    /// Looks for devices and opens those that can be used. One that cannot be opened is left out,
    /// with the reason.
    ///
    /// # Errors
    /// Fails if a simulated device cannot be started.
    pub fn new(options: &RuntimeOptions) -> Result<Self, DeviceError> {
        let mut discovery = tidegate_device::discover(&options.discovery);
        let mut devices: Vec<Arc<dyn PipelineDevice>> = Vec::new();
        let mut why_no_device = discovery.why_none();
        match open_gpus(&discovery, options) {
            Ok(gpus) => {
                for gpu in &gpus {
                    discovery.findings.push(nearness_of(gpu));
                }
                devices.extend(gpus.into_iter().map(|gpu| Arc::new(gpu) as _));
            }
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
        let cache: Arc<ColumnCache> = Arc::default();
        let dispatch = dispatch.evict_from(Arc::clone(&cache) as _);
        let gives_way: Arc<dyn MakeRoom> = Arc::clone(&cache) as _;
        for device in &devices {
            device.budget().set_gives_way(Arc::downgrade(&gives_way));
        }
        Ok(Self {
            device_limits: devices.iter().map(|each| each.budget().limit()).collect(),
            devices,
            dispatch: Arc::new(dispatch),
            discovery,
            why_no_device,
            cache,
            calibration: OnceLock::new(),
            shared: Mutex::default(),
        })
    }

    /// Adds a device that the caller opened, after those that were discovered. Its identifier must
    /// differ from theirs.
    pub fn with_device(mut self, device: Arc<dyn PipelineDevice>) -> Self {
        let gives_way: Arc<dyn MakeRoom> = Arc::clone(&self.cache) as _;
        device.budget().set_gives_way(Arc::downgrade(&gives_way));
        self.device_limits.push(device.budget().limit());
        self.devices.push(device);
        self
    }

    /// Sets the memory limit of devices, at most the one with which they were opened; `None` for
    /// that one. Automatic tables over the limit are evicted; tables of `CACHE TABLE` stay.
    pub(crate) fn limit_devices(&self, limits: Option<&DeviceLimits>) {
        for (device, &opened) in self.devices.iter().zip(&self.device_limits) {
            let id = device.info().id;
            let limit = limits.and_then(|limits| limits.of(id));
            let limit = limit.map_or(opened, |limit| limit.min(opened));
            let budget = device.budget();
            budget.set_limit(limit);
            let over = budget.used().saturating_sub(limit);
            if over > 0 {
                self.dispatch.evict().evict(id, over);
            }
        }
    }

    /// Returns the devices that a session uses.
    pub(crate) fn devices_of(&self, list: Option<&DeviceList>) -> Vec<Arc<dyn PipelineDevice>> {
        let listed =
            |device: &&Arc<dyn PipelineDevice>| list.is_none_or(|list| list.has(device.info().id));
        self.devices.iter().filter(listed).cloned().collect()
    }

    /// Refuses devices that do not exist; `setting` named them.
    pub(crate) fn check_named(
        &self,
        setting: &str,
        named: impl IntoIterator<Item = DeviceId>,
    ) -> Result<(), Error> {
        let known: Vec<DeviceId> = self.devices.iter().map(|each| each.info().id).collect();
        let Some(unknown) = named.into_iter().find(|id| !known.contains(id)) else {
            return Ok(());
        };
        let there_are = match known.as_slice() {
            [] => self.why_no_device.clone(),
            known => {
                let names: Vec<String> = known.iter().map(ToString::to_string).collect();
                format!("there are {}", names.join(", "))
            }
        };
        let message = format!("{setting}: there is no {unknown}: {there_are}");
        Err(Error::new(ErrorKind::Sql, message))
    }

    /// Returns the devices that regions can run on.
    pub fn devices(&self) -> &[Arc<dyn PipelineDevice>] {
        &self.devices
    }

    /// Returns what discovery looked for and found.
    pub fn discovery(&self) -> &Discovery {
        &self.discovery
    }

    /// Describes in one line what was looked for and not found.
    pub fn why_no_device(&self) -> &str {
        &self.why_no_device
    }

    /// Returns the column cache of devices and host.
    pub(crate) fn cache(&self) -> &Arc<ColumnCache> {
        &self.cache
    }

    /// Returns the one value of a type that belongs to this runtime; it is made when it is first asked for.
    pub(crate) fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut shared = self.shared.lock();
        let made = shared
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(T::default()));
        Arc::clone(made).downcast().unwrap_or_default()
    }

    /// Sets the limit of cached columns in host memory, in bytes. Sessions built with
    /// [`crate::Session::builder`] set it; in a foreign session state it is 0 until this is called,
    /// because its memory pool does not know the cache.
    pub fn limit_host_cache(&self, bytes: u64) {
        self.cache().host().set_limit(bytes);
    }

    /// Sets the limit of the pinned tier, in bytes; otherwise as [`Runtime::limit_host_cache`].
    pub fn limit_pinned_cache(&self, bytes: u64) {
        self.cache().pinned().set_limit(bytes);
    }

    /// Returns the gate at which statements wait to run. Statements of a session pass it by
    /// themselves, except for sessions of [`crate::Session::for_client`], whose server passes it
    /// for them.
    pub fn admission(&self) -> &Arc<AdmissionGate> {
        self.dispatch.admission()
    }

    /// Returns what queries share to be placed.
    pub(crate) fn dispatch(&self) -> &Arc<Dispatch> {
        &self.dispatch
    }

    /// Measures, the first time and on a thread of its own, each GPU of which nothing is known yet, when
    /// no statement runs or some time has passed; what is found is kept with the learned rates. A
    /// simulated device is what it declares.
    pub(crate) fn calibrate(&self) {
        self.calibration.get_or_init(|| {
            let rates = Arc::clone(self.dispatch.rates());
            let unknown = self.devices.iter().filter(|device| {
                let info = device.info();
                info.kind == DeviceKind::Cuda && !rates.is_measured(info)
            });
            let unknown: Vec<_> = unknown.cloned().collect();
            if unknown.is_empty() {
                return None;
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
            let admission = Arc::clone(self.dispatch.admission());
            Some(Calibration::begin(
                move || admission.counts().0 == 0,
                measure,
            ))
        });
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // It must not begin now.
        drop(self.calibration.take());
        // What is left after that ends by itself.
        let _ = self.dispatch.end_compilations(COMPILING_MAX);
    }
}

/// Tells where a GPU's thread runs, and why not near the GPU if it does not.
fn nearness_of(gpu: &CudaPipelineDevice) -> Finding {
    let nearness = gpu.device().nearness();
    let outcome = match nearness {
        Nearness::Anywhere(_) => Outcome::Failed(nearness.to_string()),
        Nearness::Node { .. } | Nearness::NoNodes => Outcome::Found(nearness.to_string()),
    };
    Finding {
        place: format!("thread of {}", gpu.device().info().id),
        outcome,
    }
}

/// Opens the GPUs that can be used, or says why none is.
fn open_gpus(
    discovery: &Discovery,
    options: &RuntimeOptions,
) -> Result<Vec<CudaPipelineDevice>, String> {
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
    let mut gpus = Vec::new();
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
                gpus.push(CudaPipelineDevice::new(
                    device,
                    images.clone(),
                    architecture,
                ));
            }
            Err(error) => trouble.push(error.to_string()),
        }
    }
    if gpus.is_empty() {
        return Err(trouble.join("; "));
    }
    Ok(gpus)
}
