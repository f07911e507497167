//! Opens the files of a scan, and decides which of their row groups are read as pages.

use std::collections::VecDeque;
use std::fs::File;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess, RowGroupAccessPlanFilter,
};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use tidegate_pages::ColumnRequest;

use super::super::cached::{Kept, PageFill, Pruning, selects_rows};
use super::super::files::KnownFile;
use super::bytes::open_local;
use super::row_group::selection_of;
use super::share::Unit;
use super::{Input, PageScan};
use crate::files::guard::ExpectedRows;

/// The files that a scan remembers, at the most: partitions claim parts of different files in turn.
const RECENT_MAX: usize = 16;

type Columns = std::result::Result<Arc<[ColumnRequest]>, &'static str>;

/// A file whose footer was read.
pub(super) struct OpenFile {
    planned: PartitionedFile,
    known: Arc<KnownFile>,
    store: Arc<dyn ObjectStore>,
    /// The file, if it is one of this machine of which pages are read.
    local: OnceLock<Arc<File>>,
    columns: OnceLock<Columns>,
    /// The row groups that are left by what the scan's predicate said last.
    left: Mutex<LeftOver>,
}

/// Row groups that a predicate leaves over, of what it said in a generation.
struct LeftOver {
    generation: u64,
    row_groups: ParquetAccessPlan,
}

impl OpenFile {
    pub(super) fn metadata(&self) -> &ParquetMetaData {
        &self.known.footer
    }

    /// Returns the file, if it is one of this machine of which pages are read.
    pub(super) fn local(&self) -> Option<&Arc<File>> {
        self.local.get()
    }

    /// Returns the store that has the file, and where.
    pub(super) fn place(&self) -> (&Arc<dyn ObjectStore>, &Path) {
        (&self.store, &self.planned.object_meta.location)
    }

    /// Returns the bytes of the file, as planned.
    pub(super) fn size(&self) -> u64 {
        self.planned.object_meta.size
    }

    /// Returns the rows of the file.
    pub(super) fn rows_of_file(&self) -> u64 {
        let rows = self.metadata().file_metadata().num_rows();
        u64::try_from(rows).unwrap_or(0)
    }

    /// Returns whether the statistics of a row group tell that none of its rows passes, by what the predicate
    /// says now.
    pub(super) fn is_ruled_out(&self, row_group: usize, pruning: &Pruning) -> bool {
        let generation = pruning.generation();
        let mut left = self.left.lock();
        if left.generation != generation {
            let all = ParquetAccessPlan::new_all(self.metadata().num_row_groups());
            let mut chosen = RowGroupAccessPlanFilter::new(all);
            pruning.prune(&mut chosen, &self.planned, &self.known);
            *left = LeftOver {
                generation,
                row_groups: chosen.build(),
            };
        }
        !left.row_groups.should_scan(row_group)
    }

    /// Returns the greatest value, or the least, of one of a scan's inputs in a row group, in the input's type,
    /// if its statistics have it. Those of floats know nothing of NaN.
    pub(super) fn bound(
        &self,
        row_group: usize,
        input: &Input,
        is_greatest: bool,
    ) -> Option<ScalarValue> {
        if input.data_type.is_floating() {
            return None;
        }
        let footer = self.metadata();
        let schema = footer.file_metadata().schema_descr();
        let stored = self.known.stored()?;
        let statistics = StatisticsConverter::try_new(&input.name, stored, schema).ok()?;
        let row_groups = footer.row_groups().get(row_group);
        let bounds = match is_greatest {
            true => statistics.row_group_maxes(row_groups),
            false => statistics.row_group_mins(row_groups),
        };
        let bound = ScalarValue::try_from_array(&bounds.ok()?, 0).ok()?;
        let bound = bound.cast_to(&input.data_type).ok()?;
        (!bound.is_null()).then_some(bound)
    }

    pub(super) fn num_rows(&self, row_group: usize) -> usize {
        let groups = self.metadata().row_groups();
        let rows = groups.get(row_group).map_or(0, |group| group.num_rows());
        usize::try_from(rows).unwrap_or(0)
    }

    /// Returns the file with an access plan for ranges of rows of a row group, or for all of them.
    pub(super) fn with(&self, row_group: usize, rows: Option<&[Range<usize>]>) -> PartitionedFile {
        let num_rows = self.num_rows(row_group);
        let (access, selected) = match rows {
            None => (RowGroupAccess::Scan, num_rows),
            Some(rows) => {
                let selection = selection_of(rows, num_rows);
                let selected = rows.iter().map(Range::len).sum();
                (RowGroupAccess::Selection(selection), selected)
            }
        };
        self.with_access([(row_group, access)], selected)
    }

    fn with_access(
        &self,
        row_groups: impl IntoIterator<Item = (usize, RowGroupAccess)>,
        num_rows: usize,
    ) -> PartitionedFile {
        let mut access = ParquetAccessPlan::new_none(self.metadata().num_row_groups());
        for (number, rows) in row_groups {
            access.set(number, rows);
        }
        let file = self.planned.clone().with_extension(access);
        file.with_extension(ExpectedRows(num_rows as u64))
    }

    /// Returns the leaves of the file that hold a scan's inputs, or why there are none.
    pub(super) fn columns(&self, inputs: &[Input]) -> Columns {
        let find = || inputs.iter().map(|input| self.column(input)).collect();
        self.columns.get_or_init(find).clone()
    }

    fn column(&self, input: &Input) -> std::result::Result<ColumnRequest, &'static str> {
        let Some(stored) = self.known.stored() else {
            return Err("its columns have unknown types");
        };
        let Ok(field) = stored.field_with_name(&input.name) else {
            return Err("a column is missing in it");
        };
        if !is_same_type(field.data_type(), &input.data_type) {
            return Err("a column is of another type in it");
        }
        let leaves = self.metadata().file_metadata().schema_descr().columns();
        let is_it = |parts: &[String]| matches!(parts, [name] if *name == input.name);
        let mut found = leaves.iter().enumerate();
        let found = found.find(|(_, leaf)| is_it(leaf.path().parts()));
        match found {
            Some((leaf, _)) => Ok(ColumnRequest {
                leaf,
                data_type: input.data_type.clone(),
            }),
            None => Err("a column is nested in it"),
        }
    }
}

/// Puts disjoint ranges of a file together, as an access plan for the row groups that begin in them.
fn joined(
    first: &PartitionedFile,
    parts: &[PartitionedFile],
    footer: &ParquetMetaData,
) -> PartitionedFile {
    let mut file = first.clone();
    if parts.len() == 1 {
        return file;
    }
    let row_groups = footer.row_groups();
    let mut access = ParquetAccessPlan::new_none(row_groups.len());
    for range in parts.iter().filter_map(|part| part.range.as_ref()) {
        let all = ParquetAccessPlan::new_all(row_groups.len());
        let mut in_range = RowGroupAccessPlanFilter::new(all);
        in_range.prune_by_range(row_groups, range);
        for row_group in in_range.row_group_indexes() {
            access.scan(row_group);
        }
    }
    file.range = None;
    file.with_extension(access)
}

/// Returns whether values that are stored as one type are those of the other.
fn is_same_type(stored: &DataType, wanted: &DataType) -> bool {
    let is_text = |data_type: &DataType| {
        matches!(
            data_type,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        )
    };
    stored == wanted || (is_text(stored) && is_text(wanted))
}

impl PageScan {
    /// Opens a file, of which ranges, or an access plan, may name row groups, and returns what is read of it.
    ///
    /// # Errors
    /// There is no such store.
    pub(super) async fn open(
        &self,
        parts: &[PartitionedFile],
        partition: usize,
        ctx: &Arc<TaskContext>,
    ) -> Result<VecDeque<Unit>> {
        Ok(match self.pages_of(parts, partition, ctx).await? {
            Ok(units) => units,
            // What is wrong with the file, if something is, the source has words for.
            Err(why) => {
                let parts = parts.iter().cloned();
                parts.map(|part| Unit::Rows(Box::new(part), why)).collect()
            }
        })
    }

    async fn pages_of(
        &self,
        parts: &[PartitionedFile],
        partition: usize,
        ctx: &Arc<TaskContext>,
    ) -> Result<std::result::Result<VecDeque<Unit>, &'static str>> {
        let Some(first) = parts.first() else {
            return Ok(Ok(VecDeque::new()));
        };
        if selects_rows(first) {
            return Ok(Err("rows of it are selected"));
        }
        let url = &self.config.object_store_url;
        let store = ctx.runtime_env().object_store(url)?;
        let Some((footer, reader)) = self.read_footer(first, partition, ctx).await else {
            return Ok(Err("its footer was not read"));
        };
        let file = &joined(first, parts, &footer);
        let num_row_groups = footer.num_row_groups();
        let access = match file.extension::<ParquetAccessPlan>() {
            Some(access) if access.len() == num_row_groups => access.clone(),
            Some(_) => return Ok(Err("its row groups are others than planned")),
            None => ParquetAccessPlan::new_all(num_row_groups),
        };
        let opened = OpenFile {
            planned: file.clone(),
            known: self.known(url.as_str(), file, footer),
            local: OnceLock::new(),
            store: Arc::clone(&store),
            columns: OnceLock::new(),
            left: Mutex::new(LeftOver {
                generation: self.pruning.as_ref().map_or(0, Pruning::generation),
                row_groups: ParquetAccessPlan::new_all(num_row_groups),
            }),
        };
        if let Err(why) = opened.columns(&self.inputs) {
            return Ok(Err(why));
        }
        let access = self.pruned(access, &opened, partition, reader).await;
        let mut left = access.into_inner();
        let opened = Arc::new(opened);
        let mut units = VecDeque::new();
        let mut fills: Vec<Option<Box<PageFill>>> = left.iter().map(|_| None).collect();
        if let Some(cached) = self.cached() {
            for kept in cached.kept_row_groups(file, &store).await {
                match kept {
                    Kept::Chunks(number, chunks) => {
                        let access = left.get_mut(number).filter(|access| access.should_scan());
                        if let Some(access) = access {
                            *access = RowGroupAccess::Skip;
                            units.push_back(Unit::Chunks(Arc::clone(&opened), number, chunks));
                        }
                    }
                    Kept::Fill(number, fill) => {
                        if let Some(place) = fills.get_mut(number) {
                            *place = Some(fill);
                        }
                    }
                }
            }
        }
        for (number, (access, fill)) in left.into_iter().zip(fills).enumerate() {
            let all = opened.num_rows(number);
            units.push_back(match access {
                RowGroupAccess::Skip => continue,
                // The page index has ruled out none of the pages.
                RowGroupAccess::Selection(rows) if rows.row_count() == all => {
                    Unit::Pages(Arc::clone(&opened), number, None, fill)
                }
                RowGroupAccess::Scan => Unit::Pages(Arc::clone(&opened), number, None, fill),
                RowGroupAccess::Selection(rows) => {
                    Unit::Pages(Arc::clone(&opened), number, Some(rows), None)
                }
            });
        }
        if units.iter().any(|unit| matches!(unit, Unit::Pages(..))) {
            let local = open_local(&store, url, &file.object_meta.location).await;
            if let Some(local) = local {
                let _ = opened.local.set(local);
            }
        }
        Ok(Ok(units))
    }

    /// Returns what is known of a file, of which other parts may have been opened before.
    fn known(
        &self,
        url: &str,
        file: &PartitionedFile,
        footer: Arc<ParquetMetaData>,
    ) -> Arc<KnownFile> {
        let mut recent = self.recent.lock();
        let is_it = |known: &&Arc<KnownFile>| Arc::ptr_eq(&known.footer, &footer);
        if let Some(known) = recent.iter().find(is_it) {
            return Arc::clone(known);
        }
        let known = Arc::new(KnownFile::new(url, file.object_meta.clone(), footer));
        recent.truncate(RECENT_MAX - 1);
        recent.push_front(Arc::clone(&known));
        known
    }

    async fn read_footer(
        &self,
        file: &PartitionedFile,
        partition: usize,
        ctx: &TaskContext,
    ) -> Option<(Arc<ParquetMetaData>, Box<dyn AsyncFileReader>)> {
        let metrics = self.config.file_source().metrics();
        let hint = file.metadata_size_hint;
        let mut reader: Box<dyn AsyncFileReader> = self
            .readers(ctx)
            .ok()?
            .create_reader(partition, file.clone(), hint, metrics)
            .ok()?;
        let index = match &self.pruning {
            Some(_) => PageIndexPolicy::Optional,
            None => PageIndexPolicy::Skip,
        };
        let options = ArrowReaderOptions::new().with_page_index_policy(index);
        let footer = reader.get_metadata(Some(&options)).await.ok()?;
        Some((footer, reader))
    }

    /// Leaves out what the file's range, statistics, Bloom filters and page index rule out.
    async fn pruned(
        &self,
        access: ParquetAccessPlan,
        opened: &OpenFile,
        partition: usize,
        reader: Box<dyn AsyncFileReader>,
    ) -> ParquetAccessPlan {
        let (file, known) = (&opened.planned, &opened.known);
        let mut chosen = RowGroupAccessPlanFilter::new(access);
        if let Some(range) = &file.range {
            chosen.prune_by_range(opened.metadata().row_groups(), range);
        }
        let pruning = self.pruning.as_ref();
        let pruning = pruning.and_then(|all| all.for_file(file, known));
        let (Some(pruning), Some(source)) = (pruning, self.planned()) else {
            return chosen.build();
        };
        let metrics = ParquetFileMetrics::new(
            partition,
            file.object_meta.location.as_ref(),
            self.config.file_source().metrics(),
        );
        let parquet = &source.table_parquet_options().global;
        pruning.by_statistics(&mut chosen, known, &metrics);
        if parquet.bloom_filter_on_read {
            pruning
                .by_bloom_filters(&mut chosen, known, reader, &metrics)
                .await;
        }
        let access = chosen.build();
        match parquet.enable_page_index {
            true => pruning.by_page_index(access, known, &metrics),
            false => access,
        }
    }
}
