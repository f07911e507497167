//! What one scan wants of the host tier, and what it finds there for each file.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::{
    FileScanConfig, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::error::Result;
use datafusion::physical_plan::DisplayFormatType;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource_parquet::{
    DefaultParquetFileReaderFactory, ParquetAccessPlan, ParquetRowSelection, RowGroupAccess,
    RowGroupAccessPlanFilter,
};
use object_store::{ObjectStore, ObjectStoreExt as _};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::file::metadata::{PageIndexPolicy, RowGroupMetaData};
use tidegate_scheduler::HostTier;
use tidegate_scheduler::cache::host::{Bid, ChunkLabel, Found, HostChunk, ScanNumber};

use super::super::columns::columns_of;
use super::super::files::{HostCache, KnownFile};
use super::super::identity::{column_key, how_read, is_same};
use super::pruning::Pruning;

/// Rows that are read, and kept, at a time: enough to pay for opening a file again.
const RUN_ROWS: u64 = 1 << 20;

/// The share of what the tier may take that a run may take.
const RUN_SHARE: u64 = 8;

/// A scan behind the host tier.
pub(super) struct CachedScan {
    cache: Arc<HostCache>,
    /// It keeps what it reads.
    fills: bool,
    number: ScanNumber,
    url: String,
    /// What comes out.
    schema: SchemaRef,
    /// Where each column comes from.
    columns: Vec<Origin>,
    /// The keys and names of the columns that come from the files.
    keys: Vec<Arc<str>>,
    names: Vec<Arc<str>>,
    pruning: Option<Pruning>,
    readers: Option<Arc<dyn ParquetFileReaderFactory>>,
    /// Row groups may be read in another order than they lie.
    reorders: bool,
}

/// Where a column comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// From the file: its place among the keys.
    File(usize),
    /// From the file's partition values.
    Partition(usize),
}

/// What to do next for a file.
pub(super) enum Step {
    /// Give these row groups, of which these are the chunks, from the host tier.
    Serve(Vec<usize>, Vec<Vec<Arc<HostChunk>>>),
    /// Have the inner source read these, and perhaps keep them.
    Read(Vec<usize>, Option<Kept>),
}

/// A run that is kept when it is read.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) row_groups: Vec<Missing>,
    /// About what the missing columns take.
    pub(super) bytes: u64,
    pub(super) bid: Bid,
}

/// A row group that is read, of which some columns are not in the host tier.
#[derive(Debug)]
pub(super) struct Missing {
    pub(super) row_group: u64,
    pub(super) num_rows: u64,
    /// For each key, whether its chunk is there.
    pub(super) there: Vec<bool>,
}

/// Row groups that are read together.
#[derive(Default)]
struct Run {
    row_groups: Vec<Missing>,
    num_rows: u64,
    bytes: u64,
}

/// A file's steps.
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    pub(super) num_row_groups: usize,
    /// Row groups that the statistics rule out.
    pub(super) pruned: usize,
}

impl fmt::Debug for CachedScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedScan")
            .field("number", &self.number)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

impl CachedScan {
    pub(super) fn try_new(
        config: &FileScanConfig,
        source: &ParquetSource,
        cache: &Arc<HostCache>,
        fills: bool,
    ) -> std::result::Result<Self, String> {
        let parquet = &source.table_parquet_options().global;
        if parquet.pushdown_filters && source.filter().is_some() {
            return Err("the scan filters rows itself (parquet.pushdown_filters)".into());
        }
        let columns = columns_of(config, source)?;
        let schema = source.table_schema();
        let table = schema.table_schema();
        let projected = config
            .projected_schema()
            .map_err(|error| error.to_string())?;
        let (how, num_file_columns) = (how_read(source), schema.file_schema().fields().len());
        let (mut keys, mut names): (Vec<Arc<str>>, Vec<Arc<str>>) = (Vec::new(), Vec::new());
        let origin = |index: usize| {
            if index >= num_file_columns {
                return Origin::Partition(index - num_file_columns);
            }
            let field = table.field(index);
            keys.push(column_key(field, &how));
            names.push(field.name().as_str().into());
            Origin::File(keys.len() - 1)
        };
        let columns: Vec<Origin> = columns.into_iter().map(origin).collect();
        if keys.is_empty() {
            return Err("the scan reads no column of its files".into());
        }
        Ok(Self {
            number: cache.columns().host().begin_scan(),
            cache: Arc::clone(cache),
            fills: fills && config.limit.is_none(),
            url: config.object_store_url.to_string(),
            schema: projected,
            columns,
            keys,
            names,
            pruning: Pruning::of(source),
            readers: source.parquet_file_reader_factory().cloned(),
            reorders: reorders(source),
        })
    }

    pub(super) fn cache(&self) -> &Arc<HostCache> {
        &self.cache
    }

    pub(super) fn fills(&self) -> bool {
        self.fills
    }

    pub(super) fn tier(&self) -> &HostTier {
        self.cache.columns().host()
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn columns(&self) -> &[Origin] {
        &self.columns
    }

    /// Returns the keys of the columns that come from the files.
    pub(super) fn keys(&self) -> &[Arc<str>] {
        &self.keys
    }

    /// Names the chunks of one of those columns.
    pub(super) fn label(&self, file: &KnownFile, key: usize) -> ChunkLabel {
        ChunkLabel {
            source: format!("{}{}", self.url, file.meta.location).into(),
            column: Arc::clone(&self.names[key]),
        }
    }

    /// Finds out whether a file may be given from the host tier or kept there; `None` leaves it to
    /// the inner source, with whatever is wrong with it.
    pub(super) async fn open(
        &self,
        file: &PartitionedFile,
        store: &Arc<dyn ObjectStore>,
    ) -> Option<Arc<KnownFile>> {
        let planned = &file.object_meta;
        let known = self.cache.file(&self.url, planned);
        let known = match known.filter(|known| is_same(&known.meta, planned)) {
            Some(known) => known,
            None => {
                let read = self.read_footer(file, store).await?;
                if !self.tier().holds(&read.source) {
                    // There is nothing to give; what it is now is asked when it was read.
                    return self.fills.then_some(read);
                }
                read
            }
        };
        match store.head(&planned.location).await {
            Ok(now) if is_same(&known.meta, &now) => {
                self.cache.remember(&self.url, Arc::clone(&known));
                Some(known)
            }
            _ => {
                self.cache.forget(&self.url, &known);
                None
            }
        }
    }

    async fn read_footer(
        &self,
        file: &PartitionedFile,
        store: &Arc<dyn ObjectStore>,
    ) -> Option<Arc<KnownFile>> {
        let readers = match &self.readers {
            Some(readers) => Arc::clone(readers),
            None => Arc::new(DefaultParquetFileReaderFactory::new(Arc::clone(store))) as _,
        };
        let metrics = ExecutionPlanMetricsSet::new();
        let hint = file.metadata_size_hint;
        let mut reader = readers
            .create_reader(0, file.clone(), hint, &metrics)
            .ok()?;
        // With a predicate the source reads the page index, for each of the runs again.
        let index = match &self.pruning {
            Some(_) => PageIndexPolicy::Optional,
            None => PageIndexPolicy::Skip,
        };
        let options = ArrowReaderOptions::new().with_page_index_policy(index);
        let footer = reader.get_metadata(Some(&options)).await.ok()?;
        let known = KnownFile::new(&self.url, file.object_meta.clone(), footer);
        Some(Arc::new(known))
    }

    /// Decides what to do with each row group of a file; `None` leaves the file as it is.
    pub(super) fn steps(&self, file: &PartitionedFile, known: &KnownFile) -> Option<Steps> {
        let groups = known.footer.row_groups();
        let access = match file.extension::<ParquetAccessPlan>() {
            Some(access) if access.len() == groups.len() => access.clone(),
            Some(_) => return None,
            None => ParquetAccessPlan::new_all(groups.len()),
        };
        let mut chosen = RowGroupAccessPlanFilter::new(access);
        if let Some(range) = &file.range {
            chosen.prune_by_range(groups, range);
        }
        let in_range = chosen.remaining_row_group_count();
        if let Some(pruning) = &self.pruning {
            pruning.prune(&mut chosen, file, known);
        }
        let mut steps = Vec::new();
        let mut missing: Vec<Missing> = Vec::new();
        for row_group in chosen.row_group_indexes() {
            let part = row_group as u64;
            match self
                .tier()
                .look(self.number, &known.source, &self.keys, part)
            {
                Found::All(chunks) => {
                    self.read_steps(std::mem::take(&mut missing), known, &mut steps);
                    match steps.last_mut() {
                        Some(Step::Serve(numbers, served)) => {
                            numbers.push(row_group);
                            served.push(chunks);
                        }
                        _ => steps.push(Step::Serve(vec![row_group], vec![chunks])),
                    }
                }
                Found::Some(there) => missing.push(Missing {
                    row_group: part,
                    num_rows: groups[row_group].num_rows().max(0) as u64,
                    there,
                }),
            }
        }
        self.read_steps(missing, known, &mut steps);
        if let [Step::Read(_, None)] = steps.as_slice() {
            return None;
        }
        Some(Steps {
            steps,
            num_row_groups: groups.len(),
            pruned: in_range - chosen.remaining_row_group_count(),
        })
    }

    /// Cuts row groups that are read into runs, and decides which of them are kept.
    fn read_steps(&self, missing: Vec<Missing>, known: &KnownFile, steps: &mut Vec<Step>) {
        let mut run = Run::default();
        let mut missing = missing.into_iter().peekable();
        while let Some(row_group) = missing.next() {
            run.num_rows += row_group.num_rows;
            run.bytes += self.bytes(&row_group, known);
            run.row_groups.push(row_group);
            let is_full = run.num_rows >= RUN_ROWS || run.bytes >= self.tier().limit() / RUN_SHARE;
            if missing.peek().is_some() && !is_full && !self.reorders {
                continue;
            }
            let Run {
                row_groups, bytes, ..
            } = std::mem::take(&mut run);
            let numbers = row_groups.iter().map(|group| group.row_group as usize);
            let numbers: Vec<usize> = numbers.collect();
            let bid = self.tier().bid(self.uses(&row_groups, known));
            if self.fills && self.tier().would_take(bytes, bid) {
                let kept = Kept {
                    row_groups,
                    bytes,
                    bid,
                };
                steps.push(Step::Read(numbers, Some(kept)));
                continue;
            }
            match steps.last_mut() {
                Some(Step::Read(before, None)) => before.extend(numbers),
                _ => steps.push(Step::Read(numbers, None)),
            }
        }
    }

    /// Returns how often a run was read lately: of its row groups, the one that was read least.
    fn uses(&self, run: &[Missing], known: &KnownFile) -> f64 {
        let uses = run
            .iter()
            .map(|group| self.tier().uses(&known.source, &self.keys, group.row_group));
        uses.fold(f64::INFINITY, f64::min)
    }

    /// Estimates the bytes of a row group's missing columns by what they are in the file.
    pub(super) fn bytes(&self, missing: &Missing, known: &KnownFile) -> u64 {
        let group: &RowGroupMetaData = known.footer.row_group(missing.row_group as usize);
        let wanted = |root: &String| {
            let mut names = self.names.iter().zip(&missing.there);
            names.any(|(name, there)| !there && **name == **root)
        };
        let columns = group.columns().iter();
        columns
            .filter(|column| column.column_path().parts().first().is_some_and(wanted))
            .map(|column| column.uncompressed_size().max(0) as u64)
            .sum()
    }
}

/// Returns whether a file is to be read in parts of row groups, which are not kept.
pub(crate) fn selects_rows(file: &PartitionedFile) -> bool {
    let parts = |access: &ParquetAccessPlan| {
        let is_part = |access: &RowGroupAccess| matches!(access, RowGroupAccess::Selection(_));
        access.inner().iter().any(is_part)
    };
    file.extension::<ParquetRowSelection>().is_some()
        || file.extension::<ParquetAccessPlan>().is_some_and(parts)
}

/// Returns the constant columns of a file.
pub(super) fn partition_values(
    scan: &CachedScan,
    file: &PartitionedFile,
) -> Result<Vec<Option<ScalarValue>>> {
    let value = |origin: &Origin| match origin {
        Origin::File(_) => Ok(None),
        Origin::Partition(index) => match file.partition_values.get(*index) {
            Some(value) => Ok(Some(value.clone())),
            None => datafusion::common::internal_err!("a file without its partition values"),
        },
    };
    scan.columns().iter().map(value).collect()
}

/// Returns whether a source may read row groups in another order than they lie. It tells so in its
/// description alone.
pub(crate) fn reorders(source: &ParquetSource) -> bool {
    struct Description<'a>(&'a ParquetSource);
    impl fmt::Display for Description<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.fmt_extra(DisplayFormatType::Default, f)
        }
    }
    let described = Description(source).to_string();
    ["sort_order_for_reorder", "reverse_row_groups"]
        .iter()
        .any(|mark| described.contains(mark))
}
