//! Decides, morsel by morsel, where a pipeline runs, and keeps every morsel's books.
//!
//! A scan is one [`MorselQueue`]. The host's partitions claim morsels from its front, each device's
//! feeder from its back, so that whoever is idle takes the next. [`place`] says whether a device
//! should take a morsel: a pure function of what is known. A [`MixedRun`] owns the feeders of one
//! region: it loads a device's morsels, folds them, commits the state once its rows are back on the
//! host, and hands whatever was folded but never committed to the host to be run again. A
//! [`ColumnCache`] keeps column chunks on devices from query to query; what is resident is folded
//! without being loaded.
//!
//! This crate must not know: DataFusion plans, SQL text, or how rows are read; sources come in
//! through [`MorselLoader`], devices through `tidegate_kernels::PipelineDevice`.
//!
//! In reading order: [`place`] (who should run a morsel), [`queue`] (who does), [`feeder`] (how a
//! device works its share), [`cache`] (what it need not load), [`run`] (a region's life), [`counters`]
//! (what can be told afterwards).

pub mod cache;
pub mod counters;
pub mod feeder;
pub mod place;
pub mod queue;
pub mod run;

mod residency;

pub use cache::host::HostTier;
pub use cache::{CachedChunk, CachedTable, ChunkKey, ColumnCache, ColumnReport};
pub use counters::{PlaceReport, RegionCounters};
pub use feeder::{Choice, LoadError, MorselLoader};
pub use place::{Forecast, Place, PlacementMode, PlacementPattern, Reason};
pub use queue::{ClaimPolicy, Morsel, MorselId, MorselQueue, MorselSize};
pub use run::{AllOrNothing, MixedRun, RunFailure, RunSpec, Tail, Visit};
