//! Tidegate: SQL and DataFrames over Arrow data, in regions that mix host and device.
//!
//! A [`Session`] plans with DataFusion and runs each *region* of a plan (scan, filter, projection,
//! group-by) on the host, on a device, or morsel by morsel on both, and says where and why. This
//! crate is the API boundary, and the only one that names DataFusion's plan types. It must not know
//! terminals or gRPC.
//!
//! ```
//! # #[tokio::main(flavor = "multi_thread")]
//! # async fn main() -> Result<(), tidegate::Error> {
//! let session = tidegate::Session::new()?;
//! let rows = session.collect("SELECT count(*) FROM tpch('orders', 0.01)").await?;
//! assert_eq!(rows[0].num_rows(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! In reading order, the life of a query: [`statements`] (text is bounded and split), [`session`]
//! (planned), `rewrite` (what DataFusion plans otherwise than SQL says), `rule` (regions are found),
//! `lower` (a region becomes a program), `region` (it runs on both sides), `leaf` (they share its scan),
//! `query` (its end is written down). A new aggregate function enters in `lower::aggregate`; its meaning is in `tidegate_pipeline::interpret`.

pub mod error;
pub mod files;
pub mod generate;
mod node_rule;
pub mod options;
pub mod runtime;
pub mod session;
mod sorts;
pub mod sources;
pub mod spread;
pub mod stages;
pub mod statements;
pub mod stores;
pub mod tensors;

mod accounted;
mod clients;
mod floats;
mod frames;
mod functions;
mod leaf;
mod lower;
mod mapping;
mod memory;
mod mistakes;
mod query;
mod region;
mod rewrite;
mod rule;
mod spilling;
mod sql_type;
mod suggest;
mod system;
mod task_context;
mod unary;
mod windows;

pub use clients::{ClientOptions, LOCKED_SETTINGS};
pub use datafusion::dataframe::DataFrame;
pub use datafusion::execution::SendableRecordBatchStream;
pub use error::{Error, ErrorKind, SqlPlace, causes};
pub use files::text_keys::with_text_keys;
pub use floats::CanonicalFloats;
pub use frames::{Backend, FrameExt};
pub use functions::custom::ScalarFunction;
pub use functions::span_texts::with_span_texts;
pub use mapping::{DeviceBatch, DeviceColumn, DeviceWorkError, MapOptions};
pub use options::TidegateOptions;
pub use query::{
    CancelHandle, LaneWork, LoggedQuery, OperatorReport, QueryPlacement, QueryProfile,
    QueryProgress, QueryReport, QueryState, QueryWatcher, Work, WorkPiece,
};
pub use region::PipelineExec;
pub use region::report::RegionReport;
pub use rule::PlacePipelines;
pub use runtime::{FaultPlan, Runtime, RuntimeOptions, SimulatedSpec};
pub use session::{
    CacheActivity, CompiledKernel, DoctorReport, EntryPoint, HeldMemory, IfExists, IfMissing,
    Ingest, IngestTarget, IntoTask, KernelCompiler, KernelReport, KernelSource, Names,
    PlacementExt, Planned, Prepared, Query, Session, SessionBuilder, StatementKind, TEMP_SCHEMA,
    TableInfo, TableKind, TableNames, add_to,
};
pub use sql_type::sql_type;
pub use stores::StoreOptions;
pub use stores::access::AllowedPaths;
pub use system::reports::{MemoryReport, SessionReport};
pub use task_context::copied_context;
pub use tidegate_device::keep_heap_small;
pub use tidegate_kernels::{DeviceMemory, DeviceStream, Phases, StreamKernel};
pub use tidegate_scheduler::tasks::{
    GraphError, GraphHandles, Handle, Inputs, Phase, Progress, Task, TaskContext, TaskError,
    TaskGraph,
};
pub use tidegate_scheduler::{
    AdmissionError, AdmissionGate, AdmissionLimits, AdmissionRequest, Permit, Place, PlaceReport,
    PlaceStats,
};
pub use unary::{UnaryExec, UnaryOperator};
