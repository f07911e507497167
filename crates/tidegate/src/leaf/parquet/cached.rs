//! The host tier in front of Parquet files.
//!
//! [`CachedSource`] wraps DataFusion's `ParquetSource` and overrides one thing: how a file is planned.
//! A file that is what it was when its chunks were read (one request for its metadata tells; it is not
//! opened) gives the row groups of which all columns are in host memory from there, and has the inner
//! source read the others. Row groups that the footer's statistics rule out are left out of both.
//! What the inner source reads anyway is kept on the way, if the tier takes it: a run of whole row
//! groups whose rows all came. Where pages were skipped, nothing is kept.
//!
//! A scan that filters rows itself, computes expressions or has columns that are in no file is left
//! as it is.

mod fill;
mod page_fill;
mod planner;
mod pruning;
mod scan;

use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileScanConfig, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::morsel::Morselizer;
use object_store::ObjectStore;
use tidegate_scheduler::cache::host::HostChunk;

use super::files::HostCache;
use crate::files::file_scan;
use crate::files::guard::unguarded;
use crate::files::layer::{Layer, Layered, Opening};
use crate::options::{CacheMode, TidegateOptions};
pub(crate) use page_fill::PageFill;
use planner::CachedMorselizer;
pub(super) use pruning::Pruning;
pub(crate) use scan::reorders;
pub(super) use scan::selects_rows;
use scan::{CachedScan, Step};

/// A `ParquetSource` behind the host tier.
pub(crate) type CachedSource = Layered<HostTierLayer>;

/// The host tier, as one scan sees it.
#[derive(Clone)]
pub(crate) struct HostTierLayer {
    scan: Arc<CachedScan>,
    batch_size: usize,
}

/// Returns the Parquet source of a scan, behind the host tier and the guard or not.
pub(crate) fn planned_source(source: &Arc<dyn FileSource>) -> Option<&ParquetSource> {
    let source = match source.downcast_ref::<CachedSource>() {
        Some(cached) => &cached.inner,
        None => source,
    };
    unguarded(source).downcast_ref::<ParquetSource>()
}

/// The memory limit under which what is read is kept only where the tier's size was set: decoding whole
/// columns takes about as much again as the tier holds, and statements would lack it.
const FILLS_ABOVE: u64 = 1 << 30;

/// Decides whether scans read through the host tier, and then whether they fill it. `memory_limit` is that
/// of all statements. `None` if they have no use for it.
pub(crate) fn fills_host_tier(
    cache: &HostCache,
    options: &TidegateOptions,
    memory_limit: u64,
) -> Option<bool> {
    let tier = cache.columns().host();
    let has_room = options.host_cache_limit.is_some()
        || options.memory_limit.unwrap_or(memory_limit) >= FILLS_ABOVE;
    let fills = options.cache == CacheMode::Auto && tier.limit() > 0 && has_room;
    let is_used = options.cache != CacheMode::Off && (fills || !tier.is_empty());
    is_used.then_some(fills)
}

/// Puts the host tier in front of a Parquet scan that can do with it; `None` for any other node.
pub(crate) fn wrapped_scan(
    plan: &Arc<dyn ExecutionPlan>,
    cache: &Arc<HostCache>,
    fills: bool,
) -> Option<Arc<dyn ExecutionPlan>> {
    let mut config = file_scan(plan)?.clone();
    config.file_source = Arc::new(CachedSource::over(&config, cache, fills).ok()?);
    Some(DataSourceExec::from_data_source(config))
}

/// Puts the host tier in front of `other` if it stands in front of `planned`.
pub(super) fn as_well(planned: &FileScanConfig, mut other: FileScanConfig) -> FileScanConfig {
    if let Some(cached) = planned.file_source().downcast_ref::<CachedSource>()
        && let Ok(source) =
            CachedSource::over(&other, cached.layer.scan.cache(), cached.layer.scan.fills())
    {
        other.file_source = Arc::new(source);
    }
    other
}

/// A row group that goes through the host tier.
pub(super) enum Kept {
    /// The tier has it: its columns, as the scan has them.
    Chunks(usize, Vec<Arc<HostChunk>>),
    /// It is kept when it is read.
    Fill(usize, Box<PageFill>),
}

impl CachedSource {
    /// Returns the row groups of a file that go through the host tier. An access plan may name row groups of
    /// the file.
    pub(super) async fn kept_row_groups(
        &self,
        file: &PartitionedFile,
        store: &Arc<dyn ObjectStore>,
    ) -> Vec<Kept> {
        let Some(known) = self.layer.scan.open(file, store).await else {
            return Vec::new();
        };
        let steps = self.layer.scan.steps(file, &known);
        let mut row_groups = Vec::new();
        for step in steps.map_or_else(Vec::new, |decided| decided.steps) {
            match step {
                Step::Serve(numbers, chunks) => {
                    let served = numbers.into_iter().zip(chunks);
                    row_groups.extend(served.map(|(number, chunks)| Kept::Chunks(number, chunks)));
                }
                Step::Read(numbers, Some(kept)) => {
                    let bid = kept.bid;
                    let fills = kept.row_groups.into_iter().map(|missing| {
                        PageFill::new(&self.layer.scan, &known, store, missing, bid)
                    });
                    let fills = numbers.into_iter().zip(fills);
                    row_groups
                        .extend(fills.map(|(number, fill)| Kept::Fill(number, Box::new(fill))));
                }
                Step::Read(_, None) => {}
            }
        }
        row_groups
    }

    /// Wraps the source of a scan, or says why it cannot be.
    pub(crate) fn over(
        config: &FileScanConfig,
        cache: &Arc<HostCache>,
        fills: bool,
    ) -> Result<Self, String> {
        let inner = config.file_source();
        let Some(planned) = unguarded(inner).downcast_ref::<ParquetSource>() else {
            return Err("it does not read Parquet files".into());
        };
        Ok(Self {
            layer: HostTierLayer {
                scan: Arc::new(CachedScan::try_new(config, planned, cache, fills)?),
                batch_size: 0,
            },
            inner: Arc::clone(inner),
        })
    }
}

impl Layer for HostTierLayer {
    fn morselizer(&self, inner: Box<dyn Morselizer>, opening: Opening<'_>) -> Box<dyn Morselizer> {
        Box::new(CachedMorselizer::new(
            Arc::from(inner),
            Arc::clone(&self.scan),
            opening.store,
            opening.source.metrics().clone(),
            opening.partition,
            self.batch_size,
        ))
    }

    fn with_batch_size(&self, batch_size: usize) -> Self {
        Self {
            scan: Arc::clone(&self.scan),
            batch_size,
        }
    }
}
