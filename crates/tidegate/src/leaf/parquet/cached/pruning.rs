//! Rules row groups and pages out by what a file says of itself, as DataFusion does when it opens a file.
//!
//! The predicate speaks of the table. For each file it is put into the file's own columns and types,
//! by DataFusion's adapter, since statistics are found by where a column lies in the file.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::ParquetSource;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapterFactory, replace_columns_with_literals,
};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::file::FileSource;
use datafusion_datasource::{PartitionedFile, TableSchema};
use datafusion_datasource_parquet::{
    BloomFilterStatistics, PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics,
    RowGroupAccessPlanFilter, apply_file_schema_type_coercions,
};
use datafusion_pruning::{PruningPredicate, PruningPredicateBuilder};
use parking_lot::Mutex;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::arrow::{ParquetRecordBatchStreamBuilder, parquet_column};

use super::super::files::KnownFile;

/// A predicate that rules row groups out.
pub(crate) struct Pruning {
    predicate: Arc<dyn PhysicalExpr>,
    table: TableSchema,
    max_in_list_size: usize,
    /// What it was made into last: parts of one file, and files with the same columns, follow each other.
    last: Mutex<Option<ForFiles>>,
}

/// A predicate in the columns of files that have the same ones.
struct ForFiles {
    generation: u64,
    stored: SchemaRef,
    partition_values: Vec<ScalarValue>,
    pruning: Option<Arc<FilePruning>>,
}

impl Pruning {
    /// Returns what a source prunes by, if it does.
    pub(crate) fn of(source: &ParquetSource) -> Option<Self> {
        let parquet = &source.table_parquet_options().global;
        let predicate = source.filter().filter(|_| parquet.pruning)?;
        Some(Self {
            predicate,
            table: source.table_schema().clone(),
            max_in_list_size: parquet.max_in_list_size,
            last: Mutex::new(None),
        })
    }

    /// Returns a number that is another one whenever the predicate says something else: parts of it may be
    /// known only while the scan runs.
    pub(crate) fn generation(&self) -> u64 {
        datafusion::physical_expr_common::physical_expr::snapshot_generation(&self.predicate)
    }

    /// Leaves out the row groups of which the statistics tell that no row passes.
    pub(crate) fn prune(
        &self,
        chosen: &mut RowGroupAccessPlanFilter,
        file: &PartitionedFile,
        known: &KnownFile,
    ) {
        let Some(pruning) = self.for_file(file, known) else {
            return;
        };
        // Counted apart: the inner source counts what it is left.
        let metrics = ExecutionPlanMetricsSet::new();
        pruning.by_statistics(chosen, known, &ParquetFileMetrics::new(0, "", &metrics));
    }

    /// Returns what rules rows of a file out.
    pub(crate) fn for_file(
        &self,
        file: &PartitionedFile,
        known: &KnownFile,
    ) -> Option<Arc<FilePruning>> {
        let stored = known.stored()?;
        let generation = self.generation();
        let mut last = self.last.lock();
        if let Some(last) = &*last
            && last.generation == generation
            && last.stored == *stored
            && last.partition_values == file.partition_values
        {
            return last.pruning.clone();
        }
        let pruning = self.for_columns(stored, &file.partition_values);
        let pruning = pruning.map(Arc::new);
        *last = Some(ForFiles {
            generation,
            stored: Arc::clone(stored),
            partition_values: file.partition_values.clone(),
            pruning: pruning.clone(),
        });
        pruning
    }

    fn for_columns(
        &self,
        stored: &SchemaRef,
        partition_values: &[ScalarValue],
    ) -> Option<FilePruning> {
        let logical = self.table.file_schema();
        let physical = apply_file_schema_type_coercions(logical, stored);
        let physical = physical.unwrap_or_else(|| Schema::clone(stored));
        let physical = Arc::new(as_planned(&physical, logical));
        let partitions = self.table.table_partition_cols().iter();
        let constants: HashMap<&str, &ScalarValue> = partitions
            .map(|field| field.name().as_str())
            .zip(partition_values)
            .collect();
        let predicate = Arc::clone(&self.predicate);
        let predicate = replace_columns_with_literals(predicate, &constants).ok()?;
        let adapter = DefaultPhysicalExprAdapterFactory
            .create(Arc::clone(logical), Arc::clone(&physical))
            .ok()?;
        let predicate = adapter.rewrite(predicate).ok()?;
        let predicate = PhysicalExprSimplifier::new(&physical)
            .simplify(predicate)
            .ok()?;
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(physical)
            .with_max_in_list_size(self.max_in_list_size)
            .try_build(Arc::clone(&predicate))
            .ok()?;
        Some(FilePruning {
            predicate,
            pruning,
            pages: OnceLock::new(),
        })
    }
}

/// Returns a file's columns, as the table has them where they are of the same type. Where a field differs in its
/// metadata alone, such as the number of a Parquet field, the adapter would put a cast around the column, and no
/// statistics are found for `IS NULL` of a cast.
fn as_planned(physical: &Schema, logical: &Schema) -> Schema {
    let fields = physical.fields().iter();
    let fields = fields.map(|field| match logical.fields().find(field.name()) {
        Some((_, planned)) if planned.data_type() == field.data_type() => Arc::clone(planned),
        _ => Arc::clone(field),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// A predicate that rules rows of one file out.
pub(crate) struct FilePruning {
    /// The predicate in the columns of the file.
    predicate: Arc<dyn PhysicalExpr>,
    pruning: PruningPredicate,
    /// It by parts, for the page index.
    pages: OnceLock<PagePruningAccessPlanFilter>,
}

impl FilePruning {
    /// Leaves out the row groups of which the statistics tell that no row passes.
    pub(crate) fn by_statistics(
        &self,
        chosen: &mut RowGroupAccessPlanFilter,
        known: &KnownFile,
        metrics: &ParquetFileMetrics,
    ) {
        chosen.prune_by_statistics(
            self.pruning.schema(),
            known.footer.file_metadata().schema_descr(),
            known.footer.row_groups(),
            &self.pruning,
            metrics,
        );
    }

    /// Leaves out the row groups of which Bloom filters tell that no row passes.
    pub(crate) async fn by_bloom_filters(
        &self,
        chosen: &mut RowGroupAccessPlanFilter,
        known: &KnownFile,
        reader: Box<dyn AsyncFileReader>,
        metrics: &ParquetFileMetrics,
    ) {
        let columns = self.bloom_columns(known);
        if columns.is_empty() || chosen.is_empty() {
            return;
        }
        let Ok(options) = ArrowReaderMetadata::try_new(
            Arc::clone(&known.footer),
            ArrowReaderOptions::new().with_skip_arrow_metadata(true),
        ) else {
            return;
        };
        let mut builder = ParquetRecordBatchStreamBuilder::new_with_metadata(reader, options);
        let mut filters = vec![BloomFilterStatistics::new(); known.footer.num_row_groups()];
        for row_group in chosen.row_group_indexes() {
            for (name, leaf) in &columns {
                let read = builder.get_row_group_column_bloom_filter(row_group, *leaf);
                match read.await {
                    Ok(Some(filter)) => {
                        let column = builder.parquet_schema().column(*leaf);
                        let (kind, length) = (column.physical_type(), column.type_length());
                        filters[row_group].insert(name.clone(), filter, kind, length);
                    }
                    Ok(None) => {}
                    // What cannot be read rules nothing out, as in DataFusion's source.
                    Err(_) => metrics.predicate_evaluation_errors.add(1),
                }
            }
        }
        chosen.prune_by_bloom_filters(&self.pruning, metrics, &filters);
    }

    /// Returns the columns that must equal something, with their leaves, which have Bloom filters.
    fn bloom_columns(&self, known: &KnownFile) -> Vec<(String, usize)> {
        let schema = known.footer.file_metadata().schema_descr();
        let groups = known.footer.row_groups();
        let has_filter = |leaf: usize| {
            let mut chunks = groups.iter().filter_map(|group| group.columns().get(leaf));
            chunks.any(|chunk| chunk.bloom_filter_offset().is_some())
        };
        let columns = self.pruning.literal_columns().into_iter();
        let columns = columns.filter_map(|name| {
            let (leaf, _) = parquet_column(schema, self.pruning.schema(), &name)?;
            Some((name, leaf))
        });
        columns.filter(|(_, leaf)| has_filter(*leaf)).collect()
    }

    /// Leaves out the pages of which the page index tells that no row passes.
    pub(crate) fn by_page_index(
        &self,
        access: ParquetAccessPlan,
        known: &KnownFile,
        metrics: &ParquetFileMetrics,
    ) -> ParquetAccessPlan {
        let schema = self.pruning.schema();
        let by_parts = || PagePruningAccessPlanFilter::new(&self.predicate, Arc::clone(schema));
        self.pages.get_or_init(by_parts).prune_plan_with_page_index(
            access,
            schema,
            known.footer.file_metadata().schema_descr(),
            &known.footer,
            metrics,
        )
    }
}
