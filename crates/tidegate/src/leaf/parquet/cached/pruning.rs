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
    PagePruningAccessPlanFilter, ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter,
    apply_file_schema_type_coercions,
};
use datafusion_pruning::{PruningPredicate, PruningPredicateBuilder};

use super::super::files::KnownFile;

/// A predicate that rules row groups out.
pub(in crate::leaf::parquet) struct Pruning {
    predicate: Arc<dyn PhysicalExpr>,
    table: TableSchema,
    max_in_list_size: usize,
}

impl Pruning {
    /// Returns what a source prunes by, if it does.
    pub(in crate::leaf::parquet) fn of(source: &ParquetSource) -> Option<Self> {
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
        let Some((_, predicate)) = self.for_file(file, known) else {
            return;
        };
        // Counted apart: the inner source counts what it is left.
        let metrics = ExecutionPlanMetricsSet::new();
        prune_by_statistics(
            chosen,
            &predicate,
            known,
            &ParquetFileMetrics::new(0, "", &metrics),
        );
    }

    /// Leaves out the row groups, and the pages if asked to, of which statistics tell that no row passes.
    pub(in crate::leaf::parquet) fn prune_all(
        &self,
        mut chosen: RowGroupAccessPlanFilter,
        file: &PartitionedFile,
        known: &KnownFile,
        metrics: &ParquetFileMetrics,
        by_page: bool,
    ) -> ParquetAccessPlan {
        let Some((predicate, pruning)) = self.for_file(file, known) else {
            return chosen.build();
        };
        prune_by_statistics(&mut chosen, &pruning, known, metrics);
        let access = chosen.build();
        if !by_page {
            return access;
        }
        PagePruningAccessPlanFilter::new(&predicate, Arc::clone(pruning.schema()))
            .prune_plan_with_page_index(
                access,
                pruning.schema(),
                known.footer.file_metadata().schema_descr(),
                &known.footer,
                metrics,
            )
    }

    /// Returns the predicate in the columns of a file, and what prunes by it.
    fn for_file(
        &self,
        file: &PartitionedFile,
        known: &KnownFile,
    ) -> Option<(Arc<dyn PhysicalExpr>, PruningPredicate)> {
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
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(physical)
            .with_max_in_list_size(self.max_in_list_size)
            .try_build(Arc::clone(&predicate))
            .ok()?;
        Some((predicate, pruning))
    }
}

fn prune_by_statistics(
    chosen: &mut RowGroupAccessPlanFilter,
    predicate: &PruningPredicate,
    known: &KnownFile,
    metrics: &ParquetFileMetrics,
) {
    chosen.prune_by_statistics(
        predicate.schema(),
        known.footer.file_metadata().schema_descr(),
        known.footer.row_groups(),
        predicate,
        metrics,
    );
}
