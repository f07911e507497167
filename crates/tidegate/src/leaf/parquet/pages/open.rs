//! Opens the files of a scan, and decides which of their row groups are read as pages.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource_parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccess, RowGroupAccessPlanFilter,
};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use tidegate_pages::ColumnRequest;

use super::super::cached::{Plan, selects_rows};
use super::super::files::KnownFile;
use super::{Input, PageScan, Unit, planned_source, selection_of};
use crate::files::guard::ExpectedRows;

/// A file whose footer was read.
pub(super) struct OpenFile {
    planned: PartitionedFile,
    known: KnownFile,
    columns: OnceLock<std::result::Result<Arc<[ColumnRequest]>, &'static str>>,
}

impl OpenFile {
    /// Returns the file as planned, without what selects rows of it.
    pub(super) fn planned(&self) -> &PartitionedFile {
        &self.planned
    }

    pub(super) fn metadata(&self) -> &ParquetMetaData {
        &self.known.footer
    }

    pub(super) fn num_rows(&self, row_group: usize) -> usize {
        let groups = self.metadata().row_groups();
        let rows = groups.get(row_group).map_or(0, |group| group.num_rows());
        usize::try_from(rows).unwrap_or(0)
    }

    /// Returns the file with an access plan for ranges of rows of a row group, or for all of them.
    pub(super) fn with(&self, row_group: usize, rows: Option<&[Range<usize>]>) -> PartitionedFile {
        let mut access = ParquetAccessPlan::new_none(self.metadata().num_row_groups());
        let num_rows = match rows {
            None => {
                access.scan(row_group);
                self.num_rows(row_group)
            }
            Some(rows) => {
                access.set(row_group, RowGroupAccess::Selection(selection_of(rows)));
                rows.iter().map(Range::len).sum()
            }
        };
        let file = self.planned.clone().with_extension(access);
        file.with_extension(ExpectedRows(num_rows as u64))
    }

    /// Returns the file with an access plan for all rows of row groups.
    fn with_all(&self, row_groups: &[usize]) -> PartitionedFile {
        let mut access = ParquetAccessPlan::new_none(self.metadata().num_row_groups());
        row_groups.iter().for_each(|number| access.scan(*number));
        let rows = row_groups
            .iter()
            .map(|number| self.num_rows(*number) as u64);
        let file = self.planned.clone().with_extension(access);
        file.with_extension(ExpectedRows(rows.sum()))
    }

    /// Returns the leaves of the file that hold a scan's inputs, or why there are none.
    pub(super) fn columns(
        &self,
        inputs: &[Input],
    ) -> std::result::Result<Arc<[ColumnRequest]>, &'static str> {
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

    /// Returns where the chunks of columns lie; `None` if the footer does not say.
    pub(super) fn chunks(
        &self,
        row_group: usize,
        columns: &[ColumnRequest],
    ) -> Option<Vec<Range<u64>>> {
        let group = self.metadata().row_groups().get(row_group)?;
        let chunk = |request: &ColumnRequest| {
            let chunk = group.columns().get(request.leaf)?;
            let start = chunk.dictionary_page_offset();
            let start = start.unwrap_or_else(|| chunk.data_page_offset());
            let start = u64::try_from(start).ok()?;
            let length = u64::try_from(chunk.compressed_size()).ok()?;
            Some(start..start.checked_add(length)?)
        };
        columns.iter().map(chunk).collect()
    }
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
    /// Opens a file, of which an access plan may name row groups, and returns what is read of it.
    pub(super) async fn open(
        &self,
        file: PartitionedFile,
        partition: usize,
        ctx: &Arc<TaskContext>,
    ) -> Result<VecDeque<Unit>> {
        let as_it_is = |file, why| Ok(VecDeque::from([Unit::Rows(file, why)]));
        if selects_rows(&file) {
            return as_it_is(file, "rows of it are selected");
        }
        let Some(opened) = self.read_footer(&file, partition, ctx).await else {
            // The source has its own words for what is wrong.
            return as_it_is(file, "its footer was not read");
        };
        let groups = opened.metadata().row_groups();
        let access = match file.extension::<ParquetAccessPlan>() {
            Some(access) if access.len() == groups.len() => access.clone(),
            Some(_) => return as_it_is(file, "its row groups are others than planned"),
            None => ParquetAccessPlan::new_all(groups.len()),
        };
        if let Err(why) = opened.columns(&self.inputs) {
            return as_it_is(file, why);
        }
        if self.may_use_bloom_filters(opened.metadata()) {
            return as_it_is(file, "it has Bloom filters");
        }
        let cached = match self.cached() {
            Some(cached) => {
                let store = ctx
                    .runtime_env()
                    .object_store(&self.config.object_store_url)?;
                Some(cached.plan(&file, &store).await)
            }
            None => None,
        };
        let access = self.pruned(access, &file, &opened, partition);
        let opened = Arc::new(opened);
        let mut units = VecDeque::new();
        let mut left = access.into_inner();
        // Whole runs of row groups that the host tier gives or keeps are the source's.
        if let Some(Plan { source }) = cached {
            for row_groups in source {
                let row_groups: Vec<usize> = row_groups
                    .into_iter()
                    .filter(|number| left.get(*number).is_some_and(RowGroupAccess::should_scan))
                    .collect();
                for number in &row_groups {
                    left[*number] = RowGroupAccess::Skip;
                }
                if !row_groups.is_empty() {
                    let file = opened.with_all(&row_groups);
                    units.push_back(Unit::Rows(file, "the host tier gives or keeps it"));
                }
            }
        }
        for (number, access) in left.into_iter().enumerate() {
            match access {
                RowGroupAccess::Skip => {}
                RowGroupAccess::Scan => {
                    units.push_back(Unit::Pages(Arc::clone(&opened), number, None));
                }
                RowGroupAccess::Selection(rows) => {
                    units.push_back(Unit::Pages(Arc::clone(&opened), number, Some(rows)));
                }
            }
        }
        Ok(units)
    }

    async fn read_footer(
        &self,
        file: &PartitionedFile,
        partition: usize,
        ctx: &TaskContext,
    ) -> Option<OpenFile> {
        let metrics = self.config.file_source().metrics();
        let readers = self.readers(ctx).ok()?;
        let hint = file.metadata_size_hint;
        let mut reader = readers
            .create_reader(partition, file.clone(), hint, metrics)
            .ok()?;
        let index = match &self.pruning {
            Some(_) => PageIndexPolicy::Optional,
            None => PageIndexPolicy::Skip,
        };
        let options = ArrowReaderOptions::new().with_page_index_policy(index);
        let footer = reader.get_metadata(Some(&options)).await.ok()?;
        let url = self.config.object_store_url.to_string();
        Some(OpenFile {
            planned: file.clone(),
            known: KnownFile::new(&url, file.object_meta.clone(), footer),
            columns: OnceLock::new(),
        })
    }

    /// Returns whether the source would look at Bloom filters.
    fn may_use_bloom_filters(&self, metadata: &ParquetMetaData) -> bool {
        let Some(source) = planned_source(self.config.file_source()) else {
            return true;
        };
        let mut chunks = metadata
            .row_groups()
            .iter()
            .flat_map(|group| group.columns());
        self.pruning.is_some()
            && source.table_parquet_options().global.bloom_filter_on_read
            && chunks.any(|chunk| chunk.bloom_filter_offset().is_some())
    }

    /// Leaves out what the file's range, statistics and page index rule out.
    fn pruned(
        &self,
        access: ParquetAccessPlan,
        file: &PartitionedFile,
        opened: &OpenFile,
        partition: usize,
    ) -> ParquetAccessPlan {
        let metadata = opened.metadata();
        let mut chosen = RowGroupAccessPlanFilter::new(access);
        if let Some(range) = &file.range {
            chosen.prune_by_range(metadata.row_groups(), range);
        }
        let Some(pruning) = &self.pruning else {
            return chosen.build();
        };
        let metrics = ParquetFileMetrics::new(
            partition,
            file.object_meta.location.as_ref(),
            self.config.file_source().metrics(),
        );
        let enable_page_index = planned_source(self.config.file_source())
            .is_some_and(|source| source.table_parquet_options().global.enable_page_index);
        pruning.prune_all(chosen, file, &opened.known, &metrics, enable_page_index)
    }
}
