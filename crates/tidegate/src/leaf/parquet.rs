//! Parquet files, shared row group by row group.
//!
//! The gate wraps DataFusion's `ParquetSource` and overrides one thing: how a file is planned. Each
//! file (or byte range of one) is a piece of the scan's queue. When the host comes to a file, the
//! gate lists its row groups by DataFusion's own rule, claims a guided run of them, and has the inner
//! source plan the file with an access plan for exactly those; it comes back for more until nothing
//! of the piece is left. Reading, pruning, schema evolution, partition columns, dynamic filters and
//! metrics stay the inner source's.
//!
//! A device's loader reads a row group through the same source, with the leaf's columns, so both
//! sides see the same rows by construction.
//!
//! Below the gate, and where there is none, [`cached`] puts the host tier in front of the files.

pub(crate) mod cached;
mod columns;
pub(crate) mod files;
mod identity;
mod loader;
pub(crate) mod pages;
mod planner;
pub(crate) mod rows;
mod source;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource_parquet::{ParquetAccessPlan, ParquetRowSelection};
use tidegate_scheduler::{Morsel, MorselLoader, ScanKey};

use crate::files::file_scan;

use super::{Leaf, LeafOptions, Slot};
use cached::planned_source;
use columns::columns_of;
pub(crate) use loader::first_page;
use loader::{ParquetLoader, RowGroups};
use rows::AllRows;
use source::{Gate, GatedSource};

/// Marks a file of a gated scan with its piece of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceOf(pub(crate) usize);

/// A Parquet scan that can be shared.
#[derive(Debug)]
pub(crate) struct ParquetLeaf {
    /// The scan as planned, its files marked with their pieces.
    config: FileScanConfig,
    /// The table columns that the leaf yields, in order.
    columns: Vec<usize>,
    partitions: Vec<Option<usize>>,
    row_groups: Arc<RowGroups>,
    rows: Arc<AllRows>,
}

impl ParquetLeaf {
    /// Returns the leaf if `plan` scans Parquet, or why it cannot be shared.
    pub(crate) fn of(
        plan: &Arc<dyn ExecutionPlan>,
        options: LeafOptions,
    ) -> Option<std::result::Result<Self, String>> {
        let config = file_scan(plan)?;
        let source = planned_source(config.file_source())?;
        Some(Self::try_new(config, source, options))
    }

    fn try_new(
        config: &FileScanConfig,
        source: &ParquetSource,
        options: LeafOptions,
    ) -> std::result::Result<Self, String> {
        let parquet = &source.table_parquet_options().global;
        if parquet.pushdown_filters {
            return Err("the scan filters rows itself (parquet.pushdown_filters)".into());
        }
        if config.limit.is_some() {
            return Err("LIMIT inside the scan".into());
        }
        if config.output_partitioning.is_some() {
            return Err("the scan keeps its files' partitioning".into());
        }
        // DataFusion sets this for every scan of files that say that they are sorted.
        if config.preserve_order && !options.in_any_order {
            return Err("the scan keeps its files' order".into());
        }
        let columns = columns_of(config, source)?;
        let selected = |file: &PartitionedFile| {
            file.extension::<ParquetAccessPlan>().is_some()
                || file.extension::<ParquetRowSelection>().is_some()
        };
        if config
            .file_groups
            .iter()
            .flat_map(FileGroup::iter)
            .any(selected)
        {
            return Err("the scan already selects rows of its files".into());
        }
        let mut config = config.clone();
        config.preserve_order = false;
        config.output_ordering.clear();
        let mut partitions = Vec::new();
        for (partition, group) in config.file_groups.iter_mut().enumerate() {
            let mark = |file: &PartitionedFile| {
                let piece = PieceOf(partitions.len());
                partitions.push((!options.file_work_stealing).then_some(partition));
                file.clone().with_extension(piece)
            };
            *group = FileGroup::new(group.iter().map(mark).collect());
        }
        let row_groups = Arc::new(RowGroups::new(&config));
        let rows = Arc::new(AllRows::new(&config, source, &columns, &row_groups));
        Ok(Self {
            config,
            columns,
            partitions,
            row_groups,
            rows,
        })
    }
}

impl Leaf for ParquetLeaf {
    fn pieces(&self) -> Vec<Option<usize>> {
        self.partitions.clone()
    }

    fn rereads(&self) -> bool {
        true
    }

    fn gated(&self, slot: &Arc<Slot>) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = Arc::clone(self.config.file_source());
        let layer = Gate {
            slot: Arc::clone(slot),
            row_groups: Arc::clone(&self.row_groups),
        };
        let gated = GatedSource { inner, layer };
        let config = FileScanConfigBuilder::from(self.config.clone())
            .with_source(Arc::new(gated))
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }

    fn what(&self) -> Option<(u64, String)> {
        let mut hash = DefaultHasher::new();
        let files = self.config.file_groups.iter().flat_map(FileGroup::iter);
        let mut name = None;
        for file in files {
            let meta = &file.object_meta;
            (meta.location.as_ref(), meta.size, meta.last_modified).hash(&mut hash);
            file.range
                .as_ref()
                .map(|range| (range.start, range.end))
                .hash(&mut hash);
            name.get_or_insert_with(|| meta.location.to_string());
        }
        self.columns.hash(&mut hash);
        Some((hash.finish(), name?))
    }

    fn loader(&self, ctx: &Arc<TaskContext>) -> Result<Arc<dyn MorselLoader>> {
        let (config, row_groups) = (&self.config, Arc::clone(&self.row_groups));
        let loader = ParquetLoader::try_new(config, &self.columns, row_groups, &self.rows, ctx)?;
        Ok(Arc::new(loader))
    }

    fn scan_key(&self) -> Option<ScanKey> {
        self.rows.scan_key()
    }

    fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        self.rows.reads_all_of(scan)
    }

    fn replay(
        &self,
        _: &Arc<dyn MorselLoader>,
        morsels: &[Morsel],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut files = Vec::new();
        for run in morsels.chunk_by(|left, right| left.id.piece == right.id.piece) {
            let piece = run[0].id.piece;
            let indices = run.iter().map(|morsel| morsel.id.index);
            files.push(self.row_groups.file_with(piece, indices)?);
        }
        let config = FileScanConfigBuilder::from(self.config.clone())
            .with_file_groups(vec![FileGroup::new(files)])
            .build();
        Ok(DataSourceExec::from_data_source(config))
    }
}
