//! The row groups of a Parquet scan for the host engine: as pages where its cursors read them, else as
//! batches of DataFusion's source.
//!
//! A [`PageScan`] stands beside a scan, gated or not, and opens its files itself ([`open`]): the row groups
//! that range, statistics, Bloom filters and page index leave over are *units*, which go to whichever
//! partition asks next ([`share`]). Under a gate a partition claims them of the region's run ([`claims`]),
//! as the gated source does. What the cursors do not read (adapted or nested columns, rows that the host
//! tier gives or keeps) is read by the scan's own source, and EXPLAIN ANALYZE says why.

mod bytes;
mod claims;
mod open;
mod row_group;
mod share;
mod units;

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::datasource::physical_plan::{
    FileScanConfig, FileScanConfigBuilder, ParquetFileReaderFactory, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use datafusion_datasource::PartitionedFile;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::file_groups::FileGroup;
use datafusion_datasource_parquet::DefaultParquetFileReaderFactory;
use parking_lot::Mutex;

use super::cached::{CachedSource, Pruning, planned_source};
use super::columns::columns_of;
use super::files::KnownFile;
use super::source::{Gate, GatedSource};
use crate::files::file_scan;
use crate::lower::plan::plain_columns;
use share::Unit;
use units::Units;

pub(crate) use super::cached::PageFill;
pub(crate) use row_group::RowGroup;
pub(crate) use share::{Rows, Share};

/// A Parquet scan of which a program reads some columns.
pub(crate) struct PageScan {
    /// The scan without its gate and in no order; scans of one file are made of it.
    config: FileScanConfig,
    gate: Option<Gate>,
    /// Whether any partition may read any file: an exchange stands above the scan.
    is_exchanged: bool,
    inputs: Vec<Input>,
    pruning: Option<Pruning>,
    /// Filters that are known only while the scan runs, over the columns that it yields.
    runtime_filters: Vec<Arc<dyn PhysicalExpr>>,
    /// What the partitions take from where no run shares the scan out.
    units: Units,
    /// The files that were opened last.
    recent: Mutex<VecDeque<Arc<KnownFile>>>,
}

/// A column that is read, as the table has it.
#[derive(Debug)]
struct Input {
    name: String,
    data_type: DataType,
}

impl fmt::Debug for PageScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageScan")
            .field("inputs", &self.inputs)
            .finish_non_exhaustive()
    }
}

impl PageScan {
    /// Returns how the columns of a leaf are read as pages; `None` if it is no Parquet scan. The scan is
    /// exchanged if partitions that read it are others than its own.
    ///
    /// # Errors
    /// Why its source reads them.
    pub(crate) fn new(
        leaf: &Arc<dyn ExecutionPlan>,
        is_exchanged: bool,
    ) -> Option<std::result::Result<Self, String>> {
        let config = file_scan(leaf)?;
        let (gate, inner) = match config.file_source().downcast_ref::<GatedSource>() {
            Some(gated) => (Some(gated.layer.clone()), &gated.inner),
            None => (None, config.file_source()),
        };
        let inner = Arc::clone(inner);
        let source = planned_source(&inner)?;
        let inputs = match inputs(config, source) {
            Ok(inputs) => inputs,
            Err(why) => return Some(Err(why)),
        };
        let pruning = Pruning::of(source);
        let runtime_filters = runtime_filters(source);
        let config = FileScanConfigBuilder::from(config.clone()).with_source(Arc::clone(&inner));
        let mut config = config.build();
        config.preserve_order = false;
        config.output_ordering.clear();
        let files = config.file_groups.iter().flat_map(FileGroup::iter);
        Some(Ok(Self {
            units: Units::new(files.cloned()),
            config,
            gate,
            is_exchanged,
            inputs,
            pruning,
            runtime_filters,
            recent: Mutex::default(),
        }))
    }

    /// Begins one partition's share.
    pub(crate) fn partition(self: &Arc<Self>, partition: usize, ctx: &Arc<TaskContext>) -> Share {
        Share::new(self, partition, ctx)
    }

    /// Returns the filters that are known only while the scan runs, over the columns that it yields.
    pub(crate) fn runtime_filters(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.runtime_filters
    }

    /// Returns whether a row group has no row that passes, by its statistics and what filters say now.
    fn rules_out(&self, unit: &Unit) -> bool {
        match (unit.row_group(), &self.pruning) {
            (Some((file, number)), Some(pruning)) => file.is_ruled_out(number, pruning),
            _ => false,
        }
    }

    /// Returns the input of which rows have to lie beyond the bound of a top-k, and whether greater ones do; `None`
    /// without a bound, or as long as there is none.
    fn bound(&self) -> Option<(usize, bool)> {
        self.runtime_filters.iter().find_map(bound_of)
    }

    /// Has row groups taken first that raise the bound of a top-k most, once there is a bound.
    fn order_units(&self) {
        let Some((input, is_greatest)) = self.bound() else {
            return;
        };
        let Some(input) = self.inputs.get(input) else {
            return;
        };
        let key = |unit: &Unit| {
            let (file, number) = unit.row_group()?;
            file.bound(number, input, is_greatest)
        };
        match is_greatest {
            true => self.units.order(key),
            false => self.units.order(|unit| key(unit).map(Reverse)),
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

    fn planned(&self) -> Option<&ParquetSource> {
        planned_source(self.config.file_source())
    }

    fn readers(&self, ctx: &TaskContext) -> Result<Arc<dyn ParquetFileReaderFactory>> {
        let readers = self
            .planned()
            .and_then(|source| source.parquet_file_reader_factory());
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

/// Returns the numbers of the filters of a scan of Parquet files that are known only while it runs.
pub(crate) fn runtime_filter_ids(plan: &Arc<dyn ExecutionPlan>) -> Vec<u64> {
    let source = file_scan(plan).and_then(|config| planned_source(config.file_source()));
    let filters = source.map_or_else(Vec::new, runtime_filters);
    let ids = filters.iter().filter_map(|filter| filter.expression_id());
    ids.collect()
}

/// Returns the dynamic filters of a source over the columns that it yields, as far as it yields what they read.
fn runtime_filters(source: &ParquetSource) -> Vec<Arc<dyn PhysicalExpr>> {
    let Some(predicate) = source.filter() else {
        return Vec::new();
    };
    let yielded = match source.projection() {
        Some(exprs) => plain_columns(exprs.iter().map(|named| &named.expr)),
        None => None,
    };
    let place = |column: usize| match &yielded {
        Some(yielded) => yielded.iter().position(|index| *index == column),
        None => Some(column),
    };
    split_conjunction(&predicate)
        .into_iter()
        .filter(|conjunct| conjunct.is::<DynamicFilterPhysicalExpr>())
        .filter_map(|filter| with_columns(filter, &place).ok())
        .collect()
}

/// Returns the column whose rows have to lie beyond a bound by what a dynamic filter says now, as top-k do, and
/// whether greater ones pass.
fn bound_of(filter: &Arc<dyn PhysicalExpr>) -> Option<(usize, bool)> {
    let filter = filter.downcast_ref::<DynamicFilterPhysicalExpr>()?;
    let mut left = vec![filter.current().ok()?];
    while let Some(expr) = left.pop() {
        let Some(binary) = expr.downcast_ref::<BinaryExpr>() else {
            continue;
        };
        let column = || binary.left().downcast_ref::<Column>();
        match binary.op() {
            Operator::Or => left.extend([Arc::clone(binary.right()), Arc::clone(binary.left())]),
            Operator::Gt => return column().map(|column| (column.index(), true)),
            Operator::Lt => return column().map(|column| (column.index(), false)),
            _ => {}
        }
    }
    None
}

/// Gives the columns of an expression other places.
///
/// # Errors
/// A column has no place.
pub(crate) fn with_columns(
    expr: &Arc<dyn PhysicalExpr>,
    place: &impl Fn(usize) -> Option<usize>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let moved = Arc::clone(expr).transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else {
            return Ok(Transformed::no(node));
        };
        match place(column.index()) {
            Some(index) => {
                let moved = Column::new(column.name(), index);
                Ok(Transformed::yes(Arc::new(moved) as Arc<dyn PhysicalExpr>))
            }
            None => plan_err!("{column} is not read"),
        }
    });
    moved.data()
}

/// Returns the columns that a scan yields.
///
/// # Errors
/// Why its source reads them.
fn inputs(
    config: &FileScanConfig,
    source: &ParquetSource,
) -> std::result::Result<Vec<Input>, String> {
    if source.table_parquet_options().global.pushdown_filters && source.filter().is_some() {
        return Err("the scan filters rows itself (parquet.pushdown_filters)".into());
    }
    if config.limit.is_some() {
        return Err("LIMIT inside the scan".into());
    }
    if config.output_partitioning.is_some() {
        return Err("the scan keeps its files' partitioning".into());
    }
    let read = columns_of(config, source)?;
    let schema = source.table_schema();
    let table = schema.table_schema();
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
    Ok(read.iter().map(input).collect())
}
