//! Decides, morsel by morsel, where a pipeline runs, and accounts for every morsel.
//!
//! A scan is one [`MorselQueue`]. The host's partitions claim morsels from its front, each device's
//! feeder from its back, so that whoever is idle takes the next. [`place`] says whether a device
//! should take a morsel: a pure function of what is known. A [`MixedRun`] owns the feeders of one
//! region: it loads a device's morsels, folds them, commits the state once its rows are back on the
//! host, and hands whatever was folded but never committed to the host to be run again. A
//! [`ColumnCache`] keeps column chunks on devices from query to query; what is resident is folded
//! without being loaded, and a scan that is resident as a whole without a queue ([`ResidentScan`]).
//!
//! This crate must not know: DataFusion plans, SQL text, or how rows are read; sources come in
//! through [`MorselLoader`], devices through `tidegate_kernels::PipelineDevice`.
//!
//! In reading order: [`place`] (who should run a morsel), [`rates`] (how fast each is), [`queue`]
//! (who does), [`feeder`] (how a device works its share), [`ladder`] (what it does when memory is
//! short), [`cache`] (what it need not load), [`run`] (a region's life), [`admission`] (which queries
//! run, and whose turn it is), [`dispatch`] (what queries share), [`counters`] (what can be told
//! afterwards), [`tasks`] (what else a program hands over).

pub mod admission;
pub mod cache;
pub mod counters;
pub mod dispatch;
pub mod feeder;
pub mod ladder;
pub mod place;
pub mod queue;
pub mod rates;
pub mod run;
pub mod tasks;

mod residency;
mod resident;

#[cfg(test)]
mod tests;

pub use admission::{AdmissionError, AdmissionGate, AdmissionLimits, AdmissionRequest, Permit};
pub use cache::automatic::Promotion;
pub use cache::host::{HostTier, TierActivity};
pub use cache::pinned::{
    GroupLabel, PinnedActivity, PinnedChunk, PinnedGroup, PinnedMorsel, PinnedTier,
};
pub use cache::{
    CachedChunk, CachedTable, ChunkKey, ColumnCache, ColumnReport, Kept, ScanKey, ScanRows,
    WholeRun,
};
pub use counters::{
    ClaimStats, DECISIONS_MAX, Decided, DecisionReport, PlaceReport, PlaceStats, RegionCounters,
    Setbacks,
};
pub use dispatch::Dispatch;
pub use feeder::{Choice, LoadError, MorselLoader};
pub use ladder::{Evict, NothingCached};
pub use place::{
    Estimate, HostClaim, Place, PlacementMode, PlacementPattern, Reason, RecordedPlacement,
    RecordedRegion, Replay, Rest,
};
pub use queue::{ClaimPolicy, Morsel, MorselId, MorselQueue, MorselSize};
pub use rates::{Rates, ShapeKey};
pub use residency::ArrayScan;
pub use resident::{BegunAnswer, ResidentFailure, ResidentScan};
pub use run::{AtomicRun, HostClaimer, MixedRun, RunFailure, RunSpec, Tail, Visit};
