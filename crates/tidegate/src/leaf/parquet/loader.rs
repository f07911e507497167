//! Row groups of a scan's files, and their rows for a device.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource_parquet::{DefaultParquetFileReaderFactory, ParquetAccessPlan};
use futures::future::BoxFuture;
use futures::{FutureExt, TryStreamExt};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, RowGroupMetaData};
use tidegate_scheduler::{ChunkKey, LoadError, MorselId, MorselLoader, MorselSize, ScanKey};

use super::cached::{self, planned_source};
use super::identity::Identities;
use super::rows::AllRows;
use crate::files::guard::{ExpectedRows, guarded};

/// The files of a scan, and for each that was listed the row groups that are its morsels.
#[derive(Debug)]
pub(crate) struct RowGroups {
    files: Vec<PartitionedFile>,
    listed: Mutex<Vec<Option<Listed>>>,
}

#[derive(Clone, Debug)]
struct Listed {
    /// Row groups of the whole file.
    num_row_groups: usize,
    /// The row groups of this piece of it, with their sizes.
    morsels: Arc<[(usize, MorselSize)]>,
    /// A hash of where the footer says that row groups lie.
    footer: u64,
}

impl RowGroups {
    /// Makes the list of a scan's files, in the order of their pieces.
    pub(crate) fn new(config: &FileScanConfig) -> Self {
        let files: Vec<PartitionedFile> = config
            .file_groups
            .iter()
            .flat_map(FileGroup::iter)
            .cloned()
            .collect();
        let listed = Mutex::new(vec![None; files.len()]);
        Self { files, listed }
    }

    /// Returns a piece's file as it was when the scan was planned.
    pub(super) fn file(&self, piece: usize) -> &PartitionedFile {
        &self.files[piece]
    }

    /// Returns the files, in the order of their pieces.
    pub(super) fn files(&self) -> &[PartitionedFile] {
        &self.files
    }

    /// Returns how many files there are.
    pub(super) fn num_files(&self) -> usize {
        self.files.len()
    }

    /// Returns the hash of a listed piece's footer, and the row groups of its morsels.
    pub(super) fn footer(&self, piece: usize) -> Option<(u64, Vec<u64>)> {
        let listed = self.listed.lock();
        let listed = listed[piece].as_ref()?;
        let numbers = listed.morsels.iter().map(|(number, _)| *number as u64);
        Some((listed.footer, numbers.collect()))
    }

    fn sizes(&self, piece: usize) -> Option<Vec<MorselSize>> {
        let listed = self.listed.lock();
        let morsels = &listed[piece].as_ref()?.morsels;
        Some(morsels.iter().map(|(_, size)| *size).collect())
    }

    /// Returns a listed piece's file with an access plan for these of its morsels.
    pub(crate) fn file_with(
        &self,
        piece: usize,
        morsels: impl Iterator<Item = usize>,
    ) -> Result<PartitionedFile> {
        let listed = self.listed.lock()[piece].clone();
        let Some(Listed {
            num_row_groups,
            morsels: row_groups,
            ..
        }) = listed
        else {
            return internal_err!(
                "piece {piece} of a Parquet scan was claimed before it was listed"
            );
        };
        let mut access = ParquetAccessPlan::new_none(num_row_groups);
        let mut num_rows = 0;
        morsels.for_each(|index| {
            let (row_group, size) = row_groups[index];
            access.scan(row_group);
            num_rows += size.num_rows;
        });
        let file = self.files[piece].clone().with_extension(access);
        Ok(file.with_extension(ExpectedRows(num_rows)))
    }
}

/// Reads footers and lists row groups.
#[derive(Clone, Debug)]
pub(crate) struct RowGroupLister {
    row_groups: Arc<RowGroups>,
    readers: Arc<dyn ParquetFileReaderFactory>,
    /// Names of the file columns that are read, for estimating bytes.
    columns: Arc<[String]>,
    metrics: ExecutionPlanMetricsSet,
}

impl RowGroupLister {
    /// Makes a lister that reads footers the way the scan's source does.
    pub(crate) fn try_new(
        config: &FileScanConfig,
        source: &ParquetSource,
        columns: Arc<[String]>,
        row_groups: Arc<RowGroups>,
        ctx: &TaskContext,
    ) -> Result<Self> {
        let readers = match source.parquet_file_reader_factory() {
            Some(readers) => Arc::clone(readers),
            None => {
                let store = ctx.runtime_env().object_store(&config.object_store_url)?;
                Arc::new(DefaultParquetFileReaderFactory::new(store)) as _
            }
        };
        Ok(Self {
            row_groups,
            readers,
            columns,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Lists a piece, reading its footer unless it is known.
    pub(crate) async fn list(self, piece: usize) -> Result<Vec<MorselSize>> {
        if let Some(sizes) = self.row_groups.sizes(piece) {
            return Ok(sizes);
        }
        let file = &self.row_groups.files[piece];
        let hint = file.metadata_size_hint;
        let mut reader = self
            .readers
            .create_reader(0, file.clone(), hint, &self.metrics)?;
        // The page index comes along, for the source would load it again for each access plan.
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        let metadata = reader.get_metadata(Some(&options)).await.map_err(|error| {
            DataFusionError::from(error).context(format!(
                "reading the footer of {}",
                file.object_meta.location
            ))
        })?;
        let morsels = self.morsels(file, &metadata);
        let sizes = morsels.iter().map(|(_, size)| *size).collect();
        let num_row_groups = metadata.num_row_groups();
        self.row_groups.listed.lock()[piece] = Some(Listed {
            num_row_groups,
            morsels,
            footer: footer_hash(&metadata),
        });
        Ok(sizes)
    }

    fn morsels(
        &self,
        file: &PartitionedFile,
        metadata: &ParquetMetaData,
    ) -> Arc<[(usize, MorselSize)]> {
        let in_range = |row_group: &RowGroupMetaData| match &file.range {
            Some(range) if row_group.num_columns() > 0 => range.contains(first_page(row_group)),
            _ => true,
        };
        let row_groups = metadata.row_groups().iter().enumerate();
        row_groups
            .filter(|(_, row_group)| in_range(row_group))
            .map(|(index, row_group)| (index, self.size(row_group)))
            .collect()
    }

    fn size(&self, row_group: &RowGroupMetaData) -> MorselSize {
        let read = row_group.columns().iter().filter(|column| {
            let root = column.column_path().parts().first();
            root.is_some_and(|root| self.columns.contains(root))
        });
        let num_bytes = read
            .map(|column| column.uncompressed_size().max(0) as u64)
            .sum();
        MorselSize {
            num_rows: row_group.num_rows().max(0) as u64,
            num_bytes,
        }
    }
}

/// Hashes where the row groups of a file lie and how many rows they have.
pub(super) fn footer_hash(metadata: &ParquetMetaData) -> u64 {
    let mut hasher = DefaultHasher::new();
    for row_group in metadata.row_groups() {
        row_group.num_rows().hash(&mut hasher);
        row_group.total_byte_size().hash(&mut hasher);
        row_group.compressed_size().hash(&mut hasher);
        if row_group.num_columns() > 0 {
            first_page(row_group).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Returns the offset by which DataFusion assigns a row group to a byte range: its first page's.
pub(crate) fn first_page(row_group: &RowGroupMetaData) -> i64 {
    let column = row_group.column(0);
    column
        .dictionary_page_offset()
        .unwrap_or_else(|| column.data_page_offset())
}

/// Reads single row groups of a Parquet scan.
#[derive(Debug)]
pub(crate) struct ParquetLoader {
    /// The scan without files.
    config: FileScanConfig,
    lister: RowGroupLister,
    identities: Arc<Identities>,
    rows: Arc<AllRows>,
    ctx: Arc<TaskContext>,
}

impl ParquetLoader {
    /// Makes a loader of these table columns, through a source with the scan's own options,
    /// predicate (which only prunes), readers and host tier.
    pub(crate) fn try_new(
        config: &FileScanConfig,
        columns: &[usize],
        row_groups: Arc<RowGroups>,
        rows: &Arc<AllRows>,
        ctx: &Arc<TaskContext>,
    ) -> Result<Self> {
        let Some(planned) = planned_source(config.file_source()) else {
            return internal_err!("a Parquet leaf over another source");
        };
        let mut source = ParquetSource::new(planned.table_schema().clone())
            .with_table_parquet_options(planned.table_parquet_options().clone());
        if let Some(readers) = planned.parquet_file_reader_factory() {
            source = source.with_parquet_file_reader_factory(Arc::clone(readers));
        }
        if let Some(predicate) = planned.filter() {
            source = source.with_predicate(predicate);
        }
        let table = planned.table_schema().table_schema();
        let names: Arc<[String]> = columns
            .iter()
            .map(|&index| table.field(index).name().clone())
            .collect();
        let lister = RowGroupLister::try_new(config, planned, names, row_groups, ctx)?;
        let identities = Identities::new(config, planned, columns, &lister.row_groups, ctx)?;
        let url = config.object_store_url.clone();
        let mut single = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_projection_indices(Some(columns.to_vec()))?
            .build();
        // The guard passes no projection on.
        single.file_source = guarded(single.file_source, &single.object_store_url);
        Ok(Self {
            config: cached::as_well(config, single),
            lister,
            identities: Arc::new(identities),
            rows: Arc::clone(rows),
            ctx: Arc::clone(ctx),
        })
    }

    /// Returns what lists the scan's row groups.
    pub(crate) fn lister(&self) -> &RowGroupLister {
        &self.lister
    }
}

impl MorselLoader for ParquetLoader {
    fn list(&self, piece: usize) -> BoxFuture<'static, Result<Vec<MorselSize>, LoadError>> {
        let listing = self.lister().clone().list(piece);
        async move { listing.await.map_err(LoadError::from) }.boxed()
    }

    fn load(&self, morsel: MorselId) -> BoxFuture<'static, Result<Vec<RecordBatch>, LoadError>> {
        let file = self
            .lister
            .row_groups
            .file_with(morsel.piece, std::iter::once(morsel.index));
        let config = self.config.clone();
        let ctx = Arc::clone(&self.ctx);
        async move {
            let config = FileScanConfigBuilder::from(config)
                .with_file_groups(vec![FileGroup::new(vec![file?])])
                .build();
            let scan = DataSourceExec::from_data_source(config);
            let batches = scan.execute(0, ctx)?.try_collect().await?;
            Ok(batches)
        }
        .boxed()
    }

    fn names_chunks(&self) -> bool {
        true
    }

    fn identify(&self, piece: usize) -> BoxFuture<'static, Result<(), LoadError>> {
        let identities = Arc::clone(&self.identities);
        async move { identities.find(piece).await.map_err(LoadError::from) }.boxed()
    }

    fn chunk_key(&self, morsel: MorselId, column: usize) -> Option<ChunkKey> {
        self.identities.chunk_key(morsel, column)
    }

    fn scan_key(&self) -> Option<ScanKey> {
        self.rows.scan_key()
    }

    fn reads_all_of(&self, scan: &ScanKey) -> Option<Vec<usize>> {
        self.rows.reads_all_of(scan)
    }

    fn is_as_planned(&self) -> BoxFuture<'static, Result<bool, LoadError>> {
        let identities = Arc::clone(&self.identities);
        async move { identities.are_as_planned().await.map_err(LoadError::from) }.boxed()
    }
}
