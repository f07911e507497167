//! The row groups of a Parquet scan for the host engine: as pages where its cursors read them, else as
//! batches of DataFusion's source.
//!
//! A [`PageScan`] stands beside a scan, gated or not, and opens its files itself ([`open`]): the row groups
//! that range, statistics and page index leave over are *units*, which go to whichever partition asks next.
//! Under a gate a partition claims them of the region's run ([`claims`]), as the gated source does. What the
//! cursors do not read (adapted or nested columns, rows that the host tier gives or keeps) is read by the
//! scan's own source, and EXPLAIN ANALYZE says why.

mod claims;
mod open;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, ParquetFileReaderFactory,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, MetricBuilder};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource_parquet::DefaultParquetFileReaderFactory;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use tidegate_pages::{ChunkBytes, ColumnRequest, FileParts, RowGroupReader};
use tokio::sync::Mutex;

use super::cached::{CachedSource, Pruning, planned_source};
use super::source::{Gate, GatedSource};
use crate::lower::plan::plain_columns;
use claims::Claims;
use open::OpenFile;

/// A Parquet scan of which a program reads some columns.
pub(crate) struct PageScan {
    /// The scan without its gate and in no order; scans of one file are made of it.
    config: FileScanConfig,
    gate: Option<Gate>,
    inputs: Vec<Input>,
    pruning: Option<Pruning>,
    /// What the partitions take from where no run shares the scan out.
    units: Mutex<Units>,
}

/// A column that is read, as the table has it.
#[derive(Debug)]
struct Input {
    name: String,
    data_type: DataType,
}

#[derive(Default)]
struct Units {
    /// Files that nobody has opened.
    files: VecDeque<PartitionedFile>,
    /// What was opened and not taken.
    open: VecDeque<Unit>,
}

/// What a partition takes at a time.
enum Unit {
    /// A row group, or ranges of its rows, as pages.
    Pages(Arc<OpenFile>, usize, Option<RowSelection>),
    /// Row groups that the source reads, and why.
    Rows(PartitionedFile, &'static str),
}

/// Rows for the engine.
pub(crate) enum Rows {
    /// A row group as pages.
    Pages(RowGroup),
    /// Batches of the scan's source, and why there are no pages.
    Batches(SendableRecordBatchStream, &'static str),
}

/// A row group that is read as pages, with what it takes to have the rest of it read by the source.
pub(crate) struct RowGroup {
    file: Arc<OpenFile>,
    number: usize,
    columns: Arc<[ColumnRequest]>,
    selection: Option<RowSelection>,
    bytes: Arc<dyn ChunkBytes>,
    /// How long its bytes were read.
    pub(crate) read_in: Duration,
}

impl fmt::Debug for PageScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageScan")
            .field("inputs", &self.inputs)
            .finish_non_exhaustive()
    }
}

impl PageScan {
    /// Returns how the columns of a leaf are read as pages; `None` if it is no Parquet scan.
    ///
    /// # Errors
    /// Why its source reads them.
    pub(crate) fn new(leaf: &Arc<dyn ExecutionPlan>) -> Option<std::result::Result<Self, String>> {
        let scan = leaf.downcast_ref::<DataSourceExec>()?;
        let config = scan.data_source().downcast_ref::<FileScanConfig>()?;
        let (gate, inner) = match config.file_source().downcast_ref::<GatedSource>() {
            Some(gated) => (Some(gated.gate()), gated.inner()),
            None => (None, config.file_source()),
        };
        planned_source(inner)?;
        let inner = Arc::clone(inner);
        let config = FileScanConfigBuilder::from(config.clone()).with_source(inner);
        Some(Self::over(config.build(), gate))
    }

    fn over(mut config: FileScanConfig, gate: Option<Gate>) -> std::result::Result<Self, String> {
        let Some(source) = planned_source(config.file_source()) else {
            return Err("it is no Parquet scan".into());
        };
        if source.table_parquet_options().global.pushdown_filters && source.filter().is_some() {
            return Err("the scan filters rows itself (parquet.pushdown_filters)".into());
        }
        if config.limit.is_some() {
            return Err("LIMIT inside the scan".into());
        }
        if config.output_partitioning.is_some() {
            return Err("the scan keeps its files' partitioning".into());
        }
        if config.expr_adapter_factory.is_some() {
            return Err("the scan has a custom schema adapter".into());
        }
        let schema = source.table_schema();
        if !schema.virtual_columns().is_empty() {
            return Err("the scan has virtual columns".into());
        }
        let table = schema.table_schema();
        let read = match source.projection() {
            Some(exprs) => plain_columns(exprs.iter().map(|named| &named.expr)),
            None => Some((0..table.fields().len()).collect()),
        };
        let Some(read) = read else {
            return Err("the scan computes expressions".into());
        };
        let num_file_columns = schema.file_schema().fields().len();
        if read.iter().any(|index| *index >= num_file_columns) {
            return Err("a column of the files' folders".into());
        }
        let input = |&index: &usize| {
            let field = table.field(index);
            Input {
                name: field.name().clone(),
                data_type: field.data_type().clone(),
            }
        };
        let inputs = read.iter().map(input).collect();
        let pruning = Pruning::of(source);
        config.preserve_order = false;
        config.output_ordering.clear();
        let files = config.file_groups.iter().flat_map(FileGroup::iter).cloned();
        let units = Units {
            files: files.collect(),
            open: VecDeque::new(),
        };
        Ok(Self {
            config,
            gate,
            inputs,
            pruning,
            units: Mutex::new(units),
        })
    }

    /// Returns whether a run may share the scan out.
    pub(crate) fn is_gated(&self) -> bool {
        self.gate.is_some()
    }

    /// Begins one partition's share.
    pub(crate) fn partition(self: &Arc<Self>, partition: usize, ctx: &Arc<TaskContext>) -> Share {
        let claims = self.gate.as_ref().and_then(|gate| {
            let stealing = ctx
                .session_config()
                .options()
                .execution
                .enable_file_stream_work_stealing;
            Claims::begin(gate, &self.config, partition, stealing)
        });
        let rows = MetricBuilder::new(self.config.file_source().metrics());
        Share {
            rows: rows.output_rows(partition),
            scan: Arc::clone(self),
            partition,
            ctx: Arc::clone(ctx),
            claims,
            units: VecDeque::new(),
        }
    }

    /// Streams what the scan's source reads of one file.
    fn source_rows(
        &self,
        file: PartitionedFile,
        ctx: &Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let config = FileScanConfigBuilder::from(self.config.clone())
            .with_file_groups(vec![FileGroup::new(vec![file])])
            .build();
        DataSourceExec::from_data_source(config).execute(0, Arc::clone(ctx))
    }

    fn readers(&self, ctx: &TaskContext) -> Result<Arc<dyn ParquetFileReaderFactory>> {
        let planned = planned_source(self.config.file_source());
        let readers = planned.and_then(|source| source.parquet_file_reader_factory());
        match readers {
            Some(readers) => Ok(Arc::clone(readers)),
            None => {
                let url = &self.config.object_store_url;
                let store = ctx.runtime_env().object_store(url)?;
                Ok(Arc::new(DefaultParquetFileReaderFactory::new(store)))
            }
        }
    }

    fn cached(&self) -> Option<&CachedSource> {
        self.config.file_source().downcast_ref::<CachedSource>()
    }
}

/// What one partition takes of a scan.
pub(crate) struct Share {
    scan: Arc<PageScan>,
    partition: usize,
    ctx: Arc<TaskContext>,
    /// `None` if no run shares the scan out.
    claims: Option<Claims>,
    /// What it has claimed, or opened, for itself.
    units: VecDeque<Unit>,
    rows: Count,
}

impl Share {
    /// Returns the next rows; `None` at the end.
    ///
    /// # Errors
    /// What claiming or reading them raises.
    pub(crate) async fn next(&mut self) -> Result<Option<Rows>> {
        let Some(unit) = self.next_unit().await? else {
            return Ok(None);
        };
        match unit {
            Unit::Rows(file, why) => {
                let rows = self.scan.source_rows(file, &self.ctx)?;
                Ok(Some(Rows::Batches(rows, why)))
            }
            Unit::Pages(file, number, selection) => {
                let read = self.read(&file, number, selection).await;
                Ok(Some(match read {
                    Some(row_group) => Rows::Pages(row_group),
                    // The source has its own words for what is wrong.
                    None => {
                        let rows = self.scan.source_rows(file.with(number, None), &self.ctx)?;
                        Rows::Batches(rows, "its bytes were not read")
                    }
                }))
            }
        }
    }

    async fn next_unit(&mut self) -> Result<Option<Unit>> {
        loop {
            if let Some(unit) = self.units.pop_front() {
                return Ok(Some(unit));
            }
            if let Some(claims) = &mut self.claims {
                let Some(file) = claims.next().await? else {
                    return Ok(None);
                };
                let opened = self.scan.open(file, self.partition, &self.ctx).await?;
                self.units.extend(opened);
                continue;
            }
            // Whoever opens a file has the others wait: what it finds is for all of them.
            let mut units = self.scan.units.lock().await;
            if let Some(unit) = units.open.pop_front() {
                return Ok(Some(unit));
            }
            let Some(file) = units.files.pop_front() else {
                return Ok(None);
            };
            let opened = self.scan.open(file, self.partition, &self.ctx).await?;
            units.open.extend(opened);
        }
    }

    /// Reads the column chunks of a row group.
    async fn read(
        &self,
        file: &Arc<OpenFile>,
        number: usize,
        selection: Option<RowSelection>,
    ) -> Option<RowGroup> {
        let began = Instant::now();
        let columns = file.columns(&self.scan.inputs).ok()?;
        let chunks = file.chunks(number, &columns)?;
        let metrics = self.scan.config.file_source().metrics();
        let readers = self.scan.readers(&self.ctx).ok()?;
        let planned = file.planned().clone();
        let mut reader = readers
            .create_reader(self.partition, planned, None, metrics)
            .ok()?;
        let bytes = match chunks.is_empty() {
            true => Vec::new(),
            false => reader.get_byte_ranges(chunks.clone()).await.ok()?,
        };
        let starts = chunks.iter().map(|range| range.start);
        let parts = FileParts::new(starts.zip(bytes).collect());
        Some(RowGroup {
            file: Arc::clone(file),
            number,
            columns,
            selection,
            bytes: Arc::new(parts),
            read_in: began.elapsed(),
        })
    }

    /// Counts rows that were read as pages among those of the scan.
    pub(crate) fn count(&self, rows: usize) {
        self.rows.add(rows);
    }

    /// Streams rows of a row group from the scan's source.
    pub(crate) fn rest(
        &self,
        row_group: &RowGroup,
        rows: &[std::ops::Range<usize>],
    ) -> Result<SendableRecordBatchStream> {
        let file = row_group.file.with(row_group.number, Some(rows));
        self.scan.source_rows(file, &self.ctx)
    }
}

impl RowGroup {
    /// Opens these columns of the scan's in a reader.
    ///
    /// # Errors
    /// Why the reader does not read it.
    pub(crate) fn open(
        &self,
        reader: &mut RowGroupReader,
        columns: impl Iterator<Item = usize>,
    ) -> std::result::Result<(), String> {
        let requests = columns.map(|column| self.columns.get(column).cloned());
        let Some(requests) = requests.collect::<Option<Vec<_>>>() else {
            return Err("a column that the scan does not have".into());
        };
        let rows = self.selection.as_ref().map(ranges);
        let metadata = self.file.metadata();
        let opened = reader.open(
            metadata,
            self.number,
            &requests,
            rows.as_deref(),
            &self.bytes,
        );
        opened.map_err(|error| error.to_string())
    }

    /// Returns all rows that are wanted of it.
    pub(crate) fn wanted(&self) -> Vec<std::ops::Range<usize>> {
        match &self.selection {
            Some(selection) => ranges(selection),
            None => vec![0..self.file.num_rows(self.number)],
        }
    }
}

/// Returns the rows that a selection selects.
fn ranges(selection: &RowSelection) -> Vec<std::ops::Range<usize>> {
    let mut at = 0;
    let mut ranges = Vec::new();
    for selector in selection.iter() {
        let end = at + selector.row_count;
        if !selector.skip && at < end {
            ranges.push(at..end);
        }
        at = end;
    }
    ranges
}

/// Returns the selection of ranges of rows.
fn selection_of(rows: &[std::ops::Range<usize>]) -> RowSelection {
    let mut at = 0;
    let mut selectors = Vec::new();
    for range in rows {
        if range.start > at {
            selectors.push(RowSelector::skip(range.start - at));
        }
        selectors.push(RowSelector::select(range.len()));
        at = range.end;
    }
    selectors.into()
}
