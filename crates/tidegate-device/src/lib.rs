//! The devices of this machine: found at run time, with a memory budget each, and a simulated one
//! for machines that have none.
//!
//! [`discover`] looks for the NVIDIA driver and for NVRTC, and records every place that it looked
//! at, so that "no device" always comes with its reason. A [`MemoryBudget`] promises bytes as
//! [`Reservation`]s before work starts. A [`SimulatedDevice`] is a thread with a memory limit,
//! modelled bandwidth and speed, and asynchronous completion; it runs closures, never knowing what
//! they compute. A [`CudaDevice`] is a thread too, which alone calls the driver for its GPU. Both fail
//! where a [`FaultPlan`] says so. A [`Compiler`] makes the code that it runs, and an [`ImageCache`] keeps it.
//!
//! This crate must not know: pipelines, queries, Arrow, DataFusion, or which settings and
//! environment variables its arguments came from.
//!
//! ```
//! use tidegate_device::{Cost, DeviceId, SimulatedDevice, SimulatedSpec};
//!
//! let device = SimulatedDevice::new(DeviceId(0), SimulatedSpec::with_memory(1 << 30))?;
//! let cost = Cost { copy_bytes: 4096, rows: 1000 };
//! let answer = futures::executor::block_on(device.submit(cost, || 6 * 7))?;
//! assert_eq!(answer, 42);
//! # Ok::<(), tidegate_device::DeviceError>(())
//! ```
//!
//! In reading order: [`info`] and [`error`] are the words, [`memory`] the budget, [`faults`] what is
//! planned to fail, [`simulated`] the simulated device, [`discovery`] how real ones are found, [`cuda`] how they are driven, and
//! [`compiler`] where their code comes from.

pub mod compiler;
pub mod cuda;
pub mod discovery;
pub mod error;
pub mod faults;
mod heap;
pub mod info;
mod library;
pub mod memory;
mod pending;
pub mod simulated;
mod threads;

pub use compiler::{CompileError, Compiled, Compiler, ImageCache, QUICKLY, WarmUp};
pub use cuda::{CudaDevice, CudaOptions};
pub use discovery::{CudaFound, Discovery, DiscoveryOptions, Finding, Outcome, discover};
pub use error::DeviceError;
pub use faults::{Fault, FaultPlan, Operation};
pub use heap::{keep_heap_small, trim_heap};
pub use info::{DeviceId, DeviceInfo, DeviceKind, DeviceRates};
pub use memory::{MakeRoom, MemoryBudget, Reservation};
pub use pending::{Pending, panic_text};
pub use simulated::{Cost, Counters, SimulatedDevice, SimulatedSpec, SpecError};
pub use threads::Threads;
