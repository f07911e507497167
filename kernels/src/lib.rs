//! Programs that run a [`Pipeline`](tidegate_pipeline::Pipeline) on a device.
//!
//! A [`PipelineDevice`] opens a [`PipelineRun`] per pipeline; the run folds batches into state that
//! stays on the device until it is finished. [`CudaPipelineDevice`] is a GPU with a kernel for each
//! pipeline; [`SimulatedPipelineDevice`] the reference interpreter on a simulated device's thread.
//!
//! This crate must not know: which rows a device is given or why, sessions, SQL, DataFusion plans.
//!
//! In reading order: [`backend`] is the contract of every device, [`transfer`] how many bytes a batch
//! is, [`stored`] columns that stay,
//! on the device or below it in pinned memory,
//! [`simulated`] the simulated backend. Then the way of a pipeline to a GPU: [`encode`] makes column
//! chunks, `load` brings them to the device, [`program`] is the kernel, [`engine`] is what a machine has to offer, [`table`], [`rows`],
//! [`columns`] and [`finish`] launch over it, [`groups`] brings groups back, an [`execution`] folds
//! chunks and lets the result leave, [`cuda`] is the backend, [`compiling`] how its work waits for kernels. [`random`] stands apart: random arrays,
//! with the same bits here and there; [`generated`] is parts of them in the place of rows. [`stream`] is
//! for work of a user's own.

pub mod backend;
pub mod columns;
pub mod compiling;
pub mod cuda;
pub mod encode;
pub mod engine;
pub mod execution;
pub mod finish;
pub mod generated;
pub mod groups;
pub mod host;
mod load;
pub mod program;
pub mod random;
pub mod rows;
pub mod simulated;
pub mod stored;
pub mod stream;
pub mod strings;
pub mod table;
pub mod transfer;

pub use backend::{
    Finished, FoldReport, Phases, PipelineDevice, PipelineRun, RunError, Sample, Unsuited,
};
pub use compiling::Waiting;
pub use cuda::CudaPipelineDevice;
pub use generated::GeneratedRun;
pub use simulated::SimulatedPipelineDevice;
pub use stored::{
    ColumnDictionary, Moving, PinnedColumn, Promoted, StoredColumn, StoredMorsel, StoredRun,
};
pub use stream::{DeviceMemory, DeviceStream, StreamKernel, StreamWork, UnderWay};
pub use transfer::referenced_bytes;
