//! Rules row groups out by the footer's statistics, as DataFusion does when it opens a file.
//!
//! The predicate speaks of the table. For each file it is put into the file's own columns and types,
//! by DataFusion's adapter, since statistics are found by where a column lies in the file.

use std::collections::HashMap;
use std::sync::Arc;

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
    ParquetFileMetrics, RowGroupAccessPlanFilter, apply_file_schema_type_coercions,
};
use datafusion_pruning::{PruningPredicate, PruningPredicateBuilder};

use super::super::files::KnownFile;

/// A predicate that rules row groups out.
pub(super) struct Pruning {
    predicate: Arc<dyn PhysicalExpr>,
    table: TableSchema,
    max_in_list_size: usize,
}

impl Pruning {
    /// Returns what a source prunes by, if it does.
    pub(super) fn of(source: &ParquetSource) -> Option<Self> {
        let parquet = &source.table_parquet_options().global;
        let predicate = source.filter().filter(|_| parquet.pruning)?;
        Some(Self {
            predicate,
            table: source.table_schema().clone(),
            max_in_list_size: parquet.max_in_list_size,
        })
    }

    /// Leaves out the row groups of which the statistics tell that no row passes.
    pub(super) fn prune(
        &self,
        chosen: &mut RowGroupAccessPlanFilter,
        file: &PartitionedFile,
        known: &KnownFile,
    ) {
        let Some(predicate) = self.for_file(file, known) else {
            return;
        };
        // Counted apart: the inner source counts what it is left.
        let metrics = ExecutionPlanMetricsSet::new();
        chosen.prune_by_statistics(
            predicate.schema(),
            known.footer.file_metadata().schema_descr(),
            known.footer.row_groups(),
            &predicate,
            &ParquetFileMetrics::new(0, "", &metrics),
        );
    }

    fn for_file(&self, file: &PartitionedFile, known: &KnownFile) -> Option<PruningPredicate> {
        let logical = self.table.file_schema();
        let stored = known.stored()?;
        let physical = apply_file_schema_type_coercions(logical, stored);
        let physical = Arc::new(physical.unwrap_or_else(|| stored.clone()));
        let partitions = self.table.table_partition_cols().iter();
        let constants: HashMap<&str, &ScalarValue> = partitions
            .map(|field| field.name().as_str())
            .zip(&file.partition_values)
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
        PruningPredicateBuilder::new()
            .with_file_schema(physical)
            .with_max_in_list_size(self.max_in_list_size)
            .try_build(predicate)
            .ok()
    }
}
