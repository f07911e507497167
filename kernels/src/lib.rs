//! Programs that run a [`Pipeline`](tidegate_pipeline::Pipeline) on a device.
//!
//! A [`PipelineDevice`] opens a [`PipelineRun`] per pipeline; the run folds batches into state that
//! stays on the device until it is finished. [`SimulatedPipelineDevice`] is the one backend so far:
//! the reference interpreter on a simulated device's thread.
//!
//! This crate must not know: which rows a device is given or why, sessions, SQL, DataFusion plans.
//!
//! In reading order: [`backend`] is the contract of every device, [`chunk`] what must stay on the
//! host because of its values, [`transfer`] how many bytes a batch is, [`simulated`] the simulated
//! backend.

pub mod backend;
pub mod chunk;
pub mod cuda;
pub mod encode;
pub mod engine;
pub mod groups;
pub mod program;
pub mod rows;
pub mod simulated;
pub mod stored;
pub mod table;
pub mod transfer;

pub use backend::{FoldReport, PipelineDevice, PipelineRun, RunError};
pub use chunk::refuse_chunk;
pub use cuda::CudaPipelineDevice;
pub use simulated::SimulatedPipelineDevice;
pub use stored::{ColumnDictionary, StoredColumn, StoredMorsel};
pub use transfer::referenced_bytes;
