//! The leaves of regions: what a chain reads from, and how host and device share it.
//!
//! A [`Leaf`] knows how its scan is cut into pieces and morsels, how a device's loader reads a
//! morsel, how the host's chain is made to yield only what it claims (the *gated* leaf), and how a
//! fresh leaf yields exactly the morsels that must be run again.
//!
//! [`parquet`] gates DataFusion's own Parquet source, row group by row group. [`morsels`] is a source
//! of our own for memory tables and generated tables. [`pulled`] stands above any other leaf and
//! decides batch by batch.

pub(crate) mod morsels;
pub(crate) mod parquet;
pub(crate) mod pulled;

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use tidegate_scheduler::{MixedRun, Morsel, MorselLoader, ScanKey};

use crate::options::TidegateOptions;

/// What the gated leaf and its region's streams share: the run of this instance of the plan.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    run: OnceLock<Arc<MixedRun>>,
}

impl Slot {
    /// Returns the run, if the region has begun; a gated leaf without one yields everything.
    pub(crate) fn run(&self) -> Option<&Arc<MixedRun>> {
        self.run.get()
    }

    /// Returns the run, made by `begin` for whoever comes first.
    pub(crate) fn begin(
        &self,
        begin: impl FnOnce() -> Result<Arc<MixedRun>>,
    ) -> Result<&Arc<MixedRun>> {
        match self.run.get() {
            Some(run) => Ok(run),
            None => {
                let run = begin()?;
                Ok(self.run.get_or_init(|| run))
            }
        }
    }
}

/// A leaf that host and device can share.
///
/// # Contract
/// - `gated` yields, with a run in the slot, exactly the rows of the morsels that it claims from the
///   run's queue; without one, all rows. Schema and partitioning are the original leaf's.
/// - `loader` and `replay` give each morsel's rows in the columns of the original leaf.
pub(crate) trait Leaf: Debug + Send + Sync {
    /// Returns each piece's partition, `None` where any partition may read it.
    fn pieces(&self) -> Vec<Option<usize>>;

    /// Returns whether morsels can be read again after the leaf has been executed, and without it.
    fn rereads(&self) -> bool;

    /// Returns the leaf that goes into the host's chain.
    fn gated(&self, slot: &Arc<Slot>) -> Result<Arc<dyn ExecutionPlan>>;

    /// Returns the leaf of another execution whose plan has `gate` where [`Leaf::gated`] once put its
    /// node: rewriting or resetting a plan may have replaced what that node reads, such as the work
    /// table of a recursive query. `None` if this leaf does as well.
    fn behind(&self, _gate: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn Leaf>> {
        None
    }

    /// Names the rows of the whole scan, as [`MorselLoader::scan_key`] does.
    fn scan_key(&self) -> Option<ScanKey> {
        None
    }

    /// Returns whether just the rows of this scan are read, as
    /// [`MorselLoader::reads_all_of`] does.
    fn reads_all_of(&self, _scan: &ScanKey) -> Option<Vec<usize>> {
        None
    }

    /// Says what is read, if it can be read again by other queries: a number that the same rows and
    /// columns have as long as they are there, and a name to show.
    fn what(&self) -> Option<(u64, String)> {
        None
    }

    /// Returns whether devices may make the rows themselves.
    fn is_generated(&self) -> bool {
        false
    }

    /// Returns what reads morsels for a device.
    fn loader(&self, ctx: &Arc<TaskContext>) -> Result<Arc<dyn MorselLoader>>;

    /// Returns a fresh leaf of one partition with just these morsels.
    fn replay(
        &self,
        loader: &Arc<dyn MorselLoader>,
        morsels: &[Morsel],
    ) -> Result<Arc<dyn ExecutionPlan>>;
}

/// What a region needs to know to cut its leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafOptions {
    /// The most rows of a morsel where the source leaves the choice.
    pub(crate) morsel_rows: usize,
    /// The most rows of a batch that is made of a morsel.
    pub(crate) batch_size: usize,
    /// Partitions among which the host shares its work.
    pub(crate) target_partitions: usize,
    /// DataFusion lets file streams take over each other's files.
    pub(crate) file_work_stealing: bool,
    /// Rows may be read in another order than the source has them.
    pub(crate) in_any_order: bool,
}

impl LeafOptions {
    /// Reads them from a configuration, for rows that keep their order.
    pub(crate) fn of(config: &ConfigOptions) -> Self {
        Self {
            morsel_rows: TidegateOptions::of(config).morsel_rows,
            batch_size: config.execution.batch_size.get(),
            target_partitions: config.execution.target_partitions,
            file_work_stealing: config.execution.enable_file_stream_work_stealing,
            in_any_order: false,
        }
    }

    /// Returns these for whoever does not look at the order of rows, as an aggregate does not.
    pub(crate) fn in_any_order(self, in_any_order: bool) -> Self {
        Self {
            in_any_order,
            ..self
        }
    }
}

/// Finds how a leaf is shared, or why it is not.
pub(crate) fn leaf_of(
    plan: &Arc<dyn ExecutionPlan>,
    options: LeafOptions,
) -> std::result::Result<Arc<dyn Leaf>, String> {
    if plan.is::<EmptyExec>() || plan.is::<PlaceholderRowExec>() {
        return Err(format!("{} has no rows to place", plan.name()));
    }
    if let Some(leaf) = parquet::ParquetLeaf::of(plan, options) {
        return leaf.map(|leaf| Arc::new(leaf) as Arc<dyn Leaf>);
    }
    if let Some(leaf) = morsels::MorselLeaf::of(plan, options) {
        return leaf.map(|leaf| Arc::new(leaf) as Arc<dyn Leaf>);
    }
    pulled::PulledLeaf::of(plan, options).map(|leaf| Arc::new(leaf) as Arc<dyn Leaf>)
}
